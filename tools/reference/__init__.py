"""The pages of docs/reference/, one module each: `TITLE` is its title in the index, `make()` returns the page
for the present code."""
