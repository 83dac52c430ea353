"""What stays: journal, Parquet, seal, SQL."""
