"""What this machine is, and its few settings that a load depends on."""
