"""Types and versions of all artefacts, the events, and the catalogues of metrics and errors. Imports no other
part of svload."""
