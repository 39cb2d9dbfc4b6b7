"""Where the device is left open, a run takes the one that is predicted to be quicker, and says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from pretended_card import CARD_NAME, pretended_card

from synth.application import Application
from synth.bundle.archive import open_archive
from synth.bundle.replay import replay
from synth.cli.local import run_locally
from synth.estimators import MODELS, describe
from synth.generators import GENERATORS
from synth.schema import RunConfig, parse_config
from synth.services.devices import DeviceChoice, device_choice, on_planned_device, planned_device
from synth.system import costs
from synth.system.costs import COSTS_FILE, Costs, CostTable, Work

SLOW = Costs(operation=1e-3, single=1e-6, double=1e-6, byte=1e-6)
QUICK = Costs(operation=1e-6, single=1e-12, double=1e-12, byte=1e-12)

CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 100
budget: {epsilon: 4.0, delta: 1.0e-5}
rows: 60
label: sex
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  weight: {type: number, low: 0, high: 200, step: 1, fallback: 70}
  sex: {type: category, values: [f, m], fallback: f}
"""


def config_of(name: str, device: str = "auto", **options: object) -> RunConfig:
    mapping, kind = yaml.safe_load(CONFIG), describe(name).kind
    if kind == "model":
        del mapping["rows"]
    return parse_config(mapping | {kind: {"name": name, "options": options}, "device": device})


def keep(home: Path, *, cpu: Costs, card: Costs) -> None:
    """Keep planted costs for this processor and the pretended card."""
    home.mkdir(exist_ok=True)
    (home / COSTS_FILE).write_bytes(CostTable(costs._about(), cpu, card).to_json())


# The decision


def test_the_quicker_device_is_taken_and_both_are_told() -> None:
    card = describe("dp-merf")
    table = CostTable("", Costs(operation=1e-5, single=1e-10, double=1e-10, byte=1e-10), QUICK)
    work = Work(steps=1000, operations=100.0, single=7e7)
    assert device_choice(card, work, table) == DeviceChoice(
        "cuda", "GPU: under 1 s; the CPU would take 8 s (predicted).", is_weighed=True
    )
    launches = CostTable("", table.cpu, Costs(operation=9e-5, single=1e-14, double=1e-14, byte=1e-14))
    assert device_choice(card, work, launches) == DeviceChoice(
        "cpu", "CPU: 8 s; the GPU would take 9 s (predicted).", is_weighed=True
    )
    # Few operations of much work turn the choice round on the same machine.
    assert device_choice(card, Work(steps=1000, operations=10.0, single=7e8), launches).device == "cuda"
    alike = CostTable("", QUICK, QUICK)
    assert device_choice(card, Work(steps=1, operations=1.0), alike).device == "cpu"
    assert "for a mixture of products, if it needs one" in device_choice(describe("dp-hp-adaptive"), work, table).why


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "name", sorted(name for name, card in (GENERATORS | MODELS).items() if card.on_card != "never")
)
def test_every_model_that_a_card_can_fit_is_weighed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(name)
    with pretended_card(monkeypatch):
        keep(tmp_path, cpu=SLOW, card=QUICK)
        quick = planned_device(config, tmp_path, found="cuda")
        assert on_planned_device(config, tmp_path) == config
        keep(tmp_path, cpu=QUICK, card=SLOW)
        slow = planned_device(config, tmp_path, found="cuda")
        assert on_planned_device(config, tmp_path).device == "cpu"
    assert (quick.device, slow.device) == ("cuda", "cpu")
    assert quick.is_weighed
    assert slow.is_weighed


@pytest.mark.parametrize(
    ("generator", "device", "found", "chosen", "said"),
    [
        ("independent", "auto", "cuda", "cuda", "which a GPU would not speed up"),
        ("dp-merf", "auto", "cpu", "cpu", "this machine has no GPU"),
        ("dp-merf", "cuda", "cuda", "cuda", "as you chose"),
        ("dp-merf", "cpu", "cpu", "cpu", "as you chose"),
    ],
)
def test_nothing_is_measured_where_there_is_no_choice(
    generator: str, device: str, found: str, chosen: str, said: str, tmp_path: Path
) -> None:
    choice = planned_device(config_of(generator, device), tmp_path, found=found)
    assert (choice.device, choice.is_weighed) == (chosen, False)
    assert said in choice.why
    assert not list(tmp_path.iterdir())


def test_a_card_without_room_to_be_measured_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(device: str) -> Costs:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")

    monkeypatch.setattr(costs, "measured_costs", full)
    with pretended_card(monkeypatch):
        choice = planned_device(config_of("dp-merf"), tmp_path, found="cuda")
    assert choice.device == "cpu"
    assert "has no room, or failed" in choice.why
    assert not list(tmp_path.iterdir()), "it is measured when there is room"


def test_reading_what_was_decided_loads_no_torch(tmp_path: Path) -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from synth.services.devices import device_words;"
            "from synth.estimators import describe; from synth.system.costs import kept_costs;"
            "device_words(describe('dp-merf'), 'auto', gpu=True); kept_costs(Path(sys.argv[1]));"
            "print('torch' in sys.modules)",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "False"


# A whole run


@pytest.mark.thorough
@pytest.mark.parametrize("card_is_quick", [True, False])
def test_a_run_takes_states_and_replays_on_the_device_that_was_chosen(
    card_is_quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    lines = [f"{20 + place},{50 + place},{'fm'[place % 2]}" for place in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["age,weight,sex", *lines, ""]))
    said: list[str] = []
    with pretended_card(monkeypatch):
        keep(home, cpu=SLOW if card_is_quick else QUICK, card=QUICK if card_is_quick else SLOW)
        made = run_locally(
            config_of("dp-merf", steps=20, features=20, batch_size=32),
            tmp_path / "out",
            table=tmp_path / "people.csv",
            say=said.append,
            owner_report=False,
        )
        refitted = replay(made.bundle, tmp_path / "again", refit=True)
    assert refitted.identical, refitted.lines
    (told,) = (line for line in said if "(predicted)" in line)
    assert told.startswith("GPU: " if card_is_quick else "CPU: ")
    certificate = json.loads((made.folder / "certificate.json").read_bytes())
    assert certificate["device"] == (CARD_NAME if card_is_quick else "cpu")
    with open_archive(made.bundle) as archive:
        assert (b"device: cpu" in archive.read("config.yaml")) is not card_is_quick
    with Application.from_environment() as application:
        assert application.device_reason(made.run_id) == told
        assert application.run(made.run_id).device == ("cuda" if card_is_quick else "cpu")
