"""The top of a file: what kind it is, and where each declared column is, whatever its rows are.

Names are public, but a first row may not be a header; so a sentence quotes a name only where it surely is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from synth.errors import TableError
from synth.limits import NAME_CHARACTERS
from synth.names import SHOWN_CHARACTERS, composed, shown
from synth.schema.columns.base import Column
from synth.schema.schema import MERGE

__all__ = [
    "KNOWN_BY", "check_names", "is_plain", "joined_names", "places_of", "public_names", "refuse_another_kind",
    "refuse_other_files", "separator_named",
]  # fmt: skip


KNOWN_BY = 64
"""First bytes of a file that say which kind it is."""

_OTHER_FILES = {
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"SQLite format 3": "a database",
    b"FEA1": "a Feather file of version 1",
    b"ORC": "an ORC file",
    b"%PDF": "a PDF",
}


_PORTABLE = b"ASCII SPSS PORT FILE"
_CATALOGUE = bytes(12) + b"\xc2\xea\x81\x63\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c"


def refuse_other_files(start: bytes) -> None:
    """Refuse what is not a table by its first bytes, which belong to no row.

    Parameters
    ----------
    start : bytes
        The first :data:`KNOWN_BY` bytes, or all there are.

    Raises
    ------
    TableError
    """
    if start[40:].startswith(_PORTABLE):  # the second of five titles, each for another set of letters
        raise TableError(
            "This is a portable file of SPSS (.por), in which a cell says where the next one begins, so that one can "
            "move all others. Open it in SPSS or PSPP and save it as .sav."
        )
    if start.startswith(_CATALOGUE):
        raise TableError(
            "This is a catalogue of SAS (.sas7bcat), which holds labels of values and no rows. Send the table "
            "(.sas7bdat), and declare the labels, for example with a data dictionary; or save both as one .sav or .dta "
            "file."
        )
    for magic, name in _OTHER_FILES.items():
        if start.startswith(magic):
            raise TableError(f"This is {name}. Save the table as CSV, TSV (also .gz), Parquet, .xlsx or .ods.")


def refuse_another_kind(found: str, declared: str) -> None:
    """Refuse a file of one kind where another one is declared.

    Raises
    ------
    TableError
    """
    wanted = found if declared == "auto" else _KIND_OF_FILE.get(declared, "text")
    if found == wanted:
        return
    said = (
        f"This is {_KINDS[found]}, but the format says {declared}. Set the kind to auto."
        if found in _KINDS
        else f"This is not {_KINDS[wanted]}. Check the file, or the kind in the format."
    )
    raise TableError(said, key="kind")


_KINDS = {
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
    "workbook": "a workbook",
    "xls": "an old Excel file (.xls)",
    "sav": "an SPSS file (.sav)",
    "dta": "a Stata file (.dta)",
    "sas7bdat": "a SAS file (.sas7bdat)",
    "xpt": "a SAS transport file (.xpt)",
}
_KIND_OF_FILE = {one: one for one in _KINDS} | dict.fromkeys(("xlsx", "xlsb", "ods"), "workbook")
_NAMES_SEPARATOR = re.compile(r'("?)sep=([,;|\t])\1', re.IGNORECASE)


def separator_named(line: str) -> str | None:
    """Return the separator that a line above the names declares as Excel does; None where it is another line.

    Examples
    --------
    >>> separator_named("sep=;")
    ';'
    """
    found = _NAMES_SEPARATOR.fullmatch(line)
    return None if found is None else found[2]


def joined_names(lines: Sequence[Sequence[str]], names_from: int | None) -> tuple[str, ...]:
    """Return the names that header lines give to columns, without white space around them; some may be blank.

    They are those of line ``names_from``, counted from 1, or those of all lines, joined by an underscore: in all lines
    but the last, a blank repeats what is to its left, as below a heading over several columns.

    Examples
    --------
    >>> joined_names([["id", "income", ""], ["", "2019", "2020"]], None)
    ('id', 'income_2019', 'income_2020')
    >>> joined_names([["id", "income", ""], ["", "2019", "2020"]], 2)
    ('', '2019', '2020')
    """
    width = max(map(len, lines))
    stripped = [[*map(str.strip, line), *[""] * (width - len(line))] for line in lines]
    if names_from is not None:
        return tuple(stripped[names_from - 1])
    for line in stripped[:-1]:
        for place in range(1, width):
            line[place] = line[place] or line[place - 1]
    return tuple("_".join(dict.fromkeys(filter(None, parts))) for parts in zip(*stripped, strict=True))


def public_names(names: Sequence[str], rename: Mapping[str, str]) -> tuple[str, ...]:
    """Return a name for every column: a blank one is named by its place, a repeated one gets a number.

    Where one of the names is written like a number, no names are given: the line may be a row, and is refused later.
    Names that ``rename`` lists are changed at the end.

    Raises
    ------
    TableError
        If ``rename`` lists a name that no column has, unless a column has the other name already.

    Examples
    --------
    >>> public_names(["age", "", "age"], {"age_2": "age at death"})
    ('age', 'column_2', 'age at death')
    """
    named = _names_for_all(names)
    unknown = next((name for name, other in rename.items() if name not in named and other not in named), None)
    if unknown is not None:
        raise TableError(f"'rename' lists '{shown(unknown)}', but no column of the table is called that. Take it out.")
    return tuple(rename.get(name, name) for name in named)


def _names_for_all(names: Sequence[str]) -> tuple[str, ...]:
    given = set(names)
    if any(name.strip() and (_is_number_text(name) or not name.isprintable()) for name in names):
        return tuple(names)
    found: list[str] = []
    taken: set[str] = set()
    next_number: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        plain = name if name.strip() else f"column_{place}"
        chosen, is_blank = plain, not name.strip()
        while chosen in taken or (chosen in given and (is_blank or chosen != name)):
            next_number[plain] = next_number.get(plain, 1) + 1
            chosen = f"{plain}_{next_number[plain]}"
        taken.add(chosen)
        found.append(chosen)
    return tuple(found)


def is_plain(name: str) -> bool:
    """Whether a name is surely a name, and does not contain rows because of an open quotation mark."""
    return len(name) <= SHOWN_CHARACTERS and name.isprintable() and not _is_number_text(name)


def _is_number_text(name: str) -> bool:
    """Whether a name is written like a number, as a cell would be."""
    try:
        float(name)
    except ValueError:
        return False
    return any(map(str.isdigit, name))


def _is_index(name: str) -> bool:
    """Whether pandas wrote this column beside the declared ones: ``__index_level_0__``."""
    start, end = "__index_level_", "__"
    return name.startswith(start) and name.endswith(end) and name[len(start) : -len(end)].isdigit()


def check_names(names: Sequence[str], *, declared: Collection[str] = ()) -> None:
    """Refuse blank, overlong and repeated names.

    Raises
    ------
    TableError
        Names a repeated column only where the first row is surely a header: it may be a row of private cells.
    """
    for place, name in enumerate(names, start=1):
        if not name.strip():
            raise TableError(f"Column {place} has no name. Give every column a name in the first row.")
        if len(name) > NAME_CHARACTERS:
            # Not quoted: an open quotation mark may have made a row part of the first line.
            raise TableError(
                f"The name of column {place} has {len(name):,} characters; at most {NAME_CHARACTERS} are allowed. "
                "Give the column a shorter name, and check the separator and the quotation marks of the first row."
            )
    surely_header = all(map(is_plain, names))
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in first:
            if name in declared or surely_header:
                raise TableError(f"Two columns are called '{shown(name)}'. Give each column its own name.")
            raise TableError(
                f"Columns {first[name]} and {place} have the same name. Give each column its own name; if the "
                "first row is not a header, say so with 'header: false' and 'names'."
            )
        first[name] = place


def places_of(names: Sequence[str], columns: Collection[Column], *, drop_undeclared: bool) -> dict[str, int]:
    """Return the place of each declared column in a file, by its name.

    Parameters
    ----------
    names : sequence of str
        The file's own, in order.
    columns : collection of Column
        The declared ones.
    drop_undeclared : bool
        Whether columns that are not declared are skipped; otherwise they are refused.

    Raises
    ------
    TableError
        If a declared column is not in the file, or the file has one that is not declared.
    """
    declared = {column.name for column in columns}
    check_names(names, declared=declared)
    alike = {form: column.name for column in columns for form in map(composed, (column.printed_name, column.name))}
    place_of = {
        name if name in declared else alike.get(composed(name), name): place for place, name in enumerate(names)
    }
    # Times of day may be in the cells of a column of dates.
    beside = {column.name: column.cells_in for column in columns if column.name not in place_of}
    place_of |= {name: place_of[other] for name, other in beside.items() if other in place_of}
    absent = [column.name for column in columns if column.name not in place_of and column.is_printed]
    if absent and not any(name in place_of for name in declared):
        raise TableError(
            "The first row of the table names none of the declared columns. If the table has no header, say so with "
            "'header: false' and 'names'."
        )
    if absent == [MERGE.name]:
        raise TableError(
            f"The table has no column '{MERGE.name}', which says where a row of two joined tables comes from. Give "
            "both files under 'tables:', or one that pandas.merge(how='outer', indicator=True) joined."
        )
    if absent:
        raise TableError(
            f"The table has no column '{shown(absent[0])}', which is declared{_and_more(absent)}. Add it, or take "
            "it out of the declaration."
        )
    undeclared = [name for name in place_of if name not in declared and not _is_index(name)]
    if undeclared and not drop_undeclared:
        name = undeclared[0]
        which = f"a column '{shown(name)}'" if is_plain(name) else f"a column, number {place_of[name] + 1},"
        raise TableError(
            f"The table has {which} that is not declared{_and_more(undeclared)}. Declare it (type: drop leaves it "
            "out), or set 'undeclared: drop'."
        )
    return {name: place for name, place in place_of.items() if name in declared}


def _and_more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1:,} more)" if len(names) > 1 else ""
