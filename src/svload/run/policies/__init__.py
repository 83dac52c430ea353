"""Policies decide which batch follows the sealed trials. A policy is a pure function of the lock and of what
is sealed; a new one is a new file here.

The same lock and seals give the same batch, so that a killed run continues as it would have without the kill.
A batch is written before its first trial runs, with everything that its trials are given: the case, the seed,
and values of open factors and time (`TrialPlan.at`).
"""
