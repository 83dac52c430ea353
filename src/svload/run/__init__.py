"""A trial, then all: order, journal, resume, placement."""
