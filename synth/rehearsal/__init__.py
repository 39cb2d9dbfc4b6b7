"""Rehearsals: the same run on rows that need no protection, before anything is spent. Estimates from a bundle."""
