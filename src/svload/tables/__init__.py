"""Finished tables of results: how they are read, checks for contradictions, and a study's own tables beside a
run."""
