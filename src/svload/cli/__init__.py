"""The door: parses, calls one function, prints."""
