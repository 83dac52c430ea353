"""Small programs that services need beside them, run as files, with only the standard library."""
