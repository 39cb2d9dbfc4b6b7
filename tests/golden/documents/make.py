"""Write ``expected.json`` again: ``PYTHONPATH=.:tests python tests/golden/documents/make.py`` (README.md beside it)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "golden_checks"))

from documents_given import everything
from transcripts_made import as_text

if __name__ == "__main__":
    (Path(__file__).parent / "expected.json").write_text(as_text(everything()), encoding="utf-8")
