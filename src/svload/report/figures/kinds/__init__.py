"""The kinds of figures: each file has `figure(gathered)`, which is None where the run has
nothing for it. Found by scanning."""
