"""A training against critics that has learned nothing, from the bytes of a file to the report: the report says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_making import Key, checked, members_of
from test_sampled_bundles import DECLARED, file_of, released

from synth.schema import RunConfig, config_of_text

SMALL = {
    "dp-gan": "steps: 60, batch_size: 100, hidden: 4, generated: 16",
    "dp-cgan": "steps: 60, batch_size: 100, hidden: 4, generated: 16",
    "gs-wgan": "turns: 60, parts: 5, batch_size: 8, critic_steps: 2",
}
HOPELESS = "learning_rate: 1.0, critic_rate: 1.0"
SAID = "Nearly all rows that the network draws are alike"


def settings_of(generator: str, *more: str) -> RunConfig:
    options = ", ".join([SMALL[generator], *more])
    text = DECLARED.replace("steps: 5, batch_size: 100, hidden: 4, generated: 16", options)
    return config_of_text(text.replace("people: MADE\n", "").replace("GENERATOR", generator).replace("ROWS", "1"))


def said_in(bundle: Path) -> list[str]:
    """The reports of a bundle, as data and as a page, that say it."""
    members = members_of(bundle)
    return [name for name in ("report.json", "report.html") if SAID in members[name].decode()]


def test_a_hopeless_training_completes_and_the_report_says_so(tmp_path: Path, key: Key) -> None:
    """Noise is fresh, so one training in many may not be told: that none of five is has a chance of next to nothing."""
    for number in range(5):
        (folder := tmp_path / str(number)).mkdir()
        bundle = released(settings_of("dp-gan", HOPELESS), file_of(300, 1), folder, key)
        assert checked(bundle, key.public_key_pem).ok
        if said := said_in(bundle):
            break
    assert said == ["report.json", "report.html"]


@pytest.mark.parametrize("generator", SMALL)
def test_the_report_of_an_ordinary_training_does_not_say_it(generator: str, tmp_path: Path, key: Key) -> None:
    assert said_in(released(settings_of(generator), file_of(300, 1), tmp_path, key)) == []
