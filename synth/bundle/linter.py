"""The leak linter: finds what must not be in any file of a bundle. It never reads the private table.

It looks for paths, for the names of this machine, its user and the uploaded file, for cells outside the declared
domain, and for owner-only numbers. A word that the owner declared public (a column name, a category, the account) is
never a leak.
"""

from __future__ import annotations

import functools
import getpass
import io
import json
import re
import socket
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from synth.bundle.archive import MEMBERS, MEMBERS_OF_FINDING, MEMBERS_OF_MODEL
from synth.bundle.table_files import check_csv, linked_files
from synth.errors import VerificationError
from synth.schema import Schema

__all__ = ["TEXT_FILES", "LeakWords", "lint_members"]

# A search that begins with a condition tries it at every character of a page: each of these begins with a character
# that it can jump to, and looks back from there.
_PATHS = tuple(
    map(
        re.compile,
        (
            r"/(?<![\w.:/<]/)(?:home|root|Users|tmp|var|mnt|media|opt|srv|work|data|private|etc|usr)/[\w.-]+",
            r":(?<=\b[A-Za-z]:)\\[\w .-]+",
            r"\\\\[\w.-]+\\[\w.-]+",
            r":(?<=\bfile:)//",
            r"~/[\w.-]+",
        ),
    )
)
_OWNER_ONLY = re.compile(r"[Oo](?i:wner(?:[_ -]only|OnlyEvidence))")
_COUNT_KEYS = frozenset(
    {"n_rows", "private_rows", "row_total", "n_private", "train_rows", "holdout_rows", "unit_count"}
)
_SHORTEST_WORD = 3
_EVERYWHERE = frozenset({"root", "admin", "administrator", "user", "nobody", "app", "localhost", "hermitage", "synth"})
"""Names of users and hosts that reveal nothing: those that many machines have, and the program's own.

Every bundle has some of these words.
"""
_SEALED = tuple(dict.fromkeys((*MEMBERS, *MEMBERS_OF_MODEL)))
_KNOWN = (*_SEALED, *MEMBERS_OF_FINDING)
TEXT_FILES = tuple(name for name in _SEALED if name.endswith((".txt", ".cff", ".json", ".yaml", ".html", ".pem")))
"""Files of either kind of bundle that people read; what was found is left out, since it was charged."""


@dataclass(frozen=True, slots=True)
class LeakWords:
    """Texts that must not be in a bundle.

    Attributes
    ----------
    names : tuple of str
        User, host and file names, matched as whole words in any case; those of fewer than three letters are ignored.
    public : tuple of str
        Words that are public even if they are among ``names``.
    """

    names: tuple[str, ...]
    public: tuple[str, ...] = ()

    @classmethod
    def of_this_machine(cls, *, file_names: Iterable[str] = (), public: Iterable[str] = ()) -> LeakWords:
        """Return the names of the user, the host and uploaded files."""
        return cls((*_user(), *_host(), *(Path(name).name for name in file_names)), tuple(public))


def _user() -> tuple[str, ...]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return ()  # a user id without a name, as in containers
    return _revealing(user)


def _host() -> tuple[str, ...]:
    name = socket.gethostname()
    return _revealing(name, name.split(".")[0])


def _revealing(*names: str) -> tuple[str, ...]:
    return tuple(name for name in names if name and name.lower() not in _EVERYWHERE)


def lint_members(members: Mapping[str, bytes | Path], schema: Schema, words: LeakWords) -> list[str]:
    """Look through every file of a bundle.

    Parameters
    ----------
    members : mapping of name to bytes or Path
        The files.
    schema : Schema
        What is declared public.
    words : LeakWords
        Names that must not appear.

    Returns
    -------
    list of str
        One sentence for each leak, naming file and kind, never the text that was found; empty when there is none.
    """
    known = (*_KNOWN, *linked_files(schema))
    unknown = [place for place, name in enumerate(members, start=1) if name not in known]
    findings = [f"file {place} does not belong in a bundle." for place in unknown]
    looked_for = _patterns(words, _public_words(schema) | {word.lower() for word in (*words.public, *known)})
    for name, contents in members.items():
        for text in _texts(name, contents):
            findings += [f"{name} contains {kind}." for kind, pattern in looked_for if pattern.search(text)]
    for name in ("report.json", "certificate.json", "schema.json", "model.json"):
        if name in members:
            findings += _lint_json(name, _bytes(members[name]), columns=frozenset(column.name for column in schema))
    if "report.html" in members:
        findings += _lint_page(_bytes(members["report.html"]).decode("utf-8", "replace"))
    return [*dict.fromkeys(findings), *_lint_table(members, schema)]


def _patterns(words: LeakWords, public: set[str]) -> list[tuple[str, re.Pattern[str]]]:
    patterns = [*(("a path of a machine", path) for path in _PATHS), ("an owner-only number", _OWNER_ONLY)]
    for name in dict.fromkeys(words.names):
        if len(name) >= _SHORTEST_WORD and name.lower() not in public:
            whole_word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
            patterns.append(("the name of this machine, its user or the uploaded file", whole_word))
    return patterns


def _public_words(schema: Schema) -> set[str]:
    tables = () if schema.tables is None else (schema.tables.first, schema.tables.second)
    public = {schema.unit.protects, *tables, *(text for column in schema for text in (column.name, column.description))}
    for column in schema.modelled:
        public.update(str(text) for text in column.listed)
    return {word.lower() for text in public for word in (text, *re.findall(r"[\w-]+", text))}


def _texts(name: str, contents: bytes | Path) -> Iterable[str]:
    """Yield the texts of a file that a person or a program could read names from."""
    if name in TEXT_FILES:
        # JSON doubles a backslash; the path it belongs to is looked for as it was written.
        yield _bytes(contents).decode("utf-8", "replace").replace("\\\\", "\\")
    elif name == "measurements.npz":
        with zipfile.ZipFile(io.BytesIO(_bytes(contents))) as archive:
            yield "\n".join(archive.namelist())
            yield archive.read("index.npy").decode("latin-1")
    elif name == "model.safetensors":
        data = _bytes(contents)
        yield data[8 : 8 + int.from_bytes(data[:8], "little")].decode("utf-8", "replace")


def _bytes(contents: bytes | Path) -> bytes:
    return contents if isinstance(contents, bytes) else contents.read_bytes()


def _lint_json(name: str, data: bytes, *, columns: frozenset[str]) -> list[str]:
    def walk(value: Any) -> Iterable[str]:
        if isinstance(value, dict):
            for key, entry in value.items():
                if key in _COUNT_KEYS - columns:
                    yield f"{name} contains a count of private rows."
                if key == "kind" and entry not in ("safe", "charged") and name == "report.json":
                    yield f"{name} contains an owner-only number."
                yield from walk(entry)
        elif isinstance(value, list):
            for entry in value:
                yield from walk(entry)

    return list(walk(json.loads(data)))


_PAGE_TAGS = frozenset(
    {
        *("html", "head", "meta", "title", "style", "body", "main", "section", "div", "span", "p", "ul", "ol", "li"),
        *("h1", "h2", "h3", "h4", "small", "b", "i", "em", "strong", "br", "hr", "figure", "figcaption", "details"),
        *("summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "g", "rect", "line", "path"),
        *("polyline", "polygon", "circle", "ellipse", "text", "tspan", "desc"),
    }
)
_PAGE_ATTRIBUTES = re.compile(r"on.*|.*href|.*src.*|.*action|style|http-equiv|data|ping|poster|background|cite")
_FETCHED_BY_STYLE = re.compile(r"url\s*\(|@import|expression\s*\(|\\", re.IGNORECASE)


class _Page(HTMLParser):
    """Finds what a browser would run or fetch, and what it would not show."""

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        if tag not in _PAGE_TAGS or any(_PAGE_ATTRIBUTES.fullmatch(name) for name, _ in attrs):
            self.findings.append("report.html contains something that a browser would run or fetch.")

    def handle_data(self, data: str) -> None:
        if self._inside == "style" and _FETCHED_BY_STYLE.search(data):
            self.findings.append("report.html contains something that a browser would run or fetch.")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_comment(self, data: str) -> None:
        self.findings.append("report.html contains a hidden comment.")

    def handle_pi(self, data: str) -> None:
        self.handle_comment(data)

    def unknown_decl(self, data: str) -> None:
        self.handle_comment(data)


@functools.lru_cache(maxsize=1)  # the writer of a bundle checks its page, and so does a check right afterwards
def _lint_page(text: str) -> tuple[str, ...]:
    page = _Page()
    try:
        page.feed(text)
        page.close()
    except AssertionError:  # how the parser refuses a marked section that is not HTML
        page.findings.append("report.html contains a marked section, which no report has.")
    return tuple(page.findings)


def _lint_table(members: Mapping[str, bytes | Path], schema: Schema) -> list[str]:
    of_rows = ("synthetic.csv", *(name for name in linked_files(schema) if name.endswith(".csv")))
    return [problem for name in of_rows if name in members for problem in _cells_outside(name, members[name], schema)]


def _cells_outside(name: str, contents: bytes | Path, schema: Schema) -> list[str]:
    try:
        with io.BytesIO(contents) if isinstance(contents, bytes) else contents.open("rb") as stream:
            return check_csv(stream, schema, rows=None, name=name).problems
    except VerificationError as problem:
        return [str(problem)]
