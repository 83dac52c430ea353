"""Machines as a run sees them: one interface, and one file for each way to reach a machine."""
