"""Bundles forged until everything in them agrees, and signed anew: each is refused for its own reason and no other."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from bundle_making import Key, altered, checked, members_of
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from synth.bundle.archive import MEMBERS, write_zip
from synth.bundle.canonical import canonical_json
from synth.bundle.certificate import certificate_from_dict
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.schema_json import schema_from_document
from synth.bundle.texts import written_texts
from synth.bundle.versions import current_versions
from synth.privacy.accounting import epsilon_of_receipts, pure_units_of_receipt, units_of_receipt
from synth.privacy.cell_conversion import row_epsilon_of_receipts
from synth.privacy.features import OneHot
from synth.privacy.receipt import CellNoise, Receipt, Release
from synth.privacy.selection import Candidate, Selection
from synth.reports.document import owner_document
from synth.reports.evidence import evidence_from_dict

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "bundles"
SUMS = ["independent", "independent-by-class", "dp-hp", "dp-merf", "kahm", "dp-hp-adaptive-several-rows"]

Change = Callable[[Receipt], Receipt]


def golden(name: str) -> Path:
    return FOLDER / f"{name}.zip"


def answers_of(bundle: Path) -> Measurements:
    return measurements_from_bytes(members_of(bundle)["measurements.npz"])


def costing(receipt: Receipt) -> Receipt:
    """State the cost that follows from what is stated, as whoever believes the receipt would work it out."""
    slack = 6 * receipt.dimension * (receipt.grid / receipt.noise_scale) ** 2 * 1.001 if receipt.slack else 0.0
    return dataclasses.replace(
        receipt,
        mu_squared_units=units_of_receipt(receipt) or receipt.mu_squared_units,
        pure_units=pure_units_of_receipt(receipt),
        slack=slack,
    )


def with_receipts(found: Measurements, change: Change) -> Measurements:
    return dataclasses.replace(
        found,
        releases=tuple(Release(change(one.receipt), one.value, one.feature_map) for one in found.releases),
        selections=tuple(Selection(change(one.receipt), one.index, one.candidate) for one in found.selections),
        row_releases=tuple(
            dataclasses.replace(one, receipts=tuple(map(change, one.receipts))) for one in found.row_releases
        ),
    )


def forged(
    bundle: Path,
    target: Path,
    key: Key,
    *,
    receipts: Change | None = None,
    answers: Callable[[Measurements], Measurements] | None = None,
    certificate: Callable[[dict[str, Any]], None] | None = None,
    files: dict[str, Callable[[bytes], bytes]] | None = None,
    budget: bool = False,
) -> Path:
    """Change receipts wherever they stand, let epsilon and every text follow, and sign.

    With ``budget`` the configuration asks for what the forged receipts spend, so that this agrees too.
    """
    members = members_of(bundle)
    document = json.loads(members["certificate.json"])
    found = measurements_from_bytes(members["measurements.npz"])
    if receipts is not None:
        found = with_receipts(found, receipts)
        changed = [receipts(Receipt.from_dict(one)) for one in document["receipts"]]
        document["receipts"] = [receipt.to_dict() for receipt in changed]
        document["epsilon"] = epsilon_of_receipts(changed, document["delta"])
        if "row_epsilon" in document:
            document["row_epsilon"] = row_epsilon_of_receipts(changed, document["delta"])
    if answers is not None:
        found = answers(found)
    document["versions"] = current_versions()
    if certificate is not None:
        certificate(document)
    if receipts is not None or answers is not None:
        members["measurements.npz"] = measurements_to_bytes(found)
    if budget:
        text = members["config.yaml"].decode()
        members["config.yaml"] = text.replace("epsilon: 4.0", f"epsilon: {document['epsilon'] * 1.00002!r}").encode()
    schema = schema_from_document(json.loads(members["schema.json"]))
    entries = json.loads(members["report.json"])["evidence"]
    for entry in entries:
        if entry["kind"] == "charged":
            paid = [Receipt.from_dict(document["receipts"][sequence]) for sequence in entry["receipts"]]
            entry["epsilon"] = epsilon_of_receipts(paid, document["delta"])
    evidence = [evidence_from_dict(one) for one in entries]
    members["report.json"] = canonical_json(owner_document(evidence))
    members |= written_texts(certificate_from_dict(document), schema, evidence)  # type: ignore[arg-type]
    members["certificate.json"] = canonical_json(document)
    write_zip(target, {name: members[name] for name in MEMBERS})
    return altered(target, target, files=files, certificate=lambda _: None, sign_with=key)


def failures(path: Path) -> Sequence[str]:
    verdict = checked(path)
    assert verdict.ok is not bool(verdict.json["failures"])
    return verdict.json["failures"]


def only(path: Path, *reasons: str) -> None:
    """Each reason is found, and nothing else."""
    found = failures(path)
    assert all(any(reason in failure for failure in found) for reason in reasons), found or "nothing was found"
    assert all(any(reason in failure for reason in reasons) for failure in found), found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.zip")), ids=lambda path: path.stem)
def test_nothing_is_found_where_nothing_was_changed(path: Path, tmp_path: Path, key: Key) -> None:
    verdict = checked(forged(path, tmp_path / "again.zip", key, receipts=lambda receipt: receipt))
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["not_compared"] == []


# Costs --------------------------------------------------------------------------------------------------------------


def a_tenth(receipt: Receipt) -> Receipt:
    if receipt.mechanism != "discrete_gaussian":
        return receipt
    return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 10))


@pytest.mark.parametrize("name", SUMS)
def test_a_tenth_of_every_sensitivity_of_sums(name: str, tmp_path: Path, key: Key) -> None:
    path = forged(golden(name), tmp_path / "forged.zip", key, receipts=a_tenth, budget=True)
    assert json.loads(members_of(path)["certificate.json"])["epsilon"] < 2.5
    only(path, "its question and schema.json give")
    asked = [one for one in answers_of(path).releases if one.receipt.mechanism == "discrete_gaussian"]
    assert len(failures(path)) == len(asked)


@pytest.mark.parametrize("place", range(9))
def test_half_the_sensitivity_of_any_one_answer(place: int, tmp_path: Path, key: Key) -> None:
    def halved(receipt: Receipt) -> Receipt:
        if receipt.sequence != place:
            return receipt
        return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 2))

    name = "dp-hp-adaptive"
    kinds = {one.receipt.sequence: "sum" for one in answers_of(golden(name)).releases}
    kinds |= {one.receipt.sequence: "choice" for one in answers_of(golden(name)).selections}
    assert set(kinds) == set(range(9))
    assert list(kinds.values()).count("choice") > 1
    only(forged(golden(name), tmp_path / "f.zip", key, receipts=halved, budget=True), "its question and schema.json")


def test_a_tenth_of_the_parameter_of_a_choice_leaves_a_budget_that_no_run_leaves(tmp_path: Path, key: Key) -> None:
    def weaker(receipt: Receipt) -> Receipt:
        if receipt.mechanism != "exponential":
            return receipt
        return costing(dataclasses.replace(receipt, noise_scale=receipt.noise_scale / 10))

    for name in ("dp-hp-adaptive", "dp-hp-adaptive-several-rows"):
        only(forged(golden(name), tmp_path / "f.zip", key, receipts=weaker), "of the budget of config.yaml")


@pytest.mark.parametrize("name", ["kahm-rows", "kahm-cell"])
def test_a_tenth_of_the_sensitivity_of_noisy_rows(name: str, tmp_path: Path, key: Key) -> None:
    def smaller(receipt: Receipt) -> Receipt:
        if receipt.mechanism == "gaussian_rows":
            return costing(dataclasses.replace(receipt, sensitivity=receipt.sensitivity / 10))
        if receipt.mechanism == "discrete_laplace":
            cells = tuple(CellNoise(*(-(-number // 10) for number in cell[:3]), cell.scale) for cell in receipt.cells)
            dearest = max(cells, key=lambda cell: Fraction(cell.l1, cell.scale))
            stated = {"sensitivity": dearest.l1 * receipt.grid, "noise_scale": dearest.scale * receipt.grid}
            return costing(dataclasses.replace(receipt, cells=cells, **stated))
        return receipt

    path = forged(golden(name), tmp_path / "forged.zip", key, receipts=smaller, budget=True)
    if name == "kahm-cell":
        only(path, "farther than its receipt says")
    else:
        # The rows seem to cost less, so the other questions have more than their shares of what is left.
        only(path, "its question and schema.json give", "of the budget of config.yaml, which gives it 10.000%")


def test_a_label_that_moves_less_than_a_label_does(tmp_path: Path, key: Key) -> None:
    def smaller(receipt: Receipt) -> Receipt:
        labels = receipt.mechanism == "randomised_response"
        return dataclasses.replace(receipt, sensitivity=0.1) if labels else receipt

    only(forged(golden("kahm-rows"), tmp_path / "f.zip", key, receipts=smaller), "its question and schema.json give")


def test_more_rows_per_unit_than_the_sensitivity_is_for(tmp_path: Path, key: Key) -> None:
    def cap(text: bytes) -> bytes:
        return text.replace(b'"rows_per_unit": 3', b'"rows_per_unit": 600').replace(
            b"rows_per_unit: 3", b"rows_per_unit: 600"
        )

    def model(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        header = data[8 : 8 + length].replace(b'rows_per_unit\\": 3', b'rows_per_unit\\": 600').rstrip(b" ")
        header += b" " * (-len(header) % 8)
        return struct.pack("<Q", len(header)) + header + data[8 + length :]

    bundle = golden("independent-by-class")
    prepared = forged(
        bundle,
        tmp_path / "prepared.zip",
        key,
        receipts=lambda receipt: dataclasses.replace(receipt, rows_per_unit=600),
        certificate=lambda document: document["unit"].update(rows_per_unit=600),
        files={"schema.json": cap, "config.yaml": cap, "model.safetensors": model},
    )
    only(forged(prepared, tmp_path / "f.zip", key), "its question and schema.json give")


def test_noise_that_no_variance_in_grid_steps_gives(tmp_path: Path, key: Key) -> None:
    def odd(receipt: Receipt) -> Receipt:
        if receipt.mechanism != "discrete_gaussian":
            return receipt
        # 41 whole steps and a half: no whole number is its square.
        noise = receipt.noise_scale
        steps = round(noise / receipt.grid) + 0.5
        return costing(dataclasses.replace(receipt, noise_scale=math.nextafter(steps * receipt.grid, 0.0)))

    path = forged(golden("independent"), tmp_path / "f.zip", key, receipts=odd)
    only(path, "no variance in whole grid steps gives")


def test_a_grid_that_no_sum_is_taken_on(tmp_path: Path, key: Key) -> None:
    def finer(receipt: Receipt) -> Receipt:
        return costing(dataclasses.replace(receipt, grid=receipt.grid / 2))

    only(forged(golden("independent"), tmp_path / "f.zip", key, receipts=finer), "a grid that no sum is taken on")


def test_a_part_of_the_budget_that_the_configuration_does_not_give(tmp_path: Path, key: Key) -> None:
    def other(data: bytes) -> bytes:
        assert b"prediction_share: 0.2" in data
        return data.replace(b"prediction_share: 0.2", b"prediction_share: 0.3")

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": other})
    only(path, "is 20.000% of the budget of config.yaml, which gives it 30.000%")


# Answers and receipts -----------------------------------------------------------------------------------------------


def second(found: Measurements) -> Measurements:
    """Another answer under each kind of receipt there is, of other noise."""
    releases = [Release(one.receipt, one.value + one.receipt.grid, one.feature_map) for one in found.releases[:1]]
    rows = [dataclasses.replace(one, numbers=one.numbers + 1) for one in found.row_releases[:1]]
    if found.selections:
        return dataclasses.replace(found, selections=(*found.selections, found.selections[0]))
    if found.row_releases:
        return dataclasses.replace(found, row_releases=(*found.row_releases, *rows))
    return dataclasses.replace(found, releases=(*found.releases, *releases))


@pytest.mark.parametrize("name", ["independent", "dp-hp-adaptive", "kahm-rows", "kahm-cell"])
def test_a_second_answer_under_one_receipt(name: str, tmp_path: Path, key: Key) -> None:
    only(forged(golden(name), tmp_path / "f.zip", key, answers=second), "a second answer to")


def test_two_questions_of_one_name(tmp_path: Path, key: Key) -> None:
    def renamed(receipt: Receipt) -> Receipt:
        return dataclasses.replace(receipt, query="one-way tables")

    found = failures(forged(golden("independent"), tmp_path / "f.zip", key, receipts=renamed))
    assert "Two receipts are of questions of one name, which no run asks." in found


def test_an_assumption_of_the_receipts_that_the_certificate_leaves_out(tmp_path: Path, key: Key) -> None:
    path = forged(golden("dp-merf"), tmp_path / "f.zip", key, certificate=lambda one: one.update(assumptions=[]))
    only(path, "leans on an assumption that the certificate leaves out")


@pytest.mark.parametrize(("name", "left"), [("dp-merf", 0), ("kahm-cell", 1), ("kahm-rows", 1)])
def test_an_assumption_of_the_table_that_everything_leaves_out(name: str, left: int, tmp_path: Path, key: Key) -> None:
    def unsaid(receipt: Receipt) -> Receipt:
        return dataclasses.replace(receipt, assumptions=receipt.assumptions[:left])

    def certificate(document: dict[str, Any]) -> None:
        said = [sentence for one in document["receipts"] for sentence in one["assumptions"]]
        document["assumptions"] = list(dict.fromkeys(said))

    path = forged(golden(name), tmp_path / "f.zip", key, receipts=unsaid, certificate=certificate)
    only(path, "leaves out what follows from the declared table")
    # Another version might have worded it otherwise: the reader is told in the words of this one.
    other = forged(path, tmp_path / "o.zip", key)
    other = altered(other, other, certificate=lambda one: one["versions"].update(source="x"), sign_with=key)
    verdict = checked(other)
    assert verdict.ok, verdict.json["failures"]
    honest = checked(golden(name)).lines
    assert {line for line in honest if line.startswith("Assumed")} <= set(verdict.lines)


@pytest.mark.parametrize(
    ("old", "new", "reasons"),
    [
        (b"delta: 1.0e-06", b"delta: 1.0e-07", ["asks for delta"]),
        (b"epsilon: 4.0", b"epsilon: 3.0", ["which no run of it spends"]),
        (b"epsilon: 4.0", b"epsilon: 4.1", ["every run spends all of it"]),
        (b"seed: 3", b"seed: 3 # exact 41", ["holds a comment"]),
        (b"label: outcome", b"label: smoker", ["for another label"]),
    ],
)
def test_a_configuration_of_another_run(tmp_path: Path, key: Key, old: bytes, new: bytes, reasons: list[str]) -> None:
    def other(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    only(forged(golden("independent-by-class"), tmp_path / "f.zip", key, files={"config.yaml": other}), *reasons)


def test_held_out_rows_that_no_prediction_was_paid_for(tmp_path: Path, key: Key) -> None:
    def other(data: bytes) -> bytes:
        return data.replace(b"prediction_share: 0.2\n", b"")

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": other})
    only(path, "config.yaml pays for no prediction", "which gives it 0.000%")


def test_a_number_of_rows_that_was_not_paid_for(tmp_path: Path, key: Key) -> None:
    def exact(found: Measurements) -> Measurements:
        assert found.rows is not None
        return dataclasses.replace(found, rows=dataclasses.replace(found.rows, value=400.0))

    path = forged(golden("independent-by-class"), tmp_path / "f.zip", key, answers=exact)
    only(path, "not the noisy one that was paid for")


def of_kind(kind: str, **changes: Any) -> Change:
    def change(receipt: Receipt) -> Receipt:
        return costing(dataclasses.replace(receipt, **changes)) if receipt.mechanism == kind else receipt

    return change


STATED: list[tuple[str, Change, str]] = [
    ("dp-hp-adaptive", of_kind("exponential", grid=2.0**-20), "states a grid that no score is taken on"),
    ("kahm-rows", of_kind("gaussian_rows", grid=2.0**-11), "states a grid that no row is let out on"),
    ("kahm-cell", of_kind("discrete_laplace", sensitivity=1.0), "the sensitivity and noise of its dearest column"),
    ("independent-by-class", of_kind("discrete_gaussian", mechanism="gaussian_rows"), "a receipt that is not of a sum"),
    ("kahm-rows", of_kind("gaussian_rows", mechanism="discrete_gaussian"), "a receipt that is not of rows with"),
    ("dp-hp-adaptive", of_kind("discrete_gaussian", dimension=1000), "another number of coordinates than its receipt"),
]


@pytest.mark.parametrize(("name", "change", "reason"), STATED, ids=[reason for _, _, reason in STATED])
def test_a_receipt_that_its_answer_does_not_bear_out(
    tmp_path: Path, key: Key, name: str, change: Change, reason: str
) -> None:
    only(forged(golden(name), tmp_path / "f.zip", key, receipts=change), reason)


def test_a_choice_that_is_a_sum_by_its_receipt(tmp_path: Path, key: Key) -> None:
    def a_sum(receipt: Receipt) -> Receipt:
        if receipt.mechanism != "exponential":
            return receipt
        noise = receipt.sensitivity / math.sqrt(receipt.mu_squared_units * 2.0**-40)
        return costing(dataclasses.replace(receipt, mechanism="discrete_gaussian", noise_scale=noise, slack=1e-9))

    path = forged(golden("dp-hp-adaptive"), tmp_path / "f.zip", key, receipts=a_sum)
    only(path, "has a receipt that is not of a choice")


def test_a_question_of_another_table(tmp_path: Path, key: Key) -> None:
    def other(found: Measurements) -> Measurements:
        count, *others = found.releases
        question = OneHot(("outcome",), (np.zeros(3, dtype=np.int32),))
        return dataclasses.replace(found, releases=(Release(count.receipt, count.value, question), *others))

    path = forged(golden("independent-by-class"), tmp_path / "f.zip", key, answers=other)
    only(path, "cannot have been asked of the declared table", "not the noisy one that was paid for")


def test_a_choice_of_no_candidate_and_one_of_another_table(tmp_path: Path, key: Key) -> None:
    def beyond(found: Measurements) -> Measurements:
        first, *others = found.selections
        chosen = Selection(first.receipt, first.receipt.dimension, first.candidate)
        return dataclasses.replace(found, selections=(chosen, *others))

    def strange(found: Measurements) -> Measurements:
        first, *others = found.selections
        candidate = Candidate(("outcome",), np.ones(3))
        return dataclasses.replace(found, selections=(Selection(first.receipt, 0, candidate), *others))

    bundle = golden("dp-hp-adaptive")
    only(forged(bundle, tmp_path / "f.zip", key, answers=beyond), "chose a candidate that is not among")
    only(forged(bundle, tmp_path / "f.zip", key, answers=strange), "cannot have been made on the declared table")


def test_another_number_of_noisy_rows_than_is_public(tmp_path: Path, key: Key) -> None:
    def more(found: Measurements) -> Measurements:
        assert found.rows is not None
        return dataclasses.replace(found, rows=dataclasses.replace(found.rows, value=found.rows.value + 1))

    path = forged(golden("kahm-rows"), tmp_path / "f.zip", key, answers=more)
    only(path, "does not state the number of rows that was declared public")


# Bytes that nothing refers to ---------------------------------------------------------------------------------------


def test_an_array_that_nothing_refers_to(tmp_path: Path, key: Key) -> None:
    def more(data: bytes) -> bytes:
        buffer = io.BytesIO(data)
        with zipfile.ZipFile(buffer, "a") as archive:
            array = io.BytesIO()
            np.save(array, np.arange(400), allow_pickle=False)
            entry = zipfile.ZipInfo("exact.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            archive.writestr(entry, array.getvalue())
        return buffer.getvalue()

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"measurements.npz": more})
    only(path, "arrays that no answer and no question refers to")


def test_a_word_in_the_index_of_answers(tmp_path: Path, key: Key) -> None:
    def said(data: bytes) -> bytes:
        source, buffer = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for old in source.infolist():
                content = source.read(old)
                if old.filename == "index.npy":
                    index = json.loads(np.load(io.BytesIO(content), allow_pickle=False).tobytes())
                    index["releases"][0]["exact"] = [1, 2, 3]
                    text = json.dumps(index, sort_keys=True).encode()
                    array = io.BytesIO()
                    np.save(array, np.frombuffer(text, dtype=np.uint8), allow_pickle=False)
                    content = array.getvalue()
                entry = zipfile.ZipInfo(old.filename, date_time=old.date_time)
                entry.compress_type, entry.external_attr = old.compress_type, old.external_attr
                archive.writestr(entry, content)
        return buffer.getvalue()

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"measurements.npz": said})
    only(path, "holds more than its answers and questions")


def another_tensor(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return bytes(save_safetensors({**load_safetensors(data), "exact": np.arange(5.0)}, metadata))


def more_metadata(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return bytes(save_safetensors(load_safetensors(data), metadata | {"note": "exact 41"}))


def word_in_the_card(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    card = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["hermitage"])
    text = json.dumps(card | {"note": "exact 41"}, sort_keys=True)
    return bytes(save_safetensors(load_safetensors(data), {"hermitage": text}))


def padded_header(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    return struct.pack("<Q", length + 8) + data[8 : 8 + length] + b" " * 8 + data[8 + length :]


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (another_tensor, "exactly the tensors that drawing rows needs"),
        (more_metadata, "neither a tensor nor its card"),
        (word_in_the_card, "neither a tensor nor its card"),
        (padded_header, "neither a tensor nor its card"),
        (lambda data: data + b"exact 41", "model.safetensors is damaged"),
    ],
)
@pytest.mark.parametrize("name", ["independent", "dp-hp-adaptive"])
def test_a_model_with_more_than_its_tensors(
    tmp_path: Path, key: Key, name: str, forge: Callable[[bytes], bytes], reason: str
) -> None:
    only(forged(golden(name), tmp_path / "f.zip", key, files={"model.safetensors": forge}), reason)


@pytest.mark.parametrize("name", ["dp-hp", "dp-merf", "kahm", "kahm-rows", "kahm-cell"])
def test_a_tensor_that_drawing_rows_does_not_need(tmp_path: Path, key: Key, name: str) -> None:
    path = forged(golden(name), tmp_path / "f.zip", key, files={"model.safetensors": another_tensor})
    only(path, "exactly the tensors that drawing rows needs")


def test_tensors_of_another_kind(tmp_path: Path, key: Key) -> None:
    def single(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        return bytes(save_safetensors({"table.0": load_safetensors(data).pop("table.0").astype("f4")}, metadata))

    def all_single(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        return bytes(save_safetensors({k: v.astype("f4") for k, v in load_safetensors(data).items()}, metadata))

    for forge, reason in ((single, "exactly the tensors"), (all_single, "holds other numbers in 'table.")):
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
    only(path, "which this program does not know")


def rewritten(change: Callable[[pa.Table], pa.Table], **options: Any) -> Callable[[bytes], bytes]:
    def write(data: bytes) -> bytes:
        sink = io.BytesIO()
        table = change(pa_parquet.read_table(io.BytesIO(data)))
        pa_parquet.write_table(table, sink, **{"store_schema": False, **options})
        return sink.getvalue()

    return write


def hidden_between(data: bytes) -> bytes:
    """Eight bytes between the last column and the footer: no reader looks there."""
    footer = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - footer] + b"exact 41" + data[-8 - footer :]


def with_key_value(data: bytes) -> bytes:
    sink, table = io.BytesIO(), pa_parquet.read_table(io.BytesIO(data))
    with pa_parquet.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"exact": "41"})
    return sink.getvalue()


PARQUET = [
    (with_key_value, "metadata of its own"),
    (rewritten(lambda table: table, store_schema=True), "metadata of its own"),
    (rewritten(lambda table: table.append_column("exact", pa.array([1] * len(table)))), "the declared columns"),
    (hidden_between, "bytes that belong to no column"),
    (lambda data: data.replace(b"parquet-cpp-arrow", b"parquet-cpp-sorow"), "by a library that writes no bundles"),
    (rewritten(lambda table: table, compression="zstd"), "not what the rest of the bundle makes again"),
    (rewritten(lambda table: table, row_group_size=7), "not what the rest of the bundle makes again"),
]


@pytest.mark.parametrize(("forge", "reason"), PARQUET)
def test_a_parquet_file_with_more_than_its_cells(
    tmp_path: Path, key: Key, forge: Callable[[bytes], bytes], reason: str
) -> None:
    only(forged(golden("independent"), tmp_path / "f.zip", key, files={"synthetic.parquet": forge}), reason)


def test_statistics_of_other_cells(tmp_path: Path, key: Key) -> None:
    def smaller(data: bytes) -> bytes:
        known = pa_parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
        place = [known.column(number).path_in_schema for number in range(known.num_columns)].index("age")
        stated = known.column(place).statistics.max
        footer = int.from_bytes(data[-8:-4], "little")
        head, tail = data[: -8 - footer], data[-8 - footer :]
        old = struct.pack("<q", stated)
        assert old in tail
        return head + tail.replace(old, struct.pack("<q", stated + 1))

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"synthetic.parquet": smaller})
    only(path, "states other smallest, largest or missing cells of 'age'")


def test_identifiers_that_say_something(tmp_path: Path, key: Key) -> None:
    def csv(data: bytes) -> bytes:
        place = data.index(b"syn-")
        return data[:place] + b"syn-000000000041" + data[place + 16 :]

    def parquet(table: pa.Table) -> pa.Table:
        names = table.column("patient").to_pylist()
        return table.set_column(0, "patient", pa.array(["syn-000000000041", *names[1:]]))

    changes = {"synthetic.csv": csv, "synthetic.parquet": rewritten(parquet)}
    path = forged(golden("independent"), tmp_path / "f.zip", key, files=changes)
    only(path, "not what the rest of the bundle makes again")


def first_member(data: bytes) -> int:
    return 30 + int.from_bytes(data[26:28], "little")


def with_comment(data: bytes) -> bytes:
    return data[:-2] + struct.pack("<H", 8) + b"exact 41"


def with_prefix(data: bytes) -> bytes:
    return b"exact 41" + data


def with_time(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in source.infolist():
            fresh = zipfile.ZipInfo(entry.filename, date_time=(2024, 1, 1, 0, 0, 41 * 2 % 60))
            fresh.compress_type, fresh.external_attr = entry.compress_type, entry.external_attr
            archive.writestr(fresh, source.read(entry))
    return buffer.getvalue()


def with_extra_field(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in source.infolist():
            fresh = zipfile.ZipInfo(entry.filename, date_time=entry.date_time)
            fresh.compress_type, fresh.external_attr = entry.compress_type, entry.external_attr
            fresh.extra = struct.pack("<HH", 0x4142, 8) + b"exact 41"
            archive.writestr(fresh, source.read(entry))
    return buffer.getvalue()


def with_comment_of_a_member(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in source.infolist():
            fresh = zipfile.ZipInfo(entry.filename, date_time=entry.date_time)
            fresh.compress_type, fresh.external_attr = entry.compress_type, entry.external_attr
            fresh.comment = b"exact 41"
            archive.writestr(fresh, source.read(entry))
    return buffer.getvalue()


def with_gap(data: bytes) -> bytes:
    """A second first member, which the directory does not name, before the directory."""
    end = data.rindex(b"PK\5\6")
    size, start = struct.unpack("<LL", data[end + 12 : end + 20])
    moved = data[end : end + 16] + struct.pack("<L", start + 8) + data[end + 20 :]
    return data[:start] + b"exact 41" + data[start : start + size] + moved


PACKED = [with_comment, with_prefix, with_time, with_extra_field, with_comment_of_a_member, with_gap]


@pytest.mark.parametrize("hide", [*PACKED, lambda data: data + b"exact 41"])
@pytest.mark.parametrize("where", ["bundle", "measurements.npz"])
def test_bytes_of_a_zip_that_belong_to_no_file(
    tmp_path: Path, key: Key, where: str, hide: Callable[[bytes], bytes]
) -> None:
    target = tmp_path / "f.zip"
    if where == "bundle":
        target.write_bytes(hide(golden("independent").read_bytes()))
    else:
        forged(golden("independent"), target, key, files={where: hide})
    only(target, "holds bytes that belong to no file in it")


def test_bytes_behind_the_end_of_a_member(tmp_path: Path) -> None:
    target = tmp_path / "f.zip"
    members = members_of(golden("independent"))
    write_zip(target, dict(members))
    data = bytearray(target.read_bytes())
    # The last member is stretched over eight bytes that its stream does not use.
    end = data.rindex(b"PK\5\6")
    (start,) = struct.unpack("<L", data[end + 16 : end + 20])
    last = data.rindex(b"PK\3\4", 0, start)
    entry = data.rindex(b"PK\1\2", 0, end)
    packed = struct.unpack("<L", data[last + 18 : last + 22])[0] + 8
    for place in (last + 18, entry + 20):
        data[place : place + 4] = struct.pack("<L", packed)
    data[end + 16 : end + 20] = struct.pack("<L", start + 8)
    data[start:start] = b"exact 41"
    target.write_bytes(data)
    only(target, f"{MEMBERS[-1]} is damaged in the zip")


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
        f"{name} is not what the rest of the bundle makes again",
    )
    # Of another version it cannot be said, and that is said.
    path = forged(golden("independent"), tmp_path / "o.zip", key)
    versions = {"certificate": lambda one: one["versions"].update(source="x")}
    path = altered(path, path, files={name: other}, sign_with=key, **versions)  # type: ignore[arg-type]
    verdict = checked(path)
    assert verdict.ok, verdict.json["failures"]
    assert verdict.json["not_compared"] == [name]
    assert any(line.startswith(f"Not compared: {name}") for line in verdict.lines)


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


@pytest.mark.parametrize("active", ACTIVE)
def test_a_page_that_runs_or_fetches_or_hides_whatever_wrote_it(tmp_path: Path, key: Key, active: bytes) -> None:
    path = forged(golden("independent"), tmp_path / "o.zip", key)
    versions = {"certificate": lambda one: one["versions"].update(source="x")}
    change = {"report.html": lambda data: data.replace(b"</main>", active + b"</main>")}
    only(altered(path, path, files=change, sign_with=key, **versions), "report.html holds")  # type: ignore[arg-type]
