"""The kept figures of ``paper_again.py`` as tables, sentences and two pictures; nothing of them is typed by hand."""

from __future__ import annotations

import itertools
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from downstream import PAPER, SOUND, TABLES
from dp_hp_printed import PRINTED_MARGINALS, PRINTED_SCORES, REAL
from paper_again import (
    ADD_REMOVE,
    ALPHAS,
    FLOOR,
    MOST_SECONDS,
    PAPERS,
    QUICK_FIRST,
    SHOWN_LEVELS,
    SIZES,
    Cell,
    cells_of,
    unpacked,
)

__all__ = ["lines", "section", "write"]

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE, DIGITS = "docs/results.md", "docs/pictures/paper-again.svg", "docs/pictures/paper-again-digits.png"
BEGIN, END = "<!-- paper_again: written by a command -->", "<!-- paper_again: end -->"
CONTROL, BY_CLASS = "independent", "independent-by-class"
NEAR = 0.03
"""Figures that differ by no more than this are called the same: the paper prints no spread."""

FEWEST_TABLES = 3
"""With fewer finished tables of Table 2, nothing is recommended for predictions."""

Results = Mapping[Cell, Mapping[str, Any]]


def lines(results: Results, parts: Sequence[str]) -> list[str]:
    """Return the tables of some parts, as far as they are done."""
    makers = {"table1": table_one, "table2": table_two, "figure3": figure_three}
    return [line for part in parts for line in ("", *makers[part](results))]


def write(results: Results) -> None:
    """Write the section of ``docs/results.md`` and its pictures."""
    page = ROOT / PAGE
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{section(results)}\n{END}{after}", encoding="utf-8")
    (ROOT / PICTURE).write_text(picture(results), encoding="utf-8")
    write_digits(results, ROOT / DIGITS)


def section(results: Results) -> str:
    """Return everything between the marks of ``docs/results.md``."""
    hours = sum(float(one["cpu_seconds"]) for one in results.values()) / 3600
    words = [
        f"{' '.join(sentences(results))}",
        f"![How near each generator comes in tables of counts, in predictions and in pictures]({_beside(PICTURE)})",
        f"Measured in {hours:.1f} CPU hours on one core: {_measured_so_far(results)}. ± is the standard "
        "deviation over seeds, where there are several. The relation is the paper's (one row replaced); ⁺ marks a "
        "generator that has add/remove only. ¼ marks a figure from a quarter of the rows, because all of them take "
        f"more than {MOST_SECONDS:,} CPU s. `python -m benchmarks.paper_again` goes on where it stopped, and with "
        "`--write` writes this section. `dp-hp`, `dp-merf` and `dp-hp-adaptive` on all seven tables of Table 2, with "
        "three seeds, are in "
        "[benchmarks](../benchmarks/README.md#downstreampy-table-2-of-the-dp-hp-paper-in-its-convention-and-in-a-sound-one).",
        "\n".join(table_one(results)),
        "\n".join(table_two(results)),
        "\n".join(figure_three(results)),
    ]
    if any("pictures" in one for one in results.values()):
        order = ", ".join(_shown(name, epsilon, results) for name, epsilon in with_pictures(results))
        words.append(f"Figure 4, two pictures of each digit, from above: {order}.")
        words.append(f"![Generated digits]({_beside(DIGITS)})")
    words.append(
        "The paper prints Figures 3 and 4 as pictures without numbers, so nothing stands beside ours. Left out: "
        "`epileptic` of Table 2 and FashionMNIST, because the public data are not at hand."
    )
    return "\n\n".join(word for word in words if word) + "\n"


def _beside(path: str) -> str:
    return path.removeprefix("docs/")


_TITLES = {"table1": "Table 1", "table2": "Table 2", "figure3": "Figure 3"}
_NUMBERS = ("no", "one", "two", "three", "four", "five")


def _seeds(number: int) -> str:
    return f"{_NUMBERS[number] if number < len(_NUMBERS) else number} seed{'s' * (number != 1)}"


def _of_table(cell: Cell) -> str:
    """Return the name of a table, with the convention where Table 2 has two of it."""
    both = cell.part == "table2" and TABLES[cell.table].kept < 1.0
    return f"{cell.table} ({'as printed' if cell.convention == PAPER else 'sound'})" if both else cell.table


def _measured_so_far(results: Results) -> str:
    """Return with how many seeds each table is whole, and what is missing of the first."""
    whole, missing = [], []
    for part, title in _TITLES.items():
        by_seeds: dict[int, list[str]] = {}
        for table, cells in _grouped(cells_of(part, 0), _of_table).items():
            number = next(
                seed for seed in itertools.count() if not all(replace(cell, seed=seed) in results for cell in cells)
            )
            by_seeds.setdefault(number, []).append(table)
            gone = [cell for cell in cells if cell not in results]
            if gone:
                names = dict.fromkeys(_named(cell.trained_on, cell.epsilon) for cell in gone)
                which = "everything" if len(gone) == len(cells) else ", ".join(names)
                missing.append(f"{title}{f' on {table}' * (part != 'figure3')}: {which}")
        for number in sorted(by_seeds, reverse=True):
            tables = f" on {_listed(by_seeds[number])}" if len(by_seeds) > 1 else ""
            whole += [f"{title}{tables} with {_seeds(number)}"] if number else []
    said = "; ".join(whole) or "nothing whole"
    return said + (
        f". Not measured yet, because the command was stopped before: {'; '.join(missing)}" if missing else ""
    )


def _grouped(cells: Iterable[Cell], name: Callable[[Cell], str]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(name(cell), []).append(cell)
    return found


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# Values ---------------------------------------------------------------------------------------------------------------


def values(results: Results, measure: str, **where: object) -> list[float]:
    """Return a measure of all cells that fit, one for each seed."""
    return [float(result[measure]) for cell, result in results.items() if measure in result and _fits(cell, where)]


def mean(results: Results, measure: str, **where: object) -> float | None:
    """Return the mean over seeds, or None if there is none."""
    found = values(results, measure, **where)
    return statistics.fmean(found) if found else None


def _text(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def _cell(results: Results, measure: str, printed: float | None = None, **where: object) -> str:
    found = values(results, measure, **where)
    said = _text(statistics.fmean(found)) if found else ""
    if len(found) > 1:
        said += f" ± {_text(statistics.stdev(found))}"
    if any(result.get("quarter") and measure in result for cell, result in results.items() if _fits(cell, where)):
        said += " ¼"
    return said + (f" ({_text(printed)})" if printed is not None and said else "")


def _names(results: Results, part: str, **where: object) -> list[str]:
    """Return what was trained on, in the order of the cells; the real rows first."""
    fits = [cell for cell in results if cell.part == part and _fits(cell, where)]
    names = dict.fromkeys(cell.trained_on for cell in sorted(fits, key=lambda cell: cell.seed))
    return sorted(names, key=lambda name: name not in (REAL, FLOOR))


def _fits(cell: Cell, where: Mapping[str, object]) -> bool:
    return all(getattr(cell, name) == value for name, value in where.items())


def _shown(name: str, epsilon: float, results: Results, part: str = "figure3") -> str:
    """Return the name of a line, with the mark of a generator that has another relation."""
    own = [result for cell, result in results.items() if (cell.part, cell.trained_on) == (part, name)]
    mark = "⁺" if any(result.get("relation") == ADD_REMOVE for result in own) else ""
    return f"{_named(name, epsilon)}{mark}"


def _named(name: str, epsilon: float) -> str:
    """Return what was trained on, with the epsilon where it is not the paper's."""
    said = name if name in (REAL, FLOOR) else f"`{name.removesuffix(PAPERS)}`{PAPERS * name.endswith(PAPERS)}"
    return f"{said}{f' at epsilon {epsilon:g}' if epsilon > 1 else ''}"


def _left_out(results: Results, part: str, **where: object) -> list[str]:
    """Return one sentence for every reason for which cells are empty, with the tables if others have figures."""
    reasons: dict[str, dict[str, list[Cell]]] = {}
    for cell, result in results.items():
        if cell.part == part and "left_out" in result and _fits(cell, where):
            why = result["left_out"].replace(f"generator '{cell.generator}'", "it")
            reasons.setdefault(why, {}).setdefault(_named(cell.trained_on, cell.epsilon), []).append(cell)
    said = []
    for why, by_name in reasons.items():
        told = []
        for name, cells in by_name.items():
            some = any(
                "left_out" not in result and (cell.part, cell.trained_on) == (part, cells[0].trained_on)
                for cell, result in results.items()
                if _fits(cell, where)
            )
            tables = " and ".join(dict.fromkeys(map(_of_table, cells)))
            told.append(f"{name} on {tables}" if some and part == "table2" else name)
        said.append(f"Left out: {', '.join(told)}: {why}.")
    return said


# Tables ---------------------------------------------------------------------------------------------------------------


_OF = {
    "adult": "the 22,561 rows of the paper's file",
    "census": "99,762 rows of the published test file, numbers in at most 32 parts; the paper's file is another",
}


def table_one(results: Results) -> list[str]:
    """Return Table 1: in the released measure, printed figures in brackets, and in the right one."""
    said = []
    for table, alphas in ALPHAS.items():
        names = _names(results, "table1", table=table)
        if not names:
            continue
        heads = [
            f"ε = {epsilon:g}: {how} {alpha}"
            for epsilon in (0.3, 0.1)
            for how in ("as printed", "right")
            for alpha in alphas
        ]
        rows = []
        for name in names:
            cells = []
            for epsilon in (0.3, 0.1):
                where = {
                    "part": "table1",
                    "table": table,
                    "trained_on": name,
                    "epsilon": epsilon if name != FLOOR else 0.0,
                }
                cells += [
                    _cell(
                        results,
                        f"{'printed' if how == 'as printed' else 'right'}{alpha}",
                        PRINTED_MARGINALS.get((table, alpha, name, epsilon)) if how == "as printed" else None,
                        **where,
                    )
                    for how in ("as printed", "right")
                    for alpha in alphas
                ]
            if any(cells):
                rows.append((_shown(name, 0.0, results, "table1"), *cells))
        said += [
            "",
            f"Table 1, {table.title()} ({_OF[table]}): mean total variation over sets of columns, printed figures in "
            "brackets; 0 is equal.",
            "",
        ]
        said += _markdown(("", *heads), rows)
        left = _left_out(results, "table1", table=table)
        said += ["", *left] if left else []
    return said[1:]


def table_two(results: Results) -> list[str]:
    """Return Table 2: the first printed score in the paper's convention, and the ROC AUC of the sound one."""
    names = _names(results, "table2")
    tables = [name for name in QUICK_FIRST if _names(results, "table2", table=name)]
    if not tables:
        return []
    printed = [table for table in tables if any(_score(results, table, name)[1] for name in names)]
    rows = [
        (_shown(name, 0.0, results, "table2"), *(_score(results, table, name)[1] for table in printed))
        for name in names
    ]
    said = [
        "Table 2, as printed (printed in brackets): mean over twelve classifiers of the ROC AUC of predicted classes; "
        "covtype and intrusion: of the weighted F1.",
        "",
        *_markdown(("", *printed), [row for row in rows if any(row[1:])]),
        "",
    ]
    said = said if printed else []
    rows = [
        (
            _shown(name, 0.0, results, "table2"),
            *(
                _cell(results, "roc_auc", part="table2", table=table, trained_on=name, convention=SOUND)
                for table in tables
            ),
        )
        for name in names
    ]
    said += ["Table 2, sound: nothing left out by the labels, mean ROC AUC of scores.", ""]
    said += _markdown(("", *tables), [row for row in rows if any(row[1:])])
    left = _left_out(results, "table2")
    return [*said, *([""] if left else []), *left]


def _score(results: Results, table: str, name: str) -> tuple[float | None, str]:
    """Return the first score of Table 2 in the paper's convention, and how it is written."""
    measure = "weighted_f1" if len(PRINTED_SCORES[table, REAL]) == 1 else "hard_roc_auc"
    # Where nothing is left out, both conventions are read off one training.
    convention = PAPER if TABLES[table].kept < 1.0 else SOUND
    where = {"part": "table2", "table": table, "trained_on": name, "convention": convention}
    printed = PRINTED_SCORES.get((table, name))
    return mean(results, measure, **where), _cell(results, measure, None if printed is None else printed[0], **where)


def figure_three(results: Results) -> list[str]:
    """Return Figure 3 as a table: accuracy by the number of pictures."""
    found = [cell for cell in results if cell.part == "figure3"]
    rows = []
    for name, epsilon in dict.fromkeys((cell.trained_on, cell.epsilon) for cell in found):
        where = {"part": "figure3", "trained_on": name, "epsilon": epsilon}
        cells = [_cell(results, f"accuracy{size}", **where) for size in SIZES]
        if any(cells):
            rows.append((_shown(name, epsilon, results), *cells))
    if not found:
        return []
    said = [
        "Figure 3, MNIST: mean accuracy of twelve classifiers on real test pictures, by the number of pictures.",
        "",
    ]
    said += _markdown(("trained on", *(f"{size:,}" for size in SIZES)), rows)
    left = _left_out(results, "figure3")
    return [*said, *([""] if left else []), *left]


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in rows)]


# Sentences ------------------------------------------------------------------------------------------------------------


def sentences(results: Results) -> list[str]:
    """Return what reproduces, what does not and which generator to choose, at most five sentences."""
    return [said for said in (_marginals_said(results), _order_said(results), _scores_said(results),
                              _control_said(results), _choice_said(results)) if said]  # fmt: skip


def _marginals_said(results: Results) -> str:
    """Compare `dp-hp` with what Table 1 prints, at the smaller alpha of each table."""
    told = []
    for table, (alpha, _) in ALPHAS.items():
        where = {"part": "table1", "table": table}
        both = [
            (mean(results, f"printed{alpha}", trained_on="dp-hp", epsilon=epsilon, **where),
             PRINTED_MARGINALS[table, alpha, "dp-hp", epsilon])
            for epsilon in (0.3, 0.1)
        ]  # fmt: skip
        right = [
            [mean(results, f"right{alpha}", trained_on=name, epsilon=epsilon, **where) for epsilon in (0.3, 0.1)]
            for name in ("dp-hp", CONTROL)
        ]
        if any(found is None for found, _ in both) or any(None in one for one in right):
            continue
        verdicts = [
            "the same" if abs(found - printed) <= NEAR else "nearer" if found < printed else "farther"
            for found, printed in both
            if found is not None
        ]
        told.append(
            f"{_and(found for found, _ in both)} on {table.title()} (printed {_and(printed for _, printed in both)}: "
            f"{' and '.join(verdicts)}; counted right {_and(right[0])}; unrelated columns {_and(right[1])})"
        )
    if not told:
        return ""
    return f"In the paper's measure, at epsilon 0.3 and 0.1, `dp-hp` has distances of {', and of '.join(told)}."


def _and(pair: Iterable[float | None]) -> str:
    return " and ".join(_text(value) for value in pair if value is not None)


def _order_said(results: Results) -> str:
    settings = [
        (table, alpha, epsilon) for table, alphas in ALPHAS.items() for alpha in alphas for epsilon in (0.3, 0.1)
    ]
    ahead = beaten = known = 0
    for table, alpha, epsilon in settings:
        where = {"part": "table1", "table": table, "epsilon": epsilon}
        hermite, fourier, network = (
            mean(results, f"right{alpha}", trained_on=name, **where) for name in ("dp-hp", "dp-merf", "privbayes")
        )
        if hermite is None or fourier is None or network is None:
            continue
        known += 1
        ahead += hermite < fourier
        beaten += network < hermite
    if not known:
        return ""
    return (
        f"The paper has DP-HP before DP-MERF and PrivBayes in all eight cells of Table 1; counted right, `dp-hp` is "
        f"before `dp-merf` in {ahead} of {known}, and `privbayes` before `dp-hp` in {beaten} of {known}."
    )


def _scores_said(results: Results) -> str:
    told = []
    for name in ("dp-hp", "dp-merf", "dp-gan", "dp-cgan"):
        both = [
            (found, PRINTED_SCORES[table, name][0])
            for table in QUICK_FIRST
            if (found := _score(results, table, name)[0]) is not None
        ]
        if both:
            told.append(f"`{name}` on {sum(ours >= printed - NEAR for ours, printed in both)} of {len(both)} tables")
    if not told:
        return ""
    return (
        f"In Table 2 as printed, what is printed is reached or exceeded (within {_text(NEAR)}) by {', by '.join(told)}."
    )


def _control_said(results: Results) -> str:
    control, told = _areas(results, BY_CLASS), []
    for name in ("dp-hp", "dp-merf", "privbayes", "dp-hp-adaptive"):
        own = _areas(results, name)
        both = own.keys() & control.keys()
        if both:
            told.append(f"`{name}` on {sum(control[table] > own[table] for table in both)} of {len(both)}")
    if not told:
        return ""
    return (
        f"Columns that depend on the label alone (`{BY_CLASS}`), a control that the paper lacks, train better "
        f"classifiers in the sound convention than {', than '.join(told)} tables."
    )


def _choice_said(results: Results) -> str:
    """Return the best generator for each purpose; one seed alone recommends none."""
    shown = [
        (panel, purpose)
        for panel, purpose in zip(panels(results), ("counts", "predictions", "pictures"), strict=True)
        if panel.values
    ]
    if not shown:
        return ""
    told = [f"`{panel.best}` for {purpose} ({_text(panel.values[panel.best])})" for panel, purpose in shown]
    if all(panel.seeds > 1 for panel, _ in shown):
        return f"Of the generators in the picture, choose {_listed(told)}."
    seeds = [f"{_seeds(panel.seeds)} for {purpose}" for panel, purpose in shown]
    few = "one seed" if all(panel.seeds == 1 for panel, _ in shown) else _listed(seeds)
    return f"With {few} so far, the best in the picture are {_listed(told)}; with more, close ones may change places."


# Pictures -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the picture: what it shows, a value for every generator, and whether less is better."""

    title: str
    below: str
    values: dict[str, float]
    seeds: int
    """The fewest seeds behind any of them."""
    less_is_better: bool = False

    @property
    def best(self) -> str:
        """The generator with the best value."""
        return (min if self.less_is_better else max)(self.values, key=lambda name: self.values[name])


def panels(results: Results) -> list[Panel]:
    """Return what the picture shows."""
    where = {"part": "table1", "table": "adult", "epsilon": 0.3}
    counts = _by_generator(results, "right3", **where)
    pictures = {"part": "figure3", "epsilon": 1.0}
    read = _by_generator(results, "accuracy6000", **pictures)
    real, taught, tables = _areas(results, REAL), {}, _complete(results)
    for name in _names(results, "table2"):
        own = _areas(results, name)
        if name != REAL and len(tables) >= FEWEST_TABLES and own.keys() >= set(tables):
            taught[name] = statistics.fmean((own[table] - 0.5) / (real[table] - 0.5) for table in tables)
    of_tables = [_fewest(results, "roc_auc", part="table2", table=table, convention=SOUND) for table in tables]
    return [
        Panel(
            "Counts",
            "distance of three columns of Adult, epsilon 0.3: less is better",
            counts,
            _fewest(results, "right3", **where),
            less_is_better=True,
        ),
        Panel(
            "Predictions",
            f"share of what real rows teach, epsilon 1: {', '.join(tables)}",
            taught,
            min(of_tables, default=0),
        ),
        Panel(
            "Pictures",
            "accuracy after 6,000 digits, epsilon 1; dp-hp with the paper's settings",
            read,
            _fewest(results, "accuracy6000", **pictures),
        ),
    ]


def _fewest(results: Results, measure: str, **where: object) -> int:
    """Return the fewest seeds with which anything that fits was measured."""
    seeds: dict[str, set[int]] = {}
    for cell, result in results.items():
        if measure in result and _fits(cell, where):
            seeds.setdefault(cell.trained_on, set()).add(cell.seed)
    return min(map(len, seeds.values()), default=0)


def _by_generator(results: Results, measure: str, **where: object) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in dict.fromkeys(cell.trained_on for cell in results if _fits(cell, where)):
        value = mean(results, measure, trained_on=name, **where)
        # Of the tables, that is the line with the defaults, which is the first.
        if value is not None and name not in (REAL, FLOOR):
            found.setdefault(name.removesuffix(PAPERS), value)
    return found


def _complete(results: Results) -> list[str]:
    """Return the tables of Table 2 that have a cell for everything that was trained on anywhere."""
    cells = {(cell.table, cell.trained_on) for cell in results if cell.part == "table2" and cell.convention == SOUND}
    names = {name for _, name in cells}
    return [table for table in QUICK_FIRST if all((table, name) in cells for name in names)] if names else []


def _areas(results: Results, name: str) -> dict[str, float]:
    found = {
        table: mean(results, "roc_auc", part="table2", table=table, trained_on=name, convention=SOUND)
        for table in QUICK_FIRST
    }
    return {table: area for table, area in found.items() if area is not None}


def picture(results: Results) -> str:
    """Return one line for every generator and one panel for every purpose, the best coloured."""
    shown = [panel for panel in panels(results) if panel.values]
    names = list(dict.fromkeys(name for panel in shown for name in panel.values))
    if shown:
        names.sort(key=lambda name: (shown[0].values.get(name, 9.0), name))
    height = 120 + 24 * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        "<!-- Written by benchmarks/paper_again.py with the option write. -->",
        f'<rect width="960" height="{height}" fill="#ffffff"/>',
    ]
    for place, name in enumerate(names):
        y = _FIRST + 24 * place
        slanted = ' font-style="italic"' if name in (CONTROL, BY_CLASS) else ""
        parts.append(f'<text x="150" y="{y + 4}" text-anchor="end"{slanted}>{name}</text>')
        parts.append(f'<line x1="160" y1="{y}" x2="944" y2="{y}" stroke="#eef1f2"/>')
    for place, panel in enumerate(shown):
        parts += _drawn(168 + 262 * place, panel, names)
    parts.append(
        f'<text x="16" y="{height - 12}" fill="#57646b" font-size="12">In italics: controls that keep no relation '
        "between columns, or only those with the label.</text></svg>"
    )
    return "\n".join(parts) + "\n"


_FIRST = 86


def _drawn(left: int, panel: Panel, names: Sequence[str]) -> list[str]:
    parts = [f'<text x="{left}" y="28" font-size="15" font-weight="bold">{panel.title}</text>']
    parts += [
        f'<text x="{left}" y="{44 + 14 * place}" fill="#57646b" font-size="11">{line}</text>'
        for place, line in enumerate(textwrap.wrap(panel.below, 44))
    ]
    least = min((0.0, *panel.values.values()))
    most = max(panel.values.values()) if panel.less_is_better else 1.0
    for place, name in enumerate(names):
        if name in panel.values:
            value, y = panel.values[name], _FIRST + 24 * place
            x = left + 8 + (value - least) / (most - least) * 180
            colour = "#0b6e75" if name == panel.best else "#b4761b" if name in (CONTROL, BY_CLASS) else "#57646b"
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{colour}"/>')
            parts.append(f'<text x="{x + 9:.1f}" y="{y + 4}" fill="{colour}">{_text(value)}</text>')
    return parts


def with_pictures(results: Results) -> list[tuple[str, float]]:
    """Return what Figure 4 shows, in order."""
    return [(cell.trained_on, cell.epsilon) for cell, result in results.items() if "pictures" in result]


def write_digits(results: Results, path: Path) -> None:
    """Write Figure 4: two lines of ten digits for each generator."""
    pages = [unpacked(result["pictures"]) for result in results.values() if "pictures" in result]
    if not pages:
        return
    from PIL import Image

    line: Callable[[np.ndarray], np.ndarray] = lambda page: page.transpose(2, 0, 1, 3).reshape(28, -1)  # noqa: E731
    rows = np.concatenate([np.pad(line(page), ((0, 4), (0, 0)), constant_values=SHOWN_LEVELS - 1) for page in pages])
    Image.fromarray((rows * (255 // (SHOWN_LEVELS - 1))).astype(np.uint8)).save(path, optimize=True)
