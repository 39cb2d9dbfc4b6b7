"""The tab of membership attacks: its numbers, its badge, its warning, and what it says where nothing was attacked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from driving import BEFORE_A_CHARGE, badges, errors, go, looked_at, texts
from streamlit.testing.v1 import AppTest

from pages.ui.evidence import OWNER_ONLY_NOTE
from pages.ui.session import application
from synth.privacy.receipt import Receipt
from synth.reports.code_tables import UnitRows
from synth.reports.document import owner_document
from synth.reports.membership.evidence import owner_attacks
from synth.reports.risk_bounds import ProvenCeiling
from synth.schema import NumberColumn, Schema, YesNoColumn

TAB = "○ Attacks"
SCHEMA = Schema((NumberColumn("age", 0, 100_000, 1), YesNoColumn("smoker")))


def shown(finished: AppTest) -> AppTest:
    app = go(finished, "report")
    app.session_state["report-tab"] = TAB
    return app.run()


def rows(n_rows: int, *, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(100_001, size=n_rows), random.integers(2, size=n_rows)]


def replace_report(home: Path, run_id: str, *, copied: bool) -> None:
    receipt = Receipt(
        sequence=0, query="all", mechanism="discrete_gaussian", source="test", neighbours=SCHEMA.neighbours,
        protects="person", rows_per_unit=1, sensitivity=1.0, noise_scale=4.0, dimension=10, grid=1e-9,
        mu_squared_units=2**37, slack=1e-12,
    )  # fmt: skip
    train = UnitRows(rows(600, seed=0), np.arange(600))
    evidence = owner_attacks(
        train, UnitRows(rows(400, seed=1), np.arange(400)), train.codes if copied else rows(600, seed=2), SCHEMA,
        ProvenCeiling(1.0, 1e-5, (receipt,)), share=0.4, seed=0,
    )  # fmt: skip
    (home / "runs" / run_id / "owner" / "report.json").write_text(json.dumps(owner_document(evidence)))


@pytest.mark.thorough
def test_a_table_too_small_for_a_verdict_says_so(finished: AppTest) -> None:
    app = shown(finished)
    assert not errors(app)
    assert "No verdict: 20 trained-on and 20 held-out units could be compared" in texts(app)
    assert "owner only" in texts(app)


@pytest.mark.thorough
@pytest.mark.parametrize("copied", [False, True])
def test_each_attack_stands_beside_guessing_and_under_its_ceiling(
    finished: AppTest, home: Path, *, copied: bool
) -> None:
    replace_report(home, finished.session_state["draft"]["run_id"], copied=copied)
    app = shown(finished)
    words = texts(app)
    assert OWNER_ONLY_NOTE in words
    assert "Closest record" in words
    assert "Density ratio (DOMIAS)" in words
    assert ("did better than the proof allows: at most" in words) == copied
    if copied:
        assert errors(app) == ["Warning: an attack did better than the proof allows"]
        assert "Nothing was stopped" in words
    else:
        assert "did not beat guessing" in words
        assert not errors(app)
    assert len(app.get("plotly_chart")) == 2
    pictures = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    for picture in pictures:
        names = [trace["name"] for trace in picture["data"]]
        assert names == ["attack, 95 % interval", "guessing", "proven ceiling"]
    assert badges(app) == {"owner_only"}


def test_opening_the_tab_is_a_look_at_private_rows(finished: AppTest) -> None:
    go(finished, "report")
    assert looked_at() == {BEFORE_A_CHARGE}
    shown(finished)
    assert looked_at() > {BEFORE_A_CHARGE}


@pytest.mark.thorough
def test_attacks_are_not_repeated_among_the_other_exact_numbers(finished: AppTest, home: Path) -> None:
    replace_report(home, finished.session_state["draft"]["run_id"], copied=False)
    app = go(finished, "report")
    app.session_state["report-tab"] = "○ Owner only"
    app.run()
    assert not errors(app)
    assert "Density ratio" not in texts(app)


@pytest.mark.thorough
def test_shadow_models_are_offered_followed_and_shown(finished: AppTest, work_to_do: list[Callable[[], int]]) -> None:
    app = shown(finished)
    assert "Nothing is charged, because nothing from these runs is shown or leaves this machine." in texts(app)
    assert re.search(r"It takes about \d+ minutes? on this machine\.", texts(app))
    run_id = app.session_state["draft"]["run_id"]
    app.button(key="shadow-models").click().run()
    assert not errors(app)
    assert app.button(key="stop-shadow-models").label == "Stop the shadow models"
    work_to_do.pop()()
    work = application().renewal(run_id, "shadow-models")
    assert work is not None
    assert (work.state, work.message) == ("reported", "")
    app = shown(app)
    assert not errors(app)
    words = texts(app)
    assert "Shadow models" in words
    assert "64 runs of this configuration with fresh noise" in words
    assert "owner only" in words
    assert len(app.get("plotly_chart")) == 2
    assert app.button(key="shadow-models")


def test_a_shadow_model_warning_stands_first(finished: AppTest, home: Path) -> None:
    run_id = finished.session_state["draft"]["run_id"]
    path = home / "runs" / run_id / "owner" / "report.json"
    body = json.loads(path.read_text())
    body["evidence"].append(
        {
            "id": "attacks.shadow.warning", "kind": "owner_only", "value": "7f3a0000", "error": None,
            "unit": "incident",
            "title": "Warning: shadow models did better than the proof allows", "sentence": "Nothing was stopped.",
            "figures": [],
        }
    )  # fmt: skip
    path.write_text(json.dumps(body))
    app = shown(finished)
    assert errors(app) == ["Warning: shadow models did better than the proof allows"]
    assert "7f3a0000" in texts(app)
