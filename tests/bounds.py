"""The one bound of every wait in the tests for something that must happen."""

HANG_S = 240.0
"""Only for ending hangs: no machine is so busy that working code takes this long. What must happen soon, or
at a rate, is a test marked ``timing``."""
