"""Comparison of two machines' clocks: an exchange of timestamps over TCP, and what they prove."""
