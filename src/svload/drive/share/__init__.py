"""The engine's share, typed, and everything that makes one. No other room writes a share."""
