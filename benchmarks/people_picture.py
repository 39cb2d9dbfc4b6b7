"""The picture of what whole people keep at several epsilons (``people.py --picture``), as a file of SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["picture"]

_COLOURS = ("#0b6e75", "#b4761b", "#7a4f9a", "#a8364a", "#57646b")
_TOP, _BOTTOM, _LINE = 56, 226, 15


@dataclass(frozen=True)
class _Panel:
    title: str
    left: int
    right: int
    most: float
    names: tuple[str, ...]
    step: float


_PANELS = (
    _Panel(
        "How far off? 0 is the same",
        52,
        330,
        0.16,
        ("by decade of birth", "pairs within a row", "a row and the next", "days between, KS", "rows a patient"),
        0.04,
    ),
    _Panel("What is kept? Dashed: other patients", 540, 760, 1.0, ("same ward again", "own share of cost"), 0.25),
)


def picture(
    epsilons: Sequence[float], made: Sequence[Mapping[str, float]], real: Mapping[str, float], below: str
) -> str:
    """Return the picture.

    Parameters
    ----------
    epsilons : sequence of float
        Ascending.
    made : sequence of mapping
        The scores at each epsilon.
    real : mapping
        The same of other people of the same law.
    below : str
        What was run.
    """
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 280" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        "<!-- Written by benchmarks/people.py with the option picture. -->",
        '<rect width="930" height="280" fill="#ffffff"/>',
    ]
    for panel in _PANELS:
        parts += _drawn(panel, epsilons, made, real)
    parts.append(f'<text x="16" y="270" fill="#57646b" font-size="12">{below}</text></svg>')
    return "\n".join(parts) + "\n"


def _drawn(
    panel: _Panel, epsilons: Sequence[float], made: Sequence[Mapping[str, float]], real: Mapping[str, float]
) -> list[str]:
    def across(epsilon: float) -> float:
        part = math.log(epsilon / epsilons[0]) / math.log(epsilons[-1] / epsilons[0])
        return panel.left + 14 + part * (panel.right - panel.left - 28)

    def height(value: float) -> float:
        return _BOTTOM - value / panel.most * (_BOTTOM - _TOP)

    parts = [f'<text x="{panel.left - 36}" y="30" font-size="15" font-weight="bold">{panel.title}</text>']
    for mark in range(round(panel.most / panel.step) + 1):
        y = height(mark * panel.step)
        said = f"{mark * panel.step:.2f}".removeprefix("0") if 0 < mark * panel.step < 1 else f"{mark * panel.step:g}"
        parts.append(f'<line x1="{panel.left}" y1="{y:.1f}" x2="{panel.right}" y2="{y:.1f}" stroke="#e3e8ea"/>')
        parts.append(f'<text x="{panel.left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#57646b">{said}</text>')
    for epsilon in epsilons:
        parts.append(f'<text x="{across(epsilon):.1f}" y="246" text-anchor="middle" fill="#57646b">{epsilon:g}</text>')
    parts.append(f'<text x="{panel.right + 8}" y="246" fill="#57646b">epsilon</text>')
    said_at = _apart({name: height(made[-1][name]) for name in panel.names})
    for name, colour in zip(panel.names, _COLOURS, strict=False):
        points = [(across(epsilon), height(one[name])) for epsilon, one in zip(epsilons, made, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
        end = f"{made[-1][name]:.2f}".removeprefix("0") if made[-1][name] >= 0.1 else f"{made[-1][name]:.3f}"[1:]
        label = f"{end} {name.removesuffix(', KS')}"
        parts.append(f'<text x="{panel.right + 8}" y="{said_at[name] + 4:.1f}" fill="{colour}">{label}</text>')
        if panel.most == 1.0:
            y = height(real[name])
            parts.append(
                f'<line x1="{panel.left}" y1="{y:.1f}" x2="{panel.right}" y2="{y:.1f}" stroke="{colour}" '
                'stroke-dasharray="5 4"/>'
            )
    return parts


def _apart(heights: dict[str, float]) -> dict[str, float]:
    """Return heights at which labels do not cover each other, from the lowest on the page upwards."""
    placed: dict[str, float] = {}
    free = math.inf
    for name, height in sorted(heights.items(), key=lambda one: -one[1]):
        placed[name] = min(height, free)
        free = placed[name] - _LINE
    return placed
