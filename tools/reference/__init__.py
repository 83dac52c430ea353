"""The pages of docs/reference/, a module each: `TITLE` stands in the index, `make()` is
the page as the code says it now."""
