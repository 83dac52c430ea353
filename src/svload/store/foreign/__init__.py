"""Results of other load testers, and finished tables: read as far as their files hold facts, in bounded memory."""
