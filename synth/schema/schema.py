"""What the owner declares public about a table: columns, bounds, categories, dates and the privacy unit.

Nothing here is ever read from rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal

from synth.errors import InputError, PrivacyError, SchemaError, VerificationError
from synth.limits import COLUMNS, COUNTED_PLACES, DECLARED_VALUES, PLACES, TEXT_CHARACTERS
from synth.names import listed, one_form, shown
from synth.schema.columns import modelled_columns, parse_column
from synth.schema.columns.base import Column, ModelledColumn, guarded
from synth.schema.columns.find import FindColumn
from synth.schema.columns.labels import CategoryColumn
from synth.schema.documents import Needed, Number, Read, Text, Texts, Whole, as_mapping, as_number, as_text, read_as

__all__ = [
    "MERGE",
    "KeptTogether",
    "LinkedTables",
    "Neighbours",
    "NoRow",
    "PrivacyUnit",
    "Protection",
    "RowCountRule",
    "Schema",
    "domain_problem",
    "is_table_name",
    "schema_from_document",
    "schema_to_document",
    "size_problem",
    "tables_of",
    "undeclared_facts",
    "unit_from_mapping",
    "unit_to_mapping",
]

LARGEST_PAIR = 2**25
"""Cells of a table of two columns, which are counted together."""

LARGEST_WIDTH = 2**18
"""Values of all columns together, which a joint model holds for each of its parts."""

LARGEST_GRIDS = 2**27
"""Values of all declared grids together, counted as for :data:`synth.limits.PLACES`."""

_OF_CELLS = {"protection", "cell_change"}
_OPTIONAL = {*_OF_CELLS, "number_of_units", "people", "tables"}

COARSE_PLACES = 32
"""Values that a number or date counts as in tables of several columns, because every generator groups them."""


class Neighbours(StrEnum):
    """Which change of the table the promise hides; one per account, never mixed."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace_one"
    CELL = "one_cell"


RowCountRule = Literal["public", "private"]

KeptTogether = Literal["whole", "separate_rows"]
"""What becomes of several rows of one unit: a synthetic unit has several too, or each synthetic row is its own."""

Protection = Literal["record", "cell"]
"""What is hidden: all rows of a unit, or one cell of the table when every other cell is known."""


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Who is protected, and how many rows one of them can have.

    With ``id_column`` the cap is enforced; without it the promise holds only if the declared number is true. Where the
    rows of a unit are kept together (:attr:`Schema.people`), ``same_in_all_rows`` names the columns that belong to the
    unit, and ``ordered_by`` the number or date that says in what order its rows come.
    """

    protects: Annotated[Text, Needed("Say who you are protecting, for example person.")] = "person"
    rows_per_unit: Annotated[Whole, Needed("Write the most rows that one of them can have.")] = 1
    id_column: Text | None = None
    same_in_all_rows: Texts = ()
    ordered_by: Text | None = None

    def __post_init__(self) -> None:
        if self.rows_per_unit < 1:
            raise SchemaError(f"unit: rows_per_unit must be at least 1, got {self.rows_per_unit}.")
        self._check_rows_together()
        object.__setattr__(self, "protects", one_form(self.protects))
        if not self.protects:
            raise SchemaError("unit: 'protects' must say who you are protecting, for example person.")

    def _check_rows_together(self) -> None:
        said = "same_in_all_rows" if self.same_in_all_rows else "ordered_by" if self.ordered_by is not None else ""
        if said and (self.id_column is None or self.rows_per_unit == 1):
            raise SchemaError(
                f"unit: {said} is for several rows of one {self.protects}. Declare id_column and a rows_per_unit above "
                "1, or leave it out."
            )
        twice = next((name for name in self.same_in_all_rows if self.same_in_all_rows.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(f"unit: same_in_all_rows names '{shown(twice)}' twice. Name it once.")
        if self.ordered_by in self.same_in_all_rows:
            raise SchemaError(
                f"unit: '{shown(str(self.ordered_by))}' cannot give the order of rows and be the same in all of them."
            )

    @property
    def no_row(self) -> NoRow | None:
        """How a row says that the unit has none in the second of two tables, where one stands for all of them."""
        return None

    @property
    def of_rows(self) -> PrivacyUnit:
        """The same unit where nothing is said about its rows together."""
        return replace(self, same_in_all_rows=(), ordered_by=None)

    @property
    def rows_at_most(self) -> int:
        """The most rows of the table that one of them can have, also where one question row stands for all of them."""
        return self.rows_per_unit

    @property
    def counted(self) -> str:
        """What counts are of: rows, or units where one question row stands for all rows of one."""
        return "rows" if self.rows_at_most == self.rows_per_unit else self.plural

    @property
    def plural(self) -> str:
        """The word for several of them."""
        return "people" if self.protects == "person" else f"{self.protects}s"

    @property
    def sentence(self) -> str:
        """The promise's subject in words, shown on every page."""
        rows = "one row" if self.rows_at_most == 1 else f"up to {self.rows_at_most} rows"
        return f"Protects one {self.protects} contributing {rows}"


MERGE = CategoryColumn("_merge", ("both", "left_only", "right_only"), fallback="both")
"""In a table that was joined from two: which of them a row comes from, in the words of pandas and Stata."""

_NAME_OF_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class LinkedTables:
    """Two tables that belong together, and are read as the outer join of both by their key.

    A row of the joined table is a row of the second table beside the row of the first with the same key, or a row of
    the first alone if nothing in the second has its key, and :data:`MERGE` says which.

    Attributes
    ----------
    first, second : str
        What they are called: the first has one row for each unit, the second any number.
    key : str
        The column that both have, which says whose row it is.
    """

    first: str
    second: str
    key: str

    def __post_init__(self) -> None:
        for name in (self.first, self.second):
            if not is_table_name(name):
                raise SchemaError(
                    f"tables: '{shown(name)}' cannot be the name of a table, because a file is called so. Use up to 40 "
                    "letters, digits, - and _, beginning with a letter, and not 'key' or 'synthetic'."
                )
        if self.first.lower() == self.second.lower():
            raise SchemaError("tables: both tables have the same name. Call them for example patients and visits.")
        if self.key == MERGE.name:
            raise SchemaError(f"tables: the key cannot be called {MERGE.name}. Rename the column.")


BOTH, LEFT_ONLY, RIGHT_ONLY = map(MERGE.declared_labels.index, ("both", "left_only", "right_only"))
"""Codes of rows that come from both tables, from the first alone, and from the second alone."""


@dataclass(frozen=True, slots=True)
class NoRow:
    """How a row says that its unit has none in the second of two tables.

    ``column`` has the code ``code`` there, and the columns ``empty`` have no cell.
    """

    column: str
    code: int
    empty: frozenset[str]


def is_table_name(name: str) -> bool:
    """Whether one of two tables that belong together can have this name: its files are called so."""
    return _NAME_OF_TABLE.fullmatch(name) is not None and name.lower() not in ("key", "synthetic")


def tables_of(said: object) -> tuple[LinkedTables, tuple[str | None, str | None]]:
    """Read ``tables:``, for example ``{patients: patients.csv, visits: visits.csv, key: patient}``.

    Returns
    -------
    LinkedTables
    tuple of two paths
        Each None where it is left blank.

    Raises
    ------
    ValueError
        If it is not of this form.
    """
    body = dict(as_mapping(said))
    key = body.pop("key", None)
    if key is None or len(body) != 2:
        raise ValueError(
            "must name two files and their key, for example {patients: patients.csv, visits: visits.csv, key: patient}."
        )
    (first, of_first), (second, of_second) = body.items()
    paths = tuple(None if path is None else as_text(path) for path in (of_first, of_second))
    return LinkedTables(str(first), str(second), as_text(key)), (paths[0], paths[1])


def _columns(declared: object) -> tuple[Column, ...]:
    if not isinstance(declared, Mapping) or not declared:
        raise ValueError("must be a mapping that declares every column of the table.")
    return tuple(parse_column(str(name), column) for name, column in declared.items())


def _unit(said: object) -> PrivacyUnit:
    return read_as(PrivacyUnit, said, within="unit: ")


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared table: its columns in output order, the unit, and whether the number of units is public.

    With ``protection`` "cell" the promise hides one cell: a number or date that changes by at most ``cell_change`` of
    its declared range, or any change of a category, a special value or whether a cell is missing. ``number_of_units``
    is how many units the table has, declared where that number is public; it is never counted. ``people`` says whether
    the rows of one unit are kept together (:mod:`synth.schema.people`). ``tables`` are the two tables that this one is
    joined from, if it is; :data:`MERGE` is then its last column, whether it is declared or not.
    """

    columns: Annotated[tuple[Column, ...], Read(_columns), Needed("Declare every column of the table.")]
    unit: Annotated[
        PrivacyUnit, Read(_unit), Needed("Write for example unit: {protects: person, rows_per_unit: 1}.")
    ] = PrivacyUnit()
    row_count: Annotated[
        RowCountRule,
        Needed("Write public if the number of rows may be printed, or private if it is to be measured with noise."),
    ] = "public"
    protection: Protection = "record"
    cell_change: Number = 1.0
    number_of_units: Whole | None = None
    people: KeptTogether = "separate_rows"
    tables: Annotated[LinkedTables, Read(lambda said: tables_of(said)[0])] | None = None
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)
    _sizes: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.tables is not None and all(column.name != MERGE.name for column in self.columns):
            object.__setattr__(self, "columns", (*self.columns, MERGE))
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})
        self._check_protection()
        if self.number_of_units is not None and self.row_count != "public":
            raise SchemaError("number_of_units is only for a public number. With row_count: private, leave it out.")
        if self.number_of_units is not None and self.number_of_units < 1:
            raise SchemaError(f"number_of_units must be at least 1, got {self.number_of_units}.")
        names: set[str] = set()
        for column in self.columns:
            if column.name in names:
                raise SchemaError(f"Two columns are called '{shown(column.name)}'. Give each column its own name.")
            names.add(column.name)
        printed: dict[str, str] = {}
        for column in self.columns:
            name = column.name
            twin = printed.setdefault(guarded(name), name)
            if twin != name:
                raise SchemaError(
                    f"'{shown(twin)}' and '{shown(name)}' differ only by a leading apostrophe. Rename one column."
                )
        if not self.modelled:
            raise SchemaError("No column is left to model. Declare at least one number, category, yes_no or date.")
        if self.unit.id_column is not None:
            if self.unit.id_column not in names:
                raise SchemaError(f"unit: id_column '{self.unit.id_column}' is not a declared column.")
            if not self[self.unit.id_column].is_identifier:
                raise SchemaError(f"unit: id_column '{self.unit.id_column}' must be declared 'type: identifier'.")
        self._check_people()
        if self.tables is not None:
            self._check_tables(self.tables)
        problem = domain_problem(self.modelled)
        if problem is not None:
            raise SchemaError(problem)
        object.__setattr__(self, "_sizes", {column.name: column.size for column in self.modelled})

    def _check_people(self) -> None:
        unit = self.unit
        if self.people not in ("whole", "separate_rows"):
            raise SchemaError("people must be a number of people to make, or separate_rows.")
        if self.people == "whole" and not self.may_be_whole:
            raise SchemaError(
                f"people: the rows of one {unit.protects} can be kept together where an id_column says which they are, "
                "and rows_per_unit is above 1."
            )
        for name in unit.same_in_all_rows:
            if not isinstance(self[name], ModelledColumn):
                raise SchemaError(f"unit: same_in_all_rows: '{shown(name)}' is an identifier or dropped. Leave it out.")
        if unit.ordered_by is not None:
            column = self[unit.ordered_by]
            # Of a column that is still to be found, what was found says whether it has an order.
            open_ = isinstance(column, FindColumn)
            if not open_ and not (isinstance(column, ModelledColumn) and column.is_ordered):
                raise SchemaError(
                    f"unit: ordered_by: '{shown(unit.ordered_by)}' has no order. Name a number, a date or a time."
                )
            if not open_ and isinstance(column, ModelledColumn) and column.levels < 2:
                raise SchemaError(
                    f"unit: ordered_by: '{shown(unit.ordered_by)}' has one value only, so it gives rows no order. "
                    "Declare its whole range, or leave ordered_by out."
                )
            if isinstance(column, ModelledColumn) and column.has_special_on_grid:
                raise SchemaError(
                    f"unit: ordered_by: '{shown(unit.ordered_by)}' has a special value that is also one of its range, "
                    "so its cells do not say where they come. Take it out of one of the two, or name another column."
                )

    def _check_tables(self, tables: LinkedTables) -> None:
        unit = self.unit
        if self[MERGE.name] != MERGE:
            raise SchemaError(
                f"The column '{MERGE.name}' says which table a row comes from, and is not declared. Rename yours."
            )
        if unit.id_column != tables.key:
            raise SchemaError(
                f"tables: the key '{shown(tables.key)}' says whose row it is. Declare it as the id_column of the unit."
            )
        if self.people != "whole":
            raise SchemaError(
                f"tables: a row of '{tables.first}' stays with its rows of '{tables.second}', so rows_per_unit must be "
                f"above 1, and neither 'people: separate_rows' nor a model can be asked for. Join the tables yourself "
                "for that."
            )
        if MERGE.name in unit.same_in_all_rows:
            raise SchemaError(f"unit: same_in_all_rows cannot name '{MERGE.name}'. Leave it out.")

    def _check_protection(self) -> None:
        if not 0 < self.cell_change <= 1:
            raise SchemaError(
                f"cell_change is a fraction of the declared range, above 0 and at most 1, got {self.cell_change:g}."
            )
        if self.protection == "record":
            if self.cell_change != 1:
                raise SchemaError("cell_change is only for 'protection: cell'. Leave it out to protect whole rows.")
            return
        held = Counter(column.cells_in for column in self.columns)
        beside = next((one for one in self.columns if one.cells_in != one.name and held[one.cells_in] > 1), None)
        if beside is not None:
            raise SchemaError(
                f"'{shown(beside.name)}' is read from the cells of '{shown(beside.cells_in)}', so one cell would be "
                "two values. To protect single cells, leave out one of the two columns."
            )
        if self.row_count != "public" or self.unit.rows_per_unit != 1 or self.unit.id_column is not None:
            raise SchemaError(
                "'protection: cell' protects single cells, not whole rows. Declare row_count: public, rows_per_unit: 1 "
                "and no id_column, or 'protection: record'."
            )

    def __getitem__(self, name: str) -> Column:
        found = self._by_name.get(name)
        if found is None:
            raise SchemaError(f"There is no column called '{name}'.")
        return found

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns that the owner declares, in order: all but the one that says which table a row comes from."""
        return self.columns if self.tables is None else tuple(one for one in self.columns if one.name != MERGE.name)

    @property
    def modelled(self) -> tuple[ModelledColumn, ...]:
        """The columns that have codes, in order."""
        return modelled_columns(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the modelled columns, in order."""
        return tuple(column.name for column in self.modelled)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each modelled column, in order."""
        return tuple(self._sizes.values())

    def size_of(self, name: str) -> int:
        """Return the number of codes of one modelled column."""
        return self._sizes[name] if name in self._sizes else self.modelled_column(name).size

    @property
    def printed(self) -> tuple[Column, ...]:
        """The columns of the synthetic table in order: all except the dropped ones."""
        return tuple(column for column in self.columns if column.is_printed)

    @property
    def meanings(self) -> dict[str, str]:
        """What columns of the synthetic table mean, by their names, in order; without those that nobody described."""
        return {column.name: column.description for column in self.printed if column.description}

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Names of the columns that say whose row it is, in order; they are printed with fresh ids."""
        return tuple(column.name for column in self.columns if column.is_identifier)

    def modelled_column(self, name: str) -> ModelledColumn:
        """Return one modelled column by name."""
        column = self[name]
        if not isinstance(column, ModelledColumn):
            raise SchemaError(f"'{name}' is not modelled: identifiers and dropped columns have no values to learn.")
        return column

    @property
    def neighbours(self) -> Neighbours:
        """One cell where that is declared; else replace-one where the number of units is public, and add/remove."""
        if self.protection == "cell":
            return Neighbours.CELL
        return Neighbours.REPLACE if self.row_count == "public" else Neighbours.ADD_REMOVE

    @property
    def allows_sums(self) -> bool:
        """Whether sums over rows, choices and the number of rows may be released: their noise hides whole rows."""
        return self.protection == "record"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What every receipt assumes, in words: the declared cap on rows where no id column enforces it."""
        if self.unit.id_column is not None or self.protection == "cell":
            return ()
        rows = "one row" if self.unit.rows_per_unit == 1 else f"{self.unit.rows_per_unit} rows"
        said = "declared by the owner, not enforced, as no id column is declared"
        return (f"No {self.unit.protects} has more than {rows}: {said}.",)

    def require_whole_rows(self) -> None:
        """Refuse a sum or a choice where single cells are protected: its noise is calculated for whole rows.

        Raises
        ------
        PrivacyError
            If single cells are protected.
        """
        if not self.allows_sums:
            raise PrivacyError(
                f"Where {self.hidden} is protected, only noisy rows can be released. Declare 'protection: record' for "
                "sums, choices and the number of rows."
            )

    @property
    def hidden(self) -> str:
        """What one change of the table is about, in words."""
        return f"one {self.unit.protects}" if self.protection == "record" else "one cell"

    @property
    def sentence(self) -> str:
        """The promise's subject in words, shown on every page."""
        if self.protection == "record":
            return self.unit.sentence
        change = "" if self.cell_change == 1 else f" changing by at most {self.cell_change:g} of its declared range"
        return f"Protects ONE CELL{change}; class labels, class sizes and the number of rows are not protected"

    def of_rows(self, columns: Sequence[Column]) -> Schema:
        """Return the same unit with other columns, for questions about its rows one by one."""
        return replace(self, columns=tuple(columns), unit=self.unit.of_rows, people="separate_rows", tables=None)

    @property
    def may_be_whole(self) -> bool:
        """Whether rows of one unit can be kept together: there can be several, and an id says which they are."""
        return self.unit.id_column is not None and self.unit.rows_per_unit > 1

    @property
    def no_row(self) -> NoRow | None:
        """How a row says that its unit has none in the second of two tables; None where every row is one."""
        if self.tables is None:
            return self.unit.no_row
        own = {MERGE.name, *self.unit.same_in_all_rows}
        return NoRow(MERGE.name, LEFT_ONLY, frozenset(name for name in self.names if name not in own))

    @property
    def needs_number_of_units(self) -> bool:
        """Whether the number of units must be declared: it is public, and every row belongs to a known unit.

        Where one cell is hidden, the number of rows is public by definition and is released with them.
        """
        told_apart = self.unit.id_column is not None or self.unit.rows_per_unit == 1
        return self.neighbours is Neighbours.REPLACE and told_apart

    @property
    def rows_are_public(self) -> bool:
        """Whether the number of rows may be used as it is: only with one row per unit and a public number of units."""
        return self.row_count == "public" and self.unit.rows_per_unit == 1


def unit_to_mapping(unit: PrivacyUnit) -> dict[str, Any]:
    """Write a unit as it is declared; what only rows kept together need is left out where nothing is said."""
    body: dict[str, Any] = {
        "protects": unit.protects,
        "rows_per_unit": unit.rows_per_unit,
        "id_column": unit.id_column,
    }
    if unit.same_in_all_rows:
        body["same_in_all_rows"] = list(unit.same_in_all_rows)
    if unit.ordered_by is not None:
        body["ordered_by"] = unit.ordered_by
    return body


def unit_from_mapping(document: Mapping[str, Any]) -> PrivacyUnit:
    """Read a unit back, as :func:`unit_to_mapping` writes it.

    Raises
    ------
    TypeError
        If a key is unknown or missing, or a value has another type.
    """
    same = document.get("same_in_all_rows", [])
    texts = (document["protects"], document.get("ordered_by", ""), document["id_column"] or "", *same)
    if type(document["rows_per_unit"]) is not int or not isinstance(same, list):
        raise TypeError
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return PrivacyUnit(**{**document, "same_in_all_rows": tuple(same)})


def schema_to_document(schema: Schema) -> dict[str, Any]:
    """Write a schema as JSON values, which bundles and databases keep; columns are in order."""
    unit, tables = schema.unit, schema.tables
    # Written only where single cells are protected, so that other documents stay as they were.
    cell = {} if schema.protection == "record" else {"protection": "cell", "cell_change": schema.cell_change}
    return {
        "unit": unit_to_mapping(unit),
        "row_count": schema.row_count,
        **({"people": "whole"} if schema.people == "whole" else {}),
        **({} if schema.number_of_units is None else {"number_of_units": schema.number_of_units}),
        **({} if tables is None else {"tables": {"first": tables.first, "second": tables.second, "key": tables.key}}),
        **cell,
        "columns": [{"name": column.name, **column.to_mapping()} for column in schema.declared],
    }


def schema_from_document(document: object) -> Schema:
    """Read a schema back.

    Raises
    ------
    VerificationError
        If it is not what :func:`schema_to_document` writes.
    """
    try:
        if not isinstance(document, Mapping) or set(document) - _OPTIONAL != {"unit", "row_count", "columns"}:
            raise TypeError
        cell = {key: document[key] for key in _OF_CELLS if set(document) >= _OF_CELLS}
        if set(document) & _OF_CELLS != set(cell) or cell.get("protection", "cell") != "cell":
            raise TypeError
        unit = unit_from_mapping(document["unit"])
        if document["row_count"] not in ("public", "private") or document.get("people", "whole") != "whole":
            raise TypeError
        if cell:
            cell["cell_change"] = as_number(cell["cell_change"])
        number = document.get("number_of_units")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise TypeError
        tables = document.get("tables")
        if tables is not None and not all(isinstance(name, str) for name in tables.values()):
            raise TypeError
        columns = [dict(column) for column in document["columns"]]
        return Schema(
            columns=tuple(parse_column(str(column.pop("name")), column) for column in columns),
            unit=unit,
            row_count=document["row_count"],
            number_of_units=number,
            people=document.get("people", "separate_rows"),
            tables=None if tables is None else LinkedTables(**tables),
            **cell,
        )
    except InputError as refusal:
        raise VerificationError(f"schema.json cannot be used: {refusal}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise VerificationError("schema.json does not describe a table.") from None


def undeclared_facts(schema: Schema) -> str | None:
    """Say what must be declared before rows can be read, and how; None where nothing is left open.

    A schema itself does not require this, so that older bundles still open.
    """
    if schema.needs_number_of_units and schema.number_of_units is None:
        return (
            f"The number of {schema.unit.protects}s is declared public but not given. Write 'number_of_units: ' and "
            "the number, or 'row_count: private'. It is printed, and never counted."
        )
    to_find = [column.name for column in schema.columns if isinstance(column, FindColumn)]
    if to_find:
        verb, them = ("is", "it") if len(to_find) == 1 else ("are", "them")
        return f"{_named(to_find)} {verb} not described yet. Describe {them}, or find {them} privately."
    open_columns = [column.name for column in schema.modelled if column.fallback_code is None]
    if open_columns:
        return (
            f"Say what an empty or unreadable cell becomes in {_named(open_columns)}: declare 'missing: true', or a "
            "value of the column as 'fallback'."
        )
    return None


def _named(names: Sequence[str]) -> str:
    return listed(list(map(repr, names)), 5)


def size_problem(columns: Sequence[Column]) -> str | None:
    """Say which limit on one input a declaration exceeds, and how to mend it; None where all is well.

    A schema itself does not require this, so that older bundles still open.
    """
    if len(columns) > COLUMNS:
        return f"{len(columns):,} columns are declared, and at most {COLUMNS:,} are allowed. Leave columns out."
    declared = {column.name: column.listed for column in columns}
    sizes = {name: len(texts) for name, texts in declared.items()}
    if sum(sizes.values()) > DECLARED_VALUES:
        return (
            f"The columns list {sum(sizes.values()):,} values in total, and at most {DECLARED_VALUES:,} are allowed; "
            f"the most are in {_sized(sizes, 'values')}. Declare fewer categories, or leave columns out."
        )
    grids = {column.name: column.levels for column in modelled_columns(columns) if column.is_ordered}
    if _counted(grids) > PLACES:
        return _too_many_values(grids, PLACES)
    for name, texts in declared.items():
        if any(isinstance(text, str) and len(text) > TEXT_CHARACTERS for text in texts):
            return f"'{shown(name)}' lists a value of more than {TEXT_CHARACTERS:,} characters. Declare a shorter one."
    return None


def domain_problem(columns: Sequence[ModelledColumn]) -> str | None:
    """Say which columns declare more than any generator can handle, and how to mend it; None where all is well.

    It follows from declared sizes alone.
    """
    # A column that is still to be found is counted by itself, and no generator ever sees it.
    columns = [column for column in columns if not isinstance(column, FindColumn)]
    widths = {column.name: min(column.levels, COARSE_PLACES) + column.size - column.levels for column in columns}
    grids = {column.name: column.levels for column in columns}
    widest = sorted(widths.values(), reverse=True)
    if len(widest) > 1 and widest[0] * widest[1] > LARGEST_PAIR:
        # The widest column is too wide for the second; each other one is to blame if it is too wide for the widest.
        blamed = {name: width for name, width in widths.items() if width * widest[0] > LARGEST_PAIR}
        return (
            f"{_sized(blamed, 'values')} are too wide to be counted together: a table of two of them has up to "
            f"{widest[0] * widest[1]:,} cells, and at most {LARGEST_PAIR:,} are allowed. Declare fewer categories "
            "(group them, for example by first digit), or leave columns out."
        )
    if sum(widest) > LARGEST_WIDTH:
        return (
            f"The columns have {sum(widest):,} values in total, and a model holds at most {LARGEST_WIDTH:,}; the "
            f"widest are {_sized(widths, 'values')}. Declare fewer categories, or leave columns out."
        )
    if _counted(grids) > LARGEST_GRIDS:
        return _too_many_values(grids, LARGEST_GRIDS)
    return None


def _counted(grids: Mapping[str, int]) -> int:
    return sum(min(levels, COUNTED_PLACES) for levels in grids.values())


def _too_many_values(grids: Mapping[str, int], most: int) -> str:
    return (
        f"The numbers and dates have {_counted(grids):,} values in total (of each at most {COUNTED_PLACES:,} are "
        f"counted), and at most {most:,} are allowed; the finest are {_sized(grids, 'values')}. Choose a larger step "
        "or narrower bounds, or leave columns out."
    )


def _sized(sizes: Mapping[str, int], what: str) -> str:
    """Name columns with their sizes, the largest first."""
    ordered = sorted(sizes.items(), key=lambda entry: -entry[1])
    return listed([f"'{name}' ({size:,} {what})" for name, size in ordered], 5)
