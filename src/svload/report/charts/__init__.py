"""Small inline SVG charts: no script, no library, colours from the page's variables."""
