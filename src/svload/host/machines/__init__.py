"""Machines as a run sees them: one contract, one file a way to reach one."""
