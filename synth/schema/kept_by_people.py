"""Rules in people who are made row by row: which rows and pairs of rows keep them, and rows mended beside another.

This is post-processing of a release, as repairs of single rows are (:mod:`synth.schema.constraints`).
"""

from __future__ import annotations

import numpy as np

from synth.schema.constraints import mended_beside
from synth.schema.contradictions import PersonSearch, in_order
from synth.schema.people import People
from synth.schema.people_rules import about_people, is_about_pairs, renamed
from synth.schema.rule_lines import RuleSet
from synth.schema.rules import BoolArray, CodeArray, Rule

__all__ = ["RulesOfPeople"]


class RulesOfPeople:
    """The rules of a declared table whose people are kept whole.

    Parameters
    ----------
    rules : RuleSet
        Read against the declared table; learnt tables have been filled.
    people : People

    Attributes
    ----------
    of_pairs : tuple of Rule
        Those about a row and the next; the others are about each row, and about how many rows its person has.
    are_about_people : bool
        Whether there is a rule about the number of rows or about the next row.
    """

    def __init__(self, rules: RuleSet, people: People) -> None:
        self._people, self._rules = people, rules.rules
        self.of_pairs = tuple(rule for rule in rules.rules if is_about_pairs(rule, people))
        self._of_rows = tuple(rule for rule in rules.rules if rule not in self.of_pairs)
        self.are_about_people = bool(about_people(rules.rules, people.schema))

    def kept(
        self, rows: CodeArray, before: CodeArray | None, following: CodeArray | None, count: CodeArray
    ) -> BoolArray:
        """Return which rows keep every rule themselves, and beside the row before or the next where one is given.

        Parameters
        ----------
        rows : array of shape (rows, modelled columns)
            Codes in the order of the declared columns.
        before, following : array of shape (rows, modelled columns), optional
        count : array of shape (rows,)
            How many rows the person of each has.
        """
        broken = self._broken(self._of_rows, rows, None, count)
        if before is not None:
            broken |= self._broken(self.of_pairs, before, rows, count)
        if following is not None:
            broken |= self._broken(self.of_pairs, rows, following, count)
        return ~broken

    def kept_by_people(self, codes: CodeArray, units: CodeArray) -> BoolArray:
        """Return which people keep every rule in all of their rows.

        Parameters
        ----------
        codes : array of shape (rows, modelled columns)
        units : array of shape (rows,)
            The number of each row's person, from 0, never decreasing.
        """
        count = self._people.counted(codes, units)
        broken = np.zeros(len(count), dtype=bool)
        broken[units[self._broken(self._of_rows, codes, None, count[units])]] = True
        pairs = np.flatnonzero(np.diff(units) == 0)
        of_pairs = self._broken(self.of_pairs, codes[pairs], codes[pairs + 1], count[units[pairs]])
        broken[units[pairs[of_pairs]]] = True
        return ~broken

    def mended(self, rows: CodeArray, beside: CodeArray, count: CodeArray, *, onwards: bool, seed: int) -> CodeArray:
        """Return rows moved so that they keep the rules behind, or before, others that stay as they are, if they can.

        Parameters
        ----------
        rows, beside : array of shape (rows, modelled columns)
            The rows to move, and the row before each (onwards) or the next (backwards).
        count : array of shape (rows,)
        onwards : bool
        seed : int
            Public.
        """
        names, schema = self._people.next_names, self._people.schema
        nexts = [schema.names.index(name) for name in names]
        this, following = (beside, rows) if onwards else (rows, beside)
        codes = np.column_stack([this, following[:, nexts], count - self._people.least])
        place = {name: at for at, name in enumerate((*schema.names, *names.values(), self._people.count))}
        own = [renamed(rule, names) for rule in self._of_rows] if onwards else list(self._of_rows)
        moved = set(names.values() if onwards else names)
        codes = mended_beside(codes, (in_order(self._people), *own, *self.of_pairs), place, moved=moved, seed=seed)
        if not onwards:
            return codes[:, : len(schema.names)]
        found = rows.copy()
        found[:, nexts] = codes[:, len(schema.names) : -1]
        return found

    def somebody(self, row: CodeArray) -> CodeArray | None:
        """Return a public person who keeps every rule, with the other cells of a row that keeps the rules of its own.

        Returns
        -------
        array of shape (rows of the person, modelled columns), or None where none was found, which is refused before
        anything is charged
        """
        found = PersonSearch(self._rules, self._people).rows()
        if found is None:
            return None
        codes = np.repeat(row[None, :], len(found), axis=0)
        for place, cells in enumerate(found):
            for name, code in cells.items():
                codes[place, self._people.schema.names.index(name)] = code
        return codes

    def _broken(
        self, rules: tuple[Rule, ...], rows: CodeArray, following: CodeArray | None, count: CodeArray
    ) -> BoolArray:
        at = {name: place for place, name in enumerate(self._people.schema.names)}
        then = rows if following is None else following
        broken = np.zeros(len(rows), dtype=bool)
        for rule in rules:
            broken |= rule.broken(
                self._people.cells(rule.columns, lambda name: rows[:, at[name]], lambda name: then[:, at[name]], count)
            )
        return broken
