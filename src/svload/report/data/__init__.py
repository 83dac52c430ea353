"""What a report is made of, read from a run and reduced."""
