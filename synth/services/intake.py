"""Take in tables: inspect them in a process with limits, and encrypt them while reading."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import BinaryIO, Literal, cast

from synth.errors import NotAsDeclaredError, TableError
from synth.ledger.ledger import Ledger
from synth.ledger.notes import same_table
from synth.ledger.rulings import Role
from synth.names import composed, name_problem
from synth.reports.losses import Losses
from synth.schema import Column, RunConfig, TableFormat, code_dtype, format_to_mapping, parse_format
from synth.schema.schema import LinkedTables
from synth.schema.source import DatabaseSource
from synth.services.access import ITSELF, Access, internal, use_case
from synth.services.databases import connections_for, form_of_rows, rows_of
from synth.services.first_reading import read_once
from synth.services.inspection import Header, inspect_header
from synth.services.linked import form_of_joined, joined_rows
from synth.services.recognition import Recognised, read_header, recognise
from synth.services.table_paths import open_listed, size_of
from synth.services.views import DraftColumn, KeptTable, ReceivedTable
from synth.store import Store, StoredTable, TableKind, TableState, Work, WorkKind, display_name
from synth.system.disk import require_room
from synth.system.machine import free_memory_bytes, local_processes
from synth.system.settings import ReaderLimits, size_text
from synth.vault.sealing import CHUNK_BYTES, TAG_BYTES
from synth.vault.vault import Vault

__all__ = ["Headers", "Intake", "Reading", "Stage", "going_preview"]

Headers = dict[str, Header]
"""The header of each table that was read, by its id."""

Stage = Literal["read", "encrypted"]
"""What is done with the bytes of a table that is taken in: first all are read, then encrypted."""

MANY_ROWS = 2**22
"""Rows from which on it is checked that their codes fit into memory."""

_OF_ID = 64
"""Bytes that a row takes while it is assigned to its unit: the hash of its id, and places in sorted order."""

_OF_HEADER = 2**16
"""Bytes of the header of a table and of the record in the database, with room to spare."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the owner wants of the reading before a charge.

    ``look``: be told what would be lost, which is recorded as a look at the rows. ``as_declared``: go on even if most
    would be lost. ``tell`` is called with every sentence about that; no line of it is public.
    """

    look: bool = True
    as_declared: bool = False
    tell: Callable[[str], None] | None = None

    def pass_on(self, *found: Losses) -> None:
        """Tell what was found."""
        for line in (line for losses in found for line in losses.lines):
            if self.tell is not None:
                self.tell(line)


class Intake:
    """The tables of one installation, by id.

    Names of columns and numbers of rows stay in the memory of this process, never in the database. ``access`` says who
    asks; ``limits`` apply to every reading before a charge; ``headers`` is shared between the intakes of a process.
    """

    def __init__(
        self,
        store: Store,
        vault: Vault,
        ledger: Ledger,
        *,
        access: Access = ITSELF,
        limits: ReaderLimits | None = None,
        headers: Headers | None = None,
    ) -> None:
        self.access = access
        self._store = store
        self._ledger = ledger
        self._vault = vault
        self._limits = limits or ReaderLimits()
        self._headers: Headers = {} if headers is None else headers

    @use_case(Role.OWNER, about="account")
    def receive(
        self,
        stream: BinaryIO,
        *,
        account: str,
        name: str,
        table_format: TableFormat | None = None,
        kind: Literal["table", "test"] = "table",
        declared: Sequence[Column] = (),
        undeclared: Literal["refuse", "drop"] = "refuse",
        vouched: bool = False,
        watch: Callable[[Stage, int], None] | None = None,
    ) -> ReceivedTable:
        """Take in a table: read its header in a process with limits, then encrypt it while reading.

        Parameters
        ----------
        stream : binary file
            The file; it must be seekable, because it is read twice.
        account : str
            The people it is about; a new name opens an account.
        name : str
            The name of the file, for display only.
        table_format : TableFormat, optional
            The format of the file.
        kind : {"table", "test"}
        declared : sequence of Column
            The declared columns. A first line that names exactly these is a header, whatever it looks like.
        undeclared : {"refuse", "drop"}
            Whether it may name others too.
        vouched : bool
            Whether the owner vouches that the first line holds names, for a table that nobody described yet.
        watch : callable, optional
            Called several times a second with what is done, ``"read"`` and then ``"encrypted"``, and to how many bytes
            so far; whatever it raises ends the intake, and nothing is kept.

        Raises
        ------
        TableError
            If it cannot be read as a table; nothing is kept, and no account is opened.
        DiskFullError
            If there is no room for it on the disk; nothing was read then.
        """
        form = table_format or TableFormat()
        form.check()
        self._require_room(stream)
        known = {"vouched": vouched, "declared": declared, "undeclared": undeclared}
        if watch is None:
            header = read_header(stream, form, limits=self._limits, **known)
        else:
            read = _Watched(stream)
            watch("read", 0)
            header = read_header(
                cast(BinaryIO, read), form, limits=self._limits, beat=lambda: watch("read", read.place), **known
            )
        if header.n_rows == 0:
            raise TableError("The table has a header but no rows. Upload the whole table.")
        stream.seek(0)
        retention = timedelta(hours=self._store.settings.retention_hours)
        # A browser may send a whole path, and a user name in it would be private.
        shown = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or "table"
        # The account is opened together with the table: if anything fails, there is neither.
        with self._vault.taking(
            stream if watch is None else cast(BinaryIO, _Watched(stream, lambda done: watch("encrypted", done))),
            account_name=account,
            user=self.access.owner,
            name=shown,
            kind=TableKind(kind),
            form=json.dumps(format_to_mapping(form)),
            retention=retention,
        ) as table:
            received = self._described(table, header, display_name(account, what="The account"))
        self._headers[table.id] = header
        return received

    @use_case(Role.OWNER, about="account")
    def receive_listed(
        self,
        pattern: str,
        *,
        account: str,
        table_format: TableFormat,
        declared: Sequence[Column] = (),
        watch: Callable[[Stage, int, int | None], None] | None = None,
    ) -> ReceivedTable:
        """Take in a table from a folder that the operator listed: a file, or several that match a pattern.

        Parameters
        ----------
        pattern : str
            As in :func:`synth.services.table_paths.open_listed`.
        account, table_format, declared
            As in :meth:`receive`.
        watch : callable, optional
            As in :meth:`receive`; called besides with the number of all bytes, or None where only reading them tells.

        Raises
        ------
        InputError
            If it lies outside the listed folders; no file is opened.
        TableError
            If it cannot be read as one table; nothing is kept, and no account is opened.
        """
        settings = self._store.settings
        with open_listed(pattern, table_format, folders=settings.folders, home=settings.home) as (name, stream):
            size = size_of(stream)
            return self.receive(
                stream,
                account=account,
                name=name,
                table_format=table_format,
                declared=declared,
                watch=None if watch is None else lambda stage, done: watch(stage, done, size),
            )

    def _require_memory(self, table_id: str, config: RunConfig) -> None:
        """Refuse a table whose codes would not fit into memory: the run would end after its charge."""
        header = self._headers.get(table_id)
        if header is None or header.n_rows < MANY_ROWS:
            return
        each = sum(code_dtype(column.size).itemsize for column in config.schema.modelled)
        if config.schema.unit.id_column is not None:
            each += _OF_ID
        needed, free = header.n_rows * each, free_memory_bytes()
        if needed > free:
            raise TableError(
                f"The rows take {size_text(needed)} of memory, and this machine has {size_text(free)} free. Drop "
                "columns that you do not need, or run it where there is more memory."
            )

    def _require_room(self, stream: BinaryIO) -> None:
        size = size_of(stream)
        if size is not None and size <= self._store.settings.maximum_table_bytes:
            needed = size + size // CHUNK_BYTES * TAG_BYTES + _OF_HEADER
            require_room(self._store.settings.home, needed, "The table")

    @use_case(Role.OWNER, about="account")
    def receive_from(
        self, source: DatabaseSource, password: str | None, account: str, form: TableFormat
    ) -> ReceivedTable:
        """Take in a table from a database, which is read once; afterwards it is treated as an uploaded table.

        Parameters
        ----------
        source : DatabaseSource
            The database, and which rows to read.
        password : str, optional
            The password of the database; it is not stored.
        account : str
            As in :meth:`receive`.
        form : TableFormat
            Says which texts mean "missing".

        Raises
        ------
        PasswordNeededError
            If the database requires a password and none was given.
        InputError
            If there is no connection of that name.
        TableError
            If it cannot be read; nothing is kept, and no account is opened.
        """
        directory = self._store.settings.home / "incoming"
        told: list[str] = []
        with rows_of(
            source,
            password=password,
            directory=directory,
            limits=self._limits,
            connections=connections_for(self._store.settings),
            warn=told.append,
        ) as stream:
            table = self.receive(
                stream, account=account, name=source.kept_name, table_format=form_of_rows(source, form)
            )
        return replace(table, caution=told[0] if told else None)

    @use_case(Role.OWNER, about="account")
    def receive_linked(
        self,
        files: tuple[BinaryIO, BinaryIO],
        tables: LinkedTables,
        *,
        account: str,
        table_format: TableFormat | None = None,
        declared: Sequence[Column] = (),
        undeclared: Literal["refuse", "drop"] = "refuse",
    ) -> ReceivedTable:
        """Take in two tables that belong together, joined by their key; afterwards they are one uploaded table.

        Parameters
        ----------
        files : tuple of two binary files
            In the order of ``tables``; they must be seekable.
        tables : LinkedTables
            What they are called, and their key.
        account : str
            As in :meth:`receive`.
        table_format : TableFormat, optional
            The format of both files.
        declared : sequence of Column
            What is declared. Columns that are dropped are not taken in.
        undeclared : {"refuse", "drop"}
            What to do with a column that is not declared.

        Raises
        ------
        InputError
            If they cannot be read or joined; nothing is kept, and no account is opened.
        """
        form = table_format or TableFormat()
        with joined_rows(
            files,
            tables,
            form,
            directory=self._store.settings.home / "incoming",
            limits=self._limits,
            declared=declared,
            drop_undeclared=undeclared == "drop",
        ) as stream:
            return self.receive(
                stream,
                account=account,
                name=f"{tables.first} and {tables.second}",
                table_format=form_of_joined(form),
                declared=declared,
                undeclared=undeclared,
            )

    @use_case(Role.OWNER, about="table_id")
    def keys_with(self, table_id: str, second: BinaryIO, form: TableFormat) -> tuple[str, ...]:
        """Return the columns that a stored table and a file that was not taken in yet both have.

        Of the file nothing else is returned: its first line may be a row.

        Parameters
        ----------
        table_id : str
        second : binary file
            From its beginning; it must be seekable.
        form : TableFormat
            How it is written.

        Raises
        ------
        TableError
            If it cannot be read, or has no such column.
        """
        self._require_from_file(table_id)
        header = read_header(second, replace(form, rename=()), limits=self._limits, vouched=True)
        rename = dict(form.rename)
        there = {composed(rename.get(name, name)) for name in header.names}
        keys = tuple(column.name for column in self.table(table_id).columns if composed(column.name) in there)
        if not keys:
            raise TableError(
                "No column has the same name in both tables. The one that says whose row it is needs the same name in "
                "both files: rename it in one of them.",
                key="names",
            )
        return keys

    @use_case(Role.OWNER, about="table_id")
    def join(self, table_id: str, second: BinaryIO, tables: LinkedTables, form: TableFormat) -> ReceivedTable:
        """Join a stored table and a second one of the same people; the table of both takes the place of the stored one.

        Parameters
        ----------
        table_id : str
            The stored table, which is the first of the two.
        second : binary file
            The second table, from its beginning; it must be seekable.
        tables : LinkedTables
            What both are called, and their key.
        form : TableFormat
            How both files are written.

        Raises
        ------
        InputError
            If they cannot be read or joined, or a run needs the stored table; it stays as it was.
        """
        self._require_from_file(table_id)
        self._require_unused(table_id)
        table = self._store.tables[table_id]
        account = self._store.accounts[table.account_id].name
        with self._vault.open(table_id) as first:
            joined = self.receive_linked((first, second), tables, account=account, table_format=form)
        self.delete_table(table_id)
        return joined

    def _require_from_file(self, table_id: str) -> None:
        origin = _form_of(self._store.tables[table_id]).origin
        if origin != "file":
            raise TableError(
                f"The rows of this table came from a {origin}, where a second table cannot be joined to them here. "
                "Write a query that joins both, or save both tables as files."
            )

    @use_case(Role.OWNER, about="table_id")
    def table(self, table_id: str) -> ReceivedTable:
        """Return what is known about a table."""
        self._vault.expire()
        return self._received(self._store.tables[table_id])

    @use_case(Role.OWNER, about="table_id")
    def name_of(self, table_id: str) -> str:
        """Return the name of a table, without looking at its file."""
        return self._store.tables[table_id].name

    @use_case(Role.OWNER)
    def tables(self) -> list[ReceivedTable]:
        """Return every table of the user whose rows still exist, oldest first."""
        self._vault.expire()
        own = {account.id for account in self.access.own(self._store.accounts.all())}
        return [self._received(table) for table in self._store.tables.stored() if table.account_id in own]

    @use_case(Role.ADMIN)
    def kept(self) -> list[KeptTable]:
        """Return what an administrator sees of every table whose rows still exist, oldest first: no name, no column."""
        self._vault.expire()
        stored = self._store.tables.stored()  # first: an account is there before its tables
        accounts = {account.id: account for account in self._store.accounts.all()}
        return [
            KeptTable(
                table_id=table.id,
                account=accounts[table.account_id].name,
                owner=accounts[table.account_id].owner,
                size_bytes=table.size,
                created=table.created,
                keep_until=table.keep_until,
            )
            for table in stored
        ]

    @use_case(Role.OWNER, Role.ADMIN, about="table_id")
    def delete_table(self, table_id: str) -> None:
        """Delete the rows of a table now.

        Raises
        ------
        TableError
            If an unfinished run needs them.
        """
        self._require_unused(table_id)
        self._vault.delete(table_id, who=self.access.name)
        self._headers.pop(table_id, None)

    def _require_unused(self, table_id: str) -> None:
        finding = self._store.work.about(WorkKind.FINDING, table_id)
        going = (finding is not None and finding.is_active) or going_preview(self._store, table_id) is not None
        if going or self._store.runs.needing_table(table_id):
            raise TableError("A run still needs this table. Wait for the run, or cancel it first.")

    @use_case(Role.OWNER, about="table_id")
    def rename_columns(self, table_id: str, names: Mapping[str, str]) -> tuple[ReceivedTable, TableFormat]:
        """Rename columns of a stored table; the new names are kept in the format with which it is read from now on.

        Parameters
        ----------
        table_id : str
        names : mapping of name to other name
            The new name of each column, by its current name.

        Returns
        -------
        table : ReceivedTable
        form : TableFormat
            The format for the configuration of its release.

        Raises
        ------
        SynthError
            If a name cannot be used, or two columns would have the same name; nothing changes.
        """
        table = self._store.tables[table_id]
        before = _form_of(table)
        problem = next(filter(None, map(name_problem, names.values())), None)
        if problem is not None:
            raise TableError(problem)
        # A column that was renamed before keeps one entry.
        given = {name: names.get(other, other) for name, other in before.rename}
        fresh = {name: other for name, other in names.items() if name not in dict(before.rename).values()}
        form = replace(before, rename=tuple((given | fresh).items()))
        self._inspect(table_id, form)
        self._store.tables.write_form(table_id, json.dumps(format_to_mapping(form)))
        return self._received(self._store.tables[table_id]), form

    @use_case(Role.OWNER, about="look_for")
    def recognise(
        self,
        stream: BinaryIO,
        form: TableFormat | None = None,
        *,
        look_for: str | None = None,
        alone: bool = False,
    ) -> Recognised:
        """Propose how a file that was not taken in yet is written, and what its columns are.

        Parameters
        ----------
        stream : binary file
            The file, from its beginning.
        form : TableFormat, optional
            What is known of its format.
        look_for : str, optional
            Look at its rows, and record with this account, before anything is read, that their owner did; a new name
            opens an account. Otherwise only the header line of a text is read.
        alone : bool
            As in :func:`synth.services.recognition.recognise`.

        Raises
        ------
        TableError
            If the file cannot be read.
        """
        if look_for is not None:
            self._note_look(self._store.accounts.open(look_for, self.access.owner).id)
        return recognise(stream, form, look=look_for is not None, limits=self._limits, alone=alone)

    @use_case(Role.OWNER, about="table_id")
    def recognise_table(self, table_id: str, *, of_first: Sequence[str] | None = None) -> Recognised:
        """Propose how a stored table is written and what its columns are; the look is recorded first.

        ``of_first`` is as in :func:`synth.services.recognition.recognise`.
        """
        table = self._store.tables[table_id]
        self._note_look(table.account_id)
        with self._vault.open(table_id) as stream:
            return recognise(stream, _form_of(table), look=True, limits=self._limits, of_first=of_first)

    @use_case(Role.OWNER, about="table_id")
    def read_as(self, table_id: str, form: TableFormat) -> ReceivedTable:
        """Read a stored table in another format from now on.

        Raises
        ------
        TableError
            If it cannot be read like that; nothing changes.
        """
        form.check()
        self._inspect(table_id, form, vouched=False)
        self._store.tables.write_form(table_id, json.dumps(format_to_mapping(form)))
        return self._received(self._store.tables[table_id])

    def _note_look(self, account_id: str) -> None:
        self._ledger.note_owner_view(account_id, run_id=None, who=self.access.name, what="format and columns")

    def _inspect(self, table_id: str, form: TableFormat, *, vouched: bool = True) -> Header:
        # In the format in which a table was taken in, it is settled that its first line is no row.
        with self._vault.open(table_id) as stream:
            header = inspect_header(stream, form, limits=self._limits, vouched=vouched)
        self._headers[table_id] = header
        return header

    def _received(self, table: StoredTable) -> ReceivedTable:
        header = None
        if table.state is TableState.STORED:
            with suppress(TableError):
                header = self._headers.get(table.id) or self._inspect(table.id, _form_of(table))
        return self._described(table, header, self._store.accounts[table.account_id].name)

    def _described(self, table: StoredTable, header: Header | None, account: str) -> ReceivedTable:
        described = () if header is None else header.described or (None,) * len(header.names)
        named = () if header is None else zip(header.names, header.kinds, described, strict=True)
        return ReceivedTable(
            table_id=table.id,
            account=account,
            name=table.name,
            size_bytes=table.size,
            columns=tuple(DraftColumn(name, kind or "", one) for name, kind, one in named),
            n_rows=None if header is None else header.n_rows,
            renamed={} if header is None else header.renamed,
            warning=None if header is None else _warning_of(header),
            same_table=self._same_table(table),
        )

    def _same_table(self, table: StoredTable) -> str | None:
        # Whether another owner has the same table depends on every row of it: auditors and administrators see that.
        own = self.access.own(self._store.accounts[twin.account_id] for twin in self._vault.twins(table))
        return same_table({account.name for account in own}) if own else None

    @internal
    def check(self, table_id: str, account_id: str, config: RunConfig, *, asked: str, reading: Reading) -> Losses:
        """Refuse a table that would stop the run after its charge: of another account, or unreadable.

        The table is read to its end, as the run will read it, in the format of the configuration. That is also the one
        place where the owner is told, before anything is charged, what would be lost.

        Parameters
        ----------
        table_id, account_id : str
        config : RunConfig
        asked : str
            What is going to be charged, as JSON: the look is recorded as one for this configuration.
        reading : Reading
            What the owner wants to know about it.

        Returns
        -------
        Losses
            Nothing without a look.

        Raises
        ------
        NotAsDeclaredError
            If most would be lost, and the owner did not say to go on.
        TableError
            The message contains no cell.
        """
        self._vault.expire()
        table = self._store.tables[table_id]
        if table.account_id != account_id:
            raise TableError(
                "The table was taken in under another account. Use that account, or upload the table again."
            )
        if table.state is not TableState.STORED:
            raise TableError("This table was deleted. Upload it again.")
        form = config.format if table.kind is TableKind.TABLE else config.test_format or config.format
        came_from = _form_of(table).origin
        if table.kind is TableKind.TABLE and came_from != form.origin:
            # Otherwise the certificate would not state what is assumed about these rows.
            raise TableError(
                f"The rows of this table came from a {came_from}. Write 'origin: {came_from}' under 'format'."
            )
        self._require_memory(table_id, config)
        losses = read_once(
            lambda: self._vault.open(table_id),
            form,
            config.schema,
            rules=config.constraints,
            undeclared=config.undeclared,
            limits=self._limits,
            processes=local_processes(self._store.settings.threads),
        )
        if not reading.look:
            return Losses()
        if table.kind is TableKind.TEST:
            return Losses(tuple(f"Test table: {line}" for line in losses.lines))
        # Whatever was found, or a certificate would say whether something was.
        self._ledger.note_reading(account_id, asked=asked, who=self.access.name)
        if losses.mostly and not reading.as_declared:
            raise NotAsDeclaredError(losses.lines)
        return losses


class _Watched:
    """A stream that knows up to which place it was read, and tells it after each read."""

    def __init__(self, stream: BinaryIO, tell: Callable[[int], None] | None = None) -> None:
        self._stream, self._tell, self.place = stream, tell, 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._stream.read(size)
        self.place += len(data)
        if self._tell is not None:
            self._tell(self.place)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another place."""
        self.place = self._stream.seek(offset, whence)
        return self.place

    def seekable(self) -> bool:
        """Whether it can."""
        return self._stream.seekable()

    def tell(self) -> int:
        """Return the place."""
        return self._stream.tell()


def going_preview(store: Store, table_id: str) -> Work | None:
    """Return the preview of a table that is in progress, or None."""
    active = (work for work in store.work.active() if work.kind is WorkKind.PREVIEW)
    return next((work for work in active if json.loads(str(work.asked))["table"] == table_id), None)


def _warning_of(header: Header) -> str | None:
    if header.none_readable:
        return (
            f"No line of the file can be read as a row of {len(header.names):,} cells. Check the separator, the "
            "quotation marks and the list of names; if it is a Parquet file or a workbook, say that it has a header."
        )
    if header.blank_lines and len(header.names) == 1:
        return (
            f"{header.blank_lines:,} blank lines of the file count as rows without a value, as it has only one column. "
            "Remove them if that is not intended."
            if header.blank_lines > 1
            else "1 blank line of the file counts as a row without a value, as it has only one column. Remove it if "
            "that is not intended."
        )
    return None


def _form_of(table: StoredTable) -> TableFormat:
    return TableFormat() if table.form is None else parse_format(json.loads(table.form))
