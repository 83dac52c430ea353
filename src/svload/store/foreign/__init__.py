"""Import of other load testers' results: all facts that their files hold, in bounded memory."""
