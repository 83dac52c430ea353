"""Claims by pairs (docs/method.md §2): one statistic for p and interval, what is left out and why, and gates.

`statistic` is arithmetic on arrays, also called by the simulation of `benches/claims.py`; `pairs` finds
a contrast's pairs in judged trials and holds them; `evidence` turns them into effect and guards;
`decide` determines what may be claimed; `gates` evaluates `fail_if`. The report puts it in words.
"""
