"""Load: the only door to the native engine."""
