"""Figures for papers: one file a kind, each drawn at the width of a column and of both, as SVG, PDF and PNG."""
