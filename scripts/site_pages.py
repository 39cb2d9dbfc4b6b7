"""Pages of the site that stand outside docs/, and links that lead out of it; mkdocs.yml names this file as its hook.

The documents are written to be read in the repository, where links lead to files. On the site a link to a document
leads to its page, and one to any other file keeps its words and loses the link.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/papers.md": "papers.md",
}
"""Documents outside docs/, and what they are called on the site."""

_PICTURES = ROOT / "pages" / "ui" / "pictures"
"""Of the screens; the site wears the same."""

_LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def pages_of(nav: list[Any]) -> Iterator[str]:
    """Yield the pages of a navigation, however deep they stand."""
    for entry in nav:
        for below in entry.values() if isinstance(entry, Mapping) else [entry]:
            if isinstance(below, str):
                yield below
            else:
                yield from pages_of(below)


def rewritten(text: str, document: str) -> str:
    """Return a document of the repository with links as the site has them."""
    here = OUTSIDE.get(document, document.removeprefix("docs/"))

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if target.startswith(("http://", "https://", "#")):
            return found.group()
        path, mark, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(document), path))
        page = OUTSIDE.get(there) or (there.removeprefix("docs/") if there.startswith("docs/") else None)
        if page is None or (ROOT / there).is_dir():
            return words
        return f"{picture}[{words}]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{mark}{anchor})"

    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in _FENCE.split(text))


def on_files(files: Any, config: Any) -> Any:
    """Add the documents outside docs/ and the logo to the site."""
    from mkdocs.structure.files import File

    for document, page in OUTSIDE.items():
        content = rewritten((ROOT / document).read_text(encoding="utf-8"), document)
        files.append(File.generated(config, page, content=content))
    for name in ("logo.svg", "icon.png"):
        files.append(File.generated(config, f"pictures/{name}", abs_src_path=str(_PICTURES / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of a page of docs/."""
    if page.file.generated_by is not None:
        return markdown
    return rewritten(markdown, f"docs/{page.file.src_uri}")
