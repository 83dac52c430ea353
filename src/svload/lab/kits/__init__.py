"""In-tree kits, one file each, found by scanning this folder."""
