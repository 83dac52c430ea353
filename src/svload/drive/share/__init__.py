"""The engine's share, typed, and all code that makes one. No other package writes a share."""
