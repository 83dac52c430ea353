"""The data of a report, read from a run and reduced."""
