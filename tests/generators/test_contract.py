"""What every generator of the registry has to keep."""

from __future__ import annotations

import gc
import types
from datetime import date

import numpy as np
import pytest
import torch
from choosing import each_once, few
from safetensors.numpy import load, save
from simulated import FAST, check_domain, dependent_codes, fitted, random_codes, schema_for, session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.errors import ConfigError, InputError, RunCancelledError
from synth.generators import GENERATORS, Generator
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import DateColumn, NumberColumn, Schema

NAMES = sorted(GENERATORS)


SOME = few(NAMES, kept=("independent", "kahm", "dp-hp-adaptive"))
COUNTED = ("public", "private")
LABELS = ("outcome", None, "age", "income")


def test_fast_options_cover_the_registry():
    assert set(FAST) == set(GENERATORS)


@pytest.mark.parametrize("name", SOME)
def test_it_is_a_generator_with_a_card(name):
    assert isinstance(generators.make(name, task(schema_for(name)), {}), Generator)
    card = generators.describe(name)
    assert card.name == name
    assert all((card.title, card.summary, card.best_for, card.loses_where, card.reference, card.keeps_people))


@pytest.mark.parametrize(
    ("row_count", "label", "name"),
    each_once(["public", "private"], ["outcome", None, "age", "income"], NAMES, others=pytest.mark.slow),
)
def test_rows_lie_in_the_declared_domain(name, label, row_count):
    declared = schema_for(name, label, row_count=row_count)
    if not GENERATORS[name].needs.are_met(declared, label):
        with pytest.raises(ConfigError, match=f"generator '{name}' needs "):
            fitted(name, declared, label=label)
        return
    made, _ = fitted(name, declared, label=label)
    check_domain(made.sample(257, seed=3), declared, 257)


def test_a_number_of_one_value_stands_beside_others():
    """As a date by years within one year: it is drawn from no probabilities and from no value."""
    year = DateColumn("year", date(2010, 12, 18), date(2010, 12, 19), "year")
    numbers = (year, NumberColumn("age", 0, 90, 1), NumberColumn("cost", 0, 5000, 1))
    declared = Schema(numbers, row_count="private")
    made, _ = fitted("dp-merf", declared, random_codes(declared, 300), label=None)
    rows = made.sample(100, seed=1)
    check_domain(rows, declared, 100)
    assert not rows[:, 0].any()


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_the_same_seed_gives_the_same_bytes(name):
    made, _ = fitted(name)
    first = made.sample(300, seed=5).tobytes()
    torch.set_num_threads(2)
    try:
        assert made.sample(300, seed=5).tobytes() == first
    finally:
        torch.set_num_threads(1)
    assert made.sample(300, seed=6).tobytes() != first


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_sampling_learns_nothing(name):
    made, _ = fitted(name)
    before = {key: array.tobytes() for key, array in made.state().items()}
    made.sample(300, seed=5)
    assert {key: array.tobytes() for key, array in made.state().items()} == before


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_fitting_follows_from_answers_and_seed(name):
    first, _ = fitted(name)
    second, _ = fitted(name)
    for key, array in first.state().items():
        assert np.array_equal(array, second.state()[key]), key


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_fitting_leaves_threads_and_global_randomness_alone(name):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    threads = torch.get_num_threads()
    fitted(name)[0].sample(10, seed=0)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(3), expected)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


@pytest.mark.parametrize(("row_count", "name"), each_once(["public", "private"], NAMES, others=pytest.mark.slow))
def test_it_spends_its_whole_budget_and_no_more(name, row_count):
    _, opened = fitted(name, schema_for(name, row_count=row_count))
    assert 0 <= opened.remaining_share <= 1e-3
    assert sum(receipt.mu_squared_units for receipt in opened.receipts) <= opened.budget.mu_squared * 2**40


@pytest.mark.parametrize("name", SOME)
def test_a_part_of_a_session_is_spent_like_a_whole_one(name):
    opened = session(schema_for(name), dependent_codes(200))
    before = opened.remaining_share  # a private number of rows has been counted
    part = opened.sub_session(0.4)
    generators.make(name, task(schema_for(name)), FAST[name]).fit(part, NullProgress())
    assert part.remaining_share <= 1e-3
    assert opened.remaining_share == pytest.approx(before - 0.4, abs=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_every_receipt_has_a_source(name):
    _, opened = fitted(name)
    assert opened.receipts
    assert {receipt.source for receipt in opened.receipts} - {"number of rows"} == {f"generator {name}"}
    assert len({receipt.query for receipt in opened.receipts}) == len(opened.receipts)


@pytest.mark.parametrize("name", SOME)
def test_questions_do_not_depend_on_rows(name):
    # So few rows that none chooses by answers what to ask next.
    asked = []
    for seed in (0, 1):
        opened = session(schema_for(name), random_codes(schema_for(name), 50, seed=seed), noise_key=seed)
        generators.make(name, task(schema_for(name)), FAST[name]).fit(opened, NullProgress())
        asked.append([(r.query, r.sensitivity, r.noise_scale, r.dimension) for r in opened.receipts])
    # Bins may follow earlier answers, and cells with them; noise may not.
    assert asked[0][0] == asked[1][0]
    assert [one[:-1] for one in asked[0]] == [one[:-1] for one in asked[1]]


@pytest.mark.parametrize("name", SOME)
def test_old_answers_give_the_same_model_again(name):
    made, opened = fitted(name)
    recorded = RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers)
    again = generators.make(name, task(schema_for(name)), FAST[name]).fit(recorded, NullProgress())
    for key, array in made.state().items():
        assert np.array_equal(array, again.state()[key]), key


def reachable(root: object) -> list[object]:
    """Everything an object holds, classes and modules aside."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type | types.ModuleType | types.BuiltinFunctionType):
            continue
        seen[id(item)] = item
        held = gc.get_referents(item)
        if isinstance(item, types.FunctionType):
            held = [cell.cell_contents for cell in item.__closure__ or () if cell.cell_contents is not item]
        waiting.extend(held)
    return list(seen.values())


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_the_fitted_object_holds_no_session_and_no_table(name):
    codes = dependent_codes(3001)
    made, opened = fitted(name, codes=codes)
    held = reachable(made)
    assert not [item for item in held if isinstance(item, PrivateSession | PrivateTable)]
    assert not [item for item in held if item is opened.rows]
    arrays = [item for item in held if isinstance(item, np.ndarray | torch.Tensor)]
    assert not [array for array in arrays if 3001 in array.shape]


def test_the_walk_would_find_a_session():
    made, opened = fitted("independent")
    made.kept = lambda: opened
    assert opened in reachable(made)


@pytest.mark.parametrize(("label", "name"), each_once(["outcome", None], NAMES, others=pytest.mark.slow))
def test_a_saved_model_draws_the_same_bytes(name, label):
    declared = schema_for(name, label)
    if not GENERATORS[name].needs.are_met(declared, label):
        pytest.skip("it needs a label")
    made, _ = fitted(name, label=label)
    state = load(save({key: np.ascontiguousarray(array) for key, array in made.state().items()}))
    again = generators.restore(name, task(declared, label), FAST[name], state)
    assert again.sample(500, seed=9).tobytes() == made.sample(500, seed=9).tobytes()


def test_drawing_before_fitting_is_refused():
    for name in NAMES:
        made = generators.make(name, task(schema_for(name)), {})
        with pytest.raises(InputError, match="not been fitted"):
            made.sample(10, seed=0)
        with pytest.raises(InputError, match="not been fitted"):
            made.state()


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_no_rows_cannot_be_drawn(name):
    with pytest.raises(InputError, match="at least 1"):
        fitted(name)[0].sample(0, seed=0)


@pytest.mark.parametrize("name", ["dp-merf", "dp-hp", "dp-hp-adaptive", "kernel-sos"])
def test_a_cancelled_run_stops(name):
    class Cancelled(NullProgress):
        def check_cancelled(self) -> None:
            raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        generators.make(name, task(schema_for(name)), FAST[name]).fit(
            session(schema_for(name), dependent_codes(50)), Cancelled()
        )


@pytest.mark.parametrize("name", ["dp-merf", "dp-hp"])
def test_training_reports_steps_and_losses(name):
    class Written(NullProgress):
        phases: list[str]
        losses: list[float]
        last: tuple[int, int]

        def phase(self, name: str) -> None:
            self.phases.append(name)

        def step(self, k: int, of: int) -> None:
            self.last = (k, of)

        def loss(self, value: float) -> None:
            self.losses.append(value)

    written = Written()
    written.phases, written.losses = [], []
    generators.make(name, task(schema_for(name)), FAST[name]).fit(
        session(schema_for(name), dependent_codes(50)), written
    )
    assert written.phases == ["Measuring", "Fitting"]
    assert written.last[0] == written.last[1] > 1
    assert np.isfinite(written.losses).all()


@pytest.mark.thorough
@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("name", SOME)
def test_cuda_fits_like_the_cpu(name):
    # One step: rounding differences grow with training, so longer runs are compared by quality, not by weights.
    options = {**FAST[name], **{key: 1 for key in ("steps", "steps_per_epoch", "epochs") if key in FAST[name]}}
    states = []
    for device in ("cpu", "cuda"):
        opened = session(schema_for(name), dependent_codes(400))
        made = generators.make(name, task(schema_for(name), device=device), options).fit(opened, NullProgress())
        states.append(made.state())
    for key, array in states[0].items():
        reference = array.astype(np.float64)
        difference = np.linalg.norm(states[1][key] - reference)
        assert difference <= 1e-4 * np.linalg.norm(reference) + 1e-9, key


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("name", ["dp-merf", "dp-hp", "dp-hp-adaptive"])
def test_a_missing_device_is_refused_before_anything_is_spent(name):
    opened = session(schema_for(name), dependent_codes(50))
    with pytest.raises(ConfigError, match="no CUDA device"):
        generators.make(name, task(schema_for(name), device="cuda"), FAST[name]).fit(opened, NullProgress())
    assert opened.remaining_share == 1.0


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOME)
def test_device_auto_works_everywhere(name):
    made, _ = fitted(name, device="auto")
    check_domain(made.sample(20, seed=0), schema_for(name), 20)
