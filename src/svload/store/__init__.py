"""What stays: a run's folder, journal, tables, seals, packs and SQL over it. Submodules that need pyarrow or duckdb are imported late."""
