"""Types and versions of all artefacts, the events, the catalogues of metrics and errors. Imports nothing of
ours."""
