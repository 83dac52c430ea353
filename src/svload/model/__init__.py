"""Types and versions of artefacts, the events, the catalogues of metrics and errors. Imports nothing of
ours."""
