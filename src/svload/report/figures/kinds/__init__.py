"""The kinds of figures: each file has `figure(gathered)`, which returns None if the run has no data for it.
Found by scanning."""
