"""Synthetic runs and planted faults, for everybody's tests."""
