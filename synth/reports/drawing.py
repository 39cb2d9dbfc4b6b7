"""Figures as plain SVG and HTML: no script, no network, readable in print and by a screen reader."""

from __future__ import annotations

import html
import math

from synth.names import visible
from synth.reports.figures import Bars, Cell, Figure, HeatMap, Meaning, Series, Table

__all__ = ["COLOURS", "draw", "letters", "number_text", "rounded_up"]

COLOURS: dict[Meaning, str] = {
    "synthetic": "#0072B2",
    "real": "#E69F00",
    "measured": "#E69F00",
    "stand_in": "#009E73",
    "control": "#999999",
    "floor": "#444444",
    "ceiling": "#444444",
}
"""One meaning, one colour, everywhere (Okabe and Ito)."""

_DASHES: dict[Meaning, str] = {"floor": "2 3", "ceiling": "8 4"}
"""Floor and ceiling have one colour: they are lines, and their dashes differ."""

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 28, 64
_TEXT = 'font-family="sans-serif" font-size="11" fill="currentColor"'
_LABELS = 16


def letters(text: str, *, quote: bool = True) -> str:
    """Return HTML that shows a text letter for letter, what cannot be seen by its number."""
    return html.escape(visible(text), quote)


def number_text(value: Cell) -> str:
    """Write a number as short as it stays honest: three or four digits, thousands apart, a dash where there is none."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) < 1:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def rounded_up(bound: float) -> float:
    """Round a positive upper bound up to the digits that :func:`number_text` prints, which then is no smaller."""
    step = 10.0 ** (math.floor(math.log10(bound)) - (3 if bound >= 1 else 2))
    # A bound that has four digits already may be a little above them as a binary number.
    return float(f"{math.ceil(bound / step - 1e-6) * step:.12g}")


def draw(figure: Figure) -> str:
    """Return a figure as HTML; pictures carry their numbers as a folded table."""
    if isinstance(figure, Table):
        return _table(figure)
    picture = _heat_map(figure) if isinstance(figure, HeatMap) else _bars(figure)
    twin = _heat_map_twin(figure) if isinstance(figure, HeatMap) else _bars_twin(figure)
    caption = f"<figcaption>{letters(figure.title)}</figcaption>"
    return f"<figure>{picture}{caption}</figure><details><summary>Numbers</summary>{twin}</details>"


def _bars(figure: Bars) -> str:
    tops = [
        value + error
        for series in figure.series
        for value, error in zip(series.values, series.errors or (0.0,) * len(series.values), strict=True)
    ]
    highest = max(tops, default=0.0) or 1.0
    slot = (_WIDTH - _LEFT - _RIGHT) / max(len(figure.categories), 1)
    standing = [series for series in figure.series if series.meaning not in _DASHES]
    width = 0.8 * slot / max(len(standing), 1)
    shapes = [_frame(highest, figure.unit)]
    if figure.joined:
        shapes += [_line(series, slot, highest) for series in figure.series]
    for place, series in enumerate([] if figure.joined else standing):
        for index, value in enumerate(series.values):
            left = _LEFT + index * slot + 0.1 * slot + place * width
            top = _y(max(value, 0.0), highest)
            shapes.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" height="{_y(0, highest) - top:.1f}" '
                f'fill="{COLOURS[series.meaning]}"/>'
            )
            if series.errors is not None and series.errors[index] > 0:
                below = (series.below or series.errors)[index]
                shapes.append(_whisker(left + width / 2, value, series.errors[index], below, highest))
    if not figure.joined:
        shapes += [_level(series, slot, highest) for series in figure.series if series.meaning in _DASHES]
    shapes += [
        _category_label(index, text, slot, len(figure.categories)) for index, text in enumerate(figure.categories)
    ]
    shapes += [
        f"{_swatch(_LEFT + 170 * place, series.meaning)}"
        f'<text x="{_LEFT + 170 * place + 14}" y="15" {_TEXT}>{letters(series.name[:26])}</text>'
        for place, series in enumerate(figure.series)
    ]
    return _svg(figure.title, _WIDTH, _HEIGHT, shapes)


def _line(series: Series, slot: float, highest: float) -> str:
    points = " ".join(
        f"{_LEFT + (index + 0.5) * slot:.1f},{_y(max(value, 0.0), highest):.1f}"
        for index, value in enumerate(series.values)
    )
    return f'<polyline points="{points}" fill="none" {_stroke(series.meaning)}/>'


def _level(series: Series, slot: float, highest: float) -> str:
    """Draw a value of every category as a level line over its bars."""
    path = "".join(
        f"M{_LEFT + (index + 0.05) * slot:.1f} {_y(max(value, 0.0), highest):.1f}h{0.9 * slot:.1f}"
        for index, value in enumerate(series.values)
    )
    return f'<path d="{path}" fill="none" {_stroke(series.meaning)}/>'


def _swatch(left: int, meaning: Meaning) -> str:
    if meaning in _DASHES:
        return f'<path d="M{left - 6} 11h18" fill="none" {_stroke(meaning)}/>'
    return f'<rect x="{left}" y="6" width="10" height="10" fill="{COLOURS[meaning]}"/>'


def _stroke(meaning: Meaning) -> str:
    # As the text is: the page may be dark.
    colour = "currentColor" if meaning in _DASHES else COLOURS[meaning]
    dashes = f' stroke-dasharray="{_DASHES[meaning]}"' if meaning in _DASHES else ""
    return f'stroke="{colour}" stroke-width="2"{dashes}'


def _frame(highest: float, unit: str) -> str:
    lines = []
    for mark in (0.0, highest / 2, highest):
        level = _y(mark, highest)
        lines.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{level:.1f}" y2="{level:.1f}" stroke="currentColor" '
            f'stroke-opacity="0.15"/><text x="{_LEFT - 6}" y="{level + 4:.1f}" text-anchor="end" {_TEXT}>'
            f"{number_text(mark)}</text>"
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) // 2
    turned = f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle" {_TEXT}>{letters(unit)}</text>'
    return "".join(lines) + turned


def _whisker(middle: float, value: float, above: float, below: float, highest: float) -> str:
    top, bottom = _y(value + above, highest), _y(max(value - below, 0.0), highest)
    return (
        f'<path d="M{middle:.1f} {top:.1f}V{bottom:.1f}M{middle - 2:.1f} {top:.1f}h4M{middle - 2:.1f} {bottom:.1f}h4" '
        f'stroke="currentColor" fill="none"/>'
    )


def _category_label(index: int, text: str, slot: float, total: int) -> str:
    if index % max(1, math.ceil(total / _LABELS)):
        return ""
    middle = _LEFT + (index + 0.5) * slot
    return (
        f'<text transform="translate({middle:.1f} {_HEIGHT - _BOTTOM + 12}) rotate(35)" {_TEXT}>'
        f"{letters(text if len(text) <= 14 else text[:13] + '…')}</text>"
    )


def _y(value: float, highest: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - min(value / highest, 1.0))


def _heat_map(figure: HeatMap) -> str:
    side, left, top = max(12, min(32, 560 // max(len(figure.names), 1))), 120, 100
    highest = max((value for row in figure.values for value in row if value is not None), default=0.0) or 1.0
    shapes = []
    for line, name in enumerate(figure.names):
        label = letters(name if len(name) <= 16 else name[:15] + "…")
        place = top + line * side + side / 2 + 4
        shapes.append(f'<text x="{left - 6}" y="{place:.0f}" text-anchor="end" {_TEXT}>{label}</text>')
        middle = left + line * side + side / 2
        shapes.append(f'<text transform="translate({middle:.0f} {top - 6}) rotate(-50)" {_TEXT}>{label}</text>')
        for column, value in enumerate(figure.values[line]):
            if value is not None:
                shapes.append(
                    f'<rect x="{left + column * side}" y="{top + line * side}" width="{side - 1}" height="{side - 1}" '
                    f'fill="#0072B2" fill-opacity="{0.04 + 0.96 * min(max(value, 0.0) / highest, 1.0):.3f}"/>'
                )
    total = len(figure.names) * side
    legend = f"white 0, full blue {number_text(highest)} {letters(figure.unit)}"
    shapes.append(f'<text x="{left}" y="{top + total + 18}" {_TEXT}>{legend}</text>')
    return _svg(figure.title, left + total + 80, top + total + 30, shapes)


def _svg(title: str, width: int, height: int, shapes: list[str]) -> str:
    # No xmlns: inside HTML it is not needed, and the page stays free of addresses.
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{letters(title, quote=True)}">'
        f"{''.join(shapes)}</svg>"
    )


def _table(figure: Table) -> str:
    head = "".join(f"<th>{letters(text)}</th>" for text in figure.header)
    body = "".join(
        "<tr>" + "".join(f"<td{_alignment(cell)}>{letters(number_text(cell))}</td>" for cell in row) + "</tr>"
        for row in figure.rows
    )
    return (
        f"<table><caption>{letters(figure.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _alignment(cell: Cell) -> str:
    return "" if isinstance(cell, str) else ' class="n"'


def _bars_twin(figure: Bars) -> str:
    header = ["", *(f"{series.name} ({figure.unit})" for series in figure.series)]
    rows = [
        (category, *(_with_error(series, index) for series in figure.series))
        for index, category in enumerate(figure.categories)
    ]
    return _table(Table(figure.title, tuple(header), tuple(rows)))


def _with_error(series: Series, index: int) -> Cell:
    value = series.values[index]
    if series.errors is None:
        return value
    if series.below is None:
        return f"{number_text(value)} ± {number_text(series.errors[index])}"
    low, high = value - series.below[index], value + series.errors[index]
    return f"{number_text(value)} ({number_text(low)} to {number_text(high)})"


def _heat_map_twin(figure: HeatMap) -> str:
    rows = tuple((name, *row) for name, row in zip(figure.names, figure.values, strict=True))
    return _table(Table(figure.title, ("", *figure.names), rows))
