"""Load curves: which cases differ in a load alone, what their trials used, and what the laws state about
them, in words (docs/method.md §4)."""
