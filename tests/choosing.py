"""Which cases of a product the default command runs, and which command runs the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest

__all__ = ["each_once", "each_pair", "few", "leave_all_but_four"]

_CASES = 4


def each_once(*axes: Iterable[Any], others: pytest.MarkDecorator = pytest.mark.thorough) -> list[Any]:
    """Return the product of several axes, of which every value is in one case of the default command at least.

    Parameters
    ----------
    *axes : iterable
        The values of each parameter; the first axis varies slowest. Names of the cases are those of stacked
        ``parametrize``.
    others : mark
        Of the cases that the default command does not run.
    """
    values = [list(axis) for axis in axes]
    longest = max(map(len, values))
    return _marked(values, {tuple(turn % len(axis) for axis in values) for turn in range(longest)}, others)


def each_pair(*axes: Iterable[Any], others: pytest.MarkDecorator = pytest.mark.thorough) -> list[Any]:
    """Return the product of several axes as :func:`each_once` does; any two values of different axes meet in a case."""
    values = [list(axis) for axis in axes]
    pairs_of = {case: set(combinations(enumerate(case), 2)) for case in product(*(range(len(axis)) for axis in values))}
    left, kept = set().union(*pairs_of.values()), set[tuple[int, ...]]()
    while left:
        kept.add(most := max(pairs_of, key=lambda case: len(pairs_of[case] & left)))
        left -= pairs_of[most]
    return _marked(values, kept, others)


def _marked(values: Sequence[Sequence[Any]], kept: set[tuple[int, ...]], others: pytest.MarkDecorator) -> list[Any]:
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(values, case, strict=True)),
            marks=() if case in kept else others,
            id="-".join(str(axis[place]) for axis, place in zip(values, case, strict=True)),
        )
        for case in product(*(range(len(axis)) for axis in values))
    ]


def few(values: Iterable[Any], *, kept: Sequence[Any]) -> list[Any]:
    """Return the values of one parameter, of which the default command runs those that are kept."""
    every = list(values)
    if missing := [value for value in kept if value not in every]:
        raise ValueError(f"no such cases: {missing}")
    return [value if value in kept else _left(value) for value in every]


def _left(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)


def leave_all_but_four(items: Iterable[pytest.Item]) -> None:
    """Leave most cases of tests that are marked ``four_cases`` to other commands: four stay, evenly spread.

    A test that is collected for one case alone, because that was asked for by name, runs it.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "four_cases" in marks and not marks & {"thorough", "slow", "audit"}:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        kept = {round(turn * (len(each) - 1) / (_CASES - 1)) for turn in range(_CASES)}
        for place, item in enumerate(each):
            if place not in kept:
                item.add_marker(pytest.mark.thorough)
