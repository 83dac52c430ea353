"""Servers: kits, up, reset, read back, down."""
