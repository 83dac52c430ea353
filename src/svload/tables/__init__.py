"""Finished tables of results: reading them, contradictions in them, a study's own beside a run."""
