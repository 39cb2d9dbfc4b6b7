"""The texts of chosen columns, counted while they arrive: only for finding values privately.

The contract is that of all reading: what line i adds follows from line i and from what is declared. A separate process
(:mod:`synth.reading.process`) parses the file and answers with the texts of every batch; here they are counted and
dropped. The counts contain private texts: they are only for a question of :mod:`synth.privacy.more.found_values`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from synth.errors import TableError
from synth.reading.files import Batches
from synth.reading.process import main
from synth.reading.reader import ask
from synth.reading.request import Request
from synth.schema import modelled_columns
from synth.schema.encoding import values_of_cells
from synth.schema.header import places_of
from synth.system.conversation import write_frame

__all__ = ["LONGEST_VALUE", "TextCounts", "answer_with_texts", "count_texts", "is_value"]

LONGEST_VALUE = 100
"""Characters of the longest text that can be found; a longer one counts as no value."""

TextCounts = dict[str, int]
"""How many rows contain each text of one column; all of it is private."""

_PARSER = "synth.reading.more.texts"
_KIND = np.dtype("<u4")


def is_value(text: str) -> bool:
    """Whether a text can be a value that is found: printable, not empty and not too long."""
    return 0 < len(text) <= LONGEST_VALUE and text.isprintable()


def count_texts(
    open_stream: Callable[[], BinaryIO], request: Request, chosen: npt.NDArray[np.bool_]
) -> Sequence[TextCounts]:
    """Count the texts of every modelled column over some rows.

    Parameters
    ----------
    open_stream : callable
        Opens the file; the stream is closed here.
    request : Request
        How the table is written, and its columns; the modelled ones are read.
    chosen : array of bool of shape (n_rows,)
        Which rows count.

    Returns
    -------
    sequence of dict
        For each modelled column, in order, how many of those rows contain each text.

    Raises
    ------
    TableError
        If the table cannot be read, or has a different number of rows by now.
    """
    found: list[TextCounts] = [{} for _ in modelled_columns(request.columns)]
    rows = 0

    def add(body: bytes) -> None:
        nonlocal rows
        here, place = int.from_bytes(body[:8], "little"), 8
        some = chosen[rows : rows + here]
        rows += here
        if len(some) < here:
            raise ValueError
        for counts in found:
            n_texts = int.from_bytes(body[place : place + 4], "little")
            ends = np.cumsum(np.frombuffer(body, _KIND, n_texts, place + 4), dtype=np.int64).tolist()
            first = place + 4 + n_texts * _KIND.itemsize
            place = first + (ends[-1] if ends else 0)
            index = np.frombuffer(body, _KIND, here, place)
            place += index.nbytes
            # The last number means a cell without a value.
            of_rows = np.bincount(index[some], minlength=n_texts + 1)[:n_texts].tolist()
            for start, end, count in zip([0, *ends], ends, of_rows, strict=False):
                if count:
                    text = body[first + start : first + end].decode()
                    counts[text] = counts.get(text, 0) + count

    with open_stream() as stream:
        end = ask(stream, request, add, parser=(_PARSER,))
    if not rows == end["rows"] == len(chosen):
        raise TableError("The table has changed while it was read. Try again.")
    return found


def answer_with_texts(request: Request, batches: Batches, answers: BinaryIO) -> None:
    """Send the texts of every batch of rows: those that occur, and which of them each row contains."""
    columns = modelled_columns(request.columns)
    place_of = places_of(batches.names, request.columns, drop_undeclared=request.drop_undeclared)
    rows = 0
    for batch in batches.read([place_of[column.name] for column in columns]):
        here = len(batch.columns[0])
        rows += here
        parts: list[bytes] = []
        for cells in batch.columns:
            parts += _packed(cells, request)
        write_frame(answers, b"B", here.to_bytes(8, "little"), *parts)
    write_frame(answers, b"Z", json.dumps({"rows": rows}).encode())


def _packed(cells: pa.Array, request: Request) -> list[bytes]:
    """Return the number of texts, their lengths, the texts, and for each row which one it contains."""
    texts, index = values_of_cells(cells, missing=request.format.missing, strip=request.format.strip)
    held = [place for place, text in enumerate(texts) if text is not None and is_value(text)]
    number = np.full(len(texts), len(held), dtype=_KIND)
    number[held] = np.arange(len(held))
    written = [str(texts[place]).encode() for place in held]
    lengths = np.array([len(one) for one in written], dtype=_KIND)
    return [len(held).to_bytes(4, "little"), lengths.tobytes(), b"".join(written), number[index].tobytes()]


if __name__ == "__main__":
    raise SystemExit(main(answer_with_texts))
