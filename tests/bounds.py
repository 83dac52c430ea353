"""The one bound of every wait in the tests for something that must happen."""

HANG_S = 240.0
"""Ends a hang, and only that: no machine is so busy that what works takes this long. What must happen soon, or
at a rate, is a test marked ``timing``."""
