"""Rules between columns: the rules of a release in plain words, a builder for more, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from pages.ui.column_rows import declared_columns
from pages.ui.draft import Draft, keeps_together
from pages.ui.session import draft
from pages.ui.words import note, plain
from synth.errors import SynthError
from synth.names import visible
from synth.schema import Column, IdentifierColumn, ModelledColumn, People, PrivacyUnit, Schema, people_of
from synth.schema.contradictions import problems_of_rules
from synth.schema.people_rules import Named
from synth.schema.rule_proposals import proposed_rules
from synth.schema.rules import quoted

_ROUND = "rules-built"
_MOST_PROPOSED = 5
_MOST_CHOICES = 200
"""Categories that are offered one by one; of more the values are typed."""

_ORDERS = {"is at least": ">=", "is more than": ">", "is at most": "<=", "is less than": "<", "is equal to": "="}
_ONE_OF, _NONE_OF, _MULTIPLE = "is one of", "is not one of", "is a multiple of"
_EMPTY = {"is empty": "is missing", "is not empty": "is not missing"}


def rules_panel() -> None:
    """Draw the rules of the draft, what their columns' names suggest, and the builder."""
    held = draft()
    schema = _schema()
    note(
        "What you know about the table, for example from its codebook. Every synthetic row will follow these "
        "rules. They are published and cost nothing."
    )
    if schema is None:
        note("Describe a column first.")
        return
    named = Named.of(schema)
    if named.people is not None:
        note(_about_people(named.people))
    for place, (line, problem) in enumerate(zip(held["rules"], problems_of_rules(held["rules"], schema), strict=True)):
        words, button = st.columns([6, 1], vertical_alignment="center")
        words.markdown(f"• {plain(line)}")
        button.button(
            "Delete", key=f"rule-delete:{place}", on_click=_delete, args=(place,), help=f"Delete: {visible(line)}"
        )
        if problem:
            st.error(_said(problem))
    _propose(schema)
    _build(schema)


def rule_problems() -> list[str]:
    """Return what keeps the rules of the draft from being used."""
    schema = _schema()
    return [] if schema is None else [problem for problem in problems_of_rules(draft()["rules"], schema) if problem]


def rules_note() -> None:
    """Say that every row will keep the rules, where there are any."""
    rules = len(draft()["rules"])
    if rules:
        note(f"Every synthetic row will follow your {f'{rules} rules' if rules > 1 else 'rule'} between columns.")


def _about_people(people: People) -> str:
    """Say what rules may name where people are kept whole, with an example."""
    who, order, count = plain(people.schema.unit.protects), people.order, plain(people.count)
    words = f"Rules may also name '{count}', how many rows a {who} has: {count} <= {people.most - 1}."
    if order is None or people.next_order is None:
        return f"{words} Once you say above in what order the rows come, they may be about a row and the next, too."
    following, order = plain(people.next_order), plain(order)
    return (
        f"{words} With 'next.' in front, a column is that of the {who}'s next row: {following} > {order}, or "
        f"{following} - {order} <= 30, a difference (in days between dates, in minutes between times of day)."
    )


def _schema() -> Schema | None:
    held = draft()
    columns = declared_columns(held["columns"])
    if not columns:
        return None
    try:
        whole = _whole(held, columns)
        return Schema(columns) if whole is None else whole
    except SynthError:
        return None


def _whole(held: Draft, columns: Sequence[Column]) -> Schema | None:
    """Return the schema of people who are kept whole; None where they are not, or cannot be described yet."""
    if not keeps_together(held):
        return None
    modelled = {column.name for column in columns if isinstance(column, ModelledColumn)}
    unit = PrivacyUnit(
        protects=held["protects"] or "person",
        rows_per_unit=held["rows_per_unit"],
        id_column=held["id_column"],
        same_in_all_rows=tuple(name for name in held["same_in_all_rows"] if name in modelled),
        ordered_by=held["ordered_by"] if held["ordered_by"] in modelled else None,
    )
    try:
        others = (column for column in columns if column.name != held["id_column"])
        whole = Schema((IdentifierColumn(held["id_column"]), *others), unit=unit, people="whole")
        people_of(whole)
    except SynthError:  # which the page says by itself
        return None
    return whole


def _said(problem: str) -> str:
    """Return what is wrong with a rule, as a sentence for the screen."""
    told = problem.removeprefix("rules: ")
    return plain(told[:1].upper() + told[1:])


def _delete(place: int) -> None:
    held = draft()
    held["rules"] = [line for index, line in enumerate(held["rules"]) if index != place]


def _add(line: str) -> None:
    held = draft()
    if line and line not in held["rules"]:
        held["rules"] = [*held["rules"], line]


def _add_built(line: str) -> None:
    _add(line)
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1


def _key(name: str) -> str:
    """Return the key of a field of the builder: every rule begins with empty ones."""
    return f"rule-{name}:{st.session_state.get(_ROUND, 0)}"


def _propose(schema: Schema) -> None:
    held = draft()
    lines = [line for line in proposed_rules(schema.names) if line not in held["rules"]]
    fitting = [line for line in lines if not any(problems_of_rules([line], schema))][:_MOST_PROPOSED]
    if fitting:
        note("Suggested by the column names. No row was read.")
    for place, line in enumerate(fitting):
        words, button = st.columns([6, 1], vertical_alignment="center")
        words.markdown(f"{plain(line)} ?")
        button.button("Add", key=f"rule-propose:{place}", on_click=_add, args=(line,), help=f"Add: {visible(line)}")


# The builder ---------------------------------------------------------------------------------------------------------


def _build(schema: Schema) -> None:
    kind = st.selectbox(
        "What do you know?",
        list(_KINDS),
        index=None,
        placeholder="choose a kind of rule",
        key="rule-kind",
        help="Something true of every row, as anyone who knows the questionnaire could tell.",
    )
    if kind is None:
        return
    named = Named.of(schema)
    columns = dict(named.columns)
    if _KINDS[kind] is _heaped:
        columns = {name: column for name, column in columns.items() if name not in named.of_people}
    line = _KINDS[kind](columns)
    if not line:
        return
    (problem,) = problems_of_rules([line], schema)
    st.markdown(f"**{plain(line)}**")
    if problem:
        st.error(_said(problem))
    st.button("Add this rule", key="rule-add", disabled=bool(problem), on_click=_add_built, args=(line,))


def _choose(label: str, names: Sequence[str], key: str) -> str | None:
    return st.selectbox(
        label, list(names), index=None, placeholder="choose a column", format_func=visible, key=_key(key)
    )


def _order(columns: dict[str, ModelledColumn]) -> str:
    ordered = [name for name, column in columns.items() if column.has_order]
    first, sign, second = st.columns(3)
    with first:
        left = _choose("Column", ordered, "left")
    with sign:
        word = st.selectbox("How", list(_ORDERS), key=_key("sign"))
    with second:
        right = _choose("Other column", [name for name in ordered if name != left], "right")
    return f"{quoted(left)} {_ORDERS[word]} {quoted(right)}" if left and right else ""


def _sum(columns: dict[str, ModelledColumn]) -> str:
    numbers = [name for name, column in columns.items() if column.is_summable]
    total = _choose("Total", numbers, "total")
    parts = st.multiselect(
        "Its parts", [name for name in numbers if name != total], format_func=visible, key=_key("parts")
    )
    return f"{quoted(total)} = {' + '.join(map(quoted, parts))}" if total and len(parts) > 1 else ""


def _implication(columns: dict[str, ModelledColumn]) -> str:
    first, second = _condition("If", "if", columns), _condition("and (optional)", "and", columns)
    then = _condition("then", "then", columns)
    return f"if {' and '.join(filter(None, (first, second)))} then {then}" if first and then else ""


def _not_applicable(columns: dict[str, ModelledColumn]) -> str:
    gone = _choose("Column that does not apply", [name for name, column in columns.items() if column.missing], "gone")
    when = _condition("It is empty exactly when", "when", columns)
    return f"{quoted(gone)} is missing exactly when {when}" if gone and when else ""


def _determines(columns: dict[str, ModelledColumn]) -> str:
    first, second = st.columns(2)
    with first:
        source = _choose("This column", list(columns), "source")
    with second:
        target = _choose("determines this one", [name for name in columns if name != source], "target")
    typed = st.text_area(
        "Pairs of values (optional)",
        placeholder="1 = EWR\n2 = Queens",
        key=_key("table"),
        help="One pair per line. If left empty, each value is paired with the one that the model, fitted to "
        "noisy answers, draws most often with it; no row is read for that.",
    )
    pairs = ", ".join(line.strip().rstrip(",") for line in typed.splitlines() if line.strip())
    table = f" ({pairs})" if pairs else ""
    return f"{quoted(source)} determines {quoted(target)}{table}" if source and target else ""


def _few(columns: dict[str, ModelledColumn]) -> str:
    return _condition("Always", "always", columns)


def _heaped(columns: dict[str, ModelledColumn]) -> str:
    numbers = [name for name, column in columns.items() if column.is_summable]
    first, second, third = st.columns(3)
    with first:
        name = _choose("Number", numbers, "heaped")
    with second:
        step = st.text_input("is a multiple of", placeholder="100", key=_key("step")).strip()
    with third:
        share = st.number_input(
            "in this share of rows, %",
            1.0,
            100.0,
            None,
            1.0,
            placeholder="40",
            key=_key("share"),
            help="Roughly how many people round. You declare it; it is never measured in the rows.",
        )
    return f"{quoted(name)} is a multiple of {step} in {share:g} % of rows" if name and step and share else ""


def _typed(columns: dict[str, ModelledColumn]) -> str:
    del columns
    return st.text_input(
        "The rule",
        placeholder="if age < 15 and works = yes then income <= 5000",
        key=_key("typed"),
        help="Comparisons, in (...), is missing, if ... then ..., joined by and; put names with special "
        "characters in double quotation marks.",
    ).strip()


_KINDS: dict[str, Callable[[dict[str, ModelledColumn]], str]] = {
    "One column is never smaller or larger, earlier or later, than another": _order,
    "One column is the sum of others": _sum,
    "If one condition holds, another follows": _implication,
    "A column does not apply (is empty) in some rows": _not_applicable,
    "One column determines another": _determines,
    "A column takes only certain values, or only multiples": _few,
    "Values are rounded in some of the rows": _heaped,
    "Type the rule yourself": _typed,
}


def _condition(label: str, key: str, columns: dict[str, ModelledColumn]) -> str:
    """Ask for a column, what is said of it, and a value; empty until all is said."""
    first, second, third = st.columns([3, 2, 3])
    with first:
        name = _choose(label, list(columns), f"{key}-name")
    if name is None:
        return ""
    column = columns[name]
    with second:
        word = st.selectbox("is", _words_for(column), key=_key(f"{key}-word"))
    if word in _EMPTY:
        return f"{quoted(name)} {_EMPTY[word]}"
    with third:
        listed = word in (_ONE_OF, _NONE_OF)
        known = column.texts(range(column.size - column.missing)) if not column.levels else []
        if listed and 0 < len(known) <= _MOST_CHOICES:
            values = st.multiselect("values", known, format_func=visible, key=_key(f"{key}-values"))
        else:
            typed = st.text_input(
                "values" if listed else "value", placeholder="0, 10, 20" if listed else "15", key=_key(f"{key}-value")
            )
            values = [value.strip() for value in typed.split(",") if value.strip()]
    if not values:
        return ""
    if word == _MULTIPLE:
        return f"{quoted(name)} is a multiple of {quoted(values[0])}"
    if word in _ORDERS:
        return f"{quoted(name)} {_ORDERS[word]} {quoted(values[0])}"
    return f"{quoted(name)} {'in' if word == _ONE_OF else 'not in'} ({', '.join(map(quoted, values))})"


def _words_for(column: ModelledColumn) -> list[str]:
    words = [*(_ORDERS if column.has_order else ()), _ONE_OF, _NONE_OF, *([_MULTIPLE] if column.is_summable else ())]
    words = words if column.levels else [_ONE_OF, _NONE_OF, *(_ORDERS if column.has_order else ())]
    return [*words, *(_EMPTY if column.missing else ())]
