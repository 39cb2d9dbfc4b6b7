"""Models as plain mathematics: of noisy answers, or of arrays that their caller answers for; no session, no upload."""
