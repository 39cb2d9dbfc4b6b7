"""Which tests run which lines of the promise's rooms, in their own process and in those that they start.

``measure(folder)`` runs the tests of the default command once, one after another, and leaves in the folder what
coverage counted, with the test as its context, ``tests.jsonl``: for every test its seconds and whether it passed, and
``sources.json``: the files as they were. Tests that the folder has are not run again, so that it can be stopped. This
file is also the plugin of pytest that does so and what measured processes are started through: forks of those that
wait (tests/forked_children.py) and readers and checkers that may write no file, as tests/measured_children.py has it;
other interpreters that tests start are measured by coverage's own hook.

A fixture that several tests share counts for the first of them; what runs while a module is imported counts for none.
What a killed process had not yet written is not known.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import runpy
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("privacy", "reading", "ledger", "bundle")

LEFT_OUT = (
    *("tests/end_to_end", "tests/benchmarks", "tests/audit", "tests/pages", "tests/test_docs.py"),
    *("tests/test_printed_examples.py", "tests/test_tour.py", "tests/test_packaging.py", "tests/test_doctests.py"),
)
"""Walks through a browser, pages and documentation, and whole commands: they take long, and say little of one line."""

_FIRST = (
    "privacy",
    "bundle",
    "golden_checks",
    "store",
    "services/test_backup",
    "services/test_advisories",
    "test_",
    "services",
)
"""What is run first, where the time does not allow for all: the tests nearest to the rooms."""

_FOLDER, _TEST, _UNTIL = "REACHED_LINES_FOLDER", "REACHED_LINES_TEST", "REACHED_LINES_UNTIL"
_PATIENCE_SECONDS = 3.0


def measure(folder: Path, minutes: float, paths: Sequence[str] = ("tests",)) -> int:
    """Run the tests of some paths for at most so many minutes, and return how pytest ended."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = (path for room in ROOMS for path in (ROOT / "synth" / room).rglob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in texts}
    (folder / "sources.json").write_text(json.dumps(sources))
    settings = folder / "coverage.ini"
    included = "\n  ".join(str(ROOT / "synth" / room / "*") for room in ROOMS)
    settings.write_text(
        f"[run]\ndata_file = {folder / 'lines'}\nparallel = true\ncontext = ${{{_TEST}-}}\n"
        "disable_warnings = no-data-collected,module-not-measured,already-imported,couldnt-parse,no-ctracer\n"
        f"include =\n  {included}\n"
    )
    environment = os.environ | {
        _FOLDER: str(folder),
        _UNTIL: str(time.time() + 60 * minutes),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "benchmarks"), str(ROOT / "tests"))),
    }
    command = [sys.executable, "-m", "pytest", "-p", "reached_lines", "-p", "no:cacheprovider", *paths]
    command += [f"--ignore={path}" for path in LEFT_OUT]
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    combine(folder)
    return ended


def combine(folder: Path) -> None:
    """Put what all processes counted into one file."""
    measured = coverage.Coverage(str(folder / "lines"), config_file=str(folder / "coverage.ini"))
    if (folder / "lines").exists():
        measured.load()
    # Killed processes leave files that cannot be read; they are passed over with a warning.
    measured.combine([str(folder)], strict=False)
    measured.save()


def reached(folder: Path) -> dict[str, dict[int, set[str]]]:
    """Return for every file of the rooms, by its path, and every line the tests that run it; none: at its import."""
    data = coverage.CoverageData(str(folder / "lines"))
    data.read()
    files = {}
    for path in data.measured_files():
        _, _, name = path.rpartition("/synth/")
        files[f"synth/{name}"] = {line: set(tests) - {""} for line, tests in data.contexts_by_lineno(path).items()}
    return files


# In the process of pytest ---------------------------------------------------------------------------------------------


class Plugin:
    """Counts, says whose lines they are, and how long tests took."""

    def __init__(self, folder: Path) -> None:
        self._told = folder / "tests.jsonl"
        self._until = float(os.environ[_UNTIL])
        self._measured = _started(folder, None)
        self._seconds = 0.0
        self._has_passed = True
        os.environ["COVERAGE_PROCESS_START"] = str(folder / "coverage.ini")
        subprocess.Popen = MeasuredPopen  # type: ignore[misc]
        import forked_children

        _tell_forks_the_test(forked_children.ForkedChild)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run the tests nearest to the rooms first."""

        def order(item: pytest.Item) -> int:
            place = item.path.relative_to(ROOT / "tests").as_posix()
            return next((number for number, first in enumerate(_FIRST) if place.startswith(first)), len(_FIRST))

        done = (
            {json.loads(line)["test"] for line in self._told.read_text().splitlines()} if self._told.exists() else set()
        )
        items[:] = sorted((item for item in items if item.nodeid not in done), key=order)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count for this test what is run from now on."""
        if time.time() > self._until:
            item.session.shouldstop = "the time is up"
        os.environ[_TEST] = item.nodeid
        self._seconds, self._has_passed = 0.0, True
        self._measured.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measured.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write how long it took once it is torn down."""
        self._seconds += report.duration
        self._has_passed &= report.passed
        if report.when == "teardown":
            line = {"test": report.nodeid, "seconds": round(self._seconds, 3), "passed": self._has_passed}
            with self._told.open("a") as tests:
                print(json.dumps(line), file=tests)

    def pytest_unconfigure(self) -> None:
        """Write what was counted in this process."""
        self._measured.stop()
        self._measured.save()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin to count before anything of the program is imported."""
    early_config.pluginmanager.register(Plugin(Path(os.environ[_FOLDER])))


def _started(folder: Path, test: str | None) -> coverage.Coverage:
    measured = coverage.Coverage(config_file=str(folder / "coverage.ini"), context=test)
    measured.start()
    return measured


class MeasuredPopen(subprocess.Popen):  # type: ignore[type-arg]
    """A process that is measured where it is a module of the program or what waits to be forked as one."""

    def __init__(self, arguments: Any, *others: Any, **options: Any) -> None:
        self._is_own = False
        if isinstance(arguments, list) and arguments[1:2] == ["-P"] and _FOLDER in os.environ:
            folder, test = os.environ[_FOLDER], os.environ.get(_TEST, "")
            if arguments[2] == "-m" and arguments[3].startswith("synth."):
                self._is_own = True
                arguments = [*arguments[:2], __file__, "module", folder, test, *arguments[3:]]
            elif str(arguments[2]).endswith("forked_children.py"):
                arguments = [*arguments[:2], __file__, "forks", folder, "", *arguments[3:]]
                environment = dict(options["env"])
                environment.pop("COVERAGE_PROCESS_START", None)
                options["env"] = environment
        super().__init__(arguments, *others, **options)

    def kill(self) -> None:
        """Kill the process once it has written what it counted."""
        if self._is_own:
            with suppress(subprocess.TimeoutExpired):
                self.wait(_PATIENCE_SECONDS)
        super().kill()


MeasuredPopen.__module__ = "subprocess"  # tests/conftest.py leaves processes alone where something stands in its place


def _tell_forks_the_test(child: Any) -> None:
    started, killed = child.__init__, child.kill

    @functools.wraps(started)
    def start(self: Any, server: Any, wanted: dict[str, Any], **options: Any) -> None:
        started(self, server, {**wanted, "test": os.environ.get(_TEST, "")}, **options)

    @functools.wraps(killed)
    def kill(self: Any) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(_PATIENCE_SECONDS)
        killed(self)

    child.__init__, child.kill = start, kill


# In the processes that it starts --------------------------------------------------------------------------------------


def _may_write() -> None:
    limit = resource.setrlimit
    resource.setrlimit = lambda kind, most: None if kind == resource.RLIMIT_FSIZE else limit(kind, most)


def _run_module(folder: Path, test: str, module: str, arguments: list[str]) -> None:
    """Run a module as ``python -m`` does, in a process of its own that may write files again."""
    _may_write()
    os.environ.update({_FOLDER: str(folder), _TEST: test})
    measured = _started(folder, test)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        measured.stop()
        measured.save()


def _wait_for_forks(folder: Path, descriptor: int, module: str) -> None:
    """Do what tests/forked_children.py does, and count in every fork."""
    sys.path.insert(0, str(ROOT / "tests"))
    import forked_children

    sys.path.remove(str(ROOT / "tests"))
    _may_write()
    serve, started = forked_children._serve, []  # noqa: SLF001

    def measured_fork(channel: Any) -> dict[str, Any] | None:
        asked: dict[str, Any] | None = serve(channel)
        if asked is not None:
            subprocess.Popen = MeasuredPopen  # type: ignore[misc]
            asked["environment"] = {**asked["environment"], _FOLDER: str(folder), _TEST: asked["test"]}
            started.append(_started(folder, asked["test"]))
        return asked

    forked_children._serve = measured_fork  # noqa: SLF001
    try:
        forked_children.main(descriptor, module)
    finally:
        for measured in started:
            measured.stop()
            measured.save()


if __name__ == "__main__":
    kind, folder, test, *arguments = sys.argv[1:]
    if kind == "module":
        _run_module(Path(folder), test, arguments[0], arguments[1:])
    elif kind == "forks":
        _wait_for_forks(Path(folder), int(arguments[0]), arguments[1])
    else:
        sys.exit(measure(Path(folder).resolve(), float(test), arguments or ["tests"]))
