"""Figures for papers, each drawn at the width of one column and of two, as SVG, PDF and PNG."""
