"""Mutation testing of the promise's rooms: how many small faults in them the tests of the default command catch.

::

    pip install cosmic-ray
    python benchmarks/mutants.py --coverage build/reached --measure
    python benchmarks/mutants.py --coverage build/reached --number 400 --seed 1 --json build/mutants.json
    python benchmarks/mutants.py --coverage build/reached --mutants build/mutants.json --json build/again.json

Cosmic-ray's operators make the mutants; the runner is this one, as cosmic-ray starts an interpreter and runs a whole
command for each. The mutants are chosen by a seed, all (file, operator, occurrence) alike, and stand in a random order:
the first so many are a fair sample too. What cannot matter is left out: annotations and aliases of types, what only
``TYPE_CHECKING`` imports, ``overload``, markers of parameters, and what does not change the syntax tree. Operators that
replace or insert a variable are left out as well: each needs to be told which.

For each mutant the tests that run its lines are run in a fork on a copy of the tree (mutant_runs.py), until the first
fails; reached_lines.py measures which do, and says which take no part. Left out are also those that took more than 20
seconds, and those on PostgreSQL where others reach the line: its server takes longer to start than most mutants to be
caught.
Lines that run at import have the tests that reach what mentions the name, or the body of the function or class.
No more than ``--cap`` seconds of tests are chosen for one mutant, by what they took when they were measured: three
cases of each test before more of any, and of those the room's own and the ones that run the fewest lines first. The
files that take the least are run first. In the end the tests that killed are run on the tree as it is; a kill by one
that fails there does not count, and the mutant is run again without it.

A mutant is caught when a test fails, its file cannot be imported, or it takes ten times as long and 30 seconds more.
With ``--resume`` what has been run is kept; with ``--again`` those that survived or were not reached are run again with
the tests that a longer cap, or more that was measured, adds. With ``--mutants`` those of an earlier run are put where
their lines are now, and the test that killed each is tried first; ``--only-doubtful`` takes results over where that
test is still collected and neither its file nor the mutated one has changed, and where the mutant survived.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mutant_runs
import reached_lines
from reached_lines import ROOMS, ROOT

OWN_TESTS = {
    "privacy": ("tests/privacy/",),
    "reading": ("tests/privacy/test_reader", "tests/bytes/", "tests/golden_checks/"),
    "ledger": ("tests/privacy/test_ledger", "tests/privacy/test_budget", "tests/services/test_"),
    "bundle": ("tests/bundle/", "tests/bytes/", "tests/golden_checks/"),
}
LONGEST_SECONDS = 20.0
"""Tests that took longer take no part."""

CASES_AT_ONCE = 3
CAUGHT = ("caught", "timed out")

Mutant = dict[str, Any]
Blocks = list[tuple[str, list[str], list[str]]]


# Mutants --------------------------------------------------------------------------------------------------------------


def files() -> list[str]:
    """Return the files of the rooms."""
    paths = (path for room in ROOMS for path in (ROOT / "synth" / room).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def possible() -> list[tuple[str, str, int]]:
    """Return every file, operator and occurrence; some of them cannot be made or do not matter."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    operators = {name: get_operator(name) for name in operator_names()}
    made = {name: operator() for name, operator in operators.items() if not operator.arguments()}
    found = []
    for file in files():
        nodes = [
            node
            for node in ast_nodes(get_ast((ROOT / file).read_text(encoding="utf-8")))
            if node.type not in {"name", "string", "newline", "endmarker", "fstring_string"}
        ]
        for name, operator in made.items():
            number = sum(1 for node in nodes for _ in operator.mutation_positions(node))
            found += [(file, name, occurrence) for occurrence in range(number)]
    return found


def made(file: str, operator: str, occurrence: int) -> Mutant | None:
    """Return a mutant, None where it cannot be made or does not matter."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    original = (ROOT / file).read_text(encoding="utf-8")
    mutated = mutate_code(original, get_operator(operator)(), occurrence)
    if mutated is None:
        return None
    try:
        after = ast.parse(mutated)
        compile(mutated, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    before, kept = _parsed(original)
    if kept == ast.dump(_Trimmed().visit(ast.parse(mutated))):
        return None
    if "ReplaceBinaryOperator" in operator and _arithmetic(before) == _arithmetic(after):
        return None
    was, now = original.splitlines(), mutated.splitlines()
    changes = [
        change
        for change in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
        if change[0] != "equal"
    ]
    _, first, last, new_first, new_last = (*changes[0][:2], changes[-1][2], changes[0][3], changes[-1][4])
    mutant: Mutant = {"file": file, "operator": operator.partition("/")[2], "occurrence": occurrence}
    mutant |= {
        "line": first + 1,
        "in": _scope(before, first + 1),
        "before": was[first:last],
        "after": now[new_first:new_last],
    }
    mutant["among"] = _places(was, before, mutant).index(first)
    return mutant


class _Trimmed(ast.NodeTransformer):
    """Leaves out what is not run, or runs for readers and checkers of types alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = [each for each in node.decorator_list if "overload" not in ast.dump(each)]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.dump(node.test) else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if _is_type(node.value) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in {"cast", "TypeVar", "NewType"}:
            node.args = node.args[1:]
        return self.generic_visit(node)


def _is_type(node: ast.expr) -> bool:
    """Whether an expression is an alias such as ``Answer = Count | Sum | None``."""
    if not isinstance(node, ast.BinOp):
        return False
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    parts = (ast.BinOp, ast.Name, ast.Constant, ast.Subscript, ast.Attribute, ast.Tuple, ast.operator, ast.expr_context)
    return all(isinstance(part, parts) for part in ast.walk(node)) and all(
        name.id[0].isupper() or name.id in {"int", "str", "float", "bool", "bytes", "list", "dict", "tuple", "set"}
        for name in names
    )


@cache
def _parsed(text: str) -> tuple[ast.Module, str]:
    """Return a file's tree and all in it that can matter."""
    return ast.parse(text), ast.dump(_Trimmed().visit(ast.parse(text)))


def _arithmetic(tree: ast.AST) -> list[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp | ast.AugAssign))
    return [type(node.op).__name__ for node in nodes]


def _scopes(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST, int, int]]:
    """Yield the functions and classes of a tree with their names and first and last lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = f"{name}.{node.name}" if name else node.name
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield own, node, first, node.end_lineno or node.lineno
            yield from _scopes(node, own)
        else:
            yield from _scopes(node, name)


def _scope(tree: ast.AST, line: int) -> str:
    return max((name for name, _, first, last in _scopes(tree) if first <= line <= last), key=len, default="")


def _places(lines: list[str], tree: ast.AST, mutant: Mutant) -> list[int]:
    """Return where the lines of a mutant stand in its function or class."""
    before = mutant["before"]
    starts = (at for at in range(len(lines)) if lines[at : at + len(before)] == before)
    return [at for at in starts if _scope(tree, at + 1) == mutant["in"]]


def applied(mutant: Mutant) -> tuple[str, int, str] | None:
    """Return the file, line and text of a mutant in the tree as it is; None where its lines are no longer there."""
    for file in (mutant["file"], *(each for each in files() if each != mutant["file"])):
        path = ROOT / file
        if not path.exists() or "\n".join(mutant["before"]) not in (text := path.read_text(encoding="utf-8")):
            continue
        lines = text.splitlines()
        places = _places(lines, ast.parse(text), mutant)
        if len(places) > mutant["among"]:
            at = places[mutant["among"]]
            lines[at : at + len(mutant["before"])] = mutant["after"]
            return file, at + 1, "\n".join(lines) + "\n"
    return None


def listed(seed: int, number: int, rooms: Iterable[str] = ROOMS) -> dict[str, Any]:
    """Return so many mutants in a random order, how many were passed over, and how many there were to choose from."""
    everything = [each for each in possible() if each[0].split("/")[1] in rooms]
    order = random.Random(seed)  # noqa: S311
    order.shuffle(everything)
    mutants: list[Mutant] = []
    passed_over = 0
    for each in everything:
        if len(mutants) == number:
            break
        mutant = made(*each)
        if mutant is None:
            passed_over += 1
        else:
            mutants.append({"number": len(mutants), **mutant})
    about = {"commit": _commit(), "seed": seed, "possible": len(everything), "passed_over": passed_over}
    return {**about, "mutants": mutants}


# Their tests ----------------------------------------------------------------------------------------------------------


class Tests:
    """Which tests are run for a line."""

    def __init__(self, folder: Path, known: set[str]) -> None:
        measured = [json.loads(line) for line in (folder / "tests.jsonl").read_text().splitlines()]
        self.left_out = {each["test"]: each["seconds"] for each in measured if each["seconds"] > LONGEST_SECONDS}
        self.not_passed = [each["test"] for each in measured if not each["passed"]]
        taking_part = {each["test"]: each["seconds"] for each in measured if each["passed"]}
        self.seconds = {
            test: seconds for test, seconds in taking_part.items() if test in known and test not in self.left_out
        }
        self._known = known
        self._reached: dict[str, dict[int, set[str]]] = {}
        self._breadth: Counter[str] = Counter()
        sources = json.loads((folder / "sources.json").read_text())
        for file, lines in reached_lines.reached(folder).items():
            if (ROOT / file).exists():
                now = _moved(sources[file], (ROOT / file).read_text(encoding="utf-8"))
                self._reached[file] = {now[line]: tests for line, tests in lines.items() if line in now}
            for tests in lines.values():
                self._breadth.update(tests)
        self._trees = {file: ast.parse((ROOT / file).read_text(encoding="utf-8")) for file in self._reached}
        self._mentions: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for file, tree in self._trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Name | ast.Attribute):
                    name = node.id if isinstance(node, ast.Name) else node.attr
                    self._mentions[name].add((file, node.lineno))

    def of(self, file: str, first: int, last: int) -> list[str]:
        """Return the tests that run these lines, or what stands on them where they are run at import."""
        if file not in self._reached:
            return []
        scopes = [each for each in _scopes(self._trees[file]) if each[2] <= first and last <= each[3]]
        _, node, *_ = max(scopes, key=lambda each: len(each[0]), default=("", None, 0, 0))
        if isinstance(node, ast.FunctionDef) and first >= node.body[0].lineno:
            begin, end = self._statement(node, first, last)
            run = self._reached[file].keys() & range(begin, end + 1)
            if not run or all(self._reached[file][line] for line in run):
                return sorted(self._at((file, line) for line in run))
        return sorted(self._at_import(file, first, node))

    def _at_import(self, file: str, first: int, node: ast.AST | None) -> set[str]:
        places: set[tuple[str, int]] = set()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            places |= {(file, line) for line in range(node.lineno, (node.end_lineno or 0) + 1)}
            places |= self._mentions[node.name]
        body = node.body if isinstance(node, ast.ClassDef) else self._trees[file].body  # type: ignore[attr-defined]
        for statement in body:
            if statement.lineno <= first <= (statement.end_lineno or 0):
                for part in ast.walk(statement):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        places |= self._mentions[part.id]
        return self._at(places) or self._at((file, line) for line in self._reached[file])

    def _at(self, places: Iterable[tuple[str, int]]) -> set[str]:
        found: set[str] = set()
        for file, line in places:
            found |= self._reached.get(file, {}).get(line, set())
        found &= self.seconds.keys()
        return {test for test in found if "[postgresql" not in test} or found

    @staticmethod
    def _statement(function: ast.FunctionDef, first: int, last: int) -> tuple[int, int]:
        """Return the lines of the smallest statement around some, of one with a body those of its head."""
        spans = []
        for node in ast.walk(function):
            if isinstance(node, ast.stmt) and node.lineno <= first and last <= (node.end_lineno or 0):
                body = getattr(node, "body", None) or getattr(node, "cases", None)
                head = getattr(body[0], "lineno", 0) - 1 if body else node.end_lineno or 0
                spans.append((node.lineno, max(head, node.lineno, last)))
        return min(spans, key=lambda span: span[1] - span[0], default=(first, last))

    def within(
        self, tests: list[str], room: str, cap: float, killer: str | None = None
    ) -> tuple[dict[str, float], bool]:
        """Return those of so many seconds together, in the order of their run, and whether that left any out."""
        own = OWN_TESTS[room]
        cases: Counter[str] = Counter()
        order = []
        for test in tests:
            function = test.partition("[")[0]
            order.append((cases[function] // CASES_AT_ONCE, not test.startswith(own), self._breadth[test], test))
            cases[function] += 1
        kept, total = [], 0.0
        for *_, test in sorted(order):
            if total + self.seconds[test] <= cap or not kept:
                kept.append(test)
                total += self.seconds[test]
        by_file: Counter[str] = Counter()
        for test in kept:
            by_file[test.partition("::")[0]] += self.seconds[test]
        kept.sort(key=lambda test: (by_file[(file := test.partition("::")[0])], file, self.seconds[test]))
        if killer is not None and killer in self._known:
            kept = [killer, *(test for test in kept if test != killer)]
        return {test: self.seconds.get(test, 5.0) for test in kept}, len(kept) < len(tests)


def _moved(was: str, now: str) -> dict[int, int]:
    """Return where the lines of a text stand in another."""
    if was == now:
        return {line: line for line in range(1, was.count("\n") + 2)}
    blocks = difflib.SequenceMatcher(None, was.splitlines(), now.splitlines(), autojunk=False).get_matching_blocks()
    return {block.a + at + 1: block.b + at + 1 for block in blocks for at in range(block.size)}


# Runs -----------------------------------------------------------------------------------------------------------------


class Trial:
    """Mutants, their tests and what became of them, in one file."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-", dir=asked.scratch)) / "tree"
        self._python = mutant_runs.copied(self._folder)
        self._known = mutant_runs.collected(self._folder)
        self._tests = Tests(asked.coverage, self._known)
        self._runner = mutant_runs.Runner(self._folder, self._python)

    def begin(self) -> dict[str, Any]:
        """Return the mutants, none of them run, or what has been run of them."""
        asked = self._asked
        if asked.resume and asked.json.exists():
            return dict(json.loads(asked.json.read_text()))
        about: dict[str, Any] = {"commit": _commit(), "left_out": list(reached_lines.LEFT_OUT)}
        about |= {"too_long": self._tests.left_out, "not_passed_when_measured": self._tests.not_passed}
        about |= {"tests": len(self._tests.seconds), "tests_collected": len(self._known), "dropped": []}
        if asked.mutants:
            earlier = json.loads(asked.mutants.read_text())
            mutants = [self._taken_over(each) for each in earlier["mutants"]]
            return {**earlier, **about, "earlier": earlier["commit"], "sound": [], "mutants": mutants}
        return {**listed(asked.seed, asked.number, asked.rooms), **about}

    def _taken_over(self, mutant: Mutant) -> Mutant:
        if "outcome" not in mutant:
            return mutant
        told = {
            "outcome",
            "by",
            "why",
            "seconds",
            "tests",
            "capped",
            "file_hash",
            "test_hash",
            "taken_over",
            "survived",
        }
        bare: Mutant = {name: value for name, value in mutant.items() if name not in told}
        bare["earlier"] = {"outcome": mutant["outcome"], "by": mutant.get("by")}
        if not self._asked.only_doubtful or applied(mutant) is None:
            return bare
        by = mutant.get("by") or ""
        is_unchanged = (
            mutant["outcome"] in CAUGHT
            and by in self._known
            and mutant.get("file_hash") == _hash(mutant["file"])
            and mutant.get("test_hash") == _hash(by.partition("::")[0])
        )
        return {**mutant, "taken_over": True} if is_unchanged or mutant["outcome"] not in CAUGHT else bare

    def run(self, mutant: Mutant, dropped: Iterable[str]) -> None:
        """Write into a mutant what became of it."""
        where = applied(mutant)
        if where is None:
            mutant["outcome"] = "no longer there"
            return
        file, line, text = where
        room = file.split("/")[1]
        reaching = [test for test in self._tests.of(file, line, line + max(len(mutant["before"]), 1) - 1)]
        killer = mutant.get("earlier", {}).get("by")
        tests, is_capped = self._tests.within(
            [test for test in reaching if test not in dropped],
            room,
            self._asked.cap,
            killer if killer not in dropped else None,
        )
        mutant |= {"tests": len(tests), "reaching": len(reaching), "capped": is_capped, "file_hash": _hash(file)}
        if not tests:
            mutant |= {"outcome": "not reached", "seconds": 0.0}
            return
        survived = mutant.get("survived", []) if mutant.get("outcome") == "survived" else []
        tests = {test: taken for test, taken in tests.items() if test not in survived}
        if not tests:
            return
        seconds = 90 + 4 * sum(tests.values())
        told = self._runner.run({"tests": tests, "stop": True, "seconds": seconds}, file, text)
        if told["ended"] == mutant_runs.BROKEN:
            raise SystemExit(f"The tests could not be started.\n{told.get('said')}")
        failed = told["failed"][0] if told["failed"] else {"test": told.get("last"), "why": told.get("said", "")[-300:]}
        for name in ("by", "why", "test_hash", "survived"):
            mutant.pop(name, None)
        mutant |= {"seconds": told["seconds"], "code": told["code"], "ended": told["ended"]}
        if told["code"] == 0:
            mutant |= {"outcome": "survived", "survived": sorted({*survived, *tests})}
        elif told["code"] == 5:
            mutant["outcome"] = "could not be made"  # none of its tests is collected
        else:
            is_slow = told["out_of_time"] or "Timeout (>" in failed["why"] or told["ended"] == -24
            mutant |= {"outcome": "timed out" if is_slow else "caught", "by": failed["test"], "why": failed["why"]}
            mutant["test_hash"] = _hash((failed["test"] or "").partition("::")[0])

    def sound(self, tests: list[str]) -> tuple[list[str], str]:
        """Return those of some tests that fail, or are not run, on the tree as it is, and what pytest said."""
        seconds = {test: self._tests.seconds.get(test, 5.0) for test in tests if test in self._known}
        if not seconds:
            return [], ""
        told = self._runner.run({"tests": seconds, "stop": False, "seconds": 300 + 4 * sum(seconds.values())})
        failed = {each["test"] for each in told["failed"]}
        passed = {each["test"] for each in told["passed"]} - failed
        return [test for test in seconds if test not in passed], told.get("said", "")

    def close(self) -> None:
        self._runner.close()
        shutil.rmtree(self._folder.parent, ignore_errors=True)


def _is_open(mutant: Mutant) -> bool:
    return mutant.get("outcome") in ("survived", "not reached")


def _hash(file: str) -> str | None:
    path = ROOT / file
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else None


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def printed(results: dict[str, Any]) -> str:
    """Return a table by room."""
    run = [mutant for mutant in results["mutants"] if "outcome" in mutant]
    kinds = [*CAUGHT, "survived", "not reached", "no longer there", "could not be made"]
    rows = [["room", "run", *kinds, "caught / all", "caught / reached"]]
    for room in (*ROOMS, "all"):
        own = Counter(each["outcome"] for each in run if room in ("all", each["file"].split("/")[1]))
        caught = sum(own[kind] for kind in CAUGHT)
        everything = caught + own["survived"] + own["not reached"]
        shares = [f"{caught / part:.3f}" if part else "-" for part in (everything, caught + own["survived"])]
        rows.append([room, str(sum(own.values())), *(str(own[kind]) for kind in kinds), *shares])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    capped = Counter(each["outcome"] for each in run if each.get("capped"))
    lines.append(f"The cap left tests out for {sum(capped.values())} mutants, of which {capped['survived']} survived.")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """Return what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-list", action="store_true", help="write the mutants, run none: for --mutants later")
    parser.add_argument("--coverage", type=Path, help="the folder of what reached_lines.py measures")
    parser.add_argument("--measure", action="store_true", help="measure it, and end")
    parser.add_argument("--minutes", type=float, default=120.0, help="for how long it is measured at most")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="which are measured, beside those that were")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help="where they are drawn")
    parser.add_argument("--mutants", type=Path, help="run those of an earlier file again")
    parser.add_argument("--only-doubtful", action="store_true")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds of tests for one mutant")
    parser.add_argument("--first", type=int, help="run no more than the first so many")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--again", type=int, nargs="*", help="numbers; none: all that survived or were not reached")
    parser.add_argument("--scratch", type=Path, help="where the copy of the tree is made")
    parser.add_argument("--json", type=Path, help="where the results are written, after each mutant")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    warnings.filterwarnings("ignore", category=SyntaxWarning)  # mutants compare literals with "is"
    if asked.only_list:
        asked.json.write_text(json.dumps(listed(asked.seed, asked.number, asked.rooms), indent=1))
        return
    if asked.measure:
        sys.exit(reached_lines.measure(asked.coverage.resolve(), asked.minutes, asked.tests))
    asked.coverage = asked.coverage.resolve()
    trial = Trial(asked)
    results = trial.begin()

    def save() -> None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        part = asked.json.with_suffix(".part")
        part.write_text(json.dumps(results, indent=1))
        part.replace(asked.json)

    def run(mutants: list[Mutant]) -> None:
        for mutant in mutants:
            trial.run(mutant, results["dropped"])
            save()
            where = f"{mutant['file']}:{mutant['line']} {mutant['operator']}"
            print(
                mutant["number"], mutant["outcome"], mutant.get("seconds", ""), where, mutant.get("by", ""), flush=True
            )

    try:
        save()
        wanted = results["mutants"][: asked.first]
        run([mutant for mutant in wanted if "outcome" not in mutant])
        if asked.again is not None:
            run(
                [
                    mutant
                    for mutant in wanted
                    if _is_open(mutant) and mutant["number"] in (asked.again or range(len(wanted)))
                ]
            )
        results.setdefault("sound", [])
        while True:
            killers = {mutant["by"] for mutant in wanted if mutant.get("by") and not mutant.get("taken_over")}
            doubtful = sorted(killers - {*results["sound"], *results["dropped"]})
            failing, said = trial.sound(doubtful)
            results["sound"] += [test for test in doubtful if test not in failing]
            results["dropped"] += failing
            save()
            if not failing:
                break
            print(f"Tests that fail on the tree as it is: {failing}\n{said}", flush=True)
            run([mutant for mutant in wanted if mutant.get("by") in failing])
    finally:
        save()
        trial.close()
    print(printed(results))


if __name__ == "__main__":
    main()
