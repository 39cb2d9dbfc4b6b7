"""Write down which bytes the words of today give these bundles: ``PYTHONPATH=. words.py`` (see README.md beside it)."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "golden_checks"))


def main() -> None:
    """Write every bundle again and keep the hashes of what is worded."""
    from bundles_written import digests, written_again

    from synth.reports.document import REPORT_VERSION

    found = {}
    for path in sorted(FOLDER.glob("*.zip")):
        with tempfile.TemporaryDirectory() as folder:
            found[path.stem] = digests(written_again(path, Path(folder)))
    text = json.dumps(found, indent=1, sort_keys=True)
    (FOLDER / f"words-{REPORT_VERSION}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
