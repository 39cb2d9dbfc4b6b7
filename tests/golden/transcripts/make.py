"""Write these transcripts and forecasts again: ``PYTHONPATH=. make.py FOLDER``, on one thread (see README.md)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "golden_checks"))

from golden_cases import BUNDLES
from transcripts_made import as_text, forecast_of, transcript_of


def main(target: Path) -> None:
    """Make every file again."""
    for name in BUNDLES:
        (target / f"{name}.json").write_text(as_text(transcript_of(name)), encoding="utf-8")
    forecasts = {name: forecast_of(name) for name in BUNDLES}
    (target / "forecasts.json").write_text(as_text(forecasts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
