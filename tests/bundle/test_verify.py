"""A bundle that was altered says so, with the reason; one that was signed anew fails under the expected key."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, config_of, members_of, npz_with, npz_with_index, seal

from synth.bundle.archive import MEMBERS, canonical_json, write_zip, zip_of
from synth.bundle.certificate import fingerprint_of
from synth.bundle.measurements import measurements_from_bytes, measurements_to_bytes
from synth.bundle.verify import Outcome, verify
from synth.cli import main
from synth.errors import InputError
from synth.schema import CategoryColumn


def failures(path: Path, **options: Any) -> str:
    verdict = checked(path, **options)
    assert not verdict.ok
    assert verdict.json["failures"]
    assert any(line.startswith("FAILED: ") for line in verdict.lines)
    return " ".join(verdict.json["failures"])


def test_a_bundle_says_what_is_promised_and_what_cannot_be_shown(bundle: Path, key: Key) -> None:
    verdict = checked(bundle, public_key=key.public_key_pem)
    assert verdict.ok, verdict.lines
    assert verdict.lines[0] == "NOT covered by the guarantee: the domain of age, read from the private rows."
    text = "\n".join(verdict.lines)
    assert "replacing one row of one person with another's" in text
    assert "Assumed: No person has more than one row: declared by the owner, not enforced" in text
    assert "No check can show that the noise was really drawn" in text
    assert "No check can show what the ranges and categories of age tell about anyone" in text
    assert verdict.json["epsilon"] == pytest.approx(1.0, abs=1e-3)
    assert verdict.json["epsilon"] <= 1.0
    assert verdict.json["signer"] == "as expected"
    assert len(verdict.json["fingerprint"].replace(" ", "")) == 64


def test_without_a_key_the_signer_is_not_checked(bundle: Path) -> None:
    verdict = checked(bundle)
    assert verdict.ok
    assert verdict.json["signer"] == "not checked"
    assert any("Signer not checked" in line for line in verdict.lines)


def test_an_unpacked_bundle_and_the_folder_of_a_run_are_checked_too(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert checked(tmp_path / "unpacked").ok
    beside = tmp_path / "run"
    beside.mkdir()
    members = members_of(bundle)
    (beside / "bundle.zip").write_bytes(bundle.read_bytes())
    (beside / "synthetic.csv").write_bytes(members["synthetic.csv"])
    assert checked(beside).ok
    (beside / "synthetic.csv").write_bytes(members["synthetic.csv"][:-2])
    assert "synthetic.csv next to the bundle" in failures(beside)


@pytest.mark.four_cases
@pytest.mark.parametrize("name", MEMBERS)
def test_one_altered_byte_anywhere_fails(bundle: Path, tmp_path: Path, name: str) -> None:
    def flip(data: bytes) -> bytes:
        place = len(data) // 2
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    found = failures(altered(bundle, tmp_path / "bundle.zip", files={name: flip}))
    expected = {"certificate.json": "certificate.json", "certificate.json.sig": "signature", "public-key.pem": "key"}
    assert expected.get(name, f"{name} is not the certified file") in found or "signature" in found


@pytest.mark.thorough  # the default command changes bytes of the zip at random, in test_one_form.py
def test_one_altered_byte_of_a_zip_fails_and_never_raises(bundle: Path, tmp_path: Path) -> None:
    data = bytearray(bundle.read_bytes())
    for place in range(40, len(data), len(data) // 30):
        changed = bytearray(data)
        changed[place] ^= 0x10
        target = tmp_path / "bundle.zip"
        target.write_bytes(changed)
        if members_or_none(target) != members_of(bundle):
            assert not checked(target).ok, place


def members_or_none(path: Path) -> dict[str, bytes] | None:
    try:
        return members_of(path)
    except Exception:
        return None


def set_epsilon(document: dict[str, Any]) -> None:
    document["epsilon"] = 0.5


def set_delta(document: dict[str, Any]) -> None:
    document["delta"] = 1e-9


def set_noise(document: dict[str, Any]) -> None:
    document["receipts"][0]["noise_scale"] *= 2


def set_noise_and_cost(document: dict[str, Any]) -> None:
    document["receipts"][0]["noise_scale"] *= 2
    document["receipts"][0]["mu_squared_units"] = document["receipts"][0]["mu_squared_units"] // 4 + 1


def set_sensitivity(document: dict[str, Any]) -> None:
    document["receipts"][0]["sensitivity"] /= 2


def set_cost(document: dict[str, Any]) -> None:
    document["receipts"][0]["mu_squared_units"] -= 1000


def set_slack(document: dict[str, Any]) -> None:
    document["receipts"][0]["slack"] = 0.0


def set_unit(document: dict[str, Any]) -> None:
    document["unit"]["protects"] = "household"


def set_rows_per_unit(document: dict[str, Any]) -> None:
    document["unit"]["rows_per_unit"] = 3


def set_relation(document: dict[str, Any]) -> None:
    document["neighbours"] = "add_remove"


def drop_receipt(document: dict[str, Any]) -> None:
    del document["receipts"][0]


def set_private(document: dict[str, Any]) -> None:
    document["receipts"][0]["private"] = False


def set_rows(document: dict[str, Any]) -> None:
    document["rows"] += 1


def set_seed(document: dict[str, Any]) -> None:
    document["seed"] += 1


def set_generator(document: dict[str, Any]) -> None:
    document["generator"] = "dp-hp"


def set_domain_source(document: dict[str, Any]) -> None:
    document["domain_source"].pop("age")


def extra_key(document: dict[str, Any]) -> None:
    document["note"] = "trust me"


def nan_delta(document: dict[str, Any]) -> None:
    document["delta"] = "small"


LIES = [
    (set_epsilon, "compose to epsilon"),
    (set_delta, "compose to epsilon"),
    (set_noise, "does not follow from its sensitivity and noise"),
    (set_noise_and_cost, "compose to epsilon"),
    (set_sensitivity, "does not follow from its sensitivity and noise"),
    (set_cost, "does not follow from its sensitivity and noise"),
    (set_slack, "noise on a grid"),
    (set_unit, "protects a different unit"),
    (set_rows_per_unit, "protects a different unit"),
    (set_relation, "a different neighbouring relation"),
    (drop_receipt, "at least one receipt"),
    (set_private, "test noise"),
    (set_rows, "rows"),
    (set_seed, "seed"),
    (set_generator, "generator"),
    (set_domain_source, "the source of the domain"),
    (extra_key, "keys"),
    (nan_delta, "wrong type"),
]


@pytest.mark.four_cases
@pytest.mark.parametrize(("lie", "reason"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_every_lie_in_a_certificate_is_found(
    bundle: Path, tmp_path: Path, key: Key, lie: Callable[[dict[str, Any]], None], reason: str
) -> None:
    unsigned = altered(bundle, tmp_path / "unsigned.zip", certificate=lie)
    assert "signature does not match" in failures(unsigned)
    # Even the rightful key cannot make it true.
    signed = altered(bundle, tmp_path / "signed.zip", certificate=lie, sign_with=key)
    assert reason in failures(signed, public_key=key.public_key_pem)


def change_column(data: bytes) -> bytes:
    document = json.loads(data)
    for column in document["columns"]:
        if column["name"] == "age":
            column["high"] = 60.0
    return canonical_json(document)


def change_unit(data: bytes) -> bytes:
    document = json.loads(data)
    document["unit"]["rows_per_unit"] = 2
    return canonical_json(document)


def undeclared_cell(data: bytes) -> bytes:
    return data.replace(b"north", b"NORTH", 1)


def lost_row(data: bytes) -> bytes:
    return data[: data.rstrip(b"\n").rindex(b"\n") + 1]


def swap_rows(data: bytes) -> bytes:
    header, first, second, rest = data.split(b"\n", 3)
    return b"\n".join([header, second, first, rest])


def other_noise(data: bytes) -> bytes:
    return npz_with_index(data, lambda index: index["releases"][0].update(noise_scale=1.0))


def other_receipt(data: bytes) -> bytes:
    def change(index: dict[str, Any]) -> None:
        index["releases"][0]["receipt"]["source"] = "somebody else"

    return npz_with_index(data, change)


def lost_answer(data: bytes) -> bytes:
    known = measurements_from_bytes(data)
    return measurements_to_bytes(
        dataclasses.replace(known, answers=tuple(one for one in known.answers if one is not known.sums[-1]))
    )


def infinite_answer(data: bytes) -> bytes:
    def change(members: dict[str, bytes]) -> None:
        answer = members["answer_0000.npy"]
        members["answer_0000.npy"] = answer[:-8] + b"\x00\x00\x00\x00\x00\x00\xf0\x7f"

    return npz_with(data, change)


def answer_off_the_grid(data: bytes) -> bytes:
    def change(members: dict[str, bytes]) -> None:
        answer = members["answer_0000.npy"]
        members["answer_0000.npy"] = answer[:-8] + np.float64(1 / 3).tobytes()

    return npz_with(data, change)


def garbage(data: bytes) -> bytes:
    return b"nothing of the kind"


def owner_only(data: bytes) -> bytes:
    document = json.loads(data)
    document["evidence"][0]["kind"] = "owner_only"
    return canonical_json(document)


def other_mean(data: bytes) -> bytes:
    document = json.loads(data)
    document["marginals"]["1"]["mean"] = 0.0
    return canonical_json(document)


def other_relation(data: bytes) -> bytes:
    document = json.loads(data)
    (entry,) = [entry for entry in document["evidence"] if entry["id"] == "relations.unknown"]
    entry["value"] -= 1
    return canonical_json(document)


def unpaid(data: bytes) -> bytes:
    document = json.loads(data)
    document["evidence"][0] |= {"kind": "charged", "epsilon": 0.1, "receipts": [99]}
    return canonical_json(document)


def owner_only_text(data: bytes) -> bytes:
    return data.replace(b"</main>", b"<p>owner only: 0.93</p></main>")


def path_of_a_machine(data: bytes) -> bytes:
    return data + b"made from /home/anna/patients.csv\n"


FORGERIES = [
    ("schema.json", change_column, "different columns"),
    ("schema.json", change_unit, "different units"),
    ("synthetic.csv", undeclared_cell, "outside its declared domain"),
    ("synthetic.csv", lost_row, "rows"),
    ("synthetic.csv", swap_rows, "synthetic.parquet is not what the table of synthetic.csv is written as"),
    ("synthetic.csv", garbage, "synthetic.csv"),
    ("synthetic.parquet", garbage, "synthetic.parquet is not what the table of synthetic.csv is written as"),
    ("measurements.npz", other_noise, "differs from its receipt"),
    ("measurements.npz", other_receipt, "a different receipt"),
    ("measurements.npz", lost_answer, "lacks the answer"),
    ("measurements.npz", infinite_answer, "not finite"),
    ("measurements.npz", answer_off_the_grid, "does not lie on the grid"),
    ("measurements.npz", garbage, "measurements.npz is damaged"),
    ("model.safetensors", garbage, "does not say which generator"),
    ("config.yaml", garbage, "config.yaml cannot be read"),
    ("schema.json", garbage, "schema.json is not valid JSON"),
    ("report.json", owner_only, "must not be published"),
    ("report.json", other_mean, "not among them"),
    ("report.json", unpaid, "without its receipt"),
    ("report.json", other_relation, "does not follow from the noisy answers"),
    ("report.html", owner_only_text, "report.html contains an owner-only number"),
    ("README.txt", path_of_a_machine, "README.txt contains a path of a machine"),
]


@pytest.mark.four_cases
@pytest.mark.parametrize(("name", "forge", "reason"), FORGERIES, ids=[f"{n}-{f.__name__}" for n, f, _ in FORGERIES])
def test_a_forged_file_is_found_even_when_it_is_signed(
    bundle: Path, tmp_path: Path, key: Key, name: str, forge: Callable[[bytes], bytes], reason: str
) -> None:
    forged = altered(bundle, tmp_path / "bundle.zip", files={name: forge}, sign_with=key)
    assert reason in failures(forged)


def test_an_exact_number_of_rows_that_was_not_declared_public_is_found(tmp_path: Path, key: Key) -> None:
    sealed = seal(config_of(row_count="private"), tmp_path, key)

    def exact(data: bytes) -> bytes:
        return npz_with_index(
            data, lambda index: index.update(rows={"value": 2000.0, "noise_std": 0.0, "public": True})
        )

    forged = altered(sealed.path, tmp_path / "forged.zip", files={"measurements.npz": exact}, sign_with=key)
    assert "not declared public" in failures(forged)


def test_signed_anew_by_another_key_fails_under_the_expected_one(bundle: Path, tmp_path: Path, key: Key) -> None:
    stranger = Key()
    forged = altered(bundle, tmp_path / "bundle.zip", sign_with=stranger)
    assert checked(forged).ok, "nothing but the key differs"
    assert "not signed with the key that you gave" in failures(forged, public_key=key.public_key_pem)
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.public_key_pem)
    assert "not signed with the key that you gave" in " ".join(verify(forged, public_key=pem).json["failures"])
    assert verify(bundle, public_key=pem).ok
    with pytest.raises(InputError, match=r"public key 'absent\.pem' cannot be read"):
        verify(bundle, public_key=tmp_path / "absent.pem")


def test_hostile_archives_are_refused_in_one_sentence(bundle: Path, tmp_path: Path) -> None:
    members = members_of(bundle)
    target = tmp_path / "bundle.zip"
    cases = {
        "does not belong": {**members, "../../outside.txt": b"x"},
        "lacks README.txt": dict(list(members.items())[1:]),
        "not a bundle": {"anything.txt": b"x"},
    }
    for reason, content in cases.items():
        target.write_bytes(b"".join(zip_of(content, attributes=0o100644)))
        assert reason in failures(target)
        assert not (tmp_path.parent / "outside.txt").exists()
    target.write_bytes(b"not a zip")
    assert "cannot be read as a zip" in failures(target)
    with pytest.raises(InputError, match=r"There is no bundle 'absent\.zip'\. Check the path\."):
        verify(tmp_path / "absent.zip")
    assert main(["verify", str(tmp_path / "absent.zip")]) == 2


def test_a_bomb_is_refused_before_it_is_opened(bundle: Path, tmp_path: Path) -> None:
    members = members_of(bundle)
    target = tmp_path / "bundle.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, bytes(80 * 2**20) if name == "report.json" else content)
    assert target.stat().st_size < 2**21
    assert "repacked by another program" in failures(target)
    write_zip(target, members | {"report.json": bytes(80 * 2**20)})
    assert "report.json claims" in failures(target)


def test_links_in_a_folder_are_not_followed(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "README.txt").unlink()
    os.symlink(tmp_path / "schema.json", tmp_path / "README.txt")
    assert "not a regular file" in failures(tmp_path)


@pytest.mark.parametrize(
    "pem", [b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", bytes(range(192, 256))]
)
def test_a_key_that_is_none_is_named(bundle: Path, pem: bytes) -> None:
    """Nothing is wrong with the bundle."""
    verdict = checked(bundle, pem)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.lines
    assert verdict.json["signer"] == "not checked"
    (lack,) = verdict.json["not_checked"]
    assert lack.startswith("The signer could not be checked: the public key that you gave is not an Ed25519 key in PEM")


def test_a_key_that_is_none_hides_no_altered_certificate(bundle: Path, tmp_path: Path) -> None:
    path = altered(bundle, tmp_path / "f.zip", certificate=set_epsilon)
    assert "signature does not match" in failures(path, public_key=b"no key")


def test_add_remove_with_a_measured_number_of_rows(tmp_path: Path, key: Key) -> None:
    sealed = seal(config_of(row_count="private", label="outcome", generator="independent-by-class"), tmp_path, key)
    verdict = checked(sealed.path)
    assert verdict.ok, verdict.lines
    assert any("adding or removing one person" in line for line in verdict.lines)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    config = config_of((CategoryColumn("only", ("a", "b")),), rows=3)
    return seal(config, tmp_path_factory.mktemp("tiny"), key).path


WEIRD: tuple[Any, ...] = (
    0, -1, 1e308, 5e-324, 2**70, 10**400, True, "", "x" * 10_000, "\x00", None, [], {}, [[[]]], {"a": {}}, "nan",
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def planted(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = document.copy()
    copy[path[0]] = planted(document[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("tries", [20, pytest.param(60, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", ["certificate.json", "schema.json", "report.json"])
def test_strange_values_are_a_verdict_and_never_an_exception(
    tiny: Path, tmp_path: Path, key: Key, name: str, tries: int
) -> None:
    members = members_of(tiny)
    document = json.loads(members[name])
    random = np.random.default_rng(len(name))
    spots = places(document)
    for _ in range(tries):
        spot, value = spots[random.integers(len(spots))], WEIRD[random.integers(len(WEIRD))]
        strange = canonical_json(planted(document, spot, value))
        if name == "certificate.json":
            members[name] = strange
            members["certificate.json.sig"] = key.sign(strange)
            write_zip(tmp_path / "bundle.zip", dict(members))
        else:
            altered(tiny, tmp_path / "bundle.zip", files={name: lambda _, strange=strange: strange}, sign_with=key)
        verdict = checked(tmp_path / "bundle.zip")
        assert verdict.lines, (spot, value)
        assert json.dumps(verdict.json)


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 3.0, 10.0, 20.0, 50.0, 90.0])
@pytest.mark.parametrize("row_count", ["public", "private"])
def test_every_budget_verifies(tmp_path: Path, key: Key, epsilon: float, row_count: str) -> None:
    config = config_of(epsilon=epsilon, row_count=row_count, rows=50, generator="independent-by-class", label="outcome")
    sealed = seal(config, tmp_path, key)
    verdict = checked(sealed.path)
    assert verdict.ok, verdict.json["failures"]
    assert sealed.certificate.epsilon <= epsilon


@pytest.mark.parametrize("change", [-2, 2])
def test_a_cost_is_checked_to_the_unit_however_large_the_budget(tmp_path: Path, key: Key, change: int) -> None:
    sealed = seal(config_of(epsilon=90.0, rows=50), tmp_path, key)

    def misstate(document: dict[str, Any]) -> None:
        document["receipts"][-1]["mu_squared_units"] += change

    target = altered(sealed.path, tmp_path / "altered.zip", certificate=misstate, sign_with=key)
    assert "cost" in failures(target)


def test_a_fingerprint_is_the_hash_of_the_key_in_groups_of_four() -> None:
    pem = (
        b"-----BEGIN PUBLIC KEY-----\n"
        b"MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
        b"-----END PUBLIC KEY-----\n"
    )
    digits = hashlib.sha256(bytes(range(32))).hexdigest()
    shown = fingerprint_of(pem)
    assert shown.replace(" ", "") == digits
    assert [len(group) for group in shown.split(" ")] == [4] * 16
