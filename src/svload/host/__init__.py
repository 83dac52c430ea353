"""One machine's hands: agent, processes, pins, cgroups, namespaces, undo journal."""
