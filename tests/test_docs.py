"""Documents say what the code does: every generator, command, setting and error code has its line."""

from __future__ import annotations

import argparse
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import site_pages
import yaml

from synth import errors
from synth.cli.commands import _parser
from synth.errors import EXIT_CODES
from synth.generators import GENERATORS

ROOT = Path(__file__).resolve().parents[1]
NAVIGATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_generator_is_described() -> None:
    said = document("docs/generators.md")
    assert not [name for name in GENERATORS if f"| `{name}`" not in said]


def test_every_command_is_described() -> None:
    commands = next(action for action in _parser()._actions if action.choices)
    assert commands.choices is not None
    said = document("docs/commands.md")
    for command in commands.choices:
        assert re.search(rf"synth {command}\b", said), command


def test_the_readme_is_short() -> None:
    lines = document("README.md").splitlines()
    assert len(lines) <= 120
    assert all(len(line) <= 125 for line in lines)


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
    ends = {kind.exit_code for kind in kinds if isinstance(kind, type) and issubclass(kind, errors.SynthError)}
    assert ends | {0, errors.NOT_CHECKED} == set(EXIT_CODES)
    for name, parser in parsers(_parser()):
        assert all(words in parser.format_help() for words in EXIT_CODES.values()), name
    said = document("docs/python-and-command-line.md")
    assert dict(re.findall(r"^\| (\d+) \| (.+) \|$", said, re.M)) == {
        str(code): words for code, words in EXIT_CODES.items()
    }


def test_the_lines_that_a_reviewer_reads_are_counted_as_they_are() -> None:
    def lines(*patterns: str) -> int:
        return sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for pattern in patterns
            for path in (ROOT / "synth").glob(pattern)
        )

    always = lines("reading/*.py", "privacy/*.py", "ledger/charging.py")
    some = lines("reading/more/*.py", "privacy/more/*.py", "schema/*.py", "schema/columns/*.py")
    said = document("docs/guarantee.md")
    found = re.search(r"about ([\d,]+) lines, docstrings included: ([\d,]+) in .* and ([\d,]+) in", said)
    assert found is not None
    for number, counted in zip(found.groups(), (always + some, always, some), strict=True):
        assert abs(int(number.replace(",", "")) - counted) <= 0.03 * counted, (number, counted)


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
    outside = [path for path in site_pages.OUTSIDE if "/" in path]
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / path for path in outside)]


def anchors(text: str) -> set[str]:
    """Return the places that a link can lead to, by the rule of repositories' hosts and that of the site alike."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    kept = [re.sub(r"[^\w -]", "", heading.replace("`", "")).strip().lower() for heading in headings]
    named = re.findall(r'<a (?:id|name)="([\w-]+)"', text)
    return {heading.replace(" ", "-") for heading in kept if "  " not in heading} | {*named}


def dead_links(text: str, folder: Path) -> list[str]:
    dead = []
    for target in _LINK.findall(text):
        path, _, anchor = target.partition("#")
        there = folder / path
        if not target.startswith(("http://", "https://")) and not (
            there.exists() and (not anchor or anchor in anchors(there.read_text(encoding="utf-8") if path else text))
        ):
            dead.append(target)
    return dead


def test_links_lead_somewhere() -> None:
    found = {path.relative_to(ROOT): dead_links(path.read_text(encoding="utf-8"), path.parent) for path in documents()}
    assert {name: dead for name, dead in found.items() if dead} == {}


@pytest.mark.parametrize("target", ["no-such.md", "guarantee.md#no-such", "#no-such"])
def test_a_dead_link_is_found(target: str) -> None:
    text = f"# One\n\n[so](guarantee.md) [or](guarantee.md#5-the-noise) [here](#one) [dead]({target})\n"
    assert dead_links(text, ROOT / "docs") == [target]


def test_every_page_has_its_place_on_the_site_and_links_only_to_pages() -> None:
    inside = {path.relative_to(ROOT / "docs").as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    pages = {**inside, **{page: ROOT / path for path, page in site_pages.OUTSIDE.items()}}
    assert sorted(site_pages.pages_of(NAVIGATION)) == sorted(pages)
    for page, path in pages.items():
        text = site_pages.rewritten(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
        for target in _LINK.findall(text):
            there = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
            told = target.startswith(("http://", "https://", "#"))
            assert told or there in pages or (ROOT / "docs" / there).is_file(), f"{page}: {target}"


@pytest.mark.slow
def test_the_site_builds_and_asks_no_other_server(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path in tmp_path.rglob("*.html"):
        assert not re.search(r'(src|rel="stylesheet" href)="https?:', path.read_text(encoding="utf-8")), path.name


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
