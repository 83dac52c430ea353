"""The common upper bound for waits in tests."""

HANG_S = 240.0
"""Only for ending hangs: on no machine does working code take this long. A test of something that must
happen soon, or at a rate, has the mark ``timing``."""
