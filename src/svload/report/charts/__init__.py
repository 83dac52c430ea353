"""Small inline SVG charts: no script, no library, colours from the page's own variables so that both themes fit."""
