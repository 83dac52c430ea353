"""Fuzzers of all input from outside: study files, packs and runs, responses of servers. `python -m
tests.fuzz -h`."""
