"""What has to be true of a finding, checked on bytes of files: each layer yields what is wrong, in words."""

from __future__ import annotations

import io
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
from found_worlds import LEVEL, OPEN, LevelNoise, OpenWorld, as_csv, exact, ordinary, values_asked
from scipy.stats import norm

from synth.privacy.more.finding import find
from synth.privacy.more.found_values import FoundValues
from synth.reading.more import texts
from synth.schema import Neighbours

__all__ = ["LAYERS", "problems"]

ROW = 2**24
CANARY = "Zanzibar-5512"

Line = dict[str, str]
Layer = Callable[[OpenWorld], Iterator[str]]


def lines_of(world: OpenWorld, person: str, **cells: str) -> list[Line]:
    """As many equal lines as a unit may have."""
    return [{"person": person, **cells}] * world.rows_per_unit


def far(world: OpenWorld, person: str = "somebody") -> list[Line]:
    """The lines of a unit that shares nothing with anybody; more than may be kept, where ids say whose they are."""
    own = [
        {"person": person, "age": f"9{row}", "town": f"{person} {row}", "income": f"-{row}.125", "seen": "1805-01-01"}
        | {"note": f"{person} says {row}", "secret": CANARY}
        for row in range(7)
    ]
    return own if world.ids else own[: world.rows_per_unit]


def others(world: OpenWorld) -> list[Line]:
    return ordinary(15, world.rows_per_unit)


def of_rows(world: OpenWorld) -> Iterator[str]:
    """A unit adds what its own lines add, wherever they stand and whatever stands beside them."""
    rest, own = others(world), far(world)
    alone, before = Counter(exact(world, own)), Counter(exact(world, rest))
    mixed = [*rest[:3], *own[:1], *rest[3:8], *own[1:], *rest[8:]]
    for place, lines in {"first": [*own, *rest], "last": [*rest, *own], "between": mixed}.items():
        after = Counter(exact(world, lines))
        if after != before + alone:
            yield f"A unit whose lines stand {place} does not add what it adds alone."
    shuffled = [rest[place] for place in np.random.default_rng(3).permutation(len(rest))]
    if not world.ids and Counter(exact(world, shuffled)) != before:
        yield "Counts depend on the order of lines."
    kept = sum(count for (column, what), count in alone.items() if column == "age" and isinstance(what, str))
    if kept > world.rows_per_unit:
        yield f"{kept} rows of one unit were counted."


def of_noise(world: OpenWorld) -> Iterator[str]:
    """Every count gets the noise that its question's change between neighbours needs."""
    lines = [*others(world), *far(world)]
    noise = LevelNoise()
    session = world.session(as_csv(lines), noise)
    answer = values_asked(session)
    k, m, replace = len(OPEN), world.rows_per_unit, session.schema.neighbours is Neighbours.REPLACE
    change = m * math.sqrt(2 * k if replace else k)
    needed = change / math.sqrt(world.budget.mu_squared * 0.5) * ROW
    asked = [size for variance, size in noise.calls if math.sqrt(variance) >= needed * (1 - 1e-6)]
    if len(asked) < len(noise.calls):
        yield "Values have less noise than one unit's change asks for."
    texts_held = sum(isinstance(what, str) for _, what in exact(world, lines))
    if sum(asked) != texts_held:
        yield f"{sum(asked)} counts of {texts_held} have noise."
    if answer.receipt.sensitivity < change * (1 - 1e-9):
        yield "The receipt states too small a sensitivity."
    if answer.receipt.dimension < k * m * (1 + replace):
        yield "The receipt states too few coordinates."


def of_threshold(world: OpenWorld) -> Iterator[str]:
    """What one unit alone holds passes with probability delta_key, and the receipt says so."""
    noise = LevelNoise()
    answer = values_asked(world.session(as_csv(others(world)), noise))
    keys = len(OPEN) * world.rows_per_unit * (1 + (world.row_count == "public"))
    room = (answer.threshold - world.rows_per_unit * ROW - 1) / math.sqrt(noise.calls[-1][0])
    passes = 1 - (1 - norm.sf(room)) ** keys if room > 0 else 1.0
    if passes > answer.question.delta_key * (1 + 1e-6):
        yield f"A text of one unit alone passes with probability {passes:.3g}."
    if answer.receipt.additive_delta < answer.question.delta_key:
        yield "The probability that a text of one unit alone passes is not charged."


def of_release(world: OpenWorld) -> Iterator[str]:
    """Whether a text is let out follows from its noisy count and the threshold, to the last grid step."""
    own = lines_of(world, "somebody", town=CANARY, note=CANARY)
    data, m = as_csv([*others(world), *own]), world.rows_per_unit
    plan = values_asked(world.session(data, LevelNoise(-LEVEL)))
    if plan.values:
        yield "Texts are let out whose noisy count is far below the threshold."
    for level, passes in ((plan.threshold - m * ROW - 1, False), (plan.threshold - m * ROW, True)):
        answer = values_asked(world.session(data, LevelNoise(level)))
        of_unit = [(column, count) for column, text, count in answer.values if text == CANARY]
        if of_unit != ([("town", plan.threshold), ("note", plan.threshold)] if passes else []):
            yield f"{m} equal rows of one unit {'do not pass at' if passes else 'pass below'} the threshold."


def of_order(world: OpenWorld) -> Iterator[str]:
    """The order of what is let out says nothing about the order of lines."""
    rest = others(world)
    answers: list[FoundValues] = [
        values_asked(world.session(as_csv(lines), LevelNoise(LEVEL))) for lines in (rest, rest[::-1])
    ]
    if not world.ids and answers[0].values != answers[1].values:
        yield "The order of values follows the order of lines."
    places = [(OPEN.index(column), text) for column, text, _ in answers[0].values]
    if places != sorted(places):
        yield "Values are not in the order of columns and texts."


def of_columns(world: OpenWorld) -> Iterator[str]:
    """Texts of columns that are left out, or not asked for, never reach the program; no line is logged about any."""
    heard: list[bytes] = []
    right = texts.ask

    def ask(stream: io.BytesIO, request: object, on_batch: Callable[[bytes], None], **named: object) -> object:
        def listen(body: bytes) -> None:
            heard.append(body)
            on_batch(body)

        return right(stream, request, listen, **named)

    said = io.StringIO()
    listener = logging.StreamHandler(said)
    root = logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    texts.ask = ask
    try:
        with redirect_stdout(said), redirect_stderr(said):
            values_asked(world.session(as_csv([*others(world), *far(world)]), LevelNoise()), ("town",))
    finally:
        texts.ask = right
        root.removeHandler(listener)
        root.setLevel(level)
    if any(word in body for body in heard for word in (CANARY.encode(), b"says")):
        yield "Texts of a column that was not asked for were read."
    if said.getvalue():
        yield "Something was said while private texts were counted."


def of_find(world: OpenWorld) -> Iterator[str]:
    """A whole finding costs what it may, and shows nothing that one unit alone brings."""
    session = world.session(as_csv([*ordinary(40, world.rows_per_unit), *far(world)]), LevelNoise())
    find(session, delta_key=0.49e-6)
    spent = sum(receipt.mu_squared_units for receipt in session.receipts)
    if spent > world.budget.units:
        yield "A finding costs more than its budget."
    if sum(receipt.additive_delta for receipt in session.receipts) > 0.49e-6:
        yield "A finding adds more to delta than it may."
    if any("somebody" in text for one in session.answers if isinstance(one, FoundValues) for _, text, _ in one.values):
        yield "A text that one unit alone holds was let out."


LAYERS: Sequence[Layer] = (of_rows, of_noise, of_threshold, of_release, of_order, of_columns, of_find)


def problems(world: OpenWorld) -> Iterator[str]:
    """Everything that is wrong in one world, as it is found."""
    for layer in LAYERS:
        yield from layer(world)
