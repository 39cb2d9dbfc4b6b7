"""Optional packages, and the message if one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from synth.errors import MissingPackageError

__all__ = ["is_installed", "missing_package"]

_EXTRAS = {
    "torch": ("PyTorch", "neural"),
    "sdmetrics": ("SDMetrics", "reports"),
    "xgboost": ("XGBoost", "reports"),
    "psycopg": ("psycopg", "postgres"),
    "streamlit": ("Streamlit", "app"),
    "pyreadstat": ("pyreadstat", "files"),
    "python_calamine": ("python-calamine", "files"),
}
"""Modules of packages that only an extra of pyproject.toml installs: their names for readers, and the extra."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported here, without importing it."""
    return find_spec(package) is not None


def missing_package(error: BaseException) -> MissingPackageError | None:
    """Return our error for a package that is not installed, or None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    title, extra = _EXTRAS.get(error.name.split(".")[0], (None, None))
    if title is None:
        return None
    return MissingPackageError(
        f"This needs {title}, which is not installed here. In a copy of Hermitage's repository, run pip install "
        f"'.[{extra}]'."
    )
