"""Types and versions of every artefact, the events, the metric and the error catalogue. Imports nothing of ours."""
