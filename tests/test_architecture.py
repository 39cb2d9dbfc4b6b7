"""The house rules that import-linter and ruff cannot say (``pyproject.toml`` has theirs), read off the source."""

from __future__ import annotations

import ast
import functools
import graphlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]

BOUNDARY = [("synth", room) for room in ("privacy", "reading", "vault", "ledger")]
"""Rooms that may draw randomness of the operating system and open tables."""

SOURCES = sorted((ROOT / "synth").rglob("*.py"))
SCREENS = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path, *, lazy: bool = True) -> Iterator[str]:
    nodes = ast.walk(tree(path)) if lazy else tree(path).body
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


CONTRACTS = {
    one["id"]: one for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}

FORBIDDEN = {
    "rooms": ("synth/schema/header.py", "import synth.services.planning"),
    "screens": ("synth/cli/files.py", "import pages.ui.words"),
    "circles": ("synth/vault/keys.py", "import synth.reading.reader\nimport synth.ledger.chain"),
    "streamlit": ("synth/application.py", "import streamlit"),
    "ray": ("synth/jobs/ray_jobs.py", "import ray"),
    "stored": ("synth/store/work.py", "import pickle"),
    "secrets": ("synth/models/pool.py", "import secrets"),
    "noise": ("synth/generators/options.py", "import synth.privacy.noise"),
    "door": ("synth/reports/overview/__init__.py", "import synth.reports.owner_view"),
    "counting": ("synth/services/pipeline.py", "from synth.privacy.counting import occupied"),
    "cells": ("pages/budget.py", "import synth.privacy.more.cells"),
    "families": ("synth/services/pipeline.py", "import synth.generators.kahm.record"),
    "reports": ("pages/report.py", "import synth.reports.scores"),
}
"""By contract, an import that it forbids, planted at the end of a file."""


def test_every_contract_on_imports_finds_what_it_forbids(tmp_path: Path) -> None:
    for package in ("synth", "pages"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    assert not broken_contracts(tmp_path)
    for path, line in FORBIDDEN.values():
        with (tmp_path / path).open("a") as source:
            source.write(f"\n{line}\n")
    assert broken_contracts(tmp_path) == {*CONTRACTS} == {*FORBIDDEN}


def broken_contracts(root: Path) -> set[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    wide = os.environ | {"COLUMNS": "400"}
    said = subprocess.run(command, cwd=root, env=wide, capture_output=True, text=True, check=False)
    assert "Contracts: " in said.stdout, said.stdout + said.stderr
    return {name for name, contract in CONTRACTS.items() if f"{contract['name']} KEPT" not in said.stdout}


def test_no_two_modules_import_each_other_not_even_through_others() -> None:
    graph = grimp.build_graph("synth", "pages")
    graphlib.TopologicalSorter({one: graph.find_modules_directly_imported_by(one) for one in graph.modules}).prepare()


def test_every_report_has_its_contract() -> None:
    folders = {f"synth.reports.{one.parent.name}" for one in (ROOT / "synth" / "reports").glob("*/__init__.py")}
    assert folders == {*CONTRACTS["reports"]["protected_modules"]}


def test_nobody_runs_what_was_stored() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{call.lineno}: {name}"
        for path in [*SOURCES, *SCREENS]
        for name, call in calls(path)
        if _runs_what_was_stored(name, {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords})
    ]


def _runs_what_was_stored(name: str, keywords: dict[str | None, str]) -> bool:
    if name.endswith("torch.load"):
        return keywords.get("weights_only") != "True"
    if name in {"np.load", "numpy.load"}:
        return keywords.get("allow_pickle") != "False"
    return name in {"eval", "exec", "compile", "print", "__import__"}


def test_pages_cache_nothing_that_came_from_rows() -> None:
    # Of an upload getvalue would copy the whole file into memory; of our own buffers it is harmless.
    unwanted = ("cache_data", "unsafe_allow_html", ".getvalue(")
    assert not [
        (path, word)
        for path in SCREENS
        for word in unwanted
        if word in path.read_text(encoding="utf-8").replace("buffer.getvalue(", "")
    ]


BEHIND_USE_CASES = {"store", "vault", "ledger", "keys", "engine", "installation", "roles"}
"""What the application has and no user asks for by itself: nothing there says who may."""


def reached(source: ast.Module) -> set[str]:
    """Return what the code of a screen takes from the application, past the use cases or as the program itself."""
    found = {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("application()")
    }
    named = {node.id for node in ast.walk(source) if isinstance(node, ast.Name)}
    return (found & BEHIND_USE_CASES) | (named & {"whole_application"})


def test_screens_ask_by_use_cases_alone() -> None:
    """Each of those says who may ask (``synth/services/access.py``); the program itself acts in three places."""
    as_the_program = {"pages/ui/session.py", "pages/ui/guards.py", "pages/server/serving.py"}
    for path in SCREENS:
        name = path.relative_to(ROOT).as_posix()
        # The queue is tended and what is too old deleted by the server, whoever is there.
        allowed = {"whole_application", "engine"} if name in as_the_program else set()
        assert reached(tree(path)) <= allowed, name
    assert reached(ast.parse("application().store.runs.all()")) == {"store"}
    assert reached(ast.parse("x = whole_application()")) == {"whole_application"}


def test_only_the_boundary_asks_the_operating_system_for_randomness_or_opens_tables() -> None:
    beyond = [path for path in [*SOURCES, *SCREENS] if path.relative_to(ROOT).parts[:2] not in BOUNDARY]
    words = {path: path.read_text(encoding="utf-8") for path in beyond}
    assert not [path for path in beyond if "._column(" in words[path]]
    assert not [path for path in beyond if "os.urandom" in words[path] and path.name not in {"keys.py", "disk.py"}]


def test_only_lf_ends_a_line_of_a_table() -> None:
    # str.splitlines knows ten other ends of a line; whatever reads tables cuts them by hand.
    readers = [*(ROOT / "synth" / "reading").glob("*.py"), *(ROOT / "synth" / "privacy").rglob("*.py")]
    for path in [*readers, ROOT / "synth" / "cli" / "files.py"]:
        assert "splitlines" not in path.read_text(encoding="utf-8"), path


def test_only_stand_ins_are_counted() -> None:
    # PrivateTable.open(public=True) may count rows where no number is declared: of public rows alone.
    for path in [*SOURCES, *SCREENS]:
        for name, call in calls(path):
            if name.startswith("PrivateTable.open") and any(keyword.arg == "public" for keyword in call.keywords):
                assert path == ROOT / "synth" / "rehearsal" / "rehearsals.py", path


def test_nothing_that_can_release_uses_what_was_published_and_is_not_private() -> None:
    # They reproduce papers whose promise does not hold: only benchmarks and attacks may import them.
    published = {path.stem for path in (ROOT / "benchmarks").glob("published_*.py")}
    assert published >= {"published_fabrication", "published_regression"}
    for path in [*SOURCES, *SCREENS]:
        assert not published & {module.split(".")[-1] for module in imported(path)}, path


def test_only_a_rehearsal_calls_exact_numbers_safe() -> None:
    for path in [*SOURCES, *SCREENS]:
        if {"synth.rehearsal.stand_in.of_stand_in", "synth.services.reports.open_stand_in"} & set(imported(path)):
            assert path == ROOT / "synth" / "rehearsal" / "rehearsals.py", path


def test_public_names_are_declared() -> None:
    undeclared = {path: missing for path in SOURCES if path.name != "__main__.py" and (missing := _undeclared(path))}
    assert not undeclared, "public but not in __all__"


def _undeclared(path: Path) -> set[str]:
    declared: set[str] = set()
    defined: set[str] = set()
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            declared = set(ast.literal_eval(node.value))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            defined.add(node.name)
    return defined - declared


def test_requirements_are_pinned() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text().splitlines():
            assert line.startswith("-r ") or "==" in line, f"{name}: {line} has no version"
