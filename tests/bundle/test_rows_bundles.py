"""Bundles of noisy rows: they verify, replay, say what they promise, and a forged one is found though it is signed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import COLUMNS, Key, altered, checked, config_of, members_of, simulated_codes
from forging import with_answer

from synth.bundle.certificate import certificate_from_dict, promise
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.recorded_session import RecordedSession
from synth.bundle.replay import replay
from synth.errors import ConfigError
from synth.privacy.accounting import PrivacyBudget, worth_for_a_row
from synth.privacy.answers import of_kind
from synth.privacy.more.cells import CellNoise
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.receipt import Receipt
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import budget_parts, forecast
from synth.schema import RunConfig, Schema
from synth.services.pipeline import Sealing, fit_and_sample, seal_release
from synth.services.planning import check_config, forecast_lines

ROWS = 250


def config_for(mode: str, **changes: Any) -> RunConfig:
    options = {"mode": mode, "n": 5, "block": 100}
    config = config_of(label="outcome", rows=ROWS, generator="kahm", options=options, holdout=0.0)
    schema = Schema(COLUMNS, protection="cell" if mode == "cell" else "record", number_of_units=ROWS)
    return dataclasses.replace(config, schema=schema, **changes)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, key: Key) -> dict[str, Path]:
    return {mode: seal(config_for(mode), tmp_path_factory.mktemp(mode), key) for mode in ("cell", "rows")}


def seal(config: RunConfig, folder: Path, key: Key) -> Path:
    table = PrivateTable.from_codes(config.schema, simulated_codes(config.schema, ROWS), account_key=bytes(32))
    measured = fit_and_sample(config, table, NullProgress())
    sealing = Sealing(signer=key, ledger={"charges": 1, "head": "ab" * 32})
    return seal_release(config, measured, folder, sealing=sealing, progress=NullProgress()).path


def measurements_of(bundle: Path) -> Measurements:
    return measurements_from_bytes(members_of(bundle)["measurements.npz"])


def failures(bundle: Path) -> str:
    verdict = checked(bundle)
    assert not verdict.ok
    return " ".join(verdict.json["failures"])


@pytest.mark.parametrize("mode", ["cell", "rows"])
def test_a_bundle_of_rows_verifies_and_replays(sealed: dict[str, Path], mode: str, tmp_path: Path) -> None:
    verdict = checked(sealed[mode])
    assert verdict.ok, verdict.lines
    again = replay(sealed[mode], tmp_path / "again")
    assert again.identical
    assert again.report_identical
    assert replay(sealed[mode], tmp_path / "refitted", refit=True).identical
    (release,) = of_kind(measurements_of(sealed[mode]).answers, PerturbedRows)
    assert release.numbers.shape == (ROWS, sum(release.question.widths))
    assert release.labels.shape == (ROWS,)


def test_a_table_of_another_number_of_rows_than_was_declared_verifies(tmp_path: Path, key: Key) -> None:
    """The declared number is printed whatever the table has; the noisy rows are those of the table."""
    declared = ROWS - 10
    config = config_for("rows")
    path = seal(dataclasses.replace(config, schema=Schema(COLUMNS, number_of_units=declared)), tmp_path, key)
    found = measurements_of(path)
    assert found.rows is not None
    assert (found.rows.value, len(of_kind(found.answers, PerturbedRows)[0].numbers)) == (declared, ROWS)
    verdict = checked(path)
    assert verdict.ok, verdict.json["failures"]


def test_a_cell_bundle_says_what_it_promises_and_what_not(sealed: dict[str, Path]) -> None:
    verdict = checked(sealed["cell"])
    text = " ".join(verdict.lines)
    assert "Protects ONE CELL: pure epsilon = 1 for" in text
    assert "Class labels, class sizes and the number of rows are not protected." in text
    worth = verdict.json["row_epsilon"]
    assert f"epsilon = {worth:.6g} at delta = 1e-06 for replacing it with one that has the same label" in text
    assert 4 < worth <= 7
    assert verdict.json["neighbours"] == "one_cell"
    readme = members_of(sealed["cell"])["README.txt"].decode()
    assert "as many of them as private rows" in readme
    assert "protecting one cell of a table" in members_of(sealed["cell"])["CITATION.cff"].decode()
    report = json.loads(members_of(sealed["cell"])["report.json"])
    (shown,) = [entry for entry in report["evidence"] if entry["id"] == "overview.row_epsilon"]
    assert worth <= shown["value"] < worth * 1.001
    assert "compare this release with others" in shown["sentence"]
    assert "row_epsilon" not in members_of(sealed["rows"])["report.json"].decode()
    assert "row_epsilon" not in checked(sealed["rows"]).json or checked(sealed["rows"]).json["row_epsilon"] is None


def test_what_is_stated_is_what_was_forecast(sealed: dict[str, Path]) -> None:
    expected = forecast(config_for("cell"))
    assert expected.row_epsilon == pytest.approx(checked(sealed["cell"]).json["row_epsilon"], rel=1e-9)
    assert [noise.column for noise in expected.row_noise] == [
        column.name for column in config_for("cell").schema.modelled if column.name != "outcome"
    ]
    assert not any(noise.drowned for noise in forecast(config_for("cell", epsilon=20.0)).row_noise)
    assert all(noise.drowned for noise in forecast(config_for("rows", epsilon=8.0)).row_noise)
    assert [part.name for part in budget_parts(config_for("cell"))] == ["generator"]
    assert [part.name for part in budget_parts(config_for("rows"))] == ["evaluation", "generator"]
    said = "\n".join(forecast_lines(config_for("cell")))
    assert "Protects ONE CELL" in said
    assert "for replacing a row by one with the same label" in said


def _row_epsilon_halved(document: dict[str, Any]) -> None:
    document["row_epsilon"] /= 2


def _row_epsilon_left_out(document: dict[str, Any]) -> None:
    del document["row_epsilon"]


def _pure_cost_dropped(document: dict[str, Any]) -> None:
    document["receipts"][0]["pure_units"] //= 2
    document["epsilon"] /= 2


def _called_a_record(document: dict[str, Any]) -> None:
    document["neighbours"] = document["receipts"][0]["neighbours"] = "replace_one"
    del document["row_epsilon"]


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (_row_epsilon_halved, "For a whole row"),
        (_row_epsilon_left_out, "if, and only if, it protects single cells"),
        (_pure_cost_dropped, "pure epsilon"),
        (_called_a_record, "different"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_lie_in_the_certificate_is_found_though_it_is_signed(
    sealed: dict[str, Path], tmp_path: Path, key: Key, lie: Callable[[dict[str, Any]], None], reason: str
) -> None:
    forged = altered(sealed["cell"], tmp_path / "forged.zip", certificate=lie, sign_with=key)
    assert reason in failures(forged)


def _forged(
    bundle: Path, target: Path, key: Key, change: Callable[[PerturbedRows], PerturbedRows], **stated: Any
) -> Path:
    """Alter the answers and the certificate alike, so that they agree with one another."""
    known = measurements_of(bundle)
    (rows,) = of_kind(known.answers, PerturbedRows)
    release = change(rows)
    answers = measurements_to_bytes(with_answer(known, rows, release))

    def agree(document: dict[str, Any]) -> None:
        others = [one for one in document["receipts"] if one["mechanism"] in ("discrete_gaussian", "exponential")]
        document["receipts"] = others + [receipt.to_dict() for receipt in release.receipts]
        document |= stated

    return altered(bundle, target, files={"measurements.npz": lambda _: answers}, certificate=agree, sign_with=key)


@pytest.mark.parametrize(
    "parts", [("l1",), ("row_largest",), ("l1", "row_l1", "row_largest")], ids=["l1", "largest", "all"]
)
def test_a_receipt_of_a_smaller_cell_is_found_by_the_question_itself(
    parts: tuple[str, ...], sealed: dict[str, Path], tmp_path: Path, key: Key
) -> None:
    def halved(cell: CellNoise) -> CellNoise:
        return cell._replace(**{part: getattr(cell, part) // 2 for part in parts})

    def smaller(release: PerturbedRows) -> PerturbedRows:
        receipt = release.receipt
        cells = tuple(map(halved, receipt.cells))
        honest = dataclasses.replace(receipt, cells=cells, pure_units=-(-receipt.pure_units // 2) + 1)
        return dataclasses.replace(release, receipts=(honest,))

    changed = smaller(of_kind(measurements_of(sealed["cell"]).answers, PerturbedRows)[0])
    stated = {
        "epsilon": changed.receipt.pure_units * 2.0**-40,
        "row_epsilon": worth_for_a_row(changed.receipts, 1e-6),
    }
    found = failures(_forged(sealed["cell"], tmp_path / "forged.zip", key, smaller, **stated))
    assert "by more than its receipt states" in found


@pytest.mark.parametrize("mode", ["cell", "rows"])
def test_rows_that_do_not_fit_their_question_are_found(
    sealed: dict[str, Path], tmp_path: Path, key: Key, mode: str
) -> None:
    narrow = _forged(
        sealed[mode], tmp_path / "1.zip", key, lambda one: dataclasses.replace(one, numbers=one.numbers[:, :-1])
    )
    assert "a different width" in failures(narrow)
    strange = _forged(
        sealed[mode], tmp_path / "2.zip", key, lambda one: dataclasses.replace(one, labels=one.labels + 9)
    )
    assert "one declared label for each row" in failures(strange)


def test_labels_without_a_receipt_are_found(sealed: dict[str, Path], tmp_path: Path, key: Key) -> None:
    forged = _forged(
        sealed["rows"], tmp_path / "f.zip", key, lambda one: dataclasses.replace(one, receipts=one.receipts[:1])
    )
    assert "without a receipt for a randomised response" in failures(forged)


def test_a_receipt_for_labels_that_nobody_asked_for_is_found(sealed: dict[str, Path], tmp_path: Path, key: Key) -> None:
    def unasked(release: PerturbedRows) -> PerturbedRows:
        question = dataclasses.replace(release.question, label=None)
        return dataclasses.replace(release, question=question, labels=None)

    found = failures(_forged(sealed["rows"], tmp_path / "f.zip", key, unasked))
    assert "has a receipt or list of labels, although the question has no label" in found


def test_answers_come_back_as_they_were_and_are_small(sealed: dict[str, Path]) -> None:
    data = members_of(sealed["cell"])["measurements.npz"]
    known = measurements_from_bytes(data)
    assert measurements_to_bytes(known) == data
    (release,) = of_kind(known.answers, PerturbedRows)
    assert len(data) < 4 * release.numbers.size + 100_000
    assert np.array_equal(release.vectors, release.numbers * release.receipt.grid)


def test_other_generators_and_modes_refuse_a_cell_before_anything_is_charged() -> None:
    cell = config_for("cell")
    for name, options in (("independent", {}), ("dp-hp-adaptive", {}), ("kahm", {"mode": "record"})):
        with pytest.raises(ConfigError, match=r"protects whole rows|protection: record"):
            check_config(dataclasses.replace(cell, generator=name, options=options))
    with pytest.raises(ConfigError, match="protection: record"):
        check_config(dataclasses.replace(cell, options={"mode": "rows"}))
    with pytest.raises(ConfigError, match="protection: cell"):
        check_config(dataclasses.replace(cell, schema=config_for("rows").schema))
    with pytest.raises(ConfigError, match="cannot be released"):
        check_config(dataclasses.replace(cell, options={"mode": "paper"}))


def test_a_certificate_reads_back(sealed: dict[str, Path]) -> None:
    document = json.loads(members_of(sealed["cell"])["certificate.json"])
    certificate = certificate_from_dict(document)
    assert [Receipt.from_dict(one) for one in document["receipts"]] == list(certificate.receipts)
    first, second = promise(certificate)[:2]
    assert first.startswith("NOT covered by the guarantee: the domain of age")
    assert second.startswith("Protects ONE CELL")


def test_a_part_of_a_recorded_session_knows_the_rows(sealed: dict[str, Path]) -> None:
    known = measurements_of(sealed["rows"])
    schema = config_for("rows").schema
    (release,), budget = (
        of_kind(known.answers, PerturbedRows),
        PrivacyBudget(epsilon=1.0, delta=1e-6, neighbours=schema.neighbours),
    )
    assert known.rows is not None
    session = RecordedSession(schema, budget, rows=known.rows, answers=known.answers).sub_session(0.5)
    asked, query = release.question, release.receipts[0].query
    again = session.perturb_rows(
        asked.tables, label=asked.label, noise=asked.noise, share=1.0, query=query, source="test"
    )
    assert again is release
