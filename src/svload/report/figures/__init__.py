"""Figures for papers: one file per kind, each drawn at the width of one column and of two, as SVG, PDF and
PNG."""
