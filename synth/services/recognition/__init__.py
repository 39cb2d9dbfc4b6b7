"""How a file is written and what its columns are, recognised and proposed, never decided.

One detector for the page, the command line and Python. It reads the file in a process with limits, as a run does.
Without the owner's permission to look at rows it reads the header line alone; a look is recorded by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from synth.errors import TableError
from synth.reading.more.statistical import Described
from synth.reading.reader import ask
from synth.reading.request import Request
from synth.schema import ENCODINGS, TableFormat, parse_format
from synth.services.inspection import LOOKS, Header, inspect_header
from synth.services.recognition.proposals import ColumnProposal, FormatProposal, Recognised, Together
from synth.system.settings import ReaderLimits

__all__ = ["ColumnProposal", "FormatProposal", "Recognised", "Together", "read_header", "recognise", "recognised_of"]


def recognise(
    stream: BinaryIO,
    form: TableFormat | None = None,
    *,
    look: bool,
    limits: ReaderLimits | None = None,
    alone: bool = False,
    of_first: Sequence[str] | None = None,
) -> Recognised:
    """Propose how a file is written and, with a look at its rows, what its columns are.

    Parameters
    ----------
    stream : binary file
        The bytes of the table, from its beginning.
    form : TableFormat, optional
        What is known of its format; keys that are not at their default are not proposed again.
    look : bool
        Whether rows may be looked at; the caller records that their owner did. Otherwise only the header line of a text
        is read, and there are proposals about nothing else.
    limits : ReaderLimits, optional
        Limits on the table and on the reading process.
    alone : bool
        Whether notations are proposed for each column alone, and none for the table, as a DataFrame needs.
    of_first : sequence of str, optional
        Of a table that two were joined into, the columns of the first. A row that comes from one of both only says
        nothing about the columns of the other, and nothing is proposed for the column that tells them apart.

    Returns
    -------
    Recognised

    Raises
    ------
    TableError
        If the file cannot be read, in one sentence that quotes no cell.
    """
    request = Request(
        format=form or TableFormat(),
        limits=limits or ReaderLimits(),
        of_first=None if of_first is None else tuple(of_first),
    )
    with LOOKS:
        end = ask(stream, request, None, parser=(_PROCESS, *([_LOOK] if look else []), *([_ALONE] if alone else [])))
    try:
        return recognised_of(end, looked=look)
    except (KeyError, TypeError, ValueError):
        raise TableError("The table could not be recognised. Describe its format and its columns.") from None


def read_header(
    stream: BinaryIO, form: TableFormat | None = None, *, limits: ReaderLimits | None = None, **declared: Any
) -> Header:
    """Read the header of a table as :func:`synth.services.inspection.inspect_header`; a refusal names what would help.

    ``declared`` is what is known besides the format, by the names of its arguments.

    Raises
    ------
    TableError
        As there. If the header line is not in the declared encoding, the message names the one that fits its bytes, and
        so do the ``choices`` of the error.
    """
    try:
        return inspect_header(stream, form, limits=limits, **declared)
    except TableError as refusal:
        if refusal.key != "encoding" or not stream.seekable():
            raise
        stream.seek(0)
        known = {one.key: one.value for one in recognise(stream, form, look=False, limits=limits).proposals}
        stream.seek(0)
        if "encoding" not in known:
            raise
        encoding = known["encoding"]
        raise TableError(
            f"The first line is not {(form or TableFormat()).encoding.upper()}. Its bytes read as "
            f"{ENCODINGS.get(encoding, encoding)}. If that is right, declare it in the format: encoding={encoding} (on "
            f"the command line --format encoding={encoding}).",
            key="encoding",
            choices=(encoding,),
        ) from None


_PROCESS = "synth.services.recognition.process"
_LOOK, _ALONE = "look", "alone"


def recognised_of(end: dict[str, Any], *, looked: bool) -> Recognised:
    """Return what the process answered, which is checked as any input is.

    Raises
    ------
    InputError, KeyError, TypeError, ValueError
        If it is malformed.
    """
    blank, unreadable = int(end["lines"][0]), sum(end["lines"][1].values())
    columns = [ColumnProposal(**{**one, "choices": tuple(one["choices"])}) for one in end["columns"]]
    described = tuple(map(Described.of_list, end["described"]))
    return Recognised(
        form=parse_format(end["form"]),
        proposals=tuple(
            FormatProposal(one["key"], _frozen(one["value"]), one["evidence"], _frozen(one["choices"]))
            for one in end["proposals"]
        ),
        columns=tuple(
            column.with_description(said.description) for column, said in zip(columns, described, strict=True)
        )
        if described
        else tuple(columns),
        looked=looked,
        rows=end["rows"],
        unreadable=unreadable,
        blank=blank,
        described=described,
        together=tuple(Together(**{**one, "same": tuple(one["same"])}) for one in end["together"]),
    )


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
