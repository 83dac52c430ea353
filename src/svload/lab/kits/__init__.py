"""In-tree kits, one file a kind; found by scanning this folder."""
