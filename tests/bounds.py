"""The common upper bound for waits in tests."""

HANG_S = 240.0
"""Only for ending hangs: no machine is so busy that working code takes this long. What must happen soon, or
at a rate, is a test marked ``timing``."""
