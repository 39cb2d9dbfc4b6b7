"""How the lines of a text are laid out: what separates cells, where the names are, and which lines come before them.

Everything is found in the first lines of the text, decoded. Lines are cut by the reader's own rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from csv import writer
from dataclasses import dataclass, replace
from io import StringIO
from itertools import pairwise

from synth.reading.text import cells_of_line, separator_of
from synth.schema import TableFormat
from synth.schema.header import joined_names
from synth.services.recognition.notations import NO_NAMES, kind_of_cell, kind_of_cells
from synth.services.recognition.proposals import FormatProposal

__all__ = ["ROW_NAMES", "layout_of", "layout_of_header", "layout_of_sheet"]

ROW_NAMES = "row_name"
"""What the column of row names is called, which a header line of R leaves out."""

_MOST_LINES = 2_000
"""Lines that decide."""

_SEPARATORS = (",", ";", "\t", "|", "^", "~")
_LAST_SEPARATORS = (" ", ":")
"""Signs that are often within cells, tried where no other sign separates any."""

_SURE = 0.8
"""Share of lines that must have equally many cells."""

_NAMES = {"\t": "a tab", " ": "a space", ",": "a comma", ";": "a semicolon", "|": "a bar"}


@dataclass(frozen=True, slots=True)
class _Rows:
    """The lines of a text after the names of columns as cells, of which most have ``width``."""

    cells: tuple[tuple[str, ...], ...]
    width: int

    def column(self, place: int) -> list[str]:
        return [row[place] for row in self.cells if len(row) == self.width]


def layout_of_header(line: str, form: TableFormat) -> tuple[FormatProposal, ...]:
    """Return what the first line says by itself, where it is no row: the separator that Excel states in it."""
    said = _stated_in(line)
    if said is None or form.separator != "auto":
        return ()
    return (_stated(said),)


def layout_of(text: str, form: TableFormat, *, whole: bool) -> tuple[FormatProposal, ...]:
    """Return what to propose about the layout of a text, of which rows may be looked at.

    Parameters
    ----------
    text : str
        Its first lines, decoded.
    form : TableFormat
        What is declared, which is not proposed again.
    whole : bool
        Whether this is all of the text; otherwise its last line may be cut.
    """
    every = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    every = (every if whole else every[:-1])[:_MOST_LINES]
    if not any(line.strip() for line in every):
        return ()
    said = _stated_in(every[0])
    newlines, joined = _joined(every[1:] if said is not None else every, form)
    comment, lines = _without_comments(joined, form)
    separator, evidence = _separator(lines, form, said or "")
    top = _top(lines, separator, form, before=(said is not None) + len(joined) - len(lines))
    skipped = next((one.value for one in top if one.key == "skip_rows"), form.skip_rows)
    header = next((line for line in lines[skipped:] if line.strip()), "")
    if said is None and separator_of(form, header) == separator:
        evidence = ""  # the reader finds it by itself
    if any(one.key == "header" for one in top):
        return (*newlines, *top)  # which skip the comments too
    stated = (FormatProposal("separator", separator, evidence),) if evidence else ()
    if said is not None and not any(one.key == "skip_rows" for one in top):
        top = [FormatProposal("skip_rows", 1, "the first line only states the separator"), *top]
    return (*newlines, *comment, *stated, *top)


def layout_of_sheet(
    rows: Sequence[Sequence[str | None]], form: TableFormat, *, kind: str
) -> tuple[FormatProposal, ...]:
    """Return what to propose about titles and names at the top of a workbook's sheet, of which rows may be looked at.

    Parameters
    ----------
    rows : sequence of sequence of str or None
        The first rows; one without a value is empty, and a cell with an error is None.
    form : TableFormat
    kind : {"xlsx", "ods", "xls", "xlsb"}
        Has to be stated where the first line is a row.
    """
    cut = [[" ".join((cell or "").split()) for cell in row] for row in rows]
    filled = [sum(map(bool, cells)) for cells in cut]
    widths = Counter(len(cells) for cells, count in zip(cut, filled, strict=True) if count > 1)
    if not widths:
        return ()
    width = widths.most_common(1)[0][0]

    def belongs(at: int) -> bool:
        # Names without a gap may stand beyond the rows: the last columns are empty in most of them.
        return filled[at] > 1 and (len(cut[at]) <= width or len(cut[at]) == filled[at])

    titles = form.skip_rows or next(filter(belongs, range(len(cut))))
    width = max(width, len(cut[titles])) if titles < len(cut) else width
    written = StringIO()
    # A row that ends with empty cells is as wide as the others.
    writer(written, lineterminator="\n").writerows([*cells, *[""] * (width - len(cells))] for cells in cut[titles:])
    found = layout_of(written.getvalue(), replace(form, separator=",", skip_rows=0), whole=True)
    kept = [one for one in found if one.key in ("header", "names", "header_rows", "names_from")]
    if kept and kept[0].key == "header":
        kept.append(FormatProposal("kind", kind, f"a table without a header line states that it is an .{kind} file"))
    names_line = next((int(str(one.value)) for one in found if one.key == "skip_rows"), 0)
    if names_line:  # names that look like a row are skipped, and listed
        kept.append(FormatProposal("skip_rows", titles + names_line, kept[0].evidence))
    elif titles and not form.skip_rows:
        kept.append(_titles_above(titles))
    return tuple(kept)


def _titles_above(count: int) -> FormatProposal:
    words = "line stands" if count == 1 else "lines stand"
    return FormatProposal("skip_rows", count, f"{count} {words} before the names, with other numbers of cells")


def _stated_in(line: str) -> str | None:
    """Return the separator that a line states as Excel does: ``sep=;``, perhaps in quotation marks."""
    plain = line[1:-1] if len(line) == 7 and line[0] == line[-1] == '"' else line
    return plain[4] if len(plain) == 5 and plain[:4].lower() == "sep=" else None


def _stated(separator: str) -> FormatProposal:
    return FormatProposal("separator", separator, f"the first line states it: sep={separator}")


# Quotation marks, comments --------------------------------------------------------------------------------------------


def _joined(lines: list[str], form: TableFormat) -> tuple[list[FormatProposal], list[str]]:
    """Join lines that a quotation mark keeps open, where that closes all of them."""
    if form.newlines:
        return [], _closed(lines)[0]
    odd = sum(line.count('"') % 2 for line in lines)
    if odd < 2:
        return [], lines
    joined, left_open = _closed(lines)
    several = sum("\n" in line for line in joined)
    if left_open or several == 0:
        return [], lines
    rows = f"{several:,} of the first {len(joined):,} rows hold a line break within quotation marks"
    return [FormatProposal("newlines", True, f"{rows}, and every quotation mark is closed")], joined


def _closed(lines: list[str]) -> tuple[list[str], bool]:
    """Return rows, and whether a quotation mark stays open over many lines; the last row may be cut."""
    rows: list[str] = []
    held = ""
    size = 0
    for line in lines:
        held, size = f"{held}\n{line}" if size else line, size + 1
        if held.count('"') % 2 == 0:
            rows.append(held)
            held, size = "", 0
        elif size > _MOST_OPEN:
            return rows, True
    return rows, False


_MOST_OPEN = 50
"""Lines of one row; more are taken for a quotation mark that is never closed."""


def _without_comments(lines: list[str], form: TableFormat) -> tuple[list[FormatProposal], list[str]]:
    sign = form.comment or "#"
    count = next((place for place, line in enumerate(lines) if not line.startswith(sign)), 0)
    # A single line may be the header, as in "#id,name".
    if count == 0 or (form.comment is None and count == 1 and not _is_sentence(lines)):
        return [], lines
    if form.comment is not None:
        return [], lines[count:]
    if not form.header or form.skip_rows:
        return [], lines
    evidence = f"{count} {'line' if count == 1 else 'lines'} before the names begin with it"
    return [FormatProposal("comment", sign, evidence)], lines[count:]


def _is_sentence(lines: list[str]) -> bool:
    """Whether the first line has none of the separators of the next one."""
    return len(lines) > 1 and not any(sign in lines[0] and sign in lines[1] for sign in _SEPARATORS)


# The separator --------------------------------------------------------------------------------------------------------


def _separator(lines: Sequence[str], form: TableFormat, stated: str) -> tuple[str, str]:
    """Return the separator of cells, and why it is proposed; no reason where the reader finds it by itself."""
    if form.separator != "auto":
        return form.separator, ""
    if form.kind == "tsv":
        return "\t", ""
    if stated:
        return stated, _stated(stated).evidence
    some = [line for line in lines if line.strip()]
    best, share, width = max(
        ((sign, *_regular(some, sign)) for sign in _SEPARATORS), key=lambda one: (one[1] > 0, one[1], one[2])
    )
    if share < _SURE or width < 2:
        last, its_share, its_width = max(
            ((sign, *_regular(some, sign)) for sign in _LAST_SEPARATORS), key=lambda one: one[1:]
        )
        if its_share >= _SURE and its_width >= 2:
            best, share, width = last, its_share, its_width
    if width < 2:
        return ",", ""
    lines_of = f"{round(share * len(some)):,} of the first {len(some):,} lines have {width} cells"
    return best, f"{lines_of} with {_NAMES.get(best, best)} between them"


def _regular(lines: Sequence[str], separator: str) -> tuple[float, int]:
    """Return the share of lines with the most frequent number of cells, and that number; 0 where it is one cell."""
    widths = Counter(len(cells_of_line(line, separator) or ()) for line in lines)
    width, count = max(widths.items(), key=lambda one: (one[1], one[0]))
    if width < 2:
        return 0.0, width
    # A header of R has a name less.
    return (count + 0.5 * widths.get(width - 1, 0)) / len(lines), width


# Names ----------------------------------------------------------------------------------------------------------------


def _top(lines: Sequence[str], separator: str, form: TableFormat, *, before: int) -> list[FormatProposal]:
    """Return what to propose about titles, the header and the names of rows; ``before`` lines come first."""
    if not form.header:
        return []
    cut = [tuple(map(str.strip, cells_of_line(line, separator) or ("",))) for line in lines]
    filled = [cells for line, cells in zip(lines, cut, strict=True) if line.strip()]
    width = Counter(map(len, filled)).most_common(1)[0][0]
    place = form.skip_rows or _titles(lines, cut, width)
    while place < len(lines) and not lines[place].strip():
        place += 1
    if place >= len(lines) - 1:
        return []
    found: list[FormatProposal] = []
    if place and not form.skip_rows and any(line.strip() for line in lines[:place]):
        skipped = place
        while not lines[skipped - 1].strip():
            skipped -= 1
        found.append(_titles_above(skipped))
    head = cut[place]
    rows = _Rows(tuple(cells for cells in cut[place + 1 :] if len(cells) == width), width)
    if len(rows.cells) == 0:
        return found
    if len(head) == width - 1 and not any(rows.column(width - 1)):
        why = "every row ends with a separator, and the header does not"
        names = (*joined_names([head], None), f"column_{width}")
        return [*_declared(names, separator, why), FormatProposal("skip_rows", before + place + 1, why)]
    if len(head) == width - 1:
        return found if form.row_names else [*found, _row_names(len(rows.cells))]
    if len(head) != width:
        return found
    named = _names(head, rows, before + place, separator, form)
    return named if any(one.key == "skip_rows" for one in named) else found + named


def _titles(lines: Sequence[str], cut: Sequence[tuple[str, ...]], width: int) -> int:
    """Return how many lines come before the names: those that are not as wide as a row, or have a single cell."""
    for place, cells in enumerate(cut):
        if not lines[place].strip():
            continue
        single = width >= 3 and sum(map(bool, cells)) == 1
        if len(cells) in (width, width - 1) and not single:
            return place
        if place > _MOST_TITLES:
            break
    return 0


_MOST_TITLES = 20


def _row_names(rows: int) -> FormatProposal:
    return FormatProposal(
        "row_names",
        ROW_NAMES,
        f"the header has one name fewer than {rows:,} of the lines below it have cells, as in a table that R wrote",
    )


def _names(head: tuple[str, ...], rows: _Rows, place: int, separator: str, form: TableFormat) -> list[FormatProposal]:
    """Return what to propose where the first line has as many cells as a row."""
    kinds = [kind_of_cells(rows.column(at)) for at in range(rows.width)]
    if _is_header(head, rows, kinds):
        second = _second_line(rows, kinds) if form.header_rows == 1 else []
        if second or not _may_look_like_a_row(head, rows, kinds):
            return second
        # The reader takes such names for a row, unless they are declared.
        names = tuple(name or f"column_{at}" for at, name in enumerate(joined_names([head], None), start=1))
        why = "the first line holds names: they are written unlike the cells below them"
        return [*_declared(names, separator), FormatProposal("skip_rows", place + 1, why)]
    names = tuple(f"column_{at}" for at in range(1, rows.width + 1))
    why = "the first line reads as a row: its cells are written as those below them"
    skipped = [FormatProposal("skip_rows", place, "lines before the first row")] if place else []
    return [*_declared(names, separator, why), *skipped]


def _declared(names: tuple[str, ...], separator: str, why: str = "") -> list[FormatProposal]:
    why = why or "its names would be taken for a row, so they are listed"
    return [
        FormatProposal("header", False, why),
        FormatProposal("names", tuple(names), "names for a table whose header is not read"),
        FormatProposal("separator", separator, "a table without a header line states its separator"),
    ]


def _is_header(head: tuple[str, ...], rows: _Rows, kinds: Sequence[str]) -> bool:
    """Whether a line holds names: words above numbers or dates, years above other numbers, or words no row has."""
    typed = [(name, at) for at, (name, kind) in enumerate(zip(head, kinds, strict=True)) if kind != "text"]
    present = [(name, at) for name, at in typed if name and name not in NO_NAMES]
    if any(kind_of_cell(name) == "text" for name, _ in present):
        return True
    texts = [(name, at) for at, (name, kind) in enumerate(zip(head, kinds, strict=True)) if kind == "text" and name]
    repeated = sum(name in set(rows.column(at)) for name, at in texts)
    if present:
        return _are_years([name for name, _ in present]) and not any(
            name in set(rows.column(at)) for name, at in present
        )
    return repeated == 0 or (repeated < len(texts) / 2 and len(texts) > 1)


def _are_years(names: Sequence[str]) -> bool:
    """Whether names are years in their order, each once."""
    numbers = [int(name) for name in names if len(name) == 4 and name.isdigit()]
    steps = {later - before for before, later in pairwise(numbers)}
    return (
        len(numbers) == len(names) and all(1800 <= one <= 2200 for one in numbers) and (steps <= {1} or len(steps) == 1)
    )


def _may_look_like_a_row(head: tuple[str, ...], rows: _Rows, kinds: Sequence[str]) -> bool:
    """Whether the reader would refuse this header: a name is a number, or occurs in its column."""
    typed = [kind_of_cell(name) for name, kind in zip(head, kinds, strict=True) if kind != "text"]
    numbers = any(kind_of_cell(name) == "number" for name in head)
    occurs = any(name and name in set(rows.column(at)) for at, name in enumerate(head))
    return occurs or numbers or (bool(typed) and all(kind != "text" for kind in typed))


def _second_line(rows: _Rows, kinds: Sequence[str]) -> list[FormatProposal]:
    """Return the proposal of a second line of names, such as units or years below a heading."""
    second, below = rows.cells[0], _Rows(rows.cells[1:], rows.width)
    if len(below.cells) < 2 or not any(map(_may_be_name, second)):
        return []
    kinds = [kind_of_cells(below.column(at)) for at in range(rows.width)]
    typed = [cell for cell, kind in zip(second, kinds, strict=True) if kind != "text" and cell not in NO_NAMES]
    words = [cell for cell in typed if cell and kind_of_cell(cell) == "text"]
    if not words or len(words) < max(1, sum(map(bool, typed))):
        return []
    found = [
        FormatProposal("header_rows", 2, "the second line has words where the lines below it have numbers or dates")
    ]
    if all(len(word) <= _LONGEST_UNIT for word in words):
        found.append(FormatProposal("names_from", 1, "the second line looks like units"))
    return found


def _may_be_name(cell: str) -> bool:
    return any(sign.isalpha() or sign in "%€$£" for sign in cell)


_LONGEST_UNIT = 6
