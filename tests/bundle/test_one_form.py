"""Every file of a bundle has one form: the same content written in any other way is refused, and so is any other byte.

``benchmarks/forgeries.py`` has the other ways, and tries as many random changes as one likes; here are a few hundred.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import forgeries
import numpy as np
import pytest
from bundle_making import COLUMNS, Key, checked, config_of, members_of, seal

from synth.bundle import archive
from synth.bundle.archive import ExactZip, canonical_json, open_archive, parse_canonical, write_zip, zip_of
from synth.bundle.model_file import model_from_bytes, model_to_bytes
from synth.errors import VerificationError
from synth.privacy.receipt import Receipt
from synth.schema import Neighbours, NumberColumn, config_to_yaml
from synth.schema.documents import as_number

OF_NO_FILE = "contains bytes that belong to none of its files, or was "
PACKED = {
    "bytes in front": "cannot be read as a zip",
    "another checksum": "is damaged inside the zip",
    "cut off": "ends too early: it was cut off on its way",
    "cut off in the directory": "ends too early: it was cut off on its way",
}
OF_ANSWERS = "measurements.npz contains more than its answers and questions, or has them in another order or spelling"
EDITED = "is not in the canonical form in which it was signed"
SEALED = "is not written as it was sealed"

REASONS: dict[str, dict[str, str]] = {
    "bundle.zip": {
        **{name: PACKED.get(name, OF_NO_FILE + "repacked by another program") for name in forgeries.ZIPS},
        "members in another order": "has its files in another order",
        "a member twice": "contains a file twice",
    },
    "measurements.npz": {
        **{f"packed: {name}": PACKED.get(name, OF_NO_FILE + "written by another program") for name in forgeries.ZIPS},
        "packed: members in another order": OF_ANSWERS,
        "packed: a member twice": "measurements.npz is damaged",
        **dict.fromkeys(forgeries.ANSWERS, OF_ANSWERS),
        "an array that nothing refers to": "1 arrays that no answer and no question refers to",
        "the first axis fastest": "measurements.npz is damaged",
        "a number that is none, with a payload": "contains a number that is not finite",
        "low bits of answers": "does not lie on the grid of its receipt",
    },
    "model.safetensors": {
        **dict.fromkeys(forgeries.MODELS, "neither a tensor nor the card, or is written in another way"),
        "numbers that are none, with a payload": "something in the place of a number",
        "bytes behind": "model.safetensors is damaged",
    },
    "synthetic.parquet": dict.fromkeys(forgeries.PARQUETS, "is not what the table of synthetic.csv is written as"),
    "synthetic.csv": dict.fromkeys(forgeries.CSVS, "is not what its own cells and identifiers are written as"),
    "certificate.json": {
        **dict.fromkeys(forgeries.JSONS, EDITED),
        "a whole number for a fraction": "not in the one form in which a certificate is written",
    },
    "report.json": {
        **dict.fromkeys(forgeries.JSONS, EDITED),
        "a whole number for a fraction": "report.json does not follow, byte for byte, from the rest of the bundle",
    },
    "schema.json": {**dict.fromkeys(forgeries.JSONS, EDITED), "a whole number for a fraction": SEALED},
    "config.yaml": dict.fromkeys(forgeries.YAMLS, SEALED),
    **{
        name: dict.fromkeys(forgeries.TEXTS, f"{name} does not follow, byte for byte, from the rest of the bundle")
        for name in ("README.txt", "CITATION.cff", "report.html")
    },
    "certificate.json.sig": dict.fromkeys(forgeries.SIGNATURES, "The signature does not match"),
    "public-key.pem": dict.fromkeys(forgeries.KEYS, "public-key.pem contains more than a public key"),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, key: Key) -> bytes:
    """A small bundle; in it a count is 0 and others are not."""
    config = config_of(COLUMNS[:6], rows=40, row_count="private")
    return seal(config, tmp_path_factory.mktemp("honest"), key).path.read_bytes()


def test_the_honest_one_passes(honest: bytes) -> None:
    assert forgeries.refusals(honest) == []
    assert {name: set(ways) for name, ways in REASONS.items()} == {
        name: set(ways)
        for name, ways in forgeries.RE_ENCODINGS.items()
        if name not in ("model.json", "found.json", "found.npz")
    }


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, ways in REASONS.items() for way in ways], ids=lambda text: text
)
def test_the_same_written_in_another_way_is_refused(honest: bytes, name: str, way: str) -> None:
    forged = forgeries.re_encoded(honest, name, forgeries.RE_ENCODINGS[name][way])
    assert forged != honest
    found = forgeries.refusals(forged, until=REASONS[name][way])
    assert any(REASONS[name][way] in problem for problem in found), found


def test_a_number_of_another_type_is_refused(honest: bytes) -> None:
    files = set()
    for name, where, forged in forgeries.spelled_otherwise(honest, most=12):
        assert forgeries.refusals(forged, until=""), (name, where)
        files.add(name)
    assert files == {"certificate.json", "schema.json", "report.json", "measurements.npz", "model.safetensors"}


@pytest.mark.parametrize("name", ["certificate.json", "schema.json"])
@pytest.mark.parametrize("number", [1.0, True])
def test_the_rows_of_a_person_are_a_whole_number(honest: bytes, name: str, number: float) -> None:
    document = json.loads(forgeries.members_of(honest)[name])
    document["unit"]["rows_per_unit"] = number
    forged = forgeries.re_encoded(honest, name, lambda _: canonical_json(document))
    assert any(f"{name} does not describe" in one or "wrong type" in one for one in forgeries.refusals(forged))


@pytest.mark.thorough
def test_bytes_changed_at_random_are_refused(honest: bytes) -> None:
    counts = forgeries.tried(honest, tries=72, seed=3, at_random_only=True)
    assert len(counts) == len(forgeries.LEVELS) * len(forgeries.MUTATIONS)
    assert sum(count.tries for count in counts.values()) > 60
    assert [told for count in counts.values() for told in count.passed] == []


@pytest.mark.thorough
@pytest.mark.parametrize("changes", [{"generator": "dp-hp-adaptive"}, {"generator": "kahm", "label": "smoker"}])
def test_bundles_of_other_generators(tmp_path: Path, key: Key, changes: dict[str, str]) -> None:
    config = config_of(COLUMNS[:6], rows=40, **changes)
    counts = forgeries.tried(seal(config, tmp_path, key).path.read_bytes(), tries=300, seed=4)
    assert sum(count.tries for count in counts.values()) > 300
    assert [told for count in counts.values() for told in count.passed] == []


def test_zero_has_no_sign_wherever_numbers_are_written() -> None:
    assert canonical_json({"a": [-0.0, {"b": -0.0}], "c": -1.0}) == canonical_json({"a": [0.0, {"b": 0.0}], "c": -1.0})
    with pytest.raises(VerificationError, match="canonical form"):
        parse_canonical(canonical_json({"a": 0.0}).replace(b"0.0", b"-0.0"), name="a.json")
    signed, plain = (config_of((NumberColumn("x", low, 9.0, 1.0, missing=True),)) for low in (-0.0, 0.0))
    assert config_to_yaml(signed) == config_to_yaml(plain)
    assert as_number("-0").hex() == "0x0.0p+0"
    receipt = dataclasses.replace(RECEIPT, slack=0, additive_delta=0)
    assert json.dumps(receipt.to_dict()) == json.dumps(Receipt.from_dict(receipt.to_dict()).to_dict())


@pytest.mark.parametrize("name", ["certificate.json", "config.yaml", "model.safetensors"])
def test_an_option_that_is_a_fraction_in_one_file_and_whole_in_another(tmp_path: Path, key: Key, name: str) -> None:
    """They are equal numbers, and so the same options; but each file would have two forms."""
    config = config_of(COLUMNS[1:4], rows=40, options={"bins": 8})
    members = members_of(seal(config, tmp_path, key).path)

    def fraction(data: bytes) -> bytes:
        old, new = (b"bins: 8", b"bins: 8.0") if name == "config.yaml" else (b'bins": 8', b'bins": 8.0')
        if name != "model.safetensors":
            assert old in data
            return data.replace(old, new)
        card, state = model_from_bytes(data)
        return model_to_bytes(dataclasses.replace(card, options={"bins": 8.0}), state)

    forged = forgeries.signed_anew(members | {name: fraction(members[name])})
    found = forgeries.refusals(forgeries.repacked(forged))
    assert any("different generator" in problem for problem in found), found


RECEIPT = Receipt(
    sequence=0, query="a", mechanism="discrete_gaussian", source="a", neighbours=Neighbours.REPLACE, protects="person",
    rows_per_unit=1, sensitivity=1, noise_scale=1, dimension=7, grid=1, mu_squared_units=2**42, slack=1e-9,
)  # fmt: skip
"""With whole numbers where floats are kept."""


# Folders -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(honest: bytes, tmp_path: Path) -> Path:
    """The bundle, unpacked."""
    for name, content in forgeries.members_of(honest).items():
        (tmp_path / name).write_bytes(content)
    assert checked(tmp_path).ok
    return tmp_path


def test_a_folder_with_a_file_too_many(folder: Path) -> None:
    (folder / ".DS_Store").write_bytes(b"exact 41")
    (problem,) = checked(folder).json["failures"]
    assert problem.startswith("The bundle contains a file that does not belong in a bundle. Take out what you added")
    for number in range(300):
        (folder / f"{number}").write_bytes(b"")
    assert len(checked(folder).json["failures"]) == 1


def test_a_folder_with_something_that_is_no_file(folder: Path) -> None:
    (folder / "README.txt").unlink()
    (folder / "README.txt").mkdir()
    assert checked(folder).json["failures"] == ["README.txt is not a regular file."]
    (folder / "README.txt").rmdir()
    os.mkfifo(folder / "README.txt")
    assert checked(folder).json["failures"] == ["README.txt is not a regular file."]


def test_a_folder_without_a_bundle(tmp_path: Path) -> None:
    assert checked(tmp_path).json["failures"] == ["This is not a bundle: it holds none of the files of one."]


# Zips -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 200])
def test_a_zip_is_what_the_standard_library_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """Also beyond two gigabytes, where sizes and places need more room."""
    if limit is not None:
        monkeypatch.setattr(archive, "_LONG", limit)
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit - 1)
    members = {"first": b"", "second": bytes(range(256)) * 5, "third": b"abc" * 60, "fourth": b"x"}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as other:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            with other.open(entry, "w", force_zip64=len(content) >= (limit or 2**31)) as member:
                member.write(content)
    written = b"".join(zip_of(members, attributes=0o600))
    assert written == target.getvalue()
    held = tmp_path / "held"
    held.write_bytes(members["second"])
    again = b"".join(zip_of(members | {"second": held, "third": [b"abc" * 20, b"abc" * 40]}, attributes=0o600))
    assert again == written
    assert read(written) == members
    for changed in changes_of(written):
        with pytest.raises(VerificationError):
            read(changed)


def read(data: bytes) -> dict[str, bytes]:
    packed = ExactZip(io.BytesIO(data), name="z", attributes=0o600)
    return {name: packed.open(name).read() for name in packed.names}


def changes_of(data: bytes) -> Iterator[bytes]:
    """Every byte changed, left out, or preceded by another one."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :]
        yield data[:place] + data[place + 1 :]
        yield data[:place] + b"\0" + data[place:]


def test_members_by_the_ten_thousand(tmp_path: Path) -> None:
    """More than short headers can count, as no bundle has: none is lost, and too many are refused."""
    members = {f"{number:06}": b"" for number in range(70_000)}
    written = b"".join(zip_of(members, attributes=0o600))
    assert len(zipfile.ZipFile(io.BytesIO(written)).namelist()) == 70_000
    assert ExactZip(io.BytesIO(written), name="z", attributes=0o600).names == tuple(members)


def test_a_bundle_of_another_version_is_said_to_be_one_however_it_is_packed(honest: bytes, tmp_path: Path) -> None:
    members = forgeries.members_of(honest)
    members["certificate.json"] = members["certificate.json"].replace(b'"version": 2', b'"version": 1')
    write_zip(tmp_path / "f.zip", dict(members))
    old = forgeries.ZIPS["deflated"]((tmp_path / "f.zip").read_bytes())
    (tmp_path / "f.zip").write_bytes(old)
    verdict = checked(tmp_path / "f.zip")
    assert verdict.json["failures"] == []
    assert "which reads bundles from" in verdict.json["not_checked"][0]


def test_a_large_file_that_is_no_bundle_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "large.zip"
    with path.open("wb") as sparse:
        sparse.write(b"PK\3\4")
        sparse.truncate(2**31 + 2**20)
    with pytest.raises(VerificationError, match=r"large\.zip contains bytes that belong to none"), open_archive(path):
        pass
    whole = b"".join(zip_of({"film.mp4": np.zeros(2**20, dtype=np.uint8).tobytes()}, attributes=0o644))
    path.write_bytes(whole)
    with pytest.raises(VerificationError, match="This is not a bundle"), open_archive(path):
        pass


def test_the_inner_arrays_are_read_by_numpy(honest: bytes) -> None:
    with np.load(io.BytesIO(forgeries.members_of(honest)["measurements.npz"]), allow_pickle=False) as arrays:
        assert {"index", "answer_0000"} <= set(arrays.files)
        assert arrays["answer_0000"].dtype == np.float64


def test_a_bundle_is_written_to_the_byte(honest: bytes, tmp_path: Path) -> None:
    (tmp_path / "honest.zip").write_bytes(honest)
    write_zip(tmp_path / "again.zip", dict(members_of(tmp_path / "honest.zip")))
    assert (tmp_path / "again.zip").read_bytes() == honest
