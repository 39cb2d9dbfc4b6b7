"""kahm: rows from kernel affine hull machines, in four modes that promise different things."""
