"""examples/deploying, the Dockerfile and the commands of docs/deploying.md that go with them, read for tests."""

from __future__ import annotations

import re
from typing import Any

import yaml
from printed import ROOT, commands_by_section

__all__ = [
    "COMPOSE",
    "FOLDER",
    "FROM_THE_DOCS",
    "PASSES_THE_NAME",
    "SERVICES",
    "entrypoint",
    "instruction",
    "secrets_made",
]

FOLDER = ROOT / "examples" / "deploying"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PASSES_THE_NAME = "proxy_set_header   X-Forwarded-User $remote_user;"
FROM_THE_DOCS = (
    ("http://127.0.0.1:8501", "http://app:8501"),
    ('proxy_set_header   Authorization "";', f'{PASSES_THE_NAME}\n        proxy_set_header   Authorization "";'),
)
"""All by which the example's nginx.conf differs from the configuration in the docs, which test_proxy.py tests."""


def instruction(word: str) -> list[str]:
    """Return what the last stage of the Dockerfile says with a word."""
    return re.findall(rf"^{word} +(.*)$", IMAGE.rpartition("FROM ${PYTHON_IMAGE}")[2], re.M)


def entrypoint() -> list[str]:
    """Return the command line of the image."""
    (line,) = instruction("ENTRYPOINT")
    return list(yaml.safe_load(line))


def secrets_made() -> list[str]:
    """Return the commands of the docs that make folders and secrets."""
    lines = commands_by_section("docs/deploying.md")["Compose"]
    first = lines.index("cd examples/deploying")
    return [line for line in lines[first + 1 :] if not line.startswith("docker ")]
