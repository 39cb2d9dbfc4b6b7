"""Write down which bytes the words of today give these bundles: ``PYTHONPATH=. words.py`` (see README.md beside it).

With ``--pages`` only those of report.html, which may be laid out anew without another word in report.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "golden_checks"))


def main() -> None:
    """Write every bundle again and keep the hashes of what is worded."""
    from bundles_written import PAGE, digests_of_words, written_again

    from synth.reports.document import REPORT_VERSION

    found = {}
    for path in sorted(FOLDER.glob("*.zip")):
        with tempfile.TemporaryDirectory() as folder:
            found[path.stem] = digests_of_words(written_again(path, Path(folder)))
    pages = {name: {PAGE: kept[PAGE]} for name, kept in found.items()}
    _keep("pages.json", pages)
    if "--pages" not in sys.argv:
        _keep(f"words-{REPORT_VERSION}.json", found)


def _keep(name: str, digests: object) -> None:
    text = json.dumps(digests, indent=1, sort_keys=True)
    (FOLDER / name).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
