"""The agent of one machine: what it does on request, its children, and the undo of what it did."""
