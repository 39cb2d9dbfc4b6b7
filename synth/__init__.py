"""Hermitage: turn a private table into rows that can be shared."""
