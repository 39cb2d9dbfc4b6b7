"""The first screen follows by fixed rules from numbers that may be published, and says what was not paid for."""

from __future__ import annotations

import dataclasses
import io

import pytest

from synth.reports.document import first_screen_html, report_page
from synth.reports.evidence import ChargedEvidence, Publishable, SafeEvidence
from synth.reports.figures import Bars, HeatMap, Series
from synth.reports.first_screen import FIRST_ROWS, FirstScreen, first_rows, first_screen
from synth.schema import READ_FROM_ROWS, CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

NAMES = ("age", "weight", "ward", "ill", "b<i>")
COLUMNS = (
    NumberColumn("age", 0, 9, 1, fallback=5),
    NumberColumn("weight", 0, 9, 1, fallback=5),
    CategoryColumn("ward", ("north", "south"), fallback="north"),
    YesNoColumn("ill", fallback="no"),
    YesNoColumn("b<i>", fallback="no"),
)
CONFIG = RunConfig(
    schema=Schema(COLUMNS, row_count="private"),
    account="town",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=1000,
    rows=50,
    generator="independent",
    label="ill",
    groups=("ward",),
)
ROWS = (NAMES, ("3", "4", "north", "yes", "no"))


def number(identity: str, value: float | None, error: float | None = None) -> SafeEvidence:
    return SafeEvidence(id=identity, title=identity, value=value, error=error)


def column(name: str, made: float, measured: float, error: float) -> SafeEvidence:
    """Count 1,000 rows of a column of two values: the first has so many of them."""
    series = (
        Series("synthetic rows", "synthetic", (made, 1000 - made)),
        Series("noisy counts", "measured", (measured, 1000 - measured), (error, error)),
    )
    figure = Bars(f"{name}: counts", "rows", ("no", "yes"), series)
    return SafeEvidence(id=f"columns.{name}.distance", title=name, value=0.1, figures=(figure,))


def area(value: float | None, error: float = 0.02) -> ChargedEvidence:
    return ChargedEvidence(
        id="predictions.roc_auc", title="ROC AUC", value=value, error=error, epsilon=0.1, receipts=(0,)
    )


MAP = HeatMap("Measured", "share", ("weight", "age", "ill"), ((0.0, 0.1, None), (0.1, 0.0, 0.3), (None, 0.3, 0.0)))
PAIRS: list[Publishable] = [
    number("marginals.2.evaluated", 2),
    number("marginals.2.of", 10),
    number("marginals.2.mean", 0.05, 0.04),
    number("marginals.2.independent", 0.2),
    number("marginals.2.noise", 0.03),
    SafeEvidence(id="marginals.2.map", title="Which pairs differ", value=None, figures=(MAP,)),
]
MEASURED: list[Publishable] = [*(column(name, 600, 610, 20) for name in NAMES), *PAIRS]


def made(*more: Publishable, config: RunConfig = CONFIG, without: str = "nothing") -> FirstScreen:
    return first_screen([*(entry for entry in MEASURED if not entry.id.startswith(without)), *more], config, ROWS)


def test_what_keeps_to_the_limits_is_fit() -> None:
    found = made(area(0.82))
    assert found.fit == (
        "Shares of single columns, to within 3 points; the measured pairs of columns, with at most 9 in 100 rows out "
        "of place; predicting ill: classes told apart in at least 80 of 100 pairs."
    )
    assert found.unfit == "Not measured: 8 of 10 pairs, three or more columns together."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (column("age", 600, 630, 21), "Shares of single columns, with errors of up to 5.1 points"),
        (number("marginals.2.mean", 0.05, 0.0501), "Pairs of columns, with up to 11 in 100 rows out of place"),
        (area(0.7199), "Predicting ill: classes may be told apart in only 69 of 100 pairs (guessing: 50)"),
        (area(None), "Not measured: predicting ill, 8 of 10 pairs"),
        (
            number("groups.smallest.ward", 1234),
            "Groups of fewer than 1,300 rows (noise of more than 5 points on a share)",
        ),
    ],
)
def test_what_passes_a_limit_is_not_fit(change: Publishable, words: str) -> None:
    """Each by itself: the worse end of its range counts, and is printed no better than it is."""
    entries = [change if entry.id == change.id else entry for entry in (*MEASURED, area(0.82))]
    entries += [change] if change not in entries else []
    found = first_screen(entries, CONFIG, ROWS)
    assert words[1:] in found.unfit
    assert words[1:] not in found.fit


def test_the_limits_themselves_are_kept() -> None:
    entries = [column("age", 600, 630, 20) if entry.id == "columns.age.distance" else entry for entry in MEASURED]
    assert "columns, to within 5 points" in first_screen([*entries, area(0.72)], CONFIG).fit
    assert "at least 70 of 100 pairs" in first_screen([*entries, area(0.72)], CONFIG).fit


def test_what_was_not_paid_for_is_not_measured() -> None:
    found = first_screen([], CONFIG, ROWS)
    assert found.fit == "Testing programs: names, types and formats are those of the private table."
    assert found.unfit == "Not measured: single columns, pairs of columns, predicting ill."
    closeness, prediction, attacks = found.gauges
    assert (closeness.marks, prediction.marks) == ((), ())
    assert "Not measured" in closeness.sentence
    assert prediction.sentence == "Not measured: no budget was set aside for it."
    assert attacks.marks
    assert (found.columns, found.pairs) == ((), None)


@pytest.mark.parametrize(
    ("mean", "error", "words"),
    [
        (0.05, 0.1, "Closer than unrelated columns."),
        (0.03, 0.1, "As close as can be seen through the noise."),
        (0.05, 0.15, "Noise hides how close they are."),
        (0.3, 0.1, "Noise hides how close they are."),
        (0.3, 0.05, "Further away than unrelated columns."),
    ],
)
def test_a_gauge_says_no_more_than_its_range(mean: float, error: float, words: str) -> None:
    """Noise alone makes .03, unrelated columns lie at .2."""
    assert made(number("marginals.2.mean", mean, error), without="marginals.2.mean").gauges[0].sentence == words


def test_a_number_is_predicted_within_a_part_of_its_range() -> None:
    config = dataclasses.replace(CONFIG, label="age")
    paid = dataclasses.replace(area(0.008), id="predictions.mse", error=0.002)
    assert "predicting age, typically to within 10 % of its range" in made(paid, config=config).fit
    assert (
        "Predicting age, with typical errors of up to 11 %"
        in made(dataclasses.replace(paid, error=0.003), config=config).unfit
    )
    assert made(paid, config=config).gauges[1].unit == "squared error"


def test_what_was_paid_for_carries_its_own_badge() -> None:
    first = first_screen([*MEASURED, area(0.72)], CONFIG)
    assert [gauge.badge for gauge in first.gauges] == ["", "\N{CIRCLE WITH LEFT HALF BLACK} charged", ""]
    assert first_screen_html(first).count('class="badge"') == 1
    assert [gauge.badge for gauge in first_screen(MEASURED, CONFIG).gauges] == ["", "", ""]


def test_a_model_of_which_nothing_was_paid_for_can_be_read() -> None:
    model = dataclasses.replace(CONFIG, generator="private-classifier", rows=0, holdout=0.0)
    found = first_screen([], model)
    assert found.fit == "Reading what the model learned, shown below with what is known of its error."
    assert found.unfit == "Not measured: predicting ill."


@pytest.mark.parametrize(
    ("schema", "epsilon", "words", "strong"),
    [
        (Schema(COLUMNS, row_count="private"), 1.0, "whether a given person is in the table more than 55 times", True),
        (
            Schema(COLUMNS, number_of_units=60),
            1.0,
            "which of two candidates is the person in the table more than 55",
            True,
        ),
        (Schema(COLUMNS, row_count="private"), 20.0, "more than 95 times in 100", False),
    ],
    ids=["add or remove", "replace", "weak"],
)
def test_what_nobody_can_do_is_said_of_what_is_hidden(schema: Schema, epsilon: float, words: str, strong: bool) -> None:
    config = dataclasses.replace(CONFIG, schema=schema, epsilon=epsilon)
    found = first_screen(MEASURED, config)
    assert words in found.proven
    assert found.strong is strong
    assert ("<b>Safe</b>" in first_screen_html(found)) is strong


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (("age",), ", apart from the ranges and categories of age, which the owner took from the rows."),
        (
            ("ward", "age"),
            ", apart from the ranges and categories of age and ward, which the owner took from the rows.",
        ),
    ],
)
def test_what_the_owner_took_from_the_rows_is_excepted(read: tuple[str, ...], words: str) -> None:
    config = dataclasses.replace(CONFIG, domain_source=dict.fromkeys(read, READ_FROM_ROWS))
    assert first_screen(MEASURED, config).proven.endswith(words)
    assert "apart from" not in first_screen(MEASURED, CONFIG).proven


def test_the_ceiling_is_that_of_the_promise() -> None:
    """Twice the chance less one is the largest advantage against Gaussian noise that keeps the promise: 9.5 % here."""
    mark = made().gauges[-1].marks[1]
    assert (mark.name, mark.value) == ("at most", 55.0)


def test_the_label_comes_first_then_groups_then_the_declared_order() -> None:
    assert [bars.title for bars in made().columns] == ["ill", "ward", "age", "weight", "b<i>"]
    assert made().columns[0].series[1].values == (61.0, 39.0)
    assert made().columns[0].series[1].errors == (2.0, 2.0)


def test_every_column_is_on_the_map_and_what_was_not_measured_is_crossed_out() -> None:
    found = made().pairs
    assert found is not None
    assert found.names == NAMES
    assert [found.values[line][0] for line in range(1, 5)] == [0.1, None, 0.3, None]
    drawn = first_screen_html(made())
    svg = next(part for part in drawn.split("<svg") if 'aria-label="Pairs of columns"' in part).partition("</svg>")[0]
    assert svg.count("fill-opacity") == 2
    assert svg.count('fill="none" stroke="currentColor" stroke-opacity="0.2"') == 8
    assert "<td>weight + age</td>" in drawn.replace("age + weight", "weight + age")


def test_ten_rows_are_read_as_they_are_printed() -> None:
    table = "age,remark\n" + "".join(f'{row},"a, ""b"""\n' for row in range(20))
    rows = first_rows(io.BytesIO(table.encode()))
    assert len(rows) == 1 + FIRST_ROWS
    assert rows[:2] == (("age", "remark"), ("0", 'a, "b"'))


def test_it_is_one_page_of_markup_that_nobody_can_add_to() -> None:
    config = dataclasses.replace(CONFIG, label=None, groups=())
    rows = (NAMES, ("3", "4", "<script>", "yes", 'x" onload="y'))
    drawn = first_screen_html(first_screen(MEASURED, config, rows))
    for bad in ("<script", "<i>no", "b<i>", 'onload="', "style=", "href"):
        assert bad not in drawn
    assert "&lt;script&gt;" in drawn
    # One line: markdown ends a block of markup at an empty one.
    assert "\n" not in drawn
    page = report_page([], heading="Town", promise=["p"], first=first_screen(MEASURED, config, rows))
    assert page.index("Good for") < page.index("The promise")
    assert drawn in page
