"""What a reader of bundles refuses, piece by piece, in the words of each piece."""

from __future__ import annotations

import getpass
import importlib.metadata
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_making import Key, altered, checked, config_of, members_of, npz_with_index
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from forging import forged, only
from golden_bundles import golden
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from synth.bundle import certificate as certificates
from synth.bundle import checks, linter, table_files
from synth.bundle.archive import canonical_json, open_archive
from synth.bundle.certificate import certificate_from_dict, current_versions
from synth.bundle.measurements import Measurements, measurements_from_bytes, measurements_to_bytes
from synth.bundle.model_file import model_from_bytes
from synth.bundle.replay import replay
from synth.bundle.table_files import read_table
from synth.bundle.verify import Outcome
from synth.errors import PrivacyError, TableError, VerificationError
from synth.privacy.answers import RowCount
from synth.schema import CategoryColumn, NumberColumn, Schema

# Certificate ---------------------------------------------------------------------------------------------------------

WRONG_KIND = "has the wrong type"


@pytest.mark.parametrize(
    ("entry", "value", "sentence"),
    [
        ("epsilon", True, WRONG_KIND),
        ("epsilon", 0, "needs a positive, finite epsilon"),
        ("epsilon", float("nan"), "needs a positive, finite epsilon"),
        ("delta", 1, "delta of at least 0, below 1"),
        ("rows", -1, WRONG_KIND),
        ("rows", 2.0, WRONG_KIND),
        ("seed", True, WRONG_KIND),
        ("account", 3, WRONG_KIND),
        ("options", {"bins": {"a": 1}}, WRONG_KIND),
        ("ledger", {"charges": [1]}, WRONG_KIND),
        ("ledger", {"charges": True}, WRONG_KIND),
        ("neighbours", "nobody", WRONG_KIND),
        ("version", 1, "reads bundles from 0.9.0 on"),
        ("version", True, WRONG_KIND),
        ("version", "2", WRONG_KIND),
        ("row_epsilon", 1.0, "if, and only if, it protects single cells"),
    ],
)
def test_a_certificate_of_other_values(entry: str, value: object, sentence: str) -> None:
    document = json.loads(members_of(golden("independent"))["certificate.json"]) | {entry: value}
    with pytest.raises(VerificationError, match=sentence):
        certificate_from_dict(document)


@pytest.mark.parametrize("worth", [-1.0, float("inf")])
def test_what_noise_on_cells_is_worth_for_a_row_is_a_positive_number(worth: float) -> None:
    document = json.loads(members_of(golden("kahm-cell"))["certificate.json"]) | {"row_epsilon": worth}
    with pytest.raises(VerificationError, match="must be positive and finite"):
        certificate_from_dict(document)


def test_a_package_that_is_not_installed_is_left_out_of_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "torch":
            raise importlib.metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(certificates, "version", version)
    # Versions are looked up once a process, and here anew.
    monkeypatch.setattr(certificates, "_version_of", certificates._version_of.__wrapped__)
    assert "torch" not in current_versions()
    assert current_versions()["numpy"] == "1.0"


def test_a_key_of_another_kind(bundle: Path) -> None:
    other = generate_private_key(SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    verdict = checked(bundle, pem)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "not an Ed25519 key in PEM format" in " ".join(verdict.json["not_checked"])


def test_a_certificate_that_lists_other_files(tmp_path: Path, key: Key) -> None:
    def fewer(document: dict[str, Any]) -> None:
        del document["files"]["README.txt"]

    path = altered(golden("independent"), tmp_path / "f.zip", certificate=fewer)
    said = " ".join(checked(path).json["failures"])
    assert "does not list exactly the files in the bundle" in said
    assert "README.txt is not the certified file" in said


# Checking ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "outcome", "sentence"),
    [
        (MemoryError(), "not_checked", "needs more memory than allowed"),
        (ValueError("of a library"), "failures", "cannot be checked"),
    ],
)
def test_what_breaks_off_is_a_finding_wherever_it_does(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: str, sentence: str
) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(checks, "_leak_problems", broken)
        (finding,) = (found := checked(bundle)).json[outcome]
        assert not found.ok
        assert "absence of paths, owner-only numbers and private counts in the texts" in finding
        assert sentence in finding
    monkeypatch.setattr(checks, "open_archive", broken)
    (finding,) = checked(bundle).json[outcome]
    assert sentence in finding


def test_another_certificate_beside_the_bundle(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").write_bytes(bundle.read_bytes())
    (tmp_path / "certificate.json").write_bytes(b"{}\n")
    assert checked(tmp_path).json["failures"] == ["certificate.json next to the bundle differs from the one inside it."]


def test_a_configuration_that_names_a_private_file(tmp_path: Path, key: Key) -> None:
    def named(data: bytes) -> bytes:
        return b"table: patients.csv\n" + data

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": named})
    only(path, "config.yaml names a private table, or states more than a sealed configuration does")


def test_a_folder_is_an_archive_like_any_other(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(tmp_path)
    with open_archive(tmp_path) as folder, open_archive(bundle) as archive:
        assert folder.read("config.yaml") == archive.read("config.yaml")


# Leaks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 10, 11, 25])
def test_a_bundle_in_memory_is_taken_from_the_stream_whole_and_no_further(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_BLOCK", 10)
    stream = io.BytesIO(bytes(range(25)) + b"what follows")
    taken = checks._rest(stream, size)
    taken.seek(0)
    assert (taken.read(), stream.tell()) == (bytes(range(size)), size)


def test_a_user_without_a_name_is_no_word_to_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert "" not in linter.LeakWords.of_this_machine(file_names=("patients.csv",)).names


@pytest.mark.parametrize("hidden", ["<!-- said -->", "<?said?>", "<![CDATA[said]]>"])
def test_what_a_page_holds_and_nobody_sees(hidden: str) -> None:
    page = members_of(golden("independent"))["report.html"].replace(b"<body>", f"<body>{hidden}".encode())
    found = linter.lint_members({"report.html": page}, config_of().schema, linter.LeakWords(()))
    assert any("comment" in finding for finding in found)


def test_a_table_that_cannot_be_read_is_a_finding() -> None:
    found = linter.lint_members({"synthetic.csv": b"\xff\xfe"}, config_of().schema, linter.LeakWords(()))
    assert any("synthetic.csv" in finding for finding in found)


# Answers -------------------------------------------------------------------------------------------------------------


def with_index(change: dict[str, Any]) -> bytes:
    """The file of answers of a golden bundle with other entries in its index."""
    data = members_of(golden("independent"))["measurements.npz"]
    return npz_with_index(data, lambda index: index.update(change))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"releases": 3},
        {"rows": {"value": float("inf"), "noise_std": 0.0, "public": True}},
        {"rows": {"value": 5.0, "noise_std": 0.0, "public": 1}},
        {"rows": {"value": -1.0, "noise_std": 0.0, "public": True}},
        {"rows": {"value": 0.0, "noise_std": 1.0, "public": False}},
        {"rows": {"value": 5.0}},
    ],
)
def test_an_index_that_no_program_wrote(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationError, match=r"measurements\.npz is damaged"):
        measurements_from_bytes(with_index(change))


def test_answers_of_other_kinds_are_not_written() -> None:
    with pytest.raises(PrivacyError, match="known kinds only"):
        measurements_to_bytes(Measurements((object(),)))  # type: ignore[arg-type]


@pytest.mark.parametrize("stated", [1499.0, 1499.5, 0.0])
@pytest.mark.parametrize("noise_std", [0.0, 3.0])
def test_a_public_number_of_rows_is_the_declared_one(tmp_path: Path, key: Key, stated: float, noise_std: float) -> None:
    rows = RowCount(stated, noise_std, public=True)
    path = forged(golden("kahm"), tmp_path / "f.zip", key, answers=lambda found: replace(found, rows=rows))
    assert "does not state the number of rows that was declared public" in " ".join(checked(path).json["failures"])


# Model ---------------------------------------------------------------------------------------------------------------


def test_a_card_with_an_option_that_is_none() -> None:
    data = members_of(golden("independent"))["model.safetensors"]
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    card = json.loads(header["__metadata__"]["hermitage"]) | {"options": {"bins": {"a": 1}}}
    metadata = {"hermitage": json.dumps(card, sort_keys=True)}
    with pytest.raises(VerificationError, match="does not say which generator made it"):
        model_from_bytes(bytes(save_safetensors(load_safetensors(data), metadata)))


# Replay --------------------------------------------------------------------------------------------------------------


def test_a_configuration_that_is_no_text_makes_nothing(tmp_path: Path, key: Key) -> None:
    path = altered(
        golden("independent"), tmp_path / "f.zip", files={"config.yaml": lambda data: b"\xff" + data}, sign_with=key
    )
    with pytest.raises(VerificationError, match=r"config\.yaml cannot be read"):
        replay(path, tmp_path / "out")


def test_without_a_number_of_rows_nothing_is_fitted_again(tmp_path: Path, key: Key) -> None:
    path = forged(golden("kahm-cell"), tmp_path / "f.zip", key, answers=lambda found: replace(found, rows=None))
    with pytest.raises(VerificationError, match="does not say how many rows were measured"):
        replay(path, tmp_path / "out", refit=True)


# Table ---------------------------------------------------------------------------------------------------------------

TWO = Schema((NumberColumn("age", 0, 9, 1, missing=True), CategoryColumn("town", ("a", "b"), missing=True)))


def test_a_table_of_other_columns_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.parquet"
    path.write_bytes(b"no table")
    with pytest.raises(TableError, match="cannot be read as a synthetic table"):
        read_table(path, TWO)
    (tmp_path / "synthetic.csv").write_text("age\n3\n")
    with pytest.raises(TableError, match="has no column 'town'"):
        read_table(tmp_path / "synthetic.csv", TWO)


def test_a_table_of_other_widths_is_not_written() -> None:
    with pytest.raises(TableError, match="needs 2 columns of codes"):
        table_files.write_csv(np.zeros((3, 1), dtype=np.int64), TWO, io.BytesIO(), 0)


def test_a_table_that_needs_too_much_memory_is_no_damaged_one(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(table_files, "_check_size", full)
    with pytest.raises(MemoryError):
        table_files.check_csv(io.BytesIO(members_of(bundle)["synthetic.csv"]), config_of().schema, rows=None)


def test_texts_of_cells_are_remembered_up_to_a_limit(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_LARGEST_CACHE", 1)
    assert checked(bundle).ok


# Documents -----------------------------------------------------------------------------------------------------------


def test_json_that_is_none_or_was_edited(tmp_path: Path, key: Key) -> None:
    for change, sentence in (
        (lambda _: b"{", "is not valid JSON"),
        (lambda data: data + b"\n", "it has been edited"),
        (lambda _: canonical_json({"columns": 3}), "does not describe a table"),
    ):
        path = altered(golden("independent"), tmp_path / "f.zip", files={"schema.json": change}, sign_with=key)
        assert sentence in " ".join(checked(path).json["failures"])
