"""In-tree monitors, one file a kind; found by scanning this folder."""
