"""The question whose answer is rows: one noisy row for every private one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from synth.privacy.accounting import SLACK_ALLOWANCE
from synth.privacy.counting import Rows
from synth.privacy.features import Lookup
from synth.privacy.kept_answers import Numbers, digest_of_rows
from synth.privacy.more.row_plans import LABEL_SHARE, RowNoise, RowsQuestion, plan_rows, require_few_numbers
from synth.privacy.more.row_release import LABELS_QUERY, PerturbedRows, draw_rows
from synth.privacy.noise import NoiseSource
from synth.privacy.receipt import Receipt
from synth.privacy.session_record import Record, rows_assumptions
from synth.schema import Schema

if TYPE_CHECKING:
    from synth.privacy.table import PrivateTable

__all__ = ["RowQuestions"]


class RowQuestions:
    """The part of a session that lets rows out one by one; a session charges, reads and draws for it."""

    __slots__ = ()

    if TYPE_CHECKING:
        _noise: NoiseSource
        _record: Record
        _root_units: int
        _table: PrivateTable

        @property
        def schema(self) -> Schema:  # noqa: D102
            ...

        def _affordable(self, share: float) -> int: ...
        def _open(self, query: str, units: int, *, coordinates: int = 0) -> None: ...
        def _planned(
            self, *, place: int = 0, slack: float = 0.0, assumptions: tuple[str, ...] = (), **values: Any
        ) -> Receipt: ...
        def _answered(
            self, receipts: tuple[Receipt, ...], digest: Callable[[], str], ask: Callable[[], Numbers]
        ) -> Numbers: ...
        def _rows(self) -> Rows: ...

    @property
    def row_releases(self) -> tuple[PerturbedRows, ...]:
        """Every answer of noisy rows, in order, those of all parts included."""
        return tuple(self._record.row_releases)

    def perturb_rows(
        self,
        tables: Sequence[Lookup],
        *,
        label: str | None = None,
        label_share: float = LABEL_SHARE,
        noise: RowNoise = "gaussian",
        share: float,
        query: str,
        source: str,
    ) -> PerturbedRows:
        """Let every row out by itself, its numbers and its label made noisy, in a drawn order.

        Parameters
        ----------
        tables : sequence of Lookup
            The columns of a row, side by side.
        label : str, optional
            A column that is let out as a class: by randomised response, or as it is where one cell is hidden and labels
            are public by definition.
        label_share : float
            Part of the question's share that protects the label, where it is randomised.
        noise : {"gaussian", "laplace"}
            One cell is hidden by Laplace noise alone.
        share, query, source
            As in ``noisy_sum``; under "one cell" a share is one of pure epsilon.

        Returns
        -------
        PerturbedRows

        Raises
        ------
        PrivacyError
            If the number of rows is private or the question does not fit. Nothing is spent then.
        """
        question = RowsQuestion(tuple(tables), label, label_share, noise)
        units = self._affordable(share)
        plan = plan_rows(question, self.schema, units=units, slack=SLACK_ALLOWANCE * units / self._root_units)
        require_few_numbers(plan, self._table._rows)
        self._open(query, units, coordinates=plan.width)
        classes = 0 if label is None else self.schema.modelled_column(label).size
        named: dict[str, Any] = {"source": source, "assumptions": rows_assumptions(self.schema, label)}
        receipts = [self._planned(query=query, **named, **plan.rows_receipt)]
        if plan.label_epsilon is not None:
            named["query"] = LABELS_QUERY.format(query=query)
            receipts.append(self._planned(place=1, **named, **plan.labels_receipt(classes)))

        def ask() -> Numbers:
            drawn = draw_rows(question, plan, self._rows(), self._noise, classes=classes)
            return (drawn.numbers,) if drawn.labels is None else (drawn.numbers, drawn.labels)

        numbers, *labels = self._answered(tuple(receipts), lambda: digest_of_rows(question), ask)
        release = PerturbedRows(tuple(receipts), question, numbers, labels[0] if labels else None)
        self._record.row_releases.append(release)
        return release
