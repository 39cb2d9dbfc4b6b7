"""A grid of rehearsals: every cell is run, nothing is charged, what cheats is stopped, and simulated rows will do."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from copying import SCHEMA, config, idle_workers, plant, write_people
from pretended_card import pretended_card

from synth.application import Application
from synth.bundle.measurements import Measurements
from synth.bundle.remaking import asked_again
from synth.cli import main
from synth.errors import AttackError, ConfigError, InputError, RunCancelledError, TableError
from synth.generators import GENERATORS
from synth.generators.independent.independent import Independent
from synth.progress import NullProgress
from synth.rehearsal import grid as rehearsing_grid
from synth.rehearsal import rehearsals
from synth.rehearsal.grid import USUAL_EPSILONS, Grid, GridRehearsal
from synth.rehearsal.simulation import Simulation, simulated_table
from synth.rehearsal.stand_in import REHEARSAL_SENTENCE, SIMULATED_SENTENCE
from synth.reports.membership import evidence as attacks
from synth.reports.membership.attacks import ATTACKS
from synth.schema import RunConfig, TableFormat, config_to_yaml
from synth.services.pipeline import FittedRun
from synth.system.settings import Settings
from synth.worker import main as work

ASKED = config("independent")
LABELLED = config("independent", label="ill")


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The quickest attack will do: that all are tried is another test's.
    monkeypatch.setattr(attacks, "public_attacks", partial(attacks.public_attacks, attacks=ATTACKS[:1]))
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    plant(monkeypatch)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    return write_people(tmp_path, rows=1000, seed=1)


def rehearse(grid: Grid, stand_in: Path, asked: RunConfig = ASKED, progress: Any = None) -> GridRehearsal:
    with Application.from_environment() as application:
        rows = stand_in.read_bytes()
        return application.rehearsals.rehearse_grid(asked, grid, lambda: io.BytesIO(rows), progress or NullProgress())


@pytest.mark.thorough
def test_every_cell_is_run_and_nothing_is_charged(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsing_grid, "_scores", lambda *arguments, **named: {})
    grid = Grid((8.0, 0.5), ("independent", "independent-by-class"), seeds=2)
    found = rehearse(grid, stand_in, LABELLED)
    assert [(cell.seed, cell.generator, cell.epsilon) for cell in found.cells] == [
        (seed, name, epsilon) for seed in (0, 1) for epsilon in (0.5, 8.0) for name in grid.generators
    ]
    assert (found.failures, found.stops, found.of) == ((), (), 8)
    assert {entry.id for entry in found.evidence} == {"grid.table", "grid.pairs", "grid.attacks"}
    for name in grid.generators:
        own = {cell.epsilon: cell for cell in found.cells if cell.generator == name and cell.seed == 0}
        assert own[0.5].pairs > own[8.0].pairs > own[8.0].floor, "sixteen times the budget shows"
        assert own[0.5].ceiling is not None
        assert own[8.0].ceiling is not None
        assert 0.5 < own[0.5].ceiling < own[8.0].ceiling
    assert REHEARSAL_SENTENCE in found.sentence
    with Application.from_environment() as application:
        assert (application.accounts(), application.ledger_rows(), application.runs()) == ([], [], [])


@pytest.mark.thorough
def test_the_label_is_predicted_beside_training_on_the_stand_in(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[list[str]] = []
    right = rehearsing_grid.compare_predictions

    def seen(problem: Any, *rest: Any) -> Any:
        trained.append(list(problem.tables))
        return right(problem, *rest)

    monkeypatch.setattr(rehearsing_grid, "compare_predictions", seen)
    found = rehearse(Grid((1.0, 2.0), ("independent",), seeds=1), stand_in, LABELLED)
    assert [cell.measure for cell in found.cells] == ["ROC AUC"] * 2
    # What training on the stand-in reaches belongs to a seed: it is trained once and stands beside each of its cells.
    assert trained == [["synthetic", "real"], ["synthetic"]]
    assert found.cells[0].real == found.cells[1].real is not None
    assert {entry.id for entry in found.evidence} >= {"grid.prediction"}


def test_a_grid_is_kept_for_the_table_whatever_epsilon_and_generator_are_chosen_by_now(stand_in: Path) -> None:
    rehearse(Grid((1.0,), ("independent",), seeds=1), stand_in)
    with Application.from_environment() as application:
        rehearsals = application.rehearsals
        later = replace(ASKED, epsilon=3.0, generator="dp-merf")
        report = rehearsals.report(later, grid=True)
        assert report is not None
        assert (report["done"], report["of"], report["incident"]) == (1, 1, None)
        assert rehearsals.report(ASKED) is None, "a grid is not the rehearsal of one configuration"
        assert rehearsals.report(LABELLED, grid=True) is None
        assert rehearsals.report(replace(ASKED, delta=1e-7), grid=True) is None


def test_a_cell_that_copies_stops_its_own_configuration_and_no_other(stand_in: Path) -> None:
    found = rehearse(Grid((0.5, 1.0), ("copying", "independent"), seeds=1), stand_in, config("copying"))
    stopped = [(stop.config.generator, stop.config.epsilon) for stop in found.stops]
    assert stopped == [("copying", 1.0), ("copying", 0.5)]
    assert found.sentence.startswith("Stop. An attack did better than the proof allows (copying at epsilon 1: Closest")
    with Application.from_environment() as application:
        for stop in found.stops:
            with pytest.raises(AttackError, match=stop.incident):
                application.stops.check(replace(config("copying"), epsilon=stop.config.epsilon))
        application.stops.check(config("independent"))
        application.stops.check(config("copying", epsilon=4.0))
        assert len(application.stops.all()) == 2


def test_all_cells_share_one_chance_of_a_false_alarm(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    right = attacks.public_attacks
    monkeypatch.setattr(attacks, "public_attacks", lambda *a, **n: asked.append(n["among"]) or right(*a, **n))
    rehearse(Grid((1.0, 2.0), ("independent",), seeds=2), stand_in)
    assert asked == [4] * 4


def test_a_generator_that_fails_costs_its_cell_and_not_the_grid(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, session: Any, progress: Any) -> Any:
        raise ValueError("income 47113 is odd")

    monkeypatch.setattr("synth.generators.fourier.dp_merf.DpMerf.fit", broken)
    found = rehearse(Grid((1.0,), ("dp-merf", "independent"), seeds=1), stand_in)
    assert [cell.generator for cell in found.cells] == ["independent"]
    (failure,) = found.failures
    assert failure.startswith("dp-merf at epsilon 1, seed 0: Something failed inside Hermitage (incident ")
    assert "47113" not in failure
    assert found.document["done"] == 2


@pytest.mark.thorough
@pytest.mark.parametrize("room", [3, 2])
def test_on_a_card_cells_that_differ_in_epsilon_are_fitted_side_by_side_as_alone(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    together: list[tuple[tuple[float, ...], list[FittedRun]]] = []
    right = rehearsals.fit_and_sample_together

    def seen(configs: list[RunConfig], *rest: Any) -> list[FittedRun]:
        together.append((tuple(one.epsilon for one in configs), right(configs, *rest)))
        return together[-1][1]

    asked = config("dp-merf", device="cuda", options={"features": 60, "steps": 25, "batch_size": 64}, epsilon=2.0)
    with pretended_card(monkeypatch):
        monkeypatch.setattr(rehearsals, "fit_and_sample_together", seen)
        monkeypatch.setattr(rehearsals, "fits_together", lambda placed: room if placed.device == "cuda" else 1)
        found = rehearse(Grid((0.5, 2.0, 8.0), ("dp-merf",), seeds=1), stand_in, asked)
    assert found.failures == ()
    assert [epsilons for epsilons, _ in together] == [(2.0, 0.5, 8.0)[:room]]
    assert [cell.epsilon for cell in found.cells] == [2.0, 0.5, 8.0]
    assert len({cell.seconds for cell in found.cells[:room]}) == 1
    for epsilon, run in zip(*together[0], strict=True):
        one = replace(asked, epsilon=epsilon)
        known = Measurements(run.answers, run.rows)
        alone, _ = asked_again(known, one, device="cpu", fit=True)
        assert alone is not None
        np.testing.assert_allclose(run.state["weights"], alone.state()["weights"], atol=1e-3)
    states = [run.state["weights"] for run in together[0][1]]
    assert np.abs(states[0] - states[1]).mean() > 1e-3


def test_cells_that_cannot_be_fitted_side_by_side_are_fitted_one_by_one(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 MiB.")

    monkeypatch.setattr(rehearsals, "fits_together", lambda placed: 256)
    monkeypatch.setattr(rehearsals, "fit_and_sample_together", full)
    found = rehearse(Grid((0.5, 1.0, 2.0), ("independent",), seeds=1), stand_in)
    assert [cell.epsilon for cell in found.cells] == [1.0, 0.5, 2.0]
    assert found.failures == ()


def test_what_was_rehearsed_before_a_stop_is_kept(stand_in: Path) -> None:
    class Stopping(NullProgress):
        done = 0

        def step(self, k: int, of: int) -> None:
            self.done = k

        def check_cancelled(self) -> None:
            if self.done:
                raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        rehearse(Grid((1.0, 2.0), ("independent",), seeds=1), stand_in, progress=Stopping())
    with Application.from_environment() as application:
        report = application.rehearsals.report(ASKED, grid=True)
    assert report is not None
    assert (report["done"], report["of"]) == (1, 2)


def test_what_a_run_would_refuse_is_refused_before_a_row_is_read(stand_in: Path) -> None:
    grid = Grid((1.0,), ("independent", "no-such"), seeds=1)
    with Application.from_environment() as application:

        def untouched() -> Any:
            raise AssertionError("a row was read")

        with pytest.raises(ConfigError, match="no-such"):
            application.rehearsals.rehearse_grid(ASKED, grid, untouched, NullProgress())
        with stand_in.open("rb") as rows:
            application.intake.receive(rows, account="town", name="private.csv")
        with pytest.raises(TableError, match="cannot be a stand-in"):
            rehearse(Grid((1.0,), ("independent",), seeds=1), stand_in)


@pytest.mark.parametrize(
    ("epsilons", "generators", "seeds", "message"),
    [
        ((), ("independent",), 1, "at least one epsilon"),
        ((1.0,), (), 1, "at least one epsilon"),
        ((1.0,), ("independent",), 0, "at least one epsilon"),
        ((1.0, -1.0), ("independent",), 1, "epsilon must be positive, got -1"),
        ((1.0, 1.0), ("independent",), 1, "one epsilon twice"),
        ((1.0,), ("dp-hp", "dp-hp"), 1, "one generator twice"),
        ((1.0, 2.0), ("independent",), 61, "A grid of 122 rehearsals is too large. The most is 120"),
    ],
)
def test_a_grid_has_bounds(epsilons: Any, generators: Any, seeds: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Grid(epsilons, generators, seeds)


def test_the_usual_grid_is_the_generator_beside_the_control() -> None:
    assert Grid.usual(config("dp-merf")) == Grid(USUAL_EPSILONS, ("dp-merf", "independent"), 3)
    assert Grid.usual(ASKED, epsilons=(2.0,), seeds=1) == Grid((2.0,), ("independent",), 1)
    cells = replace(SCHEMA, protection="cell")
    assert Grid.usual(config("kahm", schema=cells)).generators == ("kahm",)
    assert Grid.from_dict(json.loads(json.dumps(Grid.usual(ASKED).to_dict()))) == Grid.usual(ASKED)


def test_every_generator_that_can_make_the_table_is_rehearsed_and_the_others_are_named() -> None:
    grid = Grid.usual(ASKED, generators=("all",))
    assert grid.seeds == 1
    assert {"independent", "dp-hp-adaptive", "dp-hp", "dp-merf", "kahm", "copying"} <= set(grid.generators)
    assert set(grid.generators).isdisjoint({"independent-by-class", "kernel-sos"})
    assert [*grid.generators, *(line.partition(" is left out: it needs ")[0] for line in grid.left_out)] == sorted(
        GENERATORS, key=lambda name: name not in grid.generators
    )
    assert "independent-by-class" in Grid.usual(LABELLED, generators=("all",)).generators
    assert Grid.from_dict(json.loads(json.dumps(grid.to_dict()))) == grid
    with pytest.raises(InputError, match="name no other beside it"):
        Grid.usual(ASKED, generators=("all", "dp-hp"))


def test_a_generator_that_refuses_the_declared_relation_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class AddRemoveOnly(Independent):
        card = replace(Independent.card, name="add-remove-only")

        def __init__(self, task: Any, options: Any) -> None:
            if task.schema.rows_are_public:
                raise ConfigError("It hides whether a row is there, not what it says. Declare 'row_count: private'.")
            super().__init__(task, options)

    monkeypatch.setitem(GENERATORS, "add-remove-only", replace(AddRemoveOnly.card, made_by=AddRemoveOnly))
    public = Grid.usual(replace(ASKED, schema=replace(SCHEMA, row_count="public")), generators=("all",))
    assert "add-remove-only is left out: It hides whether a row is there, not what it says." in public.left_out
    private = replace(SCHEMA, row_count="private", number_of_units=None)
    assert "add-remove-only" in Grid.usual(replace(ASKED, schema=private), generators=("all",)).generators


def test_the_purpose_is_the_stated_one_or_follows_from_the_label() -> None:
    assert Grid.usual(ASKED).purpose == "counts"
    assert Grid.usual(LABELLED).purpose == "prediction"
    assert Grid.usual(LABELLED, purpose="counts").purpose == "counts"
    stated = config("dp-hp-adaptive", label="ill", options={"purpose": "marginals"})
    assert Grid.usual(stated).purpose == "counts"


def test_the_declared_epsilon_is_rehearsed_first_with_all_generators() -> None:
    grid = Grid((0.25, 1.0, 4.0), ("dp-merf", "independent"), seeds=1)
    order = [(one.epsilon, one.generator) for one in grid.configs(replace(ASKED, epsilon=3.0))]
    assert order == [(epsilon, name) for epsilon in (4.0, 1.0, 0.25) for name in ("dp-merf", "independent")]


@pytest.mark.thorough
def test_each_cell_is_printed_as_it_comes_and_a_stop_leaves_the_table_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Any, session: Any, progress: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("synth.generators.fourier.dp_merf.DpMerf.fit", interrupted)
    written, out = tmp_path / "config.yaml", tmp_path / "grid.json"
    written.write_text(config_to_yaml(ASKED))
    asked = ["rehearse", str(written), "--simulate", "--epsilons", "1", "--seeds", "1", "--out", str(out)]
    assert main([*asked, "--generators", "independent", "dp-merf"]) == RunCancelledError.exit_code
    said = capsys.readouterr()
    assert "1 of 2: independent at epsilon 1: distance of pairs" in said.err
    assert "1 of 2 rehearsals are done." in said.out
    assert "independent" in said.out
    assert json.loads(out.read_text())["done"] == 1


def test_in_the_background_simulated_rows_are_rehearsed_on_and_forgotten() -> None:
    grid = Grid((1.0,), ("independent",), seeds=1)
    rows = simulated_table(Simulation(rows=600), SCHEMA)
    with idle_workers(), Application.from_environment() as application:
        rehearsals = application.rehearsals
        rehearsals.start(ASKED, io.BytesIO(rows), grid=grid, simulated=True)
        assert rehearsals.standing(ASKED) is None
        (kept,) = (application.settings.home / "rehearsals").rglob("stand-in*")
        going_on = rehearsals.standing(ASKED, grid=True)
        assert going_on is not None
        assert work([going_on.id], settings=Settings.from_environment()) == 0
        report = rehearsals.report(ASKED, grid=True)
        assert report is not None
        assert report["sentence"] == f"{SIMULATED_SENTENCE} {REHEARSAL_SENTENCE}"
        assert not kept.exists()
        view = rehearsals.standing(ASKED, grid=True)
        assert view is not None
        assert view.state == "reported"


@pytest.mark.thorough
def test_the_command_line_simulates_and_rehearses_a_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, shapes, out = tmp_path / "config.yaml", tmp_path / "like-ours.yaml", tmp_path / "grid.json"
    # The private table is written in its own way; simulated rows are read as they are written.
    written.write_text(config_to_yaml(replace(LABELLED, format=TableFormat(separator=";"))))
    shapes.write_text("rows: 500\ncolumns:\n  ill: {shares: [7, 3], follows: age}\n")
    asked = ["rehearse", str(written), "--simulate", str(shapes), "--epsilons", "1", "--seeds", "1"]
    assert main([*asked, "--generators", "independent", "independent-by-class", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.count("independent-by-class") == 1
    assert "prediction, ROC AUC" in said
    assert SIMULATED_SENTENCE in said
    assert REHEARSAL_SENTENCE in said
    assert json.loads(out.read_text())["done"] == 2
    assert main(["rehearse", str(written), "--simulate", "--epsilons", "-1"]) == 2
    assert "epsilon must be positive" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["rehearse", str(written), "--simulate", "--stand-in", str(written)])


def test_one_rehearsal_on_simulated_rows_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.rehearsal.rehearsals.exact_numbers", lambda *arguments: ())
    rows = simulated_table(Simulation(rows=600), SCHEMA)
    with Application.from_environment() as application:
        found = application.rehearsals.rehearse(ASKED, lambda: io.BytesIO(rows), NullProgress(), simulated=True)
    assert found.sentence == f"{SIMULATED_SENTENCE} {REHEARSAL_SENTENCE}"
    assert rehearsing_grid.Grid.usual(ASKED).cells == 15
