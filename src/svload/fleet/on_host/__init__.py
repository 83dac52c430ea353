"""Programs that run on a machine before svload is installed: only standard library, from Python 3.11 on."""
