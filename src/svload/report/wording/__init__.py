"""A run in words and rows, the same for terminal, page, workbook and files. Pure."""
