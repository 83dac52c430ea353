"""report.html: one file, no network, readable without script."""
