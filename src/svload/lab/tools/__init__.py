"""Small programmes that a lab's services need beside them; each is run as a file and
imports only the standard library."""
