"""The house rules, read off the source with ``ast``: who may import whom, and what nobody may do."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# ``scripts/shape`` has no ending, so it is loaded by its path: what it counts is held here.
_LOADER = importlib.machinery.SourceFileLoader("shape", str(ROOT / "scripts" / "shape"))
shape = importlib.util.module_from_spec(importlib.util.spec_from_loader("shape", _LOADER))
sys.modules["shape"] = shape
_LOADER.exec_module(shape)

BOUNDARY = [("synth", room) for room in ("privacy", "reading", "vault", "ledger")]
"""Rooms that may draw randomness of the operating system and open tables."""

SOURCES = sorted((ROOT / "synth").rglob("*.py"))
SCREENS = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    return path.relative_to(ROOT / "synth").parts[0].removesuffix(".py")


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


def test_the_house_keeps_its_shape() -> None:
    above = [one for one in shape.counts(shape.read(ROOT)) if one.above]
    assert not above, "\n".join(f"{one.what}: {one.count}, at most {one.limit}: {one.names}" for one in above)


def test_only_pages_know_streamlit() -> None:
    assert not [path for path in SOURCES if any(module.split(".")[0] == "streamlit" for module in imported(path))]


def test_nobody_runs_what_was_stored() -> None:
    runs_stored = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
    assert not [
        path for path in [*SOURCES, *SCREENS] if runs_stored & {module.split(".")[0] for module in imported(path)}
    ]
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


def test_only_the_boundary_draws_privacy_noise_or_opens_tables() -> None:
    beyond = [path for path in [*SOURCES, *SCREENS] if path.relative_to(ROOT).parts[:2] not in BOUNDARY]
    drawn = [path for path in beyond if "synth.privacy.noise" in imported(path) and part_of(path) != "services"]
    assert not drawn, "noise is drawn by the session alone"
    assert not [path for path in beyond if any(module.startswith("secrets") for module in imported(path))]
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


def test_owner_only_readers_are_listed_in_one_place() -> None:
    from synth.reports.owner_view import OWNER_ONLY_READERS

    for path in [*SOURCES, *SCREENS]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if "synth.reports.owner_view" in imported(path):
            assert module in OWNER_ONLY_READERS, f"{module} reads exact rows and is not listed"


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
