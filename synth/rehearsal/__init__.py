"""Rehearsals: the same run on rows that are nobody's to protect, before anything is spent."""
