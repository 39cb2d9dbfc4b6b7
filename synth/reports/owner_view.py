"""Exact answers for the owner only: no noise, no charge, and no way into a bundle.

Everything that comes out of here is *owner only*. The modules that may import this one are listed below, and nowhere
else; a test holds the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from synth.errors import PrivacyError
from synth.privacy.people import units_in_order
from synth.privacy.table import TableSource, asked_rows, chosen_rows, read_table, rows_of
from synth.reading.reader import EncodedTable, with_id
from synth.reports.losses import counts_of_linked, counts_of_people, looked_at, with_linked
from synth.schema import Codes, Schema, TableFormat, people_of
from synth.schema.columns.base import ReadingCounts
from synth.schema.schema import LEFT_ONLY, MERGE, RIGHT_ONLY
from synth.system.settings import ReaderLimits

__all__ = ["OWNER_ONLY_READERS", "OwnerPart", "OwnerView"]

OWNER_ONLY_READERS = ("synth.services.reports",)
"""The modules that may read exact rows; their results are owner-only evidence."""

OwnerPart = Literal["train", "holdout", "test"]


class OwnerView:
    """The rows of a private table as its owner may look at them: by part, exactly.

    ``train`` are the rows a generator was asked about, ``holdout`` those it never saw, ``test`` the rows of a separate
    test table. Every answer is owner-only.
    """

    __slots__ = ("_of_people", "_parts", "_reading", "_units", "schema")

    schema: Schema
    _parts: dict[str, Codes]
    _reading: ReadingCounts | None
    _units: dict[str, npt.NDArray[np.int64]]
    _of_people: tuple[Codes, npt.NDArray[np.int64]] | None

    def __init__(self) -> None:
        raise PrivacyError("An owner's view is opened by a table's id; use OwnerView.open.")

    @classmethod
    def open(
        cls,
        source: TableSource | Callable[[], BinaryIO],
        table_id: str,
        schema: Schema,
        form: TableFormat,
        *,
        account_key: bytes,
        holdout: float = 0.0,
        test_table_id: str | None = None,
        test_form: TableFormat | None = None,
        undeclared: Literal["refuse", "drop"] = "refuse",
        rules: Sequence[str] = (),
        limits: ReaderLimits | None = None,
    ) -> OwnerView:
        """Open a table, and a test table where there is one.

        Parameters
        ----------
        source, table_id, schema, form, account_key, holdout, undeclared, limits
            As in :meth:`synth.privacy.table.PrivateTable.open`; the parts are the same rows as there.
        test_table_id : str, optional
            A table of test rows, kept by the same source.
        test_form : TableFormat, optional
            How the test table is written; like ``form`` if absent.
        rules : sequence of str
            The declared rules, of which those about people are looked at.

        Raises
        ------
        TableError
            If a table cannot be read as declared, in one sentence without a cell.
        """
        encoded = read_table(
            source, table_id, schema, form, account_key=account_key, undeclared=undeclared, limits=limits
        )
        view = cls._of(schema, encoded, account_key=account_key, holdout=holdout, rules=rules)
        if test_table_id is not None:
            test = read_table(
                source,
                test_table_id,
                schema,
                test_form or form,
                account_key=account_key,
                undeclared=undeclared,
                limits=limits,
            )
            # As in the table itself, rows without an id belong to no unit and are left out.
            everybody = np.ones(test._n_rows, dtype=bool) if test._unit_hashes is None else with_id(test._unit_hashes)
            view._parts["test"], _ = asked_rows(test, everybody, schema, account_key=account_key)
        return view

    @classmethod
    def from_codes(cls, schema: Schema, parts: Mapping[OwnerPart, Mapping[str, npt.ArrayLike]]) -> OwnerView:
        """Make a view of codes in memory, for tests: a column of codes per modelled column, for each part."""
        view = cls._empty(schema)
        for part, codes in parts.items():
            view._parts[part] = {
                column.name: column.smallest_codes(codes[column.name]).copy() for column in schema.modelled
            }
        return view

    @classmethod
    def _of(
        cls, schema: Schema, encoded: EncodedTable, *, account_key: bytes, holdout: float, rules: Sequence[str] = ()
    ) -> OwnerView:
        view = cls._empty(schema)
        parts: tuple[Literal["train", "holdout"], ...] = ("train", "holdout") if holdout > 0 else ("train",)
        for part in parts:
            chosen = chosen_rows(encoded, schema, account_key=account_key, holdout=holdout, part=part)
            view._parts[part], view.schema = asked_rows(encoded, chosen, schema, account_key=account_key)
            if encoded._unit_hashes is not None and schema.people != "whole":
                view._units[part] = _numbered(encoded._unit_hashes[chosen])
        view._reading = encoded._reading
        view._look_at_people(schema, encoded, rules, account_key=account_key, holdout=holdout)
        return view

    def _look_at_people(
        self, schema: Schema, encoded: EncodedTable, rules: Sequence[str], *, account_key: bytes, holdout: float
    ) -> None:
        """Keep all rows of the people a generator was asked about, and count in what people are not as declared."""
        hashes = encoded._unit_hashes
        if schema.people != "whole" or hashes is None:
            return
        people = people_of(schema)
        chosen = chosen_rows(encoded, schema, account_key=account_key, holdout=holdout, part="train")
        columns = rows_of(encoded, chosen)
        rows, _, count = units_in_order(columns, hashes[chosen], people, account_key=account_key)
        units = np.repeat(np.arange(len(count)), count)
        self._of_people = {name: codes[rows] for name, codes in columns.items()}, units
        if self._reading is not None:
            everybody = with_id(hashes)
            ids = np.ascontiguousarray(hashes[everybody, :8]).view(np.uint64).reshape(-1)
            merge = None if schema.tables is None else encoded._codes[MERGE.name]
            counts = counts_of_people(
                ids,
                {name: encoded._codes[name][everybody] for name in looked_at(schema, rules)},
                schema,
                rules,
                merge=None if merge is None else merge[everybody],
            )
            self._reading = replace(self._reading, together=counts)
            if merge is not None:
                nobodys = merge[~everybody]
                keyless = (int((nobodys == LEFT_ONLY).sum()), int((nobodys == RIGHT_ONLY).sum()))
                linked = counts_of_linked(ids, merge[everybody], keyless=keyless)
                self._reading = with_linked(self._reading, linked, schema)

    @classmethod
    def _empty(cls, schema: Schema) -> OwnerView:
        view = object.__new__(cls)
        view.schema = schema
        view._parts = {}
        view._reading = None
        view._units = {}
        view._of_people = None
        return view

    @property
    def parts(self) -> tuple[OwnerPart, ...]:
        """The parts there are: train, then holdout and test where they exist."""
        known: tuple[OwnerPart, ...] = ("train", "holdout", "test")
        return tuple(part for part in known if part in self._parts)

    @property
    def reading(self) -> ReadingCounts | None:
        """What happened to lines and cells of the whole table while it was read; None for codes in memory."""
        return self._reading

    def rows(self, part: OwnerPart = "train") -> int:
        """Return the exact number of rows of a part."""
        return len(self._part(part)[self.schema.names[0]])

    def codes(self, part: OwnerPart = "train") -> npt.NDArray[np.int64]:
        """Return the rows of a part as codes.

        Returns
        -------
        array of shape (rows, n_modelled), columns in ``schema.names`` order
        """
        columns = self._part(part)
        return np.column_stack([columns[name].astype(np.int64) for name in self.schema.names])

    def column(self, name: str, part: OwnerPart = "train") -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return one column of a part as codes, in the smallest unsigned type that fits."""
        return self._part(part)[self.schema.modelled_column(name).name]

    def units(self, part: OwnerPart = "train") -> npt.NDArray[np.int64]:
        """Return the unit of each row of a part, as a number; without an id column each row has its own.

        Returns
        -------
        array of shape (rows,), numbers from 0, that mean nothing outside their part
        """
        n_rows = self.rows(part)
        return self._units[part] if part in self._units else np.arange(n_rows)

    @property
    def of_people(self) -> tuple[Codes, npt.NDArray[np.int64]] | None:
        """All rows of the training part and the person of each, where people are kept whole; None elsewhere.

        The rows of a person lie together, in their order; columns are those of the declared table.
        """
        return self._of_people

    def _part(self, part: OwnerPart) -> Codes:
        if part not in self._parts:
            raise PrivacyError(f"There are no rows called '{part}' in this view; it has {', '.join(self.parts)}.")
        return self._parts[part]

    def __repr__(self) -> str:
        return "<OwnerView: owner only, rows are not shown>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError("An owner's view cannot be copied or pickled; open it by the table's id.")

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(None)


def _numbered(unit_hashes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    whole = np.ascontiguousarray(unit_hashes).view(np.dtype((np.void, unit_hashes.shape[1]))).ravel()
    return np.unique(whole, return_inverse=True)[1].astype(np.int64)
