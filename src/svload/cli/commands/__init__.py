"""The commands, grouped by purpose. Nothing heavy is imported before a command runs."""
