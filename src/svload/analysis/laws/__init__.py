"""The laws that tie users, throughput, response and demand together, a file a law (docs/method.md §4).

Pure functions over `levels.Run`: what was measured at one load, by a trial or in a row of somebody's
table. None of them knows a study or a file. `every.laws_of` applies all that the runs can bear;
`little.balance` needs a single one.
"""
