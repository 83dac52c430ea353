"""Programs that run on a machine before svload is there: the standard library alone, from Python 3.11 on."""
