"""The kept figures of ``everywhere.py`` as counts of cells, tables and a picture; nothing of them is typed by hand."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everywhere import AIM, EPSILONS, LAST, METHODS, MOST_MEBIBYTES, MOST_SECONDS, MST, OURS, PRIVBAYES, REAL, Cell
from everywhere_tables import HELD_BACK, LISTED, OPEN

from synth.generators import GENERATORS

__all__ = ["Figures", "lines", "section", "write"]

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = "docs/results.md", "docs/pictures/everywhere.svg"
BEGIN, END = "<!-- everywhere: written by a command -->", "<!-- everywhere: end -->"

COMPARED = {"tv2": "error, two columns", "tv3": "error, three columns", "auc": "AUC"}
PEERS_SHOWN = (AIM, MST, PRIVBAYES)
TITLES = {AIM: "AIM", MST: "MST", PRIVBAYES: "PrivBayes", REAL: "real rows"}
MORE_IS_BETTER = ("auc",)
OLD = "°"
"""Marks what was measured with earlier code than the newest of its method."""

WORDS = ("ahead", "within", "behind")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How ours stands beside a peer in one cell of the comparison.

    Attributes
    ----------
    gap : float
        By how much ours is better: a difference of areas, or of logarithms of errors.
    error : float or None
        Its standard error; None where nothing was measured with two seeds.
    """

    gap: float
    error: float | None

    @property
    def word(self) -> str:
        """Ahead or behind by more than one standard error, or within it; by the sign alone where there is none."""
        if abs(self.gap) <= (self.error or 0.0):
            return "within"
        return "ahead" if self.gap > 0 else "behind"


class Figures:
    """Kept results by table, method and epsilon: those of the newest code, or else of the code before.

    Spreads are pooled, because there are few seeds: the deviation of a measure is that of all epsilons of a table
    together, of the logarithms of errors (noise is a part of an error) and of areas as they are. Where no epsilon of a
    table has two seeds, it is that of all tables.
    """

    def __init__(self, results: Mapping[Cell, Mapping[str, Any]]) -> None:
        by_code: dict[tuple[str, str, float], dict[str, dict[int, Mapping[str, Any]]]] = {}
        newest: dict[str, str] = {}
        for cell, result in results.items():
            if cell.table != LAST:
                newest[cell.method] = cell.code
                of_key = by_code.setdefault((cell.table, cell.method, cell.epsilon), {})
                of_key.setdefault(cell.code, {})[cell.seed] = result
        self.newest = newest
        self._seeds: dict[tuple[str, str, float], dict[int, Mapping[str, Any]]] = {}
        self._old: set[tuple[str, str, float]] = set()
        for key, codes in by_code.items():
            now = newest[key[1]]
            self._seeds[key] = codes.get(now) or list(codes.values())[-1]
            if now not in codes:
                self._old.add(key)
        self.tables = [name for name in LISTED if any(name == key[0] for key in self._seeds)]

    def epsilons(self, table: str) -> list[float]:
        """Return the epsilons of which a table has any cell, in ascending order."""
        return sorted({key[2] for key in self._seeds if key[0] == table and key[2] > 0})

    def by_seed(self, measure: str, table: str, method: str, epsilon: float) -> dict[int, float]:
        """Return a measure by seed."""
        seeds = self._seeds.get((table, method, epsilon), {})
        return {seed: float(result[measure]) for seed, result in seeds.items() if measure in result}

    def mean(self, measure: str, table: str, method: str, epsilon: float) -> float | None:
        """Return the mean over seeds, or None if there is none."""
        found = self.by_seed(measure, table, method, epsilon)
        return statistics.fmean(found.values()) if found else None

    def left_out(self, table: str, method: str, epsilon: float) -> str:
        """Return why a cell has no figures; empty where it has, or where it was not tried."""
        seeds = self._seeds.get((table, method, epsilon), {})
        whys = [str(result["left_out"]) for result in seeds.values() if "left_out" in result]
        return whys[0] if whys and len(whys) == len(seeds) else ""

    def verdict(self, measure: str, table: str, epsilon: float, peer: str) -> Verdict | None:
        """Compare ours with a peer, seed by seed: both learnt from the same rows."""
        gaps = self._gaps(measure, table, epsilon, peer)
        if not gaps:
            return None
        of_table = [self._gaps(measure, table, each, peer) for each in EPSILONS]
        deviation = pooled(of_table)
        if deviation is None:
            deviation = pooled([self._gaps(measure, name, each, peer) for name in self.tables for each in EPSILONS])
        return Verdict(statistics.fmean(gaps), None if deviation is None else deviation / math.sqrt(len(gaps)))

    def _gaps(self, measure: str, table: str, epsilon: float, peer: str) -> list[float]:
        ours, theirs = (self.by_seed(measure, table, name, epsilon) for name in (OURS, peer))
        found = [(scaled(measure, ours[seed]), scaled(measure, theirs[seed])) for seed in ours.keys() & theirs.keys()]
        return [x - y if measure in MORE_IS_BETTER else y - x for x, y in found]

    def shown(self, measure: str, table: str, method: str, epsilon: float) -> str:
        """Return the mean, with its standard error where it has one."""
        found = list(self.by_seed(measure, table, method, epsilon).values())
        if not found:
            why = self.left_out(table, method, epsilon)
            return "none" if why.startswith("no result") else ""
        mean = statistics.fmean(found)
        each = [self.by_seed(measure, table, method, other) for other in (*EPSILONS, 0.0)]
        deviation = pooled([[scaled(measure, value) for value in one.values()] for one in each])
        said = short(mean)
        if deviation is not None:
            error = deviation / math.sqrt(len(found)) * (1.0 if measure in MORE_IS_BETTER else mean)
            said += f" ± {short(error)}"
        return said + (OLD if (table, method, epsilon) in self._old else "")


def scaled(measure: str, value: float) -> float:
    """Return what spreads are taken of: areas as they are, logarithms of errors."""
    return value if measure in MORE_IS_BETTER else math.log(max(value, 1e-9))


def pooled(groups: Iterable[Sequence[float]]) -> float | None:
    """Return the standard deviation within groups, all taken together; None where no group has two values."""
    groups = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return None
    return math.sqrt(sum((len(group) - 1) * statistics.variance(group) for group in groups) / freedom)


def short(value: float) -> str:
    """Return three decimals of a number below 1, and otherwise three digits."""
    if abs(value) >= 1:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:.3f}".replace("0.", ".", 1)


# What is printed ------------------------------------------------------------------------------------------------------


def lines(results: Mapping[Cell, Mapping[str, Any]]) -> list[str]:
    """Return counts of cells, and the cells in which a peer is ahead, the farthest first."""
    figures = Figures(results)
    said = counts(figures)
    behind = [
        (verdict.gap, measure, table, epsilon, peer)
        for measure in COMPARED
        for table in figures.tables
        for epsilon in figures.epsilons(table)
        for peer in PEERS_SHOWN
        if (verdict := figures.verdict(measure, table, epsilon, peer)) is not None and verdict.word == "behind"
    ]
    said += ["", "Behind:"] if behind else []
    for _, measure, table, epsilon, peer in sorted(behind):
        ours, theirs = (figures.shown(measure, table, name, epsilon) for name in (OURS, peer))
        said.append(f"{COMPARED[measure]}, {table} at epsilon {epsilon:g}: {ours}, {TITLES[peer]} {theirs}")
    return said


def counts(figures: Figures, names: Sequence[str] | None = None) -> list[str]:
    """Return in how many cells of a table and an epsilon ours is ahead of a peer, within one standard error, behind."""
    rows = []
    for measure, title in COMPARED.items():
        row = [title]
        for peer in PEERS_SHOWN:
            verdicts = [
                figures.verdict(measure, table, epsilon, peer)
                for table in names or figures.tables
                for epsilon in figures.epsilons(table)
            ]
            words = [verdict.word for verdict in verdicts if verdict is not None]
            row.append(" / ".join(str(words.count(word)) for word in WORDS) if words else "")
        rows.append(row)
    return _markdown((f"`{OURS}` is ahead / within / behind", *(TITLES[peer] for peer in PEERS_SHOWN)), rows)


def write(results: Mapping[Cell, Mapping[str, Any]]) -> None:
    """Write the section of ``docs/results.md`` and its picture."""
    page = ROOT / PAGE
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{section(results)}\n{END}{after}", encoding="utf-8")
    (ROOT / PICTURE).write_text(picture(results), encoding="utf-8")


def section(results: Mapping[Cell, Mapping[str, Any]]) -> str:
    """Return everything between the marks of ``docs/results.md``."""
    figures = Figures(results)
    hours = sum(float(one["cpu_seconds"]) + float(one.get("scoring_seconds", 0.0)) for one in results.values()) / 3600
    parts = [
        f"{_first_sentences(results, figures)}",
        f"![How far `{OURS}` is from AIM on every table]({PICTURE.removeprefix('docs/')})",
        "\n".join(counts(figures)),
        "A cell of this comparison is a table and an epsilon. *Ahead* and *behind* mean by more than one standard "
        "error of the difference, seed by seed, *within* no more. Spreads are pooled over the epsilons of a table, or "
        "over all tables where none of it has two seeds: of logarithms of errors, and of areas as they are. Where "
        f"nothing has two seeds, the sign decides. Measured in {hours:.1f} CPU hours: {_measured(figures)}. "
        "`python -m benchmarks.everywhere` goes on where it stopped, and with `--write` writes this section. What is "
        "measured, and how, is in [its first lines](../benchmarks/everywhere.py), and the tables are in "
        "[a list](../benchmarks/everywhere_tables.py).",
        *_overall(figures),
        "Every cell: mean total variation over sets of three columns, and the mean area under the ROC curve of five "
        "classifiers on real test rows, ± its standard error. *none*: no result in "
        f"{MOST_SECONDS} CPU s or {MOST_MEBIBYTES:,} MiB. {OLD} marks earlier code than the newest that was measured. "
        "AIM and MST are written from their papers ([peers](../benchmarks/peers/README.md)); PrivBayes is that of "
        "DataSynthesizer: its noise is sound, but its sensitivities follow from exact counts, which is not.",
        "\n".join(_every_cell(figures)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _first_sentences(results: Mapping[Cell, Mapping[str, Any]], figures: Figures) -> str:
    read = [name for name in figures.tables if name in HELD_BACK]
    said = [
        f"{len(LISTED)} public and simulated tables of {len(OPEN)} kinds; of each kind one is open, and one is held "
        "back until the last measurement, so that nothing can be tuned to it."
    ]
    notes = {cell: str(result["at"]) for cell, result in results.items() if cell.table == LAST}
    if notes:
        first, date = next(iter(notes.items()))
        said.append(f"Those held back were first read on {date} ({len(notes)} starts; {len(read)} tables so far).")
        if first.code != figures.newest.get(OURS, first.code):
            said.append(f"`{OURS}` has changed since, so that its figures on them are not those of a first look.")
    else:
        said.append("Nothing has been run on those held back.")
    for title, names in (("open tables", [*OPEN]), ("tables held back", read)):
        verdicts = [
            verdict
            for table in names
            for epsilon in figures.epsilons(table)
            for measure in COMPARED
            if (verdict := figures.verdict(measure, table, epsilon, AIM)) is not None
        ]
        if verdicts:
            words = [verdict.word for verdict in verdicts]
            one_seed = "" if any(verdict.error is not None for verdict in verdicts) else ", with one seed,"
            ahead, behind = words.count("ahead"), words.count("behind")
            said.append(
                f"Of the {len(words)} comparisons with AIM on {title}{one_seed} `{OURS}` is ahead in {ahead} "
                f"({100 * ahead / len(words):.0f} %) and behind in {behind}; the aim is three quarters and none."
            )
    return " ".join(said)


def _measured(figures: Figures) -> str:
    """Say how many tables and seeds each epsilon has for ours."""
    said = []
    for epsilon in sorted(EPSILONS):
        seeds = [len(figures.by_seed("tv2", table, OURS, epsilon)) for table in figures.tables]
        seeds = [each for each in seeds if each]
        if seeds:
            least, most = min(seeds), max(seeds)
            many = f"{least} to {most} seeds" if least < most else f"{most} seed{'s' * (most > 1)}"
            said.append(f"epsilon {epsilon:g} of {len(seeds)} tables with {many}")
    codes = ", ".join(f"`{name}` {figures.newest[name]}" for name in (OURS, AIM, MST) if name in figures.newest)
    return f"{'; '.join(said) or 'nothing'}; code {codes}" if codes else "; ".join(said) or "nothing"


_MORE = {
    "tv2": "two columns", "tv3": "three columns", "auc": "AUC", "correlation": "correlations", "ks": "KS",
    "mean": "means", "tail": "99th percentiles", "cpu_seconds": "CPU s", "mebibytes": "MiB",
}  # fmt: skip


def _overall(figures: Figures) -> list[str]:
    """Return every measure at epsilon 1: of the compared methods, and of the product's other generators beside ours."""
    others = [OURS, *(name for name in GENERATORS if name not in METHODS)]
    return [*_medians(figures, METHODS, "these methods"), *_medians(figures, others, "these generators")]


def _medians(figures: Figures, names: Sequence[str], of: str) -> list[str]:
    """Return every measure at epsilon 1, as medians over the tables that all shown methods have."""
    methods = [name for name in names if _count(figures, name)]
    if OURS not in methods or len(methods) < 2:
        return []
    most = max(_count(figures, name) for name in methods if name != OURS)
    methods = [name for name in methods if 2 * _count(figures, name) >= most]
    shared = [table for table in figures.tables if all(figures.by_seed("tv2", table, name, 1.0) for name in methods)]
    if not shared:
        return []
    rows = []
    for name, epsilon in [(REAL, 0.0), *((name, 1.0) for name in methods)]:
        row = [TITLES.get(name, f"`{name}`")]
        for measure in _MORE:
            found = [figures.mean(measure, table, name, epsilon) for table in shared]
            values = [value for value in found if value is not None]
            shown = values and not (name == REAL and measure in ("cpu_seconds", "mebibytes"))
            row.append(short(statistics.median(values)) if shown else "")
        rows.append(row)
    return [
        f"Every measure at epsilon 1: medians over the {len(shared)} tables on which all of {of} have a result "
        f"({', '.join(shared)}). Errors of means and 99th percentiles are parts of the real ones; real rows are the "
        "test rows.",
        "\n".join(_markdown(("", *_MORE.values()), rows)),
    ]


def _count(figures: Figures, method: str) -> int:
    return sum(bool(figures.by_seed("tv2", table, method, 1.0)) for table in figures.tables)


def _every_cell(figures: Figures) -> list[str]:
    methods = (OURS, *PEERS_SHOWN)
    heads = [f"{TITLES.get(name, 'ours')}: {what}" for what in ("three columns", "AUC") for name in methods]
    rows = []
    for table in figures.tables:
        for epsilon in figures.epsilons(table):
            cells = [figures.shown(measure, table, name, epsilon) for measure in ("tv3", "auc") for name in methods]
            if any(cells):
                rows.append((table, f"{epsilon:g}", *cells, figures.shown("auc", table, REAL, 0.0)))
    return _markdown(("table", "ε", *heads, "real rows: AUC"), rows)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in rows)]


# The picture ----------------------------------------------------------------------------------------------------------

_COLOURS = {0.1: "#cfe3e4", 0.3: "#9cc7c9", 1.0: "#5aa2a7", 3.0: "#0b6e75", 10.0: "#06393d"}
_LINE, _TOP = 22, 96
_PANELS = (
    ("tv3", 250, "Error in tables of three columns", "divided by AIM's: left of the line Hermitage is better"),
    ("auc", 640, "Classifiers trained on the rows", "ROC AUC, less AIM's: right of the line Hermitage is better"),
)
_REACH = {"tv3": math.log(2.0), "auc": 0.1}
"""What is farther from AIM than this is drawn at the edge, as a triangle."""


def picture(results: Mapping[Cell, Mapping[str, Any]]) -> str:
    """Return one line for every table, a panel for counts and one for predictions, and a dot for every epsilon."""
    figures = Figures(results)
    rows = [table for table in figures.tables if any(_dots(figures, measure, table) for measure, *_ in _PANELS)]
    height = _TOP + _LINE * len(rows) + 74
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        "<!-- Written by benchmarks/everywhere.py with the option write. -->",
        f'<rect width="960" height="{height}" fill="#ffffff"/>',
    ]
    for place, table in enumerate(rows):
        y = _TOP + _LINE * place
        held = ' font-style="italic"' if table in HELD_BACK else ""
        parts.append(f'<text x="200" y="{y + 4}" text-anchor="end"{held}>{table}</text>')
        parts.append(f'<line x1="210" y1="{y}" x2="944" y2="{y}" stroke="#eef1f2"/>')
    bottom = _TOP + _LINE * len(rows)
    for measure, left, title, below in _PANELS:
        parts += _panel(figures, rows, measure, (left, bottom), (title, below))
    seen = {epsilon for table in rows for measure, *_ in _PANELS for epsilon in _dots(figures, measure, table)}
    for place, (epsilon, colour) in enumerate(item for item in _COLOURS.items() if item[0] in seen):
        x = 250 + 100 * place
        parts.append(f'<circle cx="{x}" cy="{bottom + 36}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 10}" y="{bottom + 40}" fill="#57646b" font-size="12">epsilon {epsilon:g}</text>')
    parts.append(
        f'<text x="16" y="{bottom + 62}" fill="#57646b" font-size="12">Means over seeds. A smaller epsilon protects '
        "people better. Triangles: farther than the scale goes. In italics: held back until the last measurement."
        "</text></svg>"
    )
    return "\n".join(parts) + "\n"


def _dots(figures: Figures, measure: str, table: str) -> dict[float, float]:
    """Return by epsilon how ours compares with AIM: a ratio of errors, or a difference of areas."""
    found = {}
    for epsilon in _COLOURS:
        ours, aim = (figures.mean(measure, table, name, epsilon) for name in (OURS, AIM))
        if ours is not None and aim is not None:
            found[epsilon] = ours - aim if measure in MORE_IS_BETTER else ours / aim
    return found


def _panel(
    figures: Figures, rows: Sequence[str], measure: str, corner: tuple[int, int], words: tuple[str, str]
) -> list[str]:
    (left, bottom), (title, below) = corner, words
    width, differ, reach = 290, measure in MORE_IS_BETTER, _REACH[measure]

    def x_of(value: float) -> float:
        return left + width / 2 + min(max(_away(value, differ) / reach, -1.0), 1.0) * width / 2

    middle = left + width / 2
    parts = [
        f'<text x="{left}" y="28" font-size="15" font-weight="bold">{title}</text>',
        f'<text x="{left}" y="46" fill="#57646b" font-size="11">{below}</text>',
        f'<line x1="{middle}" y1="{_TOP - 18}" x2="{middle}" y2="{bottom - 8}" stroke="#b4761b" stroke-width="1.5"/>',
        f'<text x="{middle}" y="{_TOP - 24}" text-anchor="middle" fill="#b4761b" font-size="12">AIM</text>',
    ]
    ticks = (-0.1, -0.05, 0.05, 0.1) if differ else (0.5, 0.7, 1.4, 2.0)
    for tick in ticks:
        said = f"{tick:+.2f}" if differ else f"{tick:g}"
        parts.append(
            f'<text x="{x_of(tick):.1f}" y="{_TOP - 24}" text-anchor="middle" fill="#57646b" '
            f'font-size="11">{said.replace("0.", ".", 1)}</text>'
        )
    for place, table in enumerate(rows):
        y = _TOP + _LINE * place
        for epsilon, value in _dots(figures, measure, table).items():
            x, away = x_of(value), _away(value, differ)
            if abs(away) > reach:
                tip = 7 if away > 0 else -7
                shape = f'<path d="M{x + tip:.1f} {y}L{x - tip / 2:.1f} {y - 6}V{y + 6}Z"'
            else:
                shape = f'<circle cx="{x:.1f}" cy="{y}" r="5"'
            parts.append(f'{shape} fill="{_COLOURS[epsilon]}"/>')
    return parts


def _away(value: float, differ: bool) -> float:
    return value if differ else math.log(value)
