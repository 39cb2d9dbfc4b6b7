"""Runs tests on a copy of the tree in which one file is mutated: the part of mutants.py that waits and forks.

``copied(folder)`` makes the copy with an interpreter of its own that finds the program there and all else where this
one does, so that confined processes, workers and command lines of the tests meet the mutant too. ``Runner`` starts that
interpreter once: it imports the libraries, nothing of the program or its tests, and forks for every mutant.

Compiled files cannot be stale: every mutated file has a time of change that no other had. Whatever a test left running
is ended, as orphans become children of the process that forks.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import venv
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]

_LIBRARIES = (
    *("numpy", "pandas", "scipy.stats", "scipy.optimize", "scipy.special", "sklearn.ensemble", "sklearn.linear_model"),
    *("torch", "torch._dynamo", "pyarrow.parquet", "pyarrow.csv", "pyarrow.compute", "pydantic", "sqlalchemy.orm"),
    *("autodp.rdp_acct", "cryptography.hazmat.primitives.asymmetric.ed25519", "safetensors.numpy", "jinja2", "yaml"),
    *("hypothesis", "hypothesis.extra.numpy", "pytest", "pytest_timeout", "rich.console", "psutil", "threadpoolctl"),
)
BROKEN = 71
"""How a fork ends that could not run pytest."""

_FIRST_TIME = 2_000_000_000
"""Of change, in seconds: later than that of any file."""


def copied(folder: Path) -> Path:
    """Copy the tree as it is into a folder, with an interpreter beside it, and return that interpreter."""
    kept = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(kept, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    venv.create(folder / ".venv", symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    link = folder / ".venv" / "lib" / version / "site-packages" / "mutated.pth"
    link.write_text("\n".join((str(folder), *libraries)) + "\n")
    python = folder / ".venv" / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import synth; print(synth.__file__)"], cwd="/", check=True, capture_output=True, text=True
    ).stdout
    if not Path(found).is_relative_to(folder):
        raise SystemExit(f"The program is found at {found.strip()}, not in the copy.")
    # Compiles what pytest rewrites, once.
    collecting = [python, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "tests"]
    listed = subprocess.run(collecting, cwd=folder, env=_environment(), check=False, capture_output=True, text=True)
    (folder / "collected.txt").write_text(listed.stdout)
    return python


def collected(folder: Path) -> set[str]:
    """Return the tests of the default command that the copy has."""
    return {line for line in (folder / "collected.txt").read_text().splitlines() if "::" in line}


def _environment(**more: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    return kept | threads | more


class Runner:
    """Mutates a file of the copy, runs tests in a fork, and restores the file."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._folder = folder
        self._number = 0
        self._process = subprocess.Popen(
            [python, "-P", folder / "benchmarks" / "mutant_runs.py", str(os.getpid())],
            cwd=folder,
            env=_environment(PYTHONDONTWRITEBYTECODE="1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, asked: dict[str, Any], file: str | None = None, mutated: str | None = None) -> dict[str, Any]:
        """Return what became of the tests, with the file mutated where one is given.

        ``asked`` has "tests" (their seconds by id), "stop" (whether to stop at the first failure) and "seconds".
        """
        if file is None or mutated is None:
            return self._asked(asked)
        path = self._folder / file
        original, before = path.read_bytes(), path.stat()
        self._number += 1
        changed = int(time.time()) - 1_700_000_000 + self._number
        try:
            path.write_text(mutated, encoding="utf-8")
            os.utime(path, (_FIRST_TIME + changed, _FIRST_TIME + changed))
            return self._asked(asked)
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("The process that forks has ended.")
        return dict(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# In the process that forks --------------------------------------------------------------------------------------------


def serve() -> None:
    """Import the libraries, then fork for every line that is read and answer with one."""
    from_parent, to_parent = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.path.insert(0, str(Path.cwd() / "tests"))
    importlib.import_module("same_kernels")  # before numpy
    del sys.modules["same_kernels"]
    sys.path.pop(0)
    for name in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in {"synth", "tests", "conftest"})
    assert not loaded, loaded
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    gc.collect()
    gc.freeze()
    for line in from_parent:
        answer = _run_forked(json.loads(line))
        own = psutil.Process()
        for left in own.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                left.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                continue  # until no child is left to be waited for
        print(json.dumps(answer), file=to_parent, flush=True)


def _run_forked(asked: dict[str, Any]) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="mutant-", dir=Path.cwd().parent))
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _run_tests(asked, folder)
    status, is_out_of_time = 0, False
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - started > asked["seconds"]:
            is_out_of_time = True
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.02)
    answer: dict[str, Any] = {"failed": [], "passed": [], "code": None}
    with suppress(FileNotFoundError):
        for line in (folder / "told").read_text().splitlines():
            told = json.loads(line)
            if "began" in told:
                answer["last"] = told["began"]
            elif "code" in told:
                answer |= told
            else:
                answer["failed" if "why" in told else "passed"].append(told)
    answer["out_of_time"] = is_out_of_time
    answer["ended"] = None if is_out_of_time else os.waitstatus_to_exitcode(status)
    answer["seconds"] = round(time.monotonic() - started, 2)
    with suppress(FileNotFoundError):
        answer["said"] = (folder / "said").read_text(errors="replace")[-1500:]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(Path.cwd() / ".hypothesis", ignore_errors=True)
    return answer


def _run_tests(asked: dict[str, Any], folder: Path) -> None:
    """Run the tests in this fork and end it."""
    code = BROKEN
    try:
        os.setsid()
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
        for place in (1, 2):
            os.dup2(said, place)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8")
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)), write_through=True)
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "wb", closefd=False)), write_through=True)
        seconds = int(asked["seconds"])
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        plugin = _Told(asked["tests"], folder / "told")
        files = list(dict.fromkeys(test.partition("::")[0] for test in asked["tests"]))
        options = ["-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=line", f"--basetemp={folder / 'tmp'}"]
        options += ["-W", "ignore::SyntaxWarning", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        sys.argv = ["pytest", *options, *files]
        code = int(pytest.main([*options, *(["-x"] if asked["stop"] else []), *files], plugins=[plugin]))
        plugin.tell({"code": code})
    except BaseException:
        traceback.print_exc()
        code = BROKEN
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Told:
    """Runs the chosen tests alone, the quickest files first, and writes at once what became of each."""

    def __init__(self, tests: dict[str, float], path: Path) -> None:
        self._tests = tests
        self._path = path
        self._order = {test: number for number, test in enumerate(tests)}

    def tell(self, told: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            print(json.dumps(told), file=file)

    @pytest.hookimpl(trylast=True)  # after the order that tests/conftest.py makes
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        chosen = [item for item in items if item.nodeid in self._tests]
        chosen.sort(key=lambda item: self._order[item.nodeid])
        for item in chosen:
            item.add_marker(pytest.mark.timeout(30 + 10 * self._tests[item.nodeid]), append=False)
        items[:] = chosen

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.tell({"test": report.nodeid or "collecting", "why": str(report.longrepr)[-300:]})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell({"began": nodeid})

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.tell({"test": report.nodeid, "why": str(report.longrepr)[-300:]})
        elif report.when == "call" and report.passed:
            self.tell({"test": report.nodeid})


if __name__ == "__main__":
    serve()
