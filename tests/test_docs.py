"""Documents say what the code does: every generator, command, setting and error code has its line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from synth import errors
from synth.cli.commands import _parser
from synth.errors import EXIT_CODES
from synth.generators import GENERATORS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_every_generator() -> None:
    assert not [name for name in GENERATORS if f"`{name}`" not in README]


def test_the_readme_names_every_command() -> None:
    commands = next(action for action in _parser()._actions if action.choices)
    assert commands.choices is not None
    for command in commands.choices:
        assert re.search(rf"synth {command}\b", README), command


def parsers(parser: argparse.ArgumentParser, name: str = "synth") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command and its own commands, by what is typed."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for typed, command in action.choices.items():
                yield from parsers(command, f"{name} {typed}")


def test_every_option_of_every_command_is_explained() -> None:
    found = dict(parsers(_parser()))
    assert len(found) > 20
    assert not [
        f"{name} {action.option_strings or action.dest}"
        for name, parser in found.items()
        for action in parser._actions
        if not (action.help or isinstance(action, argparse._SubParsersAction))
    ]


def test_exit_codes_are_those_of_the_errors_and_stand_in_every_help_and_in_the_documents() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    ends = {kind.exit_code for kind in kinds if isinstance(kind, type)}
    assert ends | {0} == set(EXIT_CODES)
    for name, parser in parsers(_parser()):
        assert all(words in parser.format_help() for words in EXIT_CODES.values()), name
    document = (ROOT / "docs" / "python-and-command-line.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| (\d+) \| (.+) \|$", document, re.M)) == {
        str(code): words for code, words in EXIT_CODES.items()
    }


def test_deploying_names_every_setting() -> None:
    source = (ROOT / "synth" / "system" / "settings.py").read_text(encoding="utf-8")
    deploying = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    settings = set(re.findall(r'"(HERMITAGE_[A-Z_]+|DATABASE_URL)"', source))
    assert settings
    for setting in settings:
        assert f"`{setting}`" in deploying, setting


SAID = {"synth/generators/mine/__init__.py"}
"""Files that are examples, or still to be written."""

FILES = [
    *(path.name for kind in ("py", "md") for path in ROOT.glob(f"*.{kind}")),
    *(
        path.relative_to(ROOT).as_posix()
        for part in ("synth", "pages", "tests", "benchmarks", "scripts", "docs", "examples")
        for kind in ("py", "md")
        for path in (ROOT / part).rglob(f"*.{kind}")
    ),
]


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_links_lead_somewhere() -> None:
    assert not [
        f"{path.name}: {target}"
        for path in documents()
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
        if not target.startswith(("http://", "https://")) and not (path.parent / target).exists()
    ]


def test_documents_name_files_that_are_there() -> None:
    assert not [
        f"{path.name}: {named}"
        for path in documents()
        for named in re.findall(r"`([\w/.-]*\w\.(?:py|md))`", path.read_text(encoding="utf-8"))
        if named not in SAID and not any(f"/{there}".endswith(f"/{named}") for there in FILES)
    ]


def test_proof_notes_name_functions_where_they_stand() -> None:
    looked = 0
    for path in sorted((ROOT / "docs" / "proofs").glob("*.md")):
        for said in re.findall(r"^Code: (.*?)\n\n", path.read_text(encoding="utf-8"), re.M | re.S):
            for names, place in re.findall(r"((?:`\w+`[, and\n]*)+)in\s`(synth/[\w/]+\.py)`", said):
                source = (ROOT / place).read_text(encoding="utf-8")
                for name in re.findall(r"`(\w+)`", names):
                    assert re.search(rf"(?:def|class) {name}\b", source), f"{path.name}: {name} in {place}"
                    looked += 1
    assert looked > 30


def test_citations_have_a_reference() -> None:
    references = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    known = set(re.findall(r"\*\*([A-Z][a-z]+ \d{4})\*\*", references))
    cited = {
        f"{author} {year}"
        for path in sorted((ROOT / "synth").rglob("*.py"))
        for author, year in re.findall(r"\(([A-Z][a-z]+) (20\d\d)[,;)]", path.read_text(encoding="utf-8"))
    }
    assert cited
    assert cited <= known
