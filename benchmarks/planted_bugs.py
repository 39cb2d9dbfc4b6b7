"""Which planted bugs the tests notice, and which command notices each: the default one, the rest, or the audit.

::

    python benchmarks/planted_bugs.py --json build/planted.json
    python benchmarks/planted_bugs.py --before build/planted.json

A planted bug is a case of a test that plants one: whose name says "planted", or that forges a bundle. Nothing is run:
tests are collected as each command would run them, and the commands run them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PLANTED = re.compile(
    r"::test_\w*planted_(?:bug|fault|text|harm|people)\w*|test_(?:forgeries|forged_files|found_bundles)\.py::"
    r"|::test_(?:a_)?\w*(?:forged|a_lie|every_lie|a_bug_that)\w*"
)

COMMANDS = (
    ("scripts/test", None),
    ("scripts/test --everything", "not slow and not audit"),
    ("scripts/test -m audit", "not slow"),
)
"""Each command, and the marks that it or one before it runs; the first has those of the settings."""


def collected(marks: str | None) -> set[str]:
    """Return the names of the cases of planted bugs that are collected."""
    chosen = [] if marks is None else ["-m", marks]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *chosen]
    # The settings' own -q would make one line of each file.
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (default,) = re.findall(r'^addopts = "(.*)"$', settings, re.M)
    command += ["-o", f"addopts={default.replace('-q ', '')}"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line for line in told.splitlines() if "::" in line and PLANTED.search(line)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write every planted bug and the first command that plants it")
    parser.add_argument("--before", type=Path, help="figures of another commit: which bugs a later command plants now")
    arguments = parser.parse_args()
    found: dict[str, str] = {}
    for command, marks in COMMANDS:
        for case in sorted(collected(marks)):
            found.setdefault(case, command)
    for command, number in Counter(found.values()).items():
        print(f"{command:28} {number:5} planted bugs")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.before:
        order = [command for command, _ in COMMANDS]
        earlier = json.loads(arguments.before.read_text(encoding="utf-8"))
        gone = sorted(case for case in earlier if case not in found)
        later = sorted(
            case for case in earlier if case in found and order.index(found[case]) > order.index(earlier[case])
        )
        print(f"no longer there: {len(gone)}", *gone, sep="\n  ")
        print(f"planted by a later command: {len(later)}", *later, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
