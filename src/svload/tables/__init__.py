"""Finished tables of results: reading, checks of what they contradict, a study's own tables beside a run."""
