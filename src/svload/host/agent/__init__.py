"""The agent of one machine: the actions that it carries out, its children, and the undoing of its actions."""
