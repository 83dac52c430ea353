"""What is said of a run, in words and rows: the same for terminal, page, workbook and files. Pure."""
