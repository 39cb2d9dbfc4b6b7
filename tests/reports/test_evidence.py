"""Kinds of evidence are types: what may not be published cannot be taken for what may."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from synth.errors import InputError
from synth.generators import Picture, Trace
from synth.reports.document import owner_document, report_document, report_page
from synth.reports.drawing import draw
from synth.reports.evidence import (
    ChargedEvidence,
    Evidence,
    OwnerOnlyEvidence,
    SafeEvidence,
    evidence_from_dict,
    evidence_to_dict,
    publishable,
)
from synth.reports.figures import Bars, HeatMap, Series, Table, figure_from_dict, figure_to_dict

DENSITY = Picture(
    name="density",
    title="Density",
    kind="heat_map",
    across="age",
    up="seen <on>",
    unit="of the rows",
    columns=(20.0, 30.0, 40.0),
    rows=("2020-01", "2020-02"),
    values=((0.1, 0.2, None), (0.3, 0.0, 0.4)),
)
LINES = Picture(
    name="fit",
    title="Fit",
    kind="lines",
    across="x",
    up="y",
    traces=(Trace("best", (0.0, 1.0, 2.0), (1.0, 1.0, 1.0)), Trace("noisy", (0.0, 2.0), (1.5, -1.0), (0.5, 0.25))),
)
POINTS = dataclasses.replace(LINES, name="centres", kind="points")
FIGURES = (
    DENSITY,
    LINES,
    POINTS,
    Table("Worst", ("columns", "distance"), (("a + b", 0.5), ("a + c", None))),
    HeatMap("Pairs", "total variation", ("a", "b"), ((0.0, None), (0.25, 1.0))),
    Bars(
        "Counts",
        "rows",
        ("low", "high"),
        (Series("made", "synthetic", (3.0, 4.5)), Series("noisy", "measured", (2.0, 5.0), (1.5, 1.5))),
    ),
)
ALL: tuple[Evidence, ...] = (
    SafeEvidence(id="marginals.2.mean", title="Mean", value=0.25, error=0.01, unit="total variation", figures=FIGURES),
    ChargedEvidence(id="downstream.auc", title="AUC", value=0.8, epsilon=0.1, receipts=(3,)),
    OwnerOnlyEvidence(id="marginals.2.exact", title="Exact", value=0.2, sentence="Do not publish."),
    SafeEvidence(id="overview.unit", title="Protected", value="one person"),
    SafeEvidence(id="overview.nothing", title="Nothing", value=None),
)


@pytest.mark.parametrize("evidence", ALL, ids=lambda evidence: evidence.id)
def test_evidence_survives_json(evidence: Evidence) -> None:
    document = json.loads(json.dumps(evidence_to_dict(evidence), allow_nan=False))
    assert {"id", "kind", "value", "error", "unit"} <= set(document)
    assert evidence_from_dict(document) == evidence


def test_evidence_cannot_change_its_kind() -> None:
    exact = ALL[2]
    with pytest.raises((AttributeError, TypeError)):
        exact.kind = "safe"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        exact.value = 1  # type: ignore[misc]


def test_only_publishable_evidence_passes() -> None:
    assert publishable([ALL[0], ALL[1]]) == (ALL[0], ALL[1])  # type: ignore[list-item]
    look_alike: Any = type("SafeEvidence", (), {"kind": "safe", "id": "x"})()
    for bad in (ALL[2], look_alike, {"kind": "safe"}, None):
        with pytest.raises(TypeError, match="may be published"):
            publishable([ALL[0], bad])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            report_document([bad])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            report_page([bad], heading="x", promise=())  # type: ignore[list-item]


def test_documents_gather_marginals_by_alpha() -> None:
    worst = SafeEvidence(id="marginals.2.worst", title="Worst", value=0.5, figures=FIGURES[3:4])
    document = report_document([ALL[0], worst])  # type: ignore[list-item]
    assert document["marginals"] == {
        "1": {},
        "2": {"mean": 0.25, "worst": [{"columns": "a + b", "distance": 0.5}, {"columns": "a + c", "distance": None}]},
        "3": {},
        "4": {},
    }
    assert owner_document(ALL)["marginals"]["2"]["exact"] == 0.2


@pytest.mark.parametrize("broken", [{}, {"kind": "safe"}, evidence_to_dict(ALL[0]) | {"kind": "public"}, None, [1]])
def test_what_is_no_evidence_is_refused(broken: Any) -> None:
    with pytest.raises(InputError):
        evidence_from_dict(broken)


def test_numbers_must_be_numbers_and_pictures_small() -> None:
    with pytest.raises(InputError, match="finite"):
        SafeEvidence(id="x", title="x", value=float("nan"))
    with pytest.raises(InputError, match="no id"):
        SafeEvidence(id=" ", title="x", value=1)
    with pytest.raises(InputError, match="at most 200"):
        Series("rows", "real", tuple(range(201)))
    with pytest.raises(InputError, match="at most 40"):
        HeatMap("wide", "", tuple(map(str, range(41))), ((0.0,) * 41,) * 41)
    with pytest.raises(InputError, match="one error for every value"):
        Series("rows", "real", (1.0, 2.0), (1.0,))


def test_the_page_draws_every_figure_with_its_numbers() -> None:
    page = report_page([ALL[0], ALL[1]], heading="A & B", promise=["Promised: <epsilon> = 1"])  # type: ignore[list-item]
    assert "A &amp; B" in page
    assert "&lt;epsilon&gt;" in page
    assert page.count("<svg") == 5
    assert page.count('role="img"') == 5
    assert page.count("<summary>Numbers</summary>") == 5
    assert "◐ charged" in page
    assert "● safe to publish" in page
    assert "± 0.01" in page


def test_bars_may_reach_down_another_way_than_up() -> None:
    trace = Series("caught", "real", (0.1, 0.0), (0.3, 0.2), (0.05, 0.0))
    bars = Bars("Caught", "share", ("a", "b"), (trace,))
    assert figure_from_dict(figure_to_dict(bars)) == bars
    plain = Bars("Caught", "share", ("a", "b"), (Series("caught", "real", (0.1, 0.0), (0.3, 0.2)),))
    assert "below" not in figure_to_dict(plain)["series"][0]
    assert "0.1 (0.05 to 0.4)" in draw(bars)
    for errors in (None, (0.1, 0.2)):
        with pytest.raises(InputError, match="one error below for every error above"):
            Series("caught", "real", (0.1, 0.0), errors, (0.1,))


@pytest.mark.parametrize("picture", [DENSITY, LINES, POINTS], ids=lambda picture: picture.name)
def test_a_picture_is_drawn_with_its_numbers(picture: Picture) -> None:
    assert figure_from_dict(json.loads(json.dumps(figure_to_dict(picture), allow_nan=False))) == picture
    drawn = draw(picture)
    svg, _, twin = drawn.partition("</figure>")
    assert svg.count("<rect") == {"density": 1 + 4, "fit": 2, "centres": 2}[picture.name]
    assert (svg.count("<polyline"), svg.count("<circle")) == {
        "density": (0, 0),
        "fit": (2, 0),
        "centres": (0, 5),
    }[picture.name]
    for number in ("0.1", "0.2", "0.3", "0.4", "2020-01", "30") if picture is DENSITY else ("1.5 ± 0.5", "-1 ± 0.25"):
        assert number in twin
    assert "<on>" not in drawn


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "pie"}, "got pie"),
        ({"kind": "lines"}, "any other picture has traces"),
        ({"values": ((0.1, 0.2), (0.3, 0.4))}, "one value for every cell"),
        ({"values": ((0.1, 0.2, math.nan), (0.3, 0.0, 0.4))}, "finite"),
        ({"columns": (0.0,) * 41, "values": ((0.0,) * 41,) * 2}, "at most 40"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        dataclasses.replace(DENSITY, **changes)


@pytest.mark.parametrize(
    ("places", "why"),
    [
        (((0.0,), (0.0, 1.0)), "as many numbers up"),
        (((0.0,), (0.0,), (0.0, 1.0)), "errors if any"),
        (((0.0,) * 201, (0.0,) * 201), "at most 200"),
        (((0.0,), (math.inf,)), "finite"),
    ],
)
def test_a_trace_that_cannot_be_drawn_is_refused(places: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Trace("noisy", *places)
