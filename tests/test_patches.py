"""What a test patches is looked up where it is patched: a planted bug that plants nothing proves nothing.

A name that moved, or that its caller imports once for all, can still be patched where it was: nothing complains, and
what the test plants is never met. Here every name of the program that a test sets is looked for in the program.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ("synth", "pages")


@dataclass
class Lookups(ast.NodeVisitor):
    """Names that code looks up when it is called: in modules, by the module's name, and as attributes of anything."""

    of_module: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    attributes: set[str] = field(default_factory=set)
    _module: str = ""
    _called: int = 0
    _imported: dict[str, str] = field(default_factory=dict)

    def read(self, module: str, tree: ast.Module, *, runs_again: bool) -> None:
        """Note the lookups of a module; the top of a screen ``runs_again`` whenever somebody does something."""
        self._module, self._called, self._imported = module, int(runs_again), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._imported |= {name.asname or name.name: name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                self._imported |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._called += 1
        self.generic_visit(node)
        self._called -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_FunctionDef(node)

    def visit_Name(self, node: ast.Name) -> None:
        if self._called:
            self.of_module[self._module].add(node.id)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if self._called:
            self.of_module[str(node.module)] |= {name.name for name in node.names}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes.add(node.attr)
        head, _, rest = ast.unparse(node.value).partition(".")
        if head in self._imported:
            self.of_module[f"{self._imported[head]}.{rest}".rstrip(".")].add(node.attr)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.attributes.add(node.value)  # asked for by getattr


@cache
def lookups() -> Lookups:
    found = Lookups()
    for path in [ROOT / "app.py", *(path for part in OURS for path in sorted((ROOT / part).rglob("*.py")))]:
        place = path.relative_to(ROOT).with_suffix("")
        module = ".".join(place.parts).removesuffix(".__init__")
        screen = place.parts in (("app",), ("pages", place.name))
        found.read(module, ast.parse(path.read_text(encoding="utf-8")), runs_again=screen)
    return found


def imports(tree: ast.Module) -> dict[str, Any]:
    """Return what a test imports of the program, wherever in its file."""
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in OURS:
            exec(ast.unparse(node), names)  # noqa: S102 - a line of our own test
        elif isinstance(node, ast.Import) and {one.name.split(".")[0] for one in node.names} <= set(OURS):
            exec(ast.unparse(node), names)  # noqa: S102
    return names


def patched(node: ast.AST, around: dict[str, list[ast.expr]], names: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield target and name of all that a part of a test sets in the program, loops over written lists unrolled."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple | ast.List) and isinstance(node.target, ast.Name):
        around = {**around, node.target.id: node.iter.elts}
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".setattr", "patch.object")):
        yield from _set_by_call(node.args, around, names)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and (found := named(target.value, names)) is not None:
                yield found, target.attr
    for child in ast.iter_child_nodes(node):
        yield from patched(child, around, names)


def _set_by_call(
    arguments: list[ast.expr], around: dict[str, list[ast.expr]], names: dict[str, Any]
) -> Iterator[tuple[Any, str]]:
    target, second, *_ = (_each(argument, around) for argument in arguments)
    for one in target:
        if isinstance(one, ast.Constant):
            path, _, name = str(one.value).rpartition(".")
            if path.split(".")[0] in OURS:
                yield _resolved(path), name
        elif (found := named(one, names)) is not None:
            yield from ((found, str(name.value)) for name in second if isinstance(name, ast.Constant))


def _each(node: ast.expr, around: dict[str, list[ast.expr]]) -> list[ast.expr]:
    return around.get(node.id, [node]) if isinstance(node, ast.Name) else [node]


def named(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return the module or class that an expression names, or None where it is none of the program."""
    if isinstance(node, ast.Name):
        found = names.get(node.id)
    elif isinstance(node, ast.Attribute) and (holder := named(node.value, names)) is not None:
        found = getattr(holder, node.attr, None)
    else:
        return None
    place = found.__name__ if isinstance(found, types.ModuleType) else getattr(found, "__module__", "")
    return found if str(place).split(".")[0] in OURS else None


def _resolved(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def is_looked_up(target: Any, name: str) -> bool:
    """Whether code of the program meets what is set as ``name`` of a module or class."""
    if isinstance(target, types.ModuleType):
        return name in lookups().of_module[target.__name__]
    return not inspect.isclass(target) or name.startswith("__") or name in lookups().attributes


def every_patch() -> Iterator[tuple[str, Any, str]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if "references" not in path.parts and path != Path(__file__):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for target, name in patched(tree, {}, imports(tree)):
                yield path.relative_to(ROOT).as_posix(), target, name


@pytest.mark.thorough
def test_every_name_that_a_test_sets_is_looked_up_where_it_is_set() -> None:
    found = list(every_patch())
    assert len(found) > 250, "the search has lost sight of the tests"
    assert not [
        f"{path}: nothing looks up '{name}' in {target.__name__}"
        for path, target, name in found
        if not is_looked_up(target, name)
    ]


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("line", "is_met"),
    [
        # The ledger imports it from where it is defined, and nothing there asks for it.
        ("patch.setattr(ledger, 'require_same_neighbours', print)", True),
        ("patch.setattr('synth.ledger.ledger.require_same_neighbours', print)", True),
        ("patch.setattr(charging, 'require_same_neighbours', print)", False),
        ("for module in (ledger, charging): patch.setattr(module, 'require_same_neighbours', print)", False),
        ("for name in ('over_cap_error', 'require_same_neighbours'): patch.setattr(ledger, name, print)", True),
        ("patch.setattr(ledger.Ledger, 'head', print)", True),
        ("patch.setattr(ledger.Ledger, 'verify_chain', print)", False),
        ("mock.patch.object(charging, 'require_same_neighbours', print)", False),
        ("ledger.require_same_neighbours = print", True),
        ("charging.require_same_neighbours = print", False),
    ],
)
def test_the_search_tells_what_is_met_from_what_is_not(line: str, is_met: bool) -> None:
    tree = ast.parse(f"from synth.ledger import charging, ledger\n{line}\n")
    found = list(patched(tree, {}, imports(tree)))
    assert found
    assert all(is_looked_up(*one) for one in found) == is_met
