"""What documents print to be typed or run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def blocks(document: str, language: str) -> list[str]:
    """Return the blocks of a document that its fences say are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(encoding="utf-8"), re.M | re.S)


def commands_by_section(document: str) -> dict[str, list[str]]:
    """Return the commands that each section of a document tells to type: in fences without a language, or indented."""
    found: dict[str, list[str]] = {}
    section, language = "", None  # None outside of every fence
    for line in (ROOT / document).read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language is None and line.startswith("## "):
            section = line[3:]
        elif line.strip() and (language == "" or (language is None and line.startswith("    "))):
            found.setdefault(section, []).append(line.strip())
    return found
