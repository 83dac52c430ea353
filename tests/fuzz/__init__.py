"""Fuzzers of all that comes from outside: study files, packs and runs, answers of
servers. `python -m tests.fuzz -h`."""
