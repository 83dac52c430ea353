"""report.xlsx: live formulas over the rows, each with its computed value."""
