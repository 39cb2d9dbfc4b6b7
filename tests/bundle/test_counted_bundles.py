"""Every noisy count of a bundle as a file: the command, the function, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bundle_making import Key, altered, config_of, members_of, seal
from test_rows_bundles import config_for
from test_rows_bundles import seal as seal_rows

import synth
from synth.bundle.counted import counts_of_bundle
from synth.bundle.measurements import measurements_from_bytes
from synth.cli import main
from synth.errors import InputError, VerificationError
from synth.privacy.feature_maps import Stack


@pytest.fixture(scope="module")
def key() -> Key:
    return Key()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    folder = tmp_path_factory.mktemp("counted")
    return seal(config_of(row_count="private", options={}), folder, key).path


def test_all_counts_of_the_sealed_answers_are_there_with_their_noise(bundle: Path) -> None:
    (rows, sums) = measurements_from_bytes(members_of(bundle)["measurements.npz"]).sums[:2]
    frame = synth.answers(bundle)
    assert isinstance(sums.feature_map, Stack)
    (counted, *_), others = frame[frame["question"] == rows.receipt.query]["count"], frame[frame["column_1"].notna()]
    assert counted == rows.value[0]
    mine = others[others["question"] == sums.receipt.query]
    assert len(mine) == sums.value.size
    weights = np.repeat(sums.feature_map.weights, [part.dimension for part in sums.feature_map.parts])
    np.testing.assert_allclose(mine["count"], sums.value / weights)
    np.testing.assert_allclose(mine["standard_error"], sums.receipt.noise_scale / weights)
    assert set(mine["column_1"]) == {"age", "'=weight", "region", "smoker", "visited", "month", "outcome"}
    assert "missing" in set(mine[mine["column_1"] == "age"]["value_1"])
    assert (mine["share_low"] <= mine["share"]).all()
    assert (mine["share"] <= mine["share_high"]).all()


def test_the_command_writes_what_the_function_returns(
    bundle: Path, tmp_path: Path, key: Key, capsys: pytest.CaptureFixture[str]
) -> None:
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.public_key_pem)
    out = tmp_path / "counts.csv"
    assert main(["answers", str(bundle), "--out", str(out), "--public-key", str(pem)]) == 0
    read = pd.read_csv(out)
    pd.testing.assert_frame_equal(read.fillna(""), synth.answers(bundle, public_key=pem).fillna(""), check_dtype=False)
    assert main(["answers", str(bundle), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["answers", str(bundle), "--question", "smoker", "--question", "outcome"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "question,part,column_1,value_1,count,standard_error,share,share_low,share_high"
    assert len(printed) == 1 + 3 + 3
    assert main(["answers", str(bundle), "--question", "height"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("synth: Nothing was counted for 'height'. Counted were: number of rows; age; =weight;")


def test_another_signer_and_altered_answers_are_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(VerificationError):
        counts_of_bundle(bundle, Key().public_key_pem)
    forged = altered(bundle, tmp_path / "forged.zip", files={"measurements.npz": lambda data: data[:-1] + b"!"})
    with pytest.raises(VerificationError):
        synth.answers(forged)


def test_a_bundle_without_counts_says_what_it_holds_instead(tmp_path: Path, key: Key) -> None:
    made = seal_rows(config_for("cell"), tmp_path, key)
    with pytest.raises(InputError, match=r"^This bundle holds no noisy counts: its measurements are noisy rows\.$"):
        synth.answers(made)
