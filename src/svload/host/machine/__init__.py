"""Facts about this machine, and the few settings that affect a load."""
