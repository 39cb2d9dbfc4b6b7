"""Two tables that belong together as the source of one: a confined process joins them, and the rows are encrypted."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from synth.errors import ConfigError, TableError
from synth.reading.reader import ask
from synth.reading.request import Request
from synth.schema import Column, RunConfig, TableFormat
from synth.schema.schema import LinkedTables
from synth.system.settings import ReaderLimits
from synth.vault.incoming import Incoming

__all__ = ["as_joined", "form_of_joined", "joined_rows"]

_READER = "synth.reading.more.linked"


def form_of_joined(form: TableFormat) -> TableFormat:
    """Return the format of the file that two tables are joined into.

    How cells are written stays as declared, and so does how lines are, in which synthetic rows can be written too.
    """
    return TableFormat(
        kind="parquet",
        separator="\t" if (form.kind, form.separator) == ("tsv", "auto") else form.separator,
        encoding=form.encoding,
        missing=form.missing,
        strip=form.strip,
        decimal=form.decimal,
        thousands=form.thousands,
        units=form.units,
        dates=form.dates,
        # Which the certificate repeats: it is about the lines of both files.
        newlines=form.newlines,
        origin="file",
    )


def as_joined(config: RunConfig) -> RunConfig:
    """Return the configuration as it reads the joined table; what is not about two files stays as it is."""
    if config.schema.tables is None:
        return config
    return replace(config, table_files=None, format=form_of_joined(config.format))


@contextmanager
def joined_rows(
    files: tuple[BinaryIO, BinaryIO],
    tables: LinkedTables,
    form: TableFormat,
    *,
    directory: Path,
    limits: ReaderLimits,
    declared: Sequence[Column] = (),
    drop_undeclared: bool = False,
) -> Iterator[BinaryIO]:
    """Join two tables once, and yield the file of the joined table as a stream that can be read again.

    The file is in ``directory``, without a name, encrypted under a key of this process, and is gone after the block.

    Parameters
    ----------
    files : tuple of two binary files
        From their beginnings, in the order of ``tables``.
    tables : LinkedTables
        What they are called, and their key.
    form : TableFormat
        How both are written; of which kind each is, its first bytes say.
    directory : Path
        Where the joined file is kept.
    limits : ReaderLimits
        The limits of the reading process on rows, bytes, memory and time.
    declared : sequence of Column
        What is declared; columns that are dropped are not joined. Without it, all columns are.
    drop_undeclared : bool
        Whether columns that are not declared are left out; otherwise whoever reads the joined table refuses them.

    Raises
    ------
    ConfigError
        If the format says that the files have no header.
    TableError
        If they cannot be joined; the message names the table and contains no cell.
    """
    if not form.header:
        raise ConfigError(
            "format: two tables that belong together need a header line each, because they have other columns. Take "
            "'header: false', 'names' and 'fields' out, and write the names into the files."
        )
    form.check()
    sizes = tuple(map(_size_of, files))
    request = Request(
        format=form,
        limits=limits,
        columns=tuple(declared),
        id_column=tables.key,
        drop_undeclared=drop_undeclared,
        size=sum(sizes),
        tables=tables,
        second_at=sizes[0],
    )
    incoming = Incoming(directory)
    arrival = incoming.arrive("", "")
    try:
        both = cast(BinaryIO, _OneAfterTheOther(files, sizes))
        if not ask(both, request, arrival.write, parser=(_READER,))["rows"]:
            raise TableError(f"Neither '{tables.first}' nor '{tables.second}' has a row. Send the whole tables.")
        with incoming.claim(arrival.finish()) as stream:
            yield stream
    finally:
        incoming.forget("")


def _size_of(stream: BinaryIO) -> int:
    """Return the length of a file, and leave it at its start."""
    try:
        size = stream.seek(0, os.SEEK_END)
    except io.UnsupportedOperation:  # several files as one, which have to be read for that
        size = sum(map(len, iter(lambda: stream.read(2**20), b"")))
    stream.seek(0)
    return size


class _OneAfterTheOther(io.RawIOBase):
    """Two files of known sizes as one; each is only moved where it is not read on from its place."""

    def __init__(self, files: Sequence[BinaryIO], sizes: Sequence[int]) -> None:
        super().__init__()
        self._files, self._sizes = files, sizes
        self._places = [0] * len(files)
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, which is counted from the start."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation
        self._place = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, all of one of the files; none at the end."""
        start = 0
        for number, (file, length) in enumerate(zip(self._files, self._sizes, strict=True)):
            wanted = self._place - start
            if wanted < length:
                if self._places[number] != wanted:
                    file.seek(wanted)
                data = file.read(length - wanted if size < 0 else min(size, length - wanted))
                self._places[number] = wanted + len(data)
                self._place += len(data)
                return data
            start += length
        return b""
