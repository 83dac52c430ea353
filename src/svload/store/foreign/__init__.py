"""Results of other load testers: read as far as their files hold facts, in bounded memory."""
