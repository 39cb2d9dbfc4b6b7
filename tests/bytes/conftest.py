"""The tally of the mutations, printed when they were run."""

from __future__ import annotations

from pytest import TerminalReporter  # noqa: PT013 - a type, not a name of a test


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    from mutations import TALLY

    if TALLY:
        tried, changed = (sum(counts) for counts in zip(*TALLY.values(), strict=True))
        terminalreporter.write_line("")
        for name, (mutations, others) in sorted(TALLY.items()):
            terminalreporter.write_line(f"{name}: {mutations:,} mutations of a line, {others:,} changed another line")
        terminalreporter.write_line(f"{tried:,} mutations in all, {changed:,} changed another line")
