"""Files forged beyond what the bundle needs, and signed anew: each is refused for its own reason and no other."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from bundle_making import Key, altered, checked, members_of
from forging import forged, golden, only
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from synth.bundle.archive import MEMBERS, ExactZip, new_entry, write_zip
from synth.errors import VerificationError

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
    only(path, "contains more than its answers and questions")


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
        (another_tensor, "exactly the tensors of its model"),
        (more_metadata, "neither a tensor nor the card"),
        (word_in_the_card, "neither a tensor nor the card"),
        (padded_header, "neither a tensor nor the card"),
        (lambda data: data + b"exact 41", "model.safetensors is damaged"),
    ],
)
@pytest.mark.parametrize("name", ["independent", "dp-hp-adaptive"])
def test_a_model_with_more_than_its_tensors(
    tmp_path: Path, key: Key, name: str, forge: Callable[[bytes], bytes], reason: str
) -> None:
    only(forged(golden(name), tmp_path / "f.zip", key, files={"model.safetensors": forge}), reason)


@pytest.mark.parametrize("name", ["dp-hp", "dp-merf-no-label", "kahm", "kahm-rows", "kahm-cell"])
def test_a_tensor_that_drawing_rows_does_not_need(tmp_path: Path, key: Key, name: str) -> None:
    path = forged(golden(name), tmp_path / "f.zip", key, files={"model.safetensors": another_tensor})
    only(path, "exactly the tensors of its model")


def test_tensors_of_another_kind(tmp_path: Path, key: Key) -> None:
    def single(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        return bytes(save_safetensors({"table.0": load_safetensors(data).pop("table.0").astype("f4")}, metadata))

    def all_single(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        return bytes(save_safetensors({k: v.astype("f4") for k, v in load_safetensors(data).items()}, metadata))

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
    (with_key_value, "contains metadata"),
    (rewritten(lambda table: table, store_schema=True), "contains metadata"),
    (rewritten(lambda table: table.append_column("exact", pa.array([1] * len(table)))), "the declared columns"),
    (hidden_between, "bytes that belong to no column"),
    (
        lambda data: data.replace(b"parquet-cpp-arrow", b"parquet-cpp-sorow"),
        "by a library that is not used for bundles",
    ),
    (rewritten(lambda table: table, compression="zstd"), "does not follow, byte for byte, from the rest"),
    (rewritten(lambda table: table, row_group_size=7), "does not follow, byte for byte, from the rest"),
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
    only(path, "The statistics of 'age' in synthetic.parquet are not")


def test_identifiers_that_say_something(tmp_path: Path, key: Key) -> None:
    def csv(data: bytes) -> bytes:
        place = data.index(b"syn-")
        return data[:place] + b"syn-000000000041" + data[place + 16 :]

    def parquet(table: pa.Table) -> pa.Table:
        names = table.column("patient").to_pylist()
        return table.set_column(0, "patient", pa.array(["syn-000000000041", *names[1:]]))

    changes = {"synthetic.csv": csv, "synthetic.parquet": rewritten(parquet)}
    path = forged(golden("independent"), tmp_path / "f.zip", key, files=changes)
    only(path, "does not follow, byte for byte, from the rest")
    other = altered(path, path, certificate=lambda one: one["versions"].update(source="x"), sign_with=key)
    verdict = checked(other)
    assert verdict.ok, verdict.json["failures"]
    # The page shows the first rows.
    told = ["synthetic.csv", "synthetic.parquet", "report.html"]
    assert verdict.json["not_compared"] == told, "it is said where it is not known"


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
    only(target, "contains bytes that belong to none of its files")


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
    only(target, f"{MEMBERS[-1]} is damaged inside the zip")


@pytest.mark.parametrize("size", [0, 300, 70_000])
def test_a_long_zip_is_one_that_is_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Long headers and offsets, as beyond two gigabytes, and a byte hidden among them."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 200)
    target = tmp_path / "long.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for name in ("first", "second", "third"):
            with archive.open(new_entry(name, attributes=0o600), "w", force_zip64=size > 200) as member:
                member.write(np.random.default_rng(0).bytes(size))

    def read(data: bytes) -> None:
        packed = ExactZip(io.BytesIO(data), name="long.zip", attributes=0o600)
        packed.require_exact()
        assert packed.open("third").read() == np.random.default_rng(0).bytes(size)

    data = target.read_bytes()
    read(data)
    between = data.replace(b"PK\1\2", b"xPK\1\2", 1)
    for hide in (with_comment, with_prefix, lambda data: data + b"x", lambda _: between):
        with pytest.raises(VerificationError, match=r"belong to none of its files|is damaged"):
            read(hide(data))


def test_a_key_with_a_word_before_it(tmp_path: Path, key: Key) -> None:
    target = tmp_path / "f.zip"
    members = members_of(golden("independent"))
    write_zip(target, members | {"public-key.pem": b"exact 41\n" + members["public-key.pem"]})
    only(target, "public-key.pem contains more than a public key")


def test_bounds_that_were_read_and_are_called_declared(tmp_path: Path, key: Key) -> None:
    def read(data: bytes) -> bytes:
        return data.replace(b"domain_source:\n", b"domain_source:\n  age: read from the private rows\n")

    path = forged(golden("independent"), tmp_path / "f.zip", key, files={"config.yaml": read})
    only(path, "says that the domain of 'age' was declared; config.yaml does not")


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
    only(altered(path, path, files=change, sign_with=key, **versions), "report.html contains")  # type: ignore[arg-type]
