"""Small programmes that a lab's services need beside them; each runs by `python -m` and imports only the standard library."""
