"""Which batch follows what is sealed. A policy is a pure function of the lock and of what is
sealed; a new one is a new file here.

The same lock and seals give the same batch, so that a run that was killed goes on as it would have gone on. A
batch is written before its first trial runs, with all that its trials are told: the case, the seed, and
values of open factors and time (`TrialPlan.at`).
"""
