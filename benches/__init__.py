"""The speed bench: svload and its peers in turn in one run (README.md)."""
