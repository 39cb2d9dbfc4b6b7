"""The rehearsal as the last layer of the audit: a generator that copies rows is stopped, the honest ones are not."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest
from choosing import few

HELPERS = Path(__file__).resolve().parents[1] / "services"
if str(HELPERS) not in sys.path:
    sys.path.insert(0, str(HELPERS))

from copying import SCHEMA, config, plant, write_people  # noqa: E402 - after the path to it is known
from suited import suited  # noqa: E402

from synth.application import Application  # noqa: E402
from synth.errors import AttackError  # noqa: E402
from synth.generators import GENERATORS  # noqa: E402
from synth.progress import NullProgress  # noqa: E402
from synth.rehearsal import rehearsals as rehearsing  # noqa: E402
from synth.rehearsal.rehearsals import Rehearsal  # noqa: E402
from synth.schema import RowCountRule, Schema  # noqa: E402

RULES: tuple[RowCountRule, ...] = ("public", "private")
FAST = {
    "dp-merf": {"features": 60, "steps": 25, "batch_size": 64},
    "dp-hp": {"order": 20, "epochs": 3, "steps_per_epoch": 8, "batch_size": 64},
}


def rehearse(name: str, rule: RowCountRule, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Rehearsal, bool]:
    """Rehearse in a home of its own; say also whether a run with the configuration would be refused."""
    monkeypatch.setenv("HERMITAGE_HOME", str(folder / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    # The other numbers of a rehearsal stop nothing.
    monkeypatch.setattr(rehearsing, "exact_numbers", lambda *arguments: ())
    plant(monkeypatch)
    stand_in = write_people(folder, rows=1500, seed=3)
    schema = Schema(SCHEMA.columns, row_count=rule, number_of_units=2_000 if rule == "public" else None)
    schema = suited(name, schema, "ill") if name in GENERATORS else schema
    asked = config(name, schema=schema, options=FAST.get(name, {}), label="ill", rows=2000)
    with Application.from_environment() as application:
        found = application.rehearsals.rehearse(asked, lambda: stand_in.open("rb"), NullProgress())
        if found.incident is not None:
            with pytest.raises(AttackError, match=found.incident):
                application.stops.check(asked)
        refused = application.plan(asked).refusal
    return found, refused is not None


@pytest.mark.parametrize("rule", few(RULES, kept=("private",)))
def test_a_generator_that_copies_is_stopped(
    rule: RowCountRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, stopped = rehearse("copying", rule, tmp_path, monkeypatch)
    assert stopped
    assert "Closest record" in found.exceeded


@pytest.mark.audit
@pytest.mark.parametrize(
    ("name", "rule"),
    [one for one in product(GENERATORS, RULES) if one[1] == "private" or not GENERATORS[one[0]].needs.sampling],
)
def test_no_honest_generator_is_stopped(
    name: str, rule: RowCountRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, stopped = rehearse(name, rule, tmp_path, monkeypatch)
    assert not stopped
    assert found.exceeded == ()
    assert any(entry.id == "attacks.closest.area" for entry in found.evidence)
