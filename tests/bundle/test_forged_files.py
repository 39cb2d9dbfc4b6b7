"""Files forged beyond what the bundle needs, and signed anew: each is refused for its own reason and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bundle_making import Key, altered, checked
from forging import forged, only
from golden_bundles import golden

from synth.bundle.model_file import model_from_bytes, model_to_bytes
from synth.bundle.verify import Outcome

# Models ---------------------------------------------------------------------------------------------------------------


def with_state(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Callable[[bytes], bytes]:
    """A model with other tensors, written as it has to be."""

    def forge(data: bytes) -> bytes:
        card, state = model_from_bytes(data)
        return model_to_bytes(card, change(state))

    return forge


another_tensor = with_state(lambda state: {**state, "exact": np.arange(5.0)})


@pytest.mark.parametrize("name", ["independent", "dp-hp-adaptive"])
def test_a_tensor_too_many(tmp_path: Path, key: Key, name: str) -> None:
    path = forged(golden(name), tmp_path / "f.zip", key, files={"model.safetensors": another_tensor})
    only(path, "exactly the tensors of its model")


@pytest.mark.parametrize("name", ["dp-hp", "dp-merf-no-label", "kahm", "kahm-rows", "kahm-cell"])
def test_a_tensor_that_drawing_rows_does_not_need(tmp_path: Path, key: Key, name: str) -> None:
    path = forged(golden(name), tmp_path / "f.zip", key, files={"model.safetensors": another_tensor})
    only(path, "exactly the tensors of its model")


def test_tensors_of_another_kind(tmp_path: Path, key: Key) -> None:
    single = with_state(lambda state: {"table.0": state["table.0"].astype("f4")})
    all_single = with_state(lambda state: {name: tensor.astype("f4") for name, tensor in state.items()})
    for forge, reason in ((single, "exactly the tensors"), (all_single, "contains other numbers in 'table.")):
        only(forged(golden("independent"), tmp_path / "f.zip", key, files={"model.safetensors": forge}), reason)


def test_a_generator_that_nobody_knows(tmp_path: Path, key: Key) -> None:
    def other(data: bytes) -> bytes:
        return data.replace(b"independent", b"nobodyknown")

    def configuration(data: bytes) -> bytes:
        return data.replace(b"name: independent", b"name: nobodyknown")

    path = forged(
        golden("independent"),
        tmp_path / "f.zip",
        key,
        certificate=lambda one: one.update(generator="nobodyknown"),
        files={
            "config.yaml": lambda data: data.replace(b"name: independent", b"name: nobodyknown"),
            "model.safetensors": other,
        },
    )
    only(path, "which this program does not know", "names a source that such a run does not have")


def test_identifiers_that_say_something(tmp_path: Path, key: Key) -> None:
    def csv(data: bytes) -> bytes:
        place = data.index(b"syn-")
        return data[:place] + b"syn-000000000041" + data[place + 16 :]

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"synthetic.csv": csv})
    # The page shows the first rows.
    reasons = ("synthetic.csv is not what its own cells and identifiers are written as", "report.html")
    only(path, *reasons)
    # No version gives rows other identifiers.
    other = altered(path, path, certificate=lambda one: one["versions"].update(source="0" * 32), sign_with=key)
    only(other, reasons[0])


def test_bounds_that_were_read_and_are_called_declared(tmp_path: Path, key: Key) -> None:
    def read(data: bytes) -> bytes:
        return data.replace(b"domain_source:\n", b"domain_source:\n  age: read from the private rows\n")

    reason = "says that the domain of 'age' was declared; config.yaml does not"
    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": read})
    # The page says of every column where its domain is from.
    only(path, reason, "report.html")
    only(forged(path, tmp_path / "g.zip", key), reason)


# Texts --------------------------------------------------------------------------------------------------------------

EXACT = (
    b'<section><h3>Rows <span class="b">\xe2\x97\x8f safe to publish</span></h3><p class="v">41</p></section></main>'
)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("report.html", b"</main>", EXACT),
        ("README.txt", b"SYNTHETIC TABLE", b"SYNTHETIC TABLE, checked by a university"),
        ("CITATION.cff", b"epsilon 3.99", b"epsilon 1.99"),
        ("report.html", b"<h1>", b"<h1>The true "),
    ],
)
def test_a_text_that_says_something_else(tmp_path: Path, key: Key, name: str, old: bytes, new: bytes) -> None:
    def other(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    only(
        forged(golden("independent"), tmp_path / "f.zip", key, files={name: other}),
        f"{name} does not follow, byte for byte, from the rest of the bundle",
    )
    # Of another version it cannot be said, and that is said, without a yes.
    path = forged(golden("independent"), tmp_path / "o.zip", key)
    versions = {"certificate": lambda one: one["versions"].update(source="0" * 32)}
    path = altered(path, path, files={name: other}, sign_with=key, **versions)  # type: ignore[arg-type]
    verdict = checked(path)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.lines
    (lack,) = verdict.json["not_checked"]
    assert lack.startswith(f"{name}: made again here, it differs, and this computer is not like the one that made it.")
    assert "The certificate states source 00000000000000000000000000000000 (here " in lack
    assert f"NOT CHECKED: {lack}" in verdict.lines


ACTIVE = [
    b"<script>alert(1)</script>",
    b'<img src="x">',
    b'<p onclick="x()">a</p>',
    b'<a href="x">a</a>',
    b"<style>p{background:url(x)}</style>",
    b"<style>@import 'x';</style>",
    b"<iframe></iframe>",
    b"<!-- exact 41 -->",
    b'<meta http-equiv="refresh" content="0">',
    b'<svg><use xlink:href="x"/></svg>',
    b'<p style="background:x">a</p>',
]


@pytest.mark.four_cases
@pytest.mark.parametrize("active", ACTIVE)
def test_a_page_that_runs_or_fetches_or_hides_whatever_wrote_it(tmp_path: Path, key: Key, active: bytes) -> None:
    path = forged(golden("independent"), tmp_path / "o.zip", key)
    versions = {"certificate": lambda one: one["versions"].update(source="0" * 32)}
    change = {"report.html": lambda data: data.replace(b"</main>", active + b"</main>")}
    only(altered(path, path, files=change, sign_with=key, **versions), "report.html contains")  # type: ignore[arg-type]
