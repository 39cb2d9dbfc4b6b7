"""The draft of a configuration after a look at the rows, which nearly runs.

It has everything that the rows show, and leaves open only what they cannot: the questions about people, and what the
file allows to be read in two ways. Its comments, the evidence, are for the owner alone; no bundle holds them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from synth.schema.documents import to_yaml
from synth.schema.guesses import belongs_to_unit_by_name, order_by_name

if TYPE_CHECKING:
    from synth.dictionaries import Description
    from synth.services.recognition import ColumnProposal, Recognised

__all__ = ["drafted_after_look", "fates_after_look", "together_by_name"]

_HEAD = """\
# A draft after a look at the rows, which is recorded. Answer the lines marked with ANSWER, about the people; everything
# else runs as it is. Ranges and values below were taken from the rows, so the guarantee does not cover them, and the
# certificate says so for each column under domain_source, which has to stay. Change what anyone could know better.
# Everything but the comments will be published. The comments are what the look found, and are yours alone.
{table}
account: {account:<16}# the people the ledger protects
unit:
  protects:              # ANSWER: person, household, organisation, ...
  rows_per_unit:         # ANSWER: the most rows that one of them can have
  id_column: null        # the column that says whose row it is; required if one can have several rows{people}{together}
row_count:               # ANSWER: public (printed) or private (measured with noise)
number_of_units:         # ANSWER if that is public: how many of them there are
people_at_most:          # ANSWER otherwise: a public upper bound on how many there are, for delta and the forecast
budget: {{epsilon: 1.0}}
rows: 10000              # how many synthetic rows to make; or instead people: and how many of them
"""

_TOGETHER = """
                         # With an id_column and several rows, those of one synthetic person are kept together
                         # (or write people: separate_rows, and each row is a person of its own). Then also:
  # same_in_all_rows: {same}
  # ordered_by: {order}
"""
"""Lines of a draft about rows that are kept together, as comments: they only go with an id_column and several rows."""


def drafted_after_look(
    table: str, account: str, found: Recognised, known: Description, *, form: Mapping[str, Any], empty: bool
) -> str:
    """Return a configuration in which only the questions about people are open.

    Parameters
    ----------
    table : str
        The lines that name the table.
    account : str
        As YAML.
    found : Recognised
    known : Description
        What dictionaries and presets say, which comes before the rows.
    form : mapping
        The keys of the format that differ from the default.
    empty : bool
        As in :func:`synth.cli.files.draft_configuration`.
    """
    together = _together(found)
    head = _HEAD.format(table=table, account=account, people=_perhaps_people(found), together=together)
    written = f"format: {_flow(dict(form))}\n" if form else ""
    asked = "".join(
        f"# ANSWER: {one.key} in format is one of {' or '.join(_flow(_plain(choice)) for choice in one.choices)}, but "
        f"{one.evidence}\n"
        for one in found.open
    )
    why = "".join(f"# {one.key}: {one.evidence}\n" for one in found.proposals if not one.choices)
    columns = "".join(_line_of(column, known, empty=empty) for column in found.columns)
    sources = {
        **{name: column.source for name, column in known.declared.items()},
        **{name: source for name, source in found.domain_source.items() if name not in known.declared},
    }
    source = to_yaml({"domain_source": sources}) if sources else ""
    return f"{head}{why}{written}{asked}columns:\n{columns}{source}"


def _perhaps_people(found: Recognised) -> str:
    """Return a comment on columns that may say whose row it is."""
    several = [column for column in found.columns if column.rows_per_value > 1]
    return "".join(f"\n                         # perhaps {_flow(one.name)}: {one.evidence}" for one in several)


def _together(found: Recognised) -> str:
    """Return lines about rows that are kept together: what rows show comes before what names suggest."""
    seen = next((one for one in found.together if one.same or one.order), None)
    if seen is None:
        return together_by_name([column.name for column in found.columns])
    return _together_lines(seen.same, seen.order, f"as seen in {seen.evidence}")


def together_by_name(names: Sequence[str]) -> str:
    """Return the lines of a draft about rows that are kept together, with what names of columns suggest."""
    same, order = [name for name in names if belongs_to_unit_by_name(name)], order_by_name(names)
    return _together_lines(same, order, "by the names" if same or order else "")


def _together_lines(same: Sequence[str], order: str | None, why: str) -> str:
    """Return the lines of a draft about rows that are kept together; ``why`` says where the proposals come from."""
    because = f"{why}: " if why else ""
    return _TOGETHER.rstrip("\n").format(
        same=f"{json.dumps(list(same), ensure_ascii=False)}  # {because}what is the same in all rows of one of them",
        order=f"{json.dumps(order, ensure_ascii=False)}  # {because}the number or date by which the rows are in order",
    )


def _line_of(column: ColumnProposal, known: Description, *, empty: bool) -> str:
    from synth.dictionaries import line_of

    name = _flow(column.name)
    described = known.columns.get(column.name)
    if described is not None and described.declares:
        return f"  {name}: {line_of(described.body, empty=empty)}\n"
    words = {} if described is None else described.body
    remarks = "; ".join(filter(None, (column.evidence, column.note)))
    if column.choices:
        ways = "".join(f"  # {name}: {line_of({**body, **words})}\n" for body in column.choices)
        return f"  # ANSWER: keep one of these lines, because {remarks}\n{ways}  {name}: {{type: }}\n"
    return f"  {name}: {line_of({**column.body, **words})}  # {remarks}\n"


def fates_after_look(found: Recognised, known: Description) -> list[str]:
    """Return sentences about the columns that would be replaced or left out, and why."""
    words = {"identifier": "replaced by fresh ids", "drop": "left out"}
    return [
        f"{column.name} would be {words[str(column.body['type'])]}: {column.evidence}"
        for column in found.columns
        if column.body.get("type") in words and column.name not in known.declared
    ]


def _flow(value: object) -> str:
    """Return a value in one line of YAML."""
    return to_yaml(value, in_one_line=True).removesuffix("\n").removesuffix("\n...")


def _plain(value: object) -> object:
    return list(map(_plain, value)) if isinstance(value, tuple) else value
