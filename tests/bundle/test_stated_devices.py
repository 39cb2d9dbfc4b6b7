"""What fitted a model stands in the certificate, and a replay computes there, or says that it could not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundle_making import Key, checked, config_of, members_of, seal
from choosing import few
from pretended_card import CARD_NAME, pretended_card

from synth.bundle.replay import replay
from synth.schema import CategoryColumn, NumberColumn
from synth.system.machine import device_name, is_device_name

COLUMNS = (NumberColumn("size", 0, 500, 1), NumberColumn("weight", 0, 99, 1), CategoryColumn("kind", ("a", "b")))
QUICK = {"dp-merf": {"features": 20, "steps": 5, "batch_size": 32}, "kahm": {"n": 3, "block": 100}, "independent": {}}


def stated(bundle: Path) -> object:
    return json.loads(members_of(bundle)["certificate.json"])["device"]


@pytest.mark.parametrize("name", few(sorted(QUICK), kept=("independent", "kahm")))
def test_a_card_is_stated_where_it_fitted_and_a_replay_goes_there(
    name: str, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(COLUMNS, generator=name, options=QUICK[name], label="kind", rows=300, device="auto")
    with pretended_card(monkeypatch):
        sealed = seal(config, tmp_path / "run", key).path
        again = replay(sealed, tmp_path / "there")
        refitted = replay(sealed, tmp_path / "fitted", refit=True)
    assert again.identical, again.lines
    assert refitted.identical, refitted.lines
    assert stated(sealed) == ("cpu" if name == "independent" else CARD_NAME)
    verdict = checked(sealed)
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["device"] == stated(sealed)
    here = replay(sealed, tmp_path / "here")
    told = f"The original was computed on {CARD_NAME}; this computer used cpu." in " ".join(here.lines)
    assert here.identical != told, here.lines


def test_a_processor_is_stated_and_stays_the_device_where_a_card_has_come(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(COLUMNS, generator="dp-merf", options=QUICK["dp-merf"], label="kind", rows=50, device="cpu")
    sealed = seal(config, tmp_path / "run", key).path
    assert stated(sealed) == "cpu"
    with pretended_card(monkeypatch) as traffic:
        for refit in (False, True):
            assert replay(sealed, tmp_path / str(refit), refit=refit).identical
    assert not traffic.operations


@pytest.mark.thorough
def test_a_card_that_is_asked_for_and_not_there_is_no_reason_to_refuse_a_replay(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(COLUMNS, generator="kahm", options=QUICK["kahm"], label="kind", rows=50, device="cuda")
    with pretended_card(monkeypatch):
        sealed = seal(config, tmp_path / "run", key).path
    assert replay(sealed, tmp_path / "fitted", refit=True).lines


def test_names_of_devices_have_no_room_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu", "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090 Laptop GPU", "Tesla T4", "graphics card"):
        assert is_device_name(name)
    for name in ("", "12345 rows", "NVIDIA\nrows", "NVIDIA " + "9" * 80, "gpu"):
        assert not is_device_name(name)
    with pretended_card(monkeypatch):
        assert device_name("cuda") == CARD_NAME
        monkeypatch.setattr("torch.cuda.get_device_name", lambda: "Some maker's 12,345")
        assert device_name("cuda") == "graphics card"
