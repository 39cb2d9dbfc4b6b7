"""Models of private rows that are fitted and asked as those of scikit-learn are; each ``fit`` is paid for."""

from __future__ import annotations

__all__: list[str] = []
