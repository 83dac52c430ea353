"""What a terminal shows: live views, tables, endings."""
