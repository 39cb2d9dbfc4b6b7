"""Write bundles in other ways, flip their bytes, and count what a check lets pass.

    python benchmarks/forgeries.py [--tries 400] [--seed 1] [--bundles independent kahm found] [--json FILE]

Three levels: bytes of the zip, and of a file in it, with the owner's signature; and a file in it with hashes and
certificate adapted and signed by another key, as whoever wants to be believed without the owner's key would do. Each is
flipped, extended, cut, moved and repeated at random. Then every file is written anew by other programs or in other
spellings (``RE_ENCODINGS``), each once, and numbers in documents as equal ones of another type (1 and 1.0).

A forgery that was signed anew may hold other content, such as another noisy answer: what finds that is making things
again, not their form. So it is read with ordinary libraries, and what reads the same as before is a form of its own.
No such form, and nothing with the owner's signature, may pass: the last column has to be 0.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pa_parquet
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from synth.bundle.archive import canonical_json, sha256_of, signed_by_hash, write_zip, zip_of
from synth.bundle.checks import check
from synth.bundle.verify import Findings

__all__ = [
    "RE_ENCODINGS",
    "Count",
    "members_of",
    "re_encoded",
    "refusals",
    "repacked",
    "signed_anew",
    "spelled_otherwise",
    "tried",
]

Members = dict[str, bytes]
Change = Callable[[bytes], bytes]

SECRET = b"exact 41"
"""What a forger would hide."""


def members_of(zipped: bytes) -> Members:
    """Return the files of a zip, by name."""
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked(members: Mapping[str, bytes]) -> bytes:
    """Pack a bundle as the program packs it."""
    with tempfile.TemporaryDirectory() as folder:
        write_zip(Path(folder) / "bundle.zip", dict(members))
        return (Path(folder) / "bundle.zip").read_bytes()


class _Key:
    def __init__(self) -> None:
        self.own = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        self.pem = self.own.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_anew(members: Mapping[str, bytes]) -> Members:
    """Let hashes and signature fit the files; the certificate is not touched where it was rewritten itself."""
    forged, key = dict(members), _Key()
    try:
        document = json.loads(forged["certificate.json"])
        files = {name: sha256_of(io.BytesIO(forged[name])) for name in signed_by_hash(tuple(forged))}
        if document["files"] != files:
            forged["certificate.json"] = canonical_json(document | {"files": files})
    except (ValueError, TypeError, KeyError):
        pass  # it is no certificate any more
    forged["certificate.json.sig"] = key.own.sign(forged["certificate.json"])
    return forged | {"public-key.pem": key.pem}


def refusals(zipped: bytes, *, until: str | None = None) -> list[str]:
    """Return why a check does not accept a bundle; nothing if it does.

    With ``until`` it stops after the step that finds a reason with these words, where they are "" any.
    """

    def stop(found: Findings) -> None:
        if until is not None and found.step and any(until in one for one in (*found.failures, *found.not_checked)):
            raise _FoundError

    found = check(io.BytesIO(zipped), tell=stop)
    return [*found.failures, *found.not_checked]


class _FoundError(Exception):
    """There is a reason."""


# Zips: the same files, packed in another way --------------------------------------------------------------------------


def _by_zipfile(data: bytes, change: Callable[[zipfile.ZipInfo], None], method: int = zipfile.ZIP_STORED) -> bytes:
    """Pack the members of a zip with the standard library, their headers changed."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w", method) as archive:
        for entry in source.infolist():
            fresh = zipfile.ZipInfo(entry.filename, date_time=entry.date_time)
            fresh.compress_type, fresh.external_attr = method, entry.external_attr
            fresh.create_system = entry.create_system
            change(fresh)
            archive.writestr(fresh, source.read(entry))
    return target.getvalue()


def _setting(**values: Any) -> Change:
    def change(entry: zipfile.ZipInfo) -> None:
        for name, value in values.items():
            setattr(entry, name, value)

    return lambda data: _by_zipfile(data, change)


def _deflated(data: bytes) -> bytes:
    return _by_zipfile(data, lambda _: None, zipfile.ZIP_DEFLATED)


def _deflated_with_padding(data: bytes) -> bytes:
    """The first member as a deflate stream of stored blocks, with a secret in the bits that fill up its block headers.

    After the three bits of a stored block's header come five that no reader looks at; empty blocks can be repeated.
    """
    name, content = next(iter(members_of(data).items()))
    bits = np.unpackbits(np.frombuffer(SECRET, dtype=np.uint8))
    hidden = b"".join(bytes([int(bit) << 3]) + struct.pack("<HH", 0, 0xFFFF) for bit in bits)
    blocks = [content[place : place + 65_535] for place in range(0, len(content), 65_535)] or [b""]
    stored = b"".join(
        bytes([number == len(blocks) - 1]) + struct.pack("<HH", len(one), len(one) ^ 0xFFFF) + one
        for number, one in enumerate(blocks)
    )
    deflated = bytearray(_deflated(data))
    first = 30 + len(name)
    (old,) = struct.unpack("<L", deflated[18:22])
    stream = hidden + stored
    deflated[first : first + old] = stream
    more = len(stream) - old
    return _moved(bytes(deflated), {18: len(stream)}, {20: len(stream)}, more)


def _moved(data: bytes, local: Mapping[int, int], central: Mapping[int, int], more: int) -> bytes:
    """Set numbers in the first member's headers, and move what follows it by so many bytes."""
    changed = bytearray(data)
    end = data.rindex(b"PK\5\6")
    (start,) = struct.unpack("<L", data[end + 16 : end + 20])
    changed[end + 16 : end + 20] = struct.pack("<L", start + more)
    for place, number in local.items():
        changed[place : place + 4] = struct.pack("<L", number)
    entry, first = start + more, True
    while data[entry : entry + 4] == b"PK\1\2":
        name, extra, comment = struct.unpack("<HHH", data[entry + 28 : entry + 34])
        for place, number in central.items() if first else ():
            changed[entry + place : entry + place + 4] = struct.pack("<L", number)
        if not first:
            (offset,) = struct.unpack("<L", data[entry + 42 : entry + 46])
            changed[entry + 42 : entry + 46] = struct.pack("<L", offset + more)
        entry, first = entry + 46 + name + extra + comment, False
    return bytes(changed)


def _comment(data: bytes) -> bytes:
    return data[:-2] + struct.pack("<H", len(SECRET)) + SECRET


def _gap(data: bytes) -> bytes:
    """Bytes between the last member and the directory."""
    end = data.rindex(b"PK\5\6")
    size, start = struct.unpack("<LL", data[end + 12 : end + 20])
    moved = data[end : end + 16] + struct.pack("<L", start + len(SECRET)) + data[end + 20 :]
    return data[:start] + SECRET + data[start : start + size] + moved


def _gap_between_members(data: bytes) -> bytes:
    """Bytes between the first member and the second."""
    (size,) = struct.unpack("<L", data[18:22])
    place = 30 + struct.unpack("<H", data[26:28])[0] + size
    return _moved(data[:place] + SECRET + data[place:], {}, {}, len(SECRET))


def _of(data: bytes, order: Callable[[list[str]], list[str]]) -> bytes:
    """The members in another order, packed as the program packs them."""
    members = members_of(data)
    (attributes,) = {entry.external_attr >> 16 for entry in zipfile.ZipFile(io.BytesIO(data)).infolist()}
    return b"".join(zip_of({name: members[name] for name in order(list(members))}, attributes=attributes))


def _twice(data: bytes) -> bytes:
    """The first member a second time."""
    target = io.BytesIO(data)
    with zipfile.ZipFile(target, "a") as archive:
        first = archive.infolist()[0]
        content = archive.read(first)
        archive.filelist, archive.NameToInfo = archive.filelist, {}
        again = zipfile.ZipInfo(first.filename, date_time=first.date_time)
        again.external_attr, again.create_system = first.external_attr, first.create_system
        archive.writestr(again, content)
    return target.getvalue()


def _streamed(data: bytes) -> bytes:
    """Written to a pipe: sizes stand behind members instead of before them."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.written = b""

        def writable(self) -> bool:
            return True

        def write(self, block: Any) -> int:
            self.written += bytes(block)
            return len(block)

    target = Pipe()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as archive:
        for entry in source.infolist():
            archive.writestr(zipfile.ZipInfo(entry.filename), source.read(entry))
    return target.written


def _long(data: bytes) -> bytes:
    """Headers for long members, where none is."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as archive:
        for entry in source.infolist():
            fresh = zipfile.ZipInfo(entry.filename)
            fresh.external_attr, fresh.create_system = entry.external_attr, entry.create_system
            with archive.open(fresh, "w", force_zip64=True) as member:
                member.write(source.read(entry))
    return target.getvalue()


def _other_checksum(data: bytes) -> bytes:
    """A checksum that is not that of the first member, in both of its headers."""
    return _moved(data, {14: 41}, {16: 41}, 0)


def _other_local_name(data: bytes) -> bytes:
    """A first member whose own header has another name than the directory."""
    return data[:30] + b"x" + data[31:]


ZIPS: dict[str, Change] = {
    "deflated": _deflated,
    "a secret in the padding of deflated blocks": _deflated_with_padding,
    "another time": _setting(date_time=(2024, 1, 1, 0, 0, 0)),
    "an extra field": _setting(extra=struct.pack("<HH", 0x4142, 8) + SECRET),
    "a member's comment": _setting(comment=SECRET),
    "other attributes": _setting(external_attr=0o444 << 16),
    "another system": _setting(create_system=0),
    "marked as text": _setting(internal_attr=1),
    "a comment": _comment,
    "bytes in front": lambda data: SECRET + data,
    "bytes behind": lambda data: data + SECRET,
    "bytes before the directory": _gap,
    "bytes between members": _gap_between_members,
    "members in another order": lambda data: _of(data, lambda names: names[::-1]),
    "a member twice": _twice,
    "streamed": _streamed,
    "long headers": _long,
    "another checksum": _other_checksum,
    "another name in one header": _other_local_name,
    "cut off": lambda data: data[: len(data) // 2],
    "cut off in the directory": lambda data: data[:-30],
}
"""Ways to pack the same members: of the bundle, or of the file of answers."""


# Files: the same content, written in another way ----------------------------------------------------------------------


def _in_npz(change: Callable[[Members], Members | None]) -> Change:
    def changed(data: bytes) -> bytes:
        members = members_of(data)
        return b"".join(zip_of(change(members) or members, attributes=0o600))

    return changed


def _in_array(name: str, change: Callable[[bytes, bytes], bytes]) -> Change:
    """Change one ``.npy`` file: takes its header, as text without padding, and its bytes."""

    def rewrite(members: Members) -> None:
        data = members[name]
        length = 10 + int.from_bytes(data[8:10], "little")
        members[name] = change(data[10:length].rstrip(), data[length:])

    return _in_npz(rewrite)


def _npy(text: bytes, body: bytes, *, more: int = 0) -> bytes:
    blanks = -(11 + len(text)) % 64 + more
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text) + blanks + 1) + text + b" " * blanks + b"\n" + body


def _in_index(change: Callable[[str], str]) -> Change:
    def rewrite(_: bytes, body: bytes) -> bytes:
        text = change(body.decode()).encode()
        return _npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text)},), }}".encode(), text)

    return _in_array("index.npy", rewrite)


def _first_answer(change: Callable[[np.ndarray], None]) -> Change:
    def rewrite(text: bytes, body: bytes) -> bytes:
        values = np.frombuffer(body, dtype="<f8").copy()
        change(values)
        return _npy(text, values.tobytes())

    return _in_array("answer_0000.npy", rewrite)


def _negative_zero(values: np.ndarray) -> None:
    values[0] = -0.0


def _nan_with_a_payload(values: np.ndarray) -> None:
    values.view("<u8")[0] = 0x7FF8_0000_0000_0041


def _low_bits(values: np.ndarray) -> None:
    values.view("<u8")[:] ^= 1


def _whole_as_such(text: str) -> str:
    """3.0 as 3, at its first place."""
    place = next(at for at in range(len(text)) if text[at : at + 2] == ".0" and not text[at + 2].isdigit())
    return text[:place] + text[place + 2 :]


def _first_array(change: Change, *, text: Change = lambda text: text, more: int = 0) -> Change:
    return _in_array("answer_0000.npy", lambda head, body: _npy(text(head), change(body), more=more))


def _with_version_2(text: bytes, body: bytes) -> bytes:
    return b"\x93NUMPY\2\0" + struct.pack("<L", len(text) + 1) + text + b"\n" + body


def _as_it_is(data: bytes) -> bytes:
    return data


ANSWERS: dict[str, Change] = {
    "arrays in another order": _in_npz(lambda members: dict(sorted(members.items()))),
    "an array that nothing refers to": _in_npz(lambda members: members | {"exact.npy": members["index.npy"]}),
    "the highest byte first": _first_array(
        lambda body: np.frombuffer(body, "<f8").astype(">f8").tobytes(), text=lambda text: text.replace(b"<", b">")
    ),
    "the first axis fastest": _first_array(_as_it_is, text=lambda text: text.replace(b"False", b"True")),
    "a longer header": _first_array(_as_it_is, more=64),
    "a header with blanks": _first_array(_as_it_is, text=lambda text: text.replace(b": ", b":  ")),
    "a header of version 2": _in_array("answer_0000.npy", _with_version_2),
    "bytes behind an array": _first_array(lambda body: body + SECRET),
    "a negative zero": _first_answer(_negative_zero),
    "a number that is none, with a payload": _first_answer(_nan_with_a_payload),
    "low bits of answers": _first_answer(_low_bits),
    "a whole number in the index": _in_index(_whole_as_such),
    "an index with fewer blanks": _in_index(
        lambda text: json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    ),
    "an index in another order": _in_index(lambda text: json.dumps(dict(reversed(json.loads(text).items())))),
    "an index with an escape": _in_index(lambda text: text.replace('"format"', '"form\\u0061t"', 1)),
    "an index with a key twice": _in_index(lambda text: '{"format": 1, ' + text[1:]),
    "an index with a word": _in_index(lambda text: '{"exact": 41, ' + text[1:]),
    "an index with a negative zero": _in_index(
        lambda text: text.replace('"additive_delta": 0.0', '"additive_delta": -0.0', 1)
    ),
}


def _tensors(change: Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]], *, padding: int = 0) -> Change:
    """Change the header and the data of a model, and write it as the library would."""

    def changed(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        header, body = change(json.loads(data[8 : 8 + length]), data[8 + length :])
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8 + padding)
        return struct.pack("<Q", len(text)) + text + body

    return changed


def _reversed_tensors(header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    """The tensors in the reverse order."""
    again, parts, place = {"__metadata__": header.pop("__metadata__")}, [], 0
    for name, tensor in reversed(header.items()):
        first, last = tensor["data_offsets"]
        parts.append(body[first:last])
        again[name] = tensor | {"data_offsets": [place, place + last - first]}
        place += last - first
    return again, b"".join(parts)


def _in_card(change: Callable[[dict[str, Any]], str]) -> Change:
    def rewrite(header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        said = header["__metadata__"]
        said["hermitage"] = change(json.loads(said["hermitage"]))
        return header, body

    return _tensors(rewrite)


def _escaped_header(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].replace(b'"dtype"', b'"dtyp\\u0065"', 1).rstrip()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _more_metadata(header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    header["__metadata__"]["note"] = SECRET.decode()
    return header, body


def _by_the_library(data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    return bytes(save_safetensors(load_safetensors(data), json.loads(data[8 : 8 + length])["__metadata__"]))


def _numbers(change: Callable[[np.ndarray], None]) -> Change:
    """Change the first tensor of floats that holds a zero."""

    def rewrite(header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        for name, tensor in header.items():
            if name != "__metadata__" and tensor["dtype"] == "F64":
                first, last = tensor["data_offsets"]
                values = np.frombuffer(body[first:last], dtype="<f8").copy()
                if (values == 0).any():
                    change(values)
                    return header, body[:first] + values.tobytes() + body[last:]
        raise KeyError

    return _tensors(rewrite)


def _negative_zeros(values: np.ndarray) -> None:
    values[values == 0] = -0.0


MODELS: dict[str, Change] = {
    "negative zeros": _numbers(_negative_zeros),
    "numbers that are none, with a payload": _numbers(_nan_with_a_payload),
    "tensors in another order": _tensors(_reversed_tensors),
    "a header in another order": _tensors(lambda header, body: (dict(reversed(header.items())), body)),
    "a longer padding": _tensors(lambda header, body: (header, body), padding=8),
    "a header with an escape": _escaped_header,
    "a second note": _tensors(_more_metadata),
    "a card with other blanks": _in_card(lambda card: json.dumps(card, sort_keys=True, separators=(",", ":"))),
    "a card in another order": _in_card(lambda card: json.dumps(dict(reversed(card.items())))),
    "a card with a word": _in_card(lambda card: json.dumps(card | {"note": "exact 41"}, sort_keys=True)),
    "a card with a fraction for a seed": _in_card(
        lambda card: json.dumps(card | {"seed": card["seed"] + 0.0}, sort_keys=True)
    ),
    "bytes behind": lambda data: data + SECRET,
}


def _parquet(**options: Any) -> Change:
    def rewrite(data: bytes) -> bytes:
        target = io.BytesIO()
        pa_parquet.write_table(
            pa_parquet.read_table(io.BytesIO(data)), target, **{"store_schema": False, "compression": "none", **options}
        )
        return target.getvalue()

    return rewrite


def _hidden_in_parquet(data: bytes) -> bytes:
    """Bytes between the last column and the footer: no reader looks there."""
    footer = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - footer] + SECRET + data[-8 - footer :]


PARQUETS: dict[str, Change] = {
    "by another library": _parquet(),
    "with statistics left out": _parquet(write_statistics=False),
    "in snappy": _parquet(compression="snappy"),
    "in other row groups": _parquet(row_group_size=7),
    "without dictionaries": _parquet(use_dictionary=False),
    "another writer's name": lambda data: data.replace(b"hermitage version 1", b"hermitage version 2"),
    "bytes before the footer": _hidden_in_parquet,
    "bytes behind": lambda data: data + SECRET,
}


def _rewritten_csv(**options: Any) -> Change:
    def rewrite(data: bytes) -> bytes:
        target = io.StringIO()
        csv.writer(target, **{"lineterminator": "\n", **options}).writerows(csv.reader(io.StringIO(data.decode())))
        return target.getvalue().encode()

    return rewrite


CSVS: dict[str, Change] = {
    "all cells quoted": _rewritten_csv(quoting=csv.QUOTE_ALL),
    "lines that end as on Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "no last line break": lambda data: data[:-1],
    "a blank line": lambda data: data + b"\n",
}


JSONS: dict[str, Change] = {
    "other blanks": lambda data: json.dumps(json.loads(data), sort_keys=True).encode() + b"\n",
    "keys in another order": lambda data: (json.dumps(_turned(json.loads(data)), indent=2) + "\n").encode(),
    "an escape": lambda data: data.replace(b'"s', b'"\\u0073', 1),
    "a whole number for a fraction": lambda data: _whole_as_such(data.decode()).encode(),
    "a fraction with more digits": lambda data: _with_more_digits(data),
    "a key twice": lambda data: b'{\n  "exact": 41,\n' + data[2:],
    "no last line break": lambda data: data[:-1],
    "a blank line": lambda data: data + b"\n",
}


def _turned(document: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(document.items()))


def _with_more_digits(data: bytes) -> bytes:
    text = data.decode()
    place = next(at for at in range(len(text)) if text[at : at + 2] == ".0" and not text[at + 2].isdigit())
    return (text[: place + 2] + "0" + text[place + 2 :]).encode()


def _in_yaml(change: Callable[[dict[str, Any]], Any], **options: Any) -> Change:
    def rewrite(data: bytes) -> bytes:
        document = yaml.safe_load(data)
        said = {"sort_keys": False, "allow_unicode": True, "width": 120, **options}
        return yaml.safe_dump(change(document) or document, **said).encode()  # type: ignore[no-any-return]

    return rewrite


def _whole_epsilon(document: dict[str, Any]) -> None:
    document["budget"]["epsilon"] = int(document["budget"]["epsilon"])


YAMLS: dict[str, Change] = {
    "keys in another order": _in_yaml(_turned),
    "a default spelled out": _in_yaml(lambda document: document | {"prediction_share": 0.0}),
    "nothing spelled out": _in_yaml(lambda document: document | {"test_table": None}),
    "a whole number for a fraction": _in_yaml(_whole_epsilon),
    "braces": _in_yaml(lambda document: document, default_flow_style=True),
    "narrow lines": _in_yaml(lambda document: document, indent=4),
    "a comment": lambda data: data + b"# exact 41\n",
    "a mark of a document": lambda data: b"---\n" + data,
    "quotation marks": lambda data: data.replace(b"row_count: private", b"row_count: 'private'").replace(
        b"row_count: public", b"row_count: 'public'"
    ),
}

TEXTS: dict[str, Change] = {
    "a blank": lambda data: data[:-1] + b" " + data[-1:],
    "a blank line": lambda data: data + b"\n",
}

_ORDER = 2**252 + 27_742_317_777_372_353_535_851_937_790_883_648_493


def _same_signature(data: bytes) -> bytes:
    """The other number that gives the same signature, where only its remainder is looked at."""
    return data[:32] + (int.from_bytes(data[32:], "little") + _ORDER).to_bytes(32, "little")


SIGNATURES: dict[str, Change] = {
    "a byte behind": lambda data: data + b"\0",
    "a byte less": lambda data: data[:-1],
    "the same number by another name": _same_signature,
}

KEYS: dict[str, Change] = {
    "a word before it": lambda data: SECRET + b"\n" + data,
    "a blank line": lambda data: data + b"\n",
    "lines that end as on Windows": lambda data: data.replace(b"\n", b"\r\n"),
}

RE_ENCODINGS: dict[str, dict[str, Change]] = {
    "bundle.zip": ZIPS,
    "measurements.npz": {**{f"packed: {name}": change for name, change in ZIPS.items()}, **ANSWERS},
    "model.safetensors": MODELS,
    "synthetic.parquet": PARQUETS,
    "synthetic.csv": CSVS,
    "certificate.json": JSONS,
    "report.json": JSONS,
    "schema.json": JSONS,
    "model.json": JSONS,
    "found.json": JSONS,
    "found.npz": {**{f"packed: {name}": change for name, change in ZIPS.items()}, **ANSWERS},
    "config.yaml": YAMLS,
    "README.txt": TEXTS,
    "CITATION.cff": TEXTS,
    "report.html": TEXTS,
    "certificate.json.sig": SIGNATURES,
    "public-key.pem": KEYS,
}
"""Other ways to write each file, by their names; those of ``bundle.zip`` keep the owner's signature."""


def re_encoded(zipped: bytes, name: str, change: Change) -> bytes:
    """Write one file of a bundle, or the bundle itself, in another way, and sign anew where that is needed."""
    if name == "bundle.zip":
        return change(zipped)
    members = members_of(zipped)
    changed = {**members, name: change(members[name])}
    if name == "found.npz":
        document = json.loads(changed["found.json"])
        document["answers"] = sha256_of(io.BytesIO(changed[name]))
        changed["found.json"] = canonical_json(document)
    own = name in ("certificate.json.sig", "public-key.pem")
    return repacked(changed if own else signed_anew(changed))


# Numbers, spelled as another type -------------------------------------------------------------------------------------


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where a JSON document holds a number or a truth value."""
    if isinstance(document, dict | list):
        children = document.items() if isinstance(document, dict) else enumerate(document)
        for key, child in children:
            yield from _places(child, (*path, key))
    elif isinstance(document, bool | int | float):
        yield path


def _planted(document: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(document)
    other = document.copy()
    other[path[0]] = _planted(document[path[0]], path[1:], change)
    return other


def _spellings(value: bool | int | float) -> list[Any]:
    """Return other JSON values that equal this one for many readers."""
    if isinstance(value, bool):
        return [int(value), float(value)]
    if isinstance(value, int):
        return [float(value), *([bool(value)] if value in (0, 1) else [])]
    return [*([int(value)] if value.is_integer() and abs(value) < 2**53 else []), *([-value] if value == 0 else [])]


def spelled_otherwise(zipped: bytes, *, most: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield the name of a file, a place in it, and the bundle with the number there spelled as another type.

    Parameters
    ----------
    zipped : bytes
    most : int
        How many numbers of each file are taken, as far apart as possible.
    """
    members = members_of(zipped)

    def canonical(document: Any) -> Change:
        return lambda _: (json.dumps(document, sort_keys=True, indent=2) + "\n").encode()

    def index(document: Any) -> Change:
        return _in_index(lambda _: json.dumps(document, sort_keys=True))

    def card(document: Any) -> Change:
        return _in_card(lambda _: json.dumps(document, sort_keys=True))

    held: list[tuple[str, Any, Callable[[Any], Change]]] = [
        (name, json.loads(data), canonical) for name, data in members.items() if name.endswith(".json")
    ]
    held.append(("measurements.npz", _content("measurements.npz", members["measurements.npz"])[0], index))
    held.append(("model.safetensors", _content("model.safetensors", members["model.safetensors"])[0], card))
    for name, document, written in held:
        found = list(_places(document))
        for path in found[:: max(-(-len(found) // most), 1)]:
            value = document
            for key in path:
                value = value[key]
            for other in _spellings(value):
                change = written(_planted(document, path, lambda _, other=other: other))
                yield name, f"{path}: {value!r} as {other!r}", re_encoded(zipped, name, change)


# Bytes, changed at random ---------------------------------------------------------------------------------------------


def _flip(data: bytearray, random: np.random.Generator) -> None:
    place = int(random.integers(len(data)))
    data[place] ^= 1 << int(random.integers(8))


def _insert(data: bytearray, random: np.random.Generator) -> None:
    place = int(random.integers(len(data) + 1))
    data[place:place] = random.bytes(int(random.integers(1, 9)))


def _delete(data: bytearray, random: np.random.Generator) -> None:
    place = int(random.integers(len(data)))
    del data[place : place + int(random.integers(1, 9))]


def _swap(data: bytearray, random: np.random.Generator) -> None:
    length = int(random.integers(1, 65))
    one, other = sorted(int(place) for place in random.integers(max(len(data) - length, 1), size=2))
    first, second = bytes(data[one : one + length]), bytes(data[other : other + length])
    if one + length <= other and len(second) == length:
        data[one : one + length], data[other : other + length] = second, first


def _repeat(data: bytearray, random: np.random.Generator) -> None:
    place = int(random.integers(len(data)))
    data[place:place] = data[place : place + int(random.integers(1, 65))]


def _overwrite(data: bytearray, random: np.random.Generator) -> None:
    place, length = int(random.integers(len(data))), int(random.integers(1, 9))
    data[place : place + length] = random.bytes(len(data[place : place + length]))


MUTATIONS: dict[str, Callable[[bytearray, np.random.Generator], None]] = {
    "flip a bit": _flip,
    "insert": _insert,
    "delete": _delete,
    "swap": _swap,
    "repeat": _repeat,
    "overwrite": _overwrite,
}

LEVELS = ("the zip", "a file, hashes kept", "a file, signed anew")


def _mutated(data: bytes, how: str, random: np.random.Generator) -> bytes:
    changed = bytearray(data)
    MUTATIONS[how](changed, random)
    return bytes(changed)


def _forgery(zipped: bytes, level: str, how: str, random: np.random.Generator) -> tuple[str, bytes]:
    """Return the name of the file that was changed, and the forged bundle."""
    if level == LEVELS[0]:
        return "bundle.zip", _mutated(zipped, how, random)
    members = members_of(zipped)
    # What the certificate alone states is content, whatever it says: its forms are among those that are written anew.
    names = [name for name in members if level == LEVELS[1] or name in signed_by_hash(tuple(members))]
    name = names[int(random.integers(len(names)))]
    changed = {**members, name: _mutated(members[name], how, random)}
    return name, repacked(changed if level == LEVELS[1] else signed_anew(changed))


def _reads_alike(name: str, members: Members, forged: bytes) -> bool:
    """Whether an ordinary reader finds the same content in a file of an honest bundle and of a forged one."""
    try:
        return bool(_content(name, members[name]) == _content(name, members_of(forged)[name]))
    except Exception:  # one of them is no such file any more
        return False


def _content(name: str, data: bytes) -> Any:
    kind = name.rpartition(".")[2]
    if kind == "json":
        return json.loads(data)
    if kind == "yaml":
        return yaml.safe_load(data)
    if kind == "csv":
        return list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    if kind == "parquet":
        return pa_parquet.read_table(io.BytesIO(data)).to_pydict()
    if kind == "npz":
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            held = {key: arrays[key] for key in arrays.files}
        index = json.loads(held.pop("index").tobytes())
        return index, {key: (array.shape, array.tolist()) for key, array in held.items()}
    if kind == "safetensors":
        length = int.from_bytes(data[:8], "little")
        card = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["hermitage"])
        return card, {key: (array.shape, array.tolist()) for key, array in load_safetensors(data).items()}
    return data


_MOST_NUMBERS = 40


# Counting -------------------------------------------------------------------------------------------------------------


@dataclass
class Count:
    """How many forgeries of a kind were tried, and what became of them.

    Attributes
    ----------
    tries, refused : int
    other_content : list of str
        Passed, were signed anew, and hold something else for an ordinary reader.
    passed : list of str
        All others that passed.
    """

    tries: int = 0
    refused: int = 0
    other_content: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)


def tried(
    zipped: bytes, *, tries: int, seed: int, name: str = "bundle", at_random_only: bool = False
) -> dict[str, Count]:
    """Forge one honest bundle in every way, and so many times at random.

    Parameters
    ----------
    zipped : bytes
        A bundle that passes.
    tries : int
        Random changes; those that leave every byte as it was are not counted.
    seed : int
    name : str
        What the bundle is called where a forgery of it passed.
    at_random_only : bool
        Leave out what is written anew and spelled otherwise.

    Returns
    -------
    dict
        The count of every kind.
    """
    counts: dict[str, Count] = {}
    written = iter(()) if at_random_only else _written_anew(zipped)
    for kind, told, forged, alike in chain(written, _at_random(zipped, tries=tries, seed=seed)):
        count = counts.setdefault(kind, Count())
        count.tries += 1
        if refusals(forged, until=""):
            count.refused += 1
        elif alike():
            count.passed.append(f"{name}: {told}")
        else:
            count.other_content.append(f"{name}: {told}")
    return counts


Forgery = tuple[str, str, bytes, Callable[[], bool]]
"""The kind of a forgery, its name, its bytes, and what says whether it holds the same as before."""


def _written_anew(zipped: bytes) -> Iterator[Forgery]:
    members = members_of(zipped)
    for name, changes in RE_ENCODINGS.items():
        for how, change in changes.items():
            if name != "bundle.zip" and name not in members:
                continue
            try:
                forged = re_encoded(zipped, name, change)
            except (StopIteration, KeyError):
                continue  # there is nothing in it to be written in that way
            if _differ(zipped, forged, name):
                yield f"written anew: {name}", f"{name}, {how}", forged, lambda: True
    for name, where, forged in spelled_otherwise(zipped, most=_MOST_NUMBERS):
        yield f"a number's type: {name}", f"{name}, {where}", forged, lambda: True


def _at_random(zipped: bytes, *, tries: int, seed: int) -> Iterator[Forgery]:
    members, random = members_of(zipped), np.random.default_rng(seed)
    for number in range(tries):
        level, how = LEVELS[number % len(LEVELS)], list(MUTATIONS)[number // len(LEVELS) % len(MUTATIONS)]
        name, forged = _forgery(zipped, level, how, random)
        if not _differ(zipped, forged, name):
            continue
        alike = partial(_reads_alike, name, members, forged) if level == LEVELS[2] else lambda: True
        yield f"{level}: {how}", f"{level}, {how}, try {number} of seed {seed}, {name}", forged, alike


def _differ(zipped: bytes, forged: bytes, name: str) -> bool:
    if name == "bundle.zip":
        return forged != zipped
    return members_of(forged)[name] != members_of(zipped)[name]


# As a program ---------------------------------------------------------------------------------------------------------

_HEAD = """
account: forgeries
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 5000
budget: {epsilon: 3.0, delta: 1e-6}
rows: 60
seed: 7
device: cpu
"""
_COLUMNS = """
  age: {type: number, low: 0, high: 99, step: 1, missing: true}
  weight: {type: number, low: 30, high: 160, step: 0.5, fallback: 70}
  town: {type: category, values: [Bern, Basel, Chur], other: true}
  ill: {type: yes_no, yes: "yes", no: "no", fallback: "no"}
"""
_FOUND = """
  age: {type: find}
  town: {type: find}
  ill: {type: yes_no, yes: "yes", no: "no", fallback: "no"}
"""
_BUNDLES = {
    "independent": f"generator: {{name: independent}}\nlabel: ill\nevaluation_share: 0.1\ncolumns:{_COLUMNS}",
    "dp-hp-adaptive": f"generator: {{name: dp-hp-adaptive}}\nlabel: ill\ncolumns:{_COLUMNS}",
    "kahm": f"generator: {{name: kahm}}\nlabel: ill\ncolumns:{_COLUMNS}",
    "model": f"model: {{name: private-regression}}\nlabel: weight\ncolumns:{_COLUMNS}",
    "found": f"generator: {{name: independent}}\nlabel: ill\nundeclared: drop\ncolumns:{_FOUND}",
}


def _table() -> str:
    random = np.random.default_rng(5)
    lines = ["age,weight,town,ill"]
    for _ in range(2500):
        town = random.choice(["Bern", "Basel", "Chur", "Uri"], p=[0.5, 0.3, 0.15, 0.05])
        age = "" if random.random() < 0.03 else int(99 * random.random() ** 1.5)
        weight = round(2 * random.normal(75, 15)) / 2
        lines.append(f"{age},{weight},{town},{'yes' if random.random() < 0.3 else 'no'}")
    return "\n".join(lines) + "\n"


def _made(name: str, folder: Path) -> bytes:
    """Run a configuration and return its bundle."""
    from synth.cli.finding import find_locally
    from synth.cli.local import run_locally
    from synth.schema import load_config

    (folder / "table.csv").write_text(_table(), encoding="utf-8")
    head = "\n".join(line for line in _HEAD.splitlines() if name != "model" or not line.startswith("rows:"))
    path = folder / f"{name}.yaml"
    path.write_text(f"table: table.csv{head}\n{_BUNDLES[name]}", encoding="utf-8")
    if name == "found":
        path = find_locally(path, epsilon=1.0)
    return run_locally(load_config(path), folder / name, owner_report=False).bundle.read_bytes()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=400, help="random changes of each bundle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bundles", nargs="+", choices=_BUNDLES, default=list(_BUNDLES))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    counts: dict[str, Count] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HERMITAGE_HOME"] = f"{folder}/home"
        os.environ.pop("DATABASE_URL", None)
        for name in asked.bundles:
            zipped = _made(name, Path(folder))
            problems = refusals(zipped)
            if problems:
                raise SystemExit(f"The honest bundle '{name}' does not pass: {problems}")
            for kind, count in tried(zipped, tries=asked.tries, seed=asked.seed, name=name).items():
                own = counts.setdefault(kind, Count())
                own.tries += count.tries
                own.refused += count.refused
                own.other_content += count.other_content
                own.passed += count.passed
            print(f"{name}: {len(zipped):,} bytes, forged.", flush=True)
    print(f"\n{'kind':42} {'tries':>6} {'refused':>8} {'other content':>14} {'passed':>7}")
    whole = Count()
    for count in counts.values():
        whole.tries, whole.refused = whole.tries + count.tries, whole.refused + count.refused
        whole.other_content += count.other_content
        whole.passed += count.passed
    for kind, count in [*counts.items(), ("all", whole)]:
        print(f"{kind:42} {count.tries:6,} {count.refused:8,} {len(count.other_content):14,} {len(count.passed):7,}")
    for what, names in (("other content", whole.other_content), ("passed", whole.passed)):
        for one in names:
            print(f"{what}: {one}")
    if asked.json is not None:
        asked.json.write_text(json.dumps({kind: vars(count) for kind, count in counts.items()}, indent=2))


if __name__ == "__main__":
    main()
