"""The laws that connect users, throughput, response and demand, a file for each kind of law (docs/method.md
§4).

Pure functions of `levels.Run`: what was measured at one load, by a trial or in a row of an imported table.
None of them depends on a study or a file. `every.laws_of` applies all laws that the runs allow;
`every.balance` needs a single run.
"""
