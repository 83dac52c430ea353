"""The studies that ship with svload, as data: links into ``studies/`` here, folders in a wheel."""
