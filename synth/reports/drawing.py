"""Figures as plain SVG and HTML: no script, no network, readable in print and by a screen reader."""

from __future__ import annotations

import html
import math

from synth.generators.protocol import Picture
from synth.names import visible
from synth.reports.figures import Bars, Cell, Figure, Gauge, HeatMap, Mark, Meaning, Series, Table
from synth.reports.wording import number_text, ranged_text, short_text

__all__ = [
    "COLOURS",
    "TRACES",
    "cut",
    "draw",
    "draw_gauge",
    "draw_small",
    "draw_triangle",
    "letters",
    "mark_symbol",
    "mark_text",
    "pairs_of",
    "twin_of_bars",
    "twin_of_picture",
]

COLOURS: dict[Meaning, str] = {
    "synthetic": "#0072B2",
    "real": "#E69F00",
    "measured": "#E69F00",
    "stand_in": "#009E73",
    "control": "#999999",
    "floor": "#444444",
    "ceiling": "#444444",
}
"""Each meaning has the same colour everywhere (Okabe and Ito)."""

TRACES = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999", "#444444")
"""Colours of a picture's lines or points, in order (Okabe and Ito)."""

_DASHES: dict[Meaning, str] = {"floor": "2 3", "ceiling": "8 4"}
"""Floor and ceiling have the same colour: they are lines with different dashes."""

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 28, 64
_TEXT = 'font-family="sans-serif" font-size="11" fill="currentColor"'
_LABELS = 16


def letters(text: str) -> str:
    """Return HTML that shows a text letter for letter; invisible characters are shown by their code."""
    return html.escape(visible(text))


def cut(text: str, most: int) -> str:
    """Return a text, shortened if it is longer than ``most``."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def draw(figure: Figure, *, headed: bool = True) -> str:
    """Return a figure as HTML, with its title unless that is elsewhere; a picture has its numbers folded below it."""
    if isinstance(figure, Table):
        return _table(figure, headed=headed)
    if isinstance(figure, Picture):
        picture = _cells(figure) if figure.kind == "heat_map" else _traces(figure)
        twin = twin_of_picture(figure)
    elif isinstance(figure, HeatMap):
        picture, twin = (draw_triangle if figure.states else _heat_map)(figure), _heat_map_twin(figure)
    else:
        picture, twin = _bars(figure), twin_of_bars(figure)
    caption = f"<figcaption>{_heading(figure)}</figcaption>" if headed else ""
    table = _table(twin, headed=False)
    return f"<figure>{caption}{picture}</figure><details><summary>Numbers</summary>{table}</details>"


def _heading(figure: Figure) -> str:
    """Return what a figure shows, and below it whether that is good."""
    judged = figure.sentence if isinstance(figure, Picture) else figure.subtitle
    return letters(figure.title) + (f"<small>{letters(judged)}</small>" if judged else "")


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
        _swatch(_LEFT + 170 * place, series.meaning) + _named(_LEFT + 170 * place, series.name)
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
    """Draw a level line over the bars of every category."""
    path = "".join(
        f"M{_LEFT + (index + 0.05) * slot:.1f} {_y(max(value, 0.0), highest):.1f}h{0.9 * slot:.1f}"
        for index, value in enumerate(series.values)
    )
    return f'<path d="{path}" fill="none" {_stroke(series.meaning)}/>'


def _swatch(left: int, meaning: Meaning) -> str:
    if meaning in _DASHES:
        return f'<path d="M{left - 6} 11h18" fill="none" {_stroke(meaning)}/>'
    return _square(left, COLOURS[meaning])


def _square(left: int, colour: str) -> str:
    return f'<rect x="{left}" y="6" width="10" height="10" fill="{colour}"/>'


def _named(left: int, name: str) -> str:
    """Write the name beside a sign in the legend above a picture."""
    return f'<text x="{left + 14}" y="15" {_TEXT}>{letters(name[:26])}</text>'


def _stroke(meaning: Meaning) -> str:
    # The colour of the text, because the page may be dark.
    colour = "currentColor" if meaning in _DASHES else COLOURS[meaning]
    dashes = f' stroke-dasharray="{_DASHES[meaning]}"' if meaning in _DASHES else ""
    return f'stroke="{colour}" stroke-width="2"{dashes}'


def _frame(highest: float, unit: str) -> str:
    lines = []
    for mark in (0.0, highest / 2, highest):
        level = _y(mark, highest)
        words = f'<text x="{_LEFT - 6}" y="{level + 4:.1f}" text-anchor="end" {_TEXT}>{number_text(mark)}</text>'
        lines.append(_grid_line(_LEFT, _WIDTH - _RIGHT, level) + words)
    middle = (_TOP + _HEIGHT - _BOTTOM) // 2
    turned = f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle" {_TEXT}>{letters(unit)}</text>'
    return "".join(lines) + turned


def _grid_line(start: int, end: int, level: float) -> str:
    return (
        f'<line x1="{start}" x2="{end}" y1="{level:.1f}" y2="{level:.1f}" stroke="currentColor" stroke-opacity="0.15"/>'
    )


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
        f"{letters(cut(text, 14))}</text>"
    )


def _y(value: float, highest: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - min(value / highest, 1.0))


def _heat_map(figure: HeatMap) -> str:
    side, left, top = max(12, min(32, 560 // max(len(figure.names), 1))), 120, 100
    highest = max((value for row in figure.values for value in row if value is not None), default=0.0) or 1.0
    shapes = []
    for line, name in enumerate(figure.names):
        label = letters(cut(name, 16))
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


def twin_of_picture(picture: Picture) -> Table:
    """Return the numbers of a picture as a table: a heat map row by row from below, anything else trace by trace."""
    if picture.kind == "heat_map":
        header = (f"{picture.up} \\ {picture.across}", *(number_text(place) for place in picture.columns))
        cells = tuple((number_text(place), *values) for place, values in zip(picture.rows, picture.values, strict=True))
        return Table(picture.title, header, cells)
    points = tuple(
        (trace.name, x, y if trace.errors is None else f"{number_text(y)} ± {number_text(trace.errors[place])}")
        for trace in picture.traces
        for place, (x, y) in enumerate(zip(trace.across, trace.up, strict=True))
    )
    return Table(picture.title, ("", picture.across, picture.up), points)


def _cells(picture: Picture) -> str:
    """Draw a heat map; cells too light to be seen are left out."""
    left, top, wide, high = 96, 12, 480, 360
    highest = max((value for row in picture.values for value in row if value is not None), default=0.0)
    width, height = wide / max(len(picture.columns), 1), high / max(len(picture.rows), 1)
    shapes = [
        f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.3"/>'
    ]
    for line, row in enumerate(picture.values):
        y = top + high - (line + 1) * height
        for place, value in enumerate(row):
            share = 0.0 if value is None or highest <= 0 else value / highest
            if share >= 0.005:
                shapes.append(
                    f'<rect x="{left + place * width:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                    f'fill="#0072B2" fill-opacity="{share:.2f}"/>'
                )
    for place in _marked(len(picture.columns)):
        x = left + (place + 0.5) * width
        shapes.append(_mark(x, top + high + 14, "middle", picture.columns[place]))
    for place in _marked(len(picture.rows)):
        shapes.append(_mark(left - 6, top + high - (place + 0.5) * height + 4, "end", picture.rows[place]))
    legend = f"white 0, full blue {number_text(highest)} {letters(picture.unit)}"
    shapes += [*_axes(picture, left + wide / 2, top + high + 32, top + high / 2)]
    shapes.append(f'<text x="{left}" y="{top + high + 50}" {_TEXT}>{legend}</text>')
    return _svg(picture.title, left + wide + 12, top + high + 60, shapes)


def _traces(picture: Picture) -> str:
    """Draw lines or points, with whiskers if there are errors."""
    left, top, wide, high = 96, 28, 600, 260
    xs = [x for trace in picture.traces for x in trace.across] or [0.0]
    ends = [
        y + sign * error
        for trace in picture.traces
        for y, error in zip(trace.up, trace.errors or (0.0,) * len(trace.up), strict=True)
        for sign in (-1, 1)
    ] or [0.0]
    across, up = _Scale(min(xs), max(xs), left, left + wide), _Scale(min(ends), max(ends), top + high, top)
    shapes = []
    for place, trace in enumerate(picture.traces):
        colour = TRACES[place % len(TRACES)]
        points = [(across(x), up(y)) for x, y in zip(trace.across, trace.up, strict=True)]
        if trace.errors is not None:
            bars = "".join(
                f"M{x:.1f} {up(y - error):.1f}V{up(y + error):.1f}"
                for (x, _), y, error in zip(points, trace.up, trace.errors, strict=True)
            )
            shapes.append(f'<path d="{bars}" fill="none" stroke="{colour}"/>')
        if picture.kind == "lines":
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        else:
            shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        start = left + 170 * place
        shapes.append(_square(start, colour) + _named(start, trace.name))
    for share in (0.0, 0.5, 1.0):
        x, y = left + share * wide, top + (1 - share) * high
        shapes.append(_grid_line(left, left + wide, y))
        shapes += [_mark(x, top + high + 16, "middle", across.at(share)), _mark(left - 6, y + 4, "end", up.at(share))]
    shapes += [*_axes(picture, left + wide / 2, top + high + 34, top + high / 2)]
    return _svg(picture.title, max(left + wide + 12, left + 170 * len(picture.traces)), top + high + 44, shapes)


class _Scale:
    """Map numbers between two ends to positions in a picture; if the ends are equal, to its middle."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        spread = high - low or 2.0 * (abs(low) or 1.0)
        self._low = (low + high - spread) / 2
        self._spread, self._start, self._length = spread, start, stop - start

    def __call__(self, value: float) -> float:
        return self._start + self._length * (value - self._low) / self._spread

    def at(self, share: float) -> float:
        return self._low + share * self._spread


def _marked(count: int) -> range:
    """Return which of some cells are labelled: about five."""
    return range(0, count, max(1, math.ceil(count / 5)))


def _mark(x: float, y: float, anchor: str, place: Cell) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {_TEXT}>{letters(number_text(place))}</text>'


def _axes(picture: Picture, middle: float, below: float, beside: float) -> tuple[str, str]:
    """Return the labels of the axes."""
    return (
        f'<text x="{middle:.1f}" y="{below:.1f}" text-anchor="middle" {_TEXT}>{letters(picture.across)}</text>',
        f'<text transform="translate(14 {beside:.1f}) rotate(-90)" text-anchor="middle" {_TEXT}>'
        f"{letters(picture.up)}</text>",
    )


def _svg(title: str, width: int, height: int, shapes: list[str]) -> str:
    # No xmlns: inside HTML it is not needed, and the page stays free of addresses.
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{letters(title)}">'
        f"{''.join(shapes)}</svg>"
    )


def _table(figure: Table, *, headed: bool = True) -> str:
    head = "".join(f"<th>{letters(text)}</th>" for text in figure.header)
    body = "".join(
        "<tr>" + "".join(f"<td{_alignment(cell)}>{letters(number_text(cell))}</td>" for cell in row) + "</tr>"
        for row in figure.rows
    )
    caption = f"<caption>{_heading(figure)}</caption>" if headed else ""
    table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    # A table wider than its page scrolls by itself; it can be focused, so that keys scroll it too.
    return f'<div class="wide" tabindex="0" role="group" aria-label="{letters(figure.title)}">{table}</div>'


def _alignment(cell: Cell) -> str:
    return "" if isinstance(cell, str) else ' class="n"'


def twin_of_bars(figure: Bars) -> Table:
    """Return the numbers of bars as a table."""
    header = ["", *(f"{series.name} ({figure.unit})" for series in figure.series)]
    rows = [
        (category, *(_with_error(series, index) for series in figure.series))
        for index, category in enumerate(figure.categories)
    ]
    return Table(figure.title, tuple(header), tuple(rows))


def _with_error(series: Series, index: int) -> Cell:
    value = series.values[index]
    if series.errors is None:
        return value
    if series.below is None:
        return ranged_text(value, series.errors[index])
    low, high = value - series.below[index], value + series.errors[index]
    return f"{number_text(value)} ({number_text(low)} to {number_text(high)})"


def _heat_map_twin(figure: HeatMap) -> Table:
    if figure.states:
        return pairs_of(figure)
    rows = tuple((name, *row) for name, row in zip(figure.names, figure.values, strict=True))
    return Table(figure.title, ("", *figure.names), rows)


# The first screen ---------------------------------------------------------------------------------------------------


_LINE = 260
"""Length of a gauge."""

_SHORT_LABEL = 10


def mark_text(mark: Mark) -> str:
    """Write the number of a mark, with half its range."""
    return short_text(mark.value) + ("" if mark.error is None else f" ± {short_text(mark.error)}")


def mark_symbol(mark: Mark) -> str:
    """Return the sign of a mark, for the legend under a gauge."""
    return f'<svg viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">{_sign(mark, 7, 7)}</svg>'


def draw_gauge(gauge: Gauge) -> str:
    """Return a line with every mark; the part beyond a ceiling is hatched."""
    scale = _Scale(gauge.low, gauge.high, 10, 10 + _LINE)
    level, end = 15, 10 + _LINE
    shapes = [f'<path d="M10 {level}H{end}" stroke="currentColor" stroke-opacity="0.35"/>']
    for mark in gauge.marks:
        if mark.meaning == "ceiling":
            place = scale(mark.value)
            shapes.append(
                f'<path d="M{place:.1f} {level}H{end}" stroke="currentColor" stroke-opacity="0.3" stroke-width="7" '
                'stroke-dasharray="2 3"/>'
            )
        if mark.error is not None:
            low, high = (scale(min(max(mark.value + sign * mark.error, gauge.low), gauge.high)) for sign in (-1, 1))
            shapes.append(
                f'<path d="M{low:.1f} {level}H{high:.1f}" stroke="{COLOURS[mark.meaning]}" stroke-width="5" '
                'stroke-opacity="0.4"/>'
            )
    shapes += [_sign(mark, scale(min(max(mark.value, gauge.low), gauge.high)), level) for mark in gauge.marks]
    shapes += [_mark(10, 38, "start", short_text(gauge.low)), _mark(end, 38, "end", short_text(gauge.high))]
    shapes.append(f'<text x="{10 + _LINE / 2}" y="38" text-anchor="middle" {_TEXT}>{letters(gauge.unit)}</text>')
    words = "; ".join(f"{mark.name} {mark_text(mark)}" for mark in gauge.marks)
    return _svg(f"{gauge.title}, {gauge.unit}: {words}", _LINE + 20, 42, shapes)


def _sign(mark: Mark, x: float, y: float) -> str:
    if mark.meaning == "synthetic":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{COLOURS[mark.meaning]}"/>'
    if mark.meaning == "control":
        return (
            f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" fill="{COLOURS[mark.meaning]}" stroke="currentColor" '
            'stroke-opacity="0.5"/>'
        )
    return f'<path d="M{x:.1f} {y - 7:.1f}v14" fill="none" {_stroke(mark.meaning)}/>'


def draw_small(figure: Bars) -> str:
    """Return bars with dots and whiskers, small enough for six of them side by side."""
    wide, top, base = 160.0, 14.0, 76.0
    highest = max((value for series in figure.series for value in series.values), default=0.0) or 1.0
    slot = (wide - 4) / max(len(figure.categories), 1)

    def up(value: float) -> float:
        return base - (base - top) * min(max(value, 0.0) / highest, 1.0)

    shapes = [f'<path d="M2 {base:.0f}H{wide - 2:.0f}" stroke="currentColor" stroke-opacity="0.35"/>']
    for series in figure.series:
        for index, value in enumerate(series.values):
            middle = 2 + (index + 0.5) * slot
            if series.meaning == "synthetic":
                shapes.append(
                    f'<rect x="{middle - 0.4 * slot:.1f}" y="{up(value):.1f}" width="{max(0.8 * slot, 0.5):.1f}" '
                    f'height="{base - up(value):.1f}" fill="{COLOURS[series.meaning]}"/>'
                )
                continue
            error = 0.0 if series.errors is None else series.errors[index]
            shapes.append(
                f'<path d="M{middle:.1f} {up(value + error):.1f}V{up(value - error):.1f}" '
                'stroke="currentColor"/>'
                f'<circle cx="{middle:.1f}" cy="{up(value):.1f}" r="2.2" fill="{COLOURS[series.meaning]}" '
                'stroke="currentColor" stroke-width="0.6"/>'
            )
    ends = (figure.categories[0], figure.categories[-1]) if len(figure.categories) > 1 else figure.categories
    for text, x, anchor in zip(ends, (2.0, wide - 2), ("start", "end"), strict=False):
        shapes.append(_mark(x, base + 13, anchor, _end_of(text, last=anchor == "end")))
    shapes.append(_mark(2, 10, "start", f"{short_text(highest)} %"))
    return _svg(f"{figure.title}: synthetic rows beside noisy counts, {figure.unit}", int(wide), 92, shapes)


def _end_of(text: str, *, last: bool) -> str:
    """Return a short name of the first or last category for the end of an axis; of a long range only its end."""
    text = text if len(text) <= _SHORT_LABEL else text.split(" to ")[-1 if last else 0]
    return cut(text, _SHORT_LABEL)


def draw_triangle(figure: HeatMap) -> str:
    """Return every pair once, below the diagonal of names; pairs that were not measured are crossed out."""
    count = len(figure.names)
    side = max(11, min(24, 300 // max(count, 1)))
    shapes = []
    for line, name in enumerate(figure.names):
        y = 4 + line * side
        for column in range(line):
            shapes.append(_pair(4 + column * side, y, side, figure.values[line][column], figure))
        shapes.append(_mark(4 + line * side + 3, y + side / 2 + 4, "start", cut(name, 18)))
    high = 8 + count * side
    for value in (*range(len(figure.states)), None) if figure.states else ():
        shapes.append(_pair(4, high + 6, 13, value, figure) + _mark(24, high + 16, "start", figure.word(value)))
        high += 18
    return _svg(figure.title, 4 + count * side + 110, high, shapes)


def _pair(x: int, y: int, side: int, value: float | None, figure: HeatMap) -> str:
    box = f'x="{x}" y="{y}" width="{side - 1}" height="{side - 1}"'
    if value is None:
        return (
            f'<rect {box} fill="none" stroke="currentColor" stroke-opacity="0.2"/><path d="M{x} {y + side - 1}'
            f'l{side - 1} {1 - side}" stroke="currentColor" stroke-opacity="0.3"/>'
        )
    if figure.states:
        dark = 1 - 0.85 * value / max(len(figure.states) - 1, 1)
    else:
        dark = 0.06 + 0.94 * min(max(value, 0.0) / _FAR, 1.0)
    return f'<rect {box} fill="#0072B2" fill-opacity="{dark:.3f}"/>'


_FAR = 0.2
"""Share of rows out of place at which a map is darkest: the same on every map, so that maps can be compared."""


def pairs_of(figure: HeatMap) -> Table:
    """Return the measured pairs of a map as a table, the largest distance first; of a map of words all pairs."""
    if figure.states:
        words = tuple(
            (f"{figure.names[left]} + {name}", figure.word(figure.values[line][left]))
            for line, name in enumerate(figure.names)
            for left in range(line)
        )
        return Table(figure.title, ("pair", "what is known"), words)
    found = [
        (value, f"{figure.names[line]} + {figure.names[column]}")
        for line in range(len(figure.names))
        for column in range(line)
        if (value := figure.values[line][column]) is not None
    ]
    rows = tuple((name, value) for value, name in sorted(found, key=lambda pair: -pair[0]))
    return Table(figure.title, ("pair", figure.unit), rows)
