"""The tally of the planted bugs, printed when some were planted.

One that is planted under several askers counts once for each.
"""

from __future__ import annotations

import re

from pytest import TerminalReporter  # noqa: PT013 - a type, not a name of a test

_PLANTED = re.compile(r"::test_\w*planted_(?:bug|fault)\w*\[")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    caught, missed = (
        sum(bool(_PLANTED.search(report.nodeid)) for report in terminalreporter.stats.get(outcome, []))
        for outcome in ("passed", "failed")
    )
    if caught + missed:
        terminalreporter.write_line("")
        terminalreporter.write_line(f"planted bugs: {caught} caught / {caught + missed} planted")
