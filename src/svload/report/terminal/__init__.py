"""Terminal output: live views, tables, summaries."""
