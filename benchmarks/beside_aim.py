"""The picture of the README: errors of three columns on the discretised Adult table, as ``marginals.py`` measured them.

    python benchmarks/marginals.py --tables simple --generators aim dp-hp-adaptive --json build/simple.json
    python benchmarks/beside_aim.py build/simple.json docs/pictures/beside-aim.svg

Each point is a mean over the seeds, under add/remove.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

NAMES = {"dp-hp-adaptive": "Hermitage", "aim": "AIM", "independent": "unrelated columns"}
COLOURS = {"dp-hp-adaptive": "#0b6e75", "aim": "#b4761b", "independent": "#8a949b"}
LEFT, RIGHT, SCALE = 150, 690, 3000
"""Pixels of an error of 0, of the end of a line, and of an error of 1."""


def errors(path: Path) -> tuple[dict[float, dict[str, float]], int]:
    """Return the mean errors of three columns of ``simple`` by epsilon and generator, and the number of seeds."""
    found: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        cell, result = one["cell"], one["result"]
        if (cell["table"], cell["neighbours"]) == ("simple", "add_remove") and cell["generator"] in NAMES:
            found[cell["epsilon"]][cell["generator"]].append(result["tv3"])
    seeds = {len(values) for of_epsilon in found.values() for values in of_epsilon.values()}
    if len(seeds) != 1 or any(of_epsilon.keys() != NAMES.keys() for of_epsilon in found.values()):
        raise SystemExit("Some generator has errors of fewer seeds than another. Finish marginals.py first.")
    return {
        epsilon: {name: statistics.fmean(found[epsilon][name]) for name in NAMES} for epsilon in sorted(found)
    }, seeds.pop()


def picture(measured: dict[float, dict[str, float]], seeds: int) -> str:
    """Return the picture as SVG: a line for each epsilon, a point for each generator."""
    end = 70 + 50 * len(measured) - 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {end + 52}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14">',
        "<!-- Written by benchmarks/beside_aim.py. -->",
        f'<rect width="720" height="{end + 52}" fill="#ffffff"/>',
        '<text x="16" y="26" font-size="15" font-weight="bold" fill="#1d262b">'
        "How far off are tables of three columns? Further left is better</text>",
    ]
    for error in (0.0, 0.05, 0.1, 0.15):
        x = LEFT + SCALE * error
        parts.append(
            f'<line x1="{x:g}" y1="44" x2="{x:g}" y2="{end}" stroke="#e3e8ea"/><text x="{x:g}" y="{end + 18}" '
            f'text-anchor="middle" fill="#57646b" font-size="12">{said(error, 2) if error else 0}</text>'
        )
    for line, (epsilon, of_epsilon) in enumerate(measured.items()):
        y = 70 + 50 * line
        parts.append(f'<text x="16" y="{y + 5}" fill="#1d262b">epsilon {epsilon:g}</text>')
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}" stroke="#cfd6d9"/>')
        # Of two points that nearly touch, the left one has its number to the left, the other one to the right.
        first, second, *_ = sorted(of_epsilon, key=lambda name: of_epsilon[name])
        anchors = {first: ("end", 2), second: ("start", -2)}
        for name in reversed(NAMES):
            x = LEFT + SCALE * of_epsilon[name]
            anchor, aside = anchors.get(name, ("middle", 0))
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="7" fill="{COLOURS[name]}"/>')
            parts.append(
                f'<text x="{x + aside:.1f}" y="{y - 12}" text-anchor="{anchor}" fill="{COLOURS[name]}" font-size="12">'
                f"{said(of_epsilon[name], 3)}</text>"
            )
    for x, name in zip((LEFT, 270, 350), NAMES, strict=True):
        parts.append(f'<circle cx="{x}" cy="{end + 39}" r="6" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 12}" y="{end + 44}" fill="#1d262b" font-size="13">{NAMES[name]}</text>')
    parts.append(
        f'<text x="{RIGHT}" y="{end + 44}" text-anchor="end" fill="#57646b" font-size="12">'
        f"Adult, 22,561 rows, {seeds} seeds</text></svg>"
    )
    return "\n".join(parts) + "\n"


def said(error: float, digits: int) -> str:
    return f"{error:.{digits}f}".removeprefix("0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="the file of marginals.py --json")
    parser.add_argument("picture", type=Path)
    asked = parser.parse_args()
    asked.picture.write_text(picture(*errors(asked.measured)), encoding="utf-8")


if __name__ == "__main__":
    main()
