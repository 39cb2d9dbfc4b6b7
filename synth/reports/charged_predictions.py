"""Predictions on the hold-out as charged evidence: read off one noisy table that the run's budget paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.noisy_sums import NoisyAnswer
from synth.reports.charts import Cell, Table
from synth.reports.compared import BAR
from synth.reports.evidence import ChargedEvidence
from synth.reports.prediction_problem import Measure
from synth.reports.prediction_question import HeldOutTables, charged_groups, held_out_tables
from synth.reports.prediction_table import MEASURES, TableMeasures, table_measures
from synth.schema import RunConfig

__all__ = ["charged_predictions"]

_TITLES = {
    "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC",
    "macro_f1": "Macro F1",
    "weighted_f1": "Weighted F1",
    "accuracy": "Accuracy",
}
_BY_GROUP = ("accuracy", "macro_f1", "roc_auc")
_HIDDEN = "Privacy noise hides it: the hold-out is too small for the share that was paid."
_ONE_CLASS = "Not defined: fewer than two classes of the label stand out from nought among the held-out rows."


def charged_predictions(releases: Sequence[NoisyAnswer], config: RunConfig) -> tuple[ChargedEvidence, ...]:
    """Report how well the label of held-out rows is predicted after training on synthetic rows.

    Parameters
    ----------
    releases : sequence of NoisyAnswer
        The paid answers of a run.
    config : RunConfig

    Returns
    -------
    tuple of ChargedEvidence
        ``predictions.<measure>``, ``predictions.majority_<measure>``, ``predictions.rows``, ``predictions.table`` and
        ``predictions.groups.<column>``; nothing where no predictions were paid for.
    """
    tables = held_out_tables(releases)
    if tables is None:
        return ()
    charged = _Charged(tables, config)
    found = table_measures(tables.counts, tables.noise_std, seed=config.seed)
    return (
        *(charged.number(name, found.measures[name], found) for name in MEASURES),
        *(charged.anchor(name, found.majority[name], found) for name in MEASURES),
        charged.rows(found),
        charged.table(),
        *(charged.group(name, counts, noise_std) for name, counts, noise_std in tables.groups),
    )


def _reason(name: str, found: TableMeasures) -> str:
    """Say why a measure has no value: one class alone has an accuracy and nothing to average, whatever the noise."""
    return _ONE_CLASS if name != "accuracy" and len(found.classes) == 1 else _HIDDEN


class _Charged:
    """What all numbers of one answer share: its cost, its receipt, the words for classes."""

    def __init__(self, tables: HeldOutTables, config: RunConfig) -> None:
        self._tables, self._config = tables, config
        # What noise of this law costs, whoever drew it: that a test's noise is never certified is seen to elsewhere.
        self._epsilon = epsilon_of_receipts((replace(tables.receipt, private=True),), config.delta)
        column = config.schema.modelled_column(tables.label)
        self._classes = column.texts(range(tables.counts.shape[0]), missing="missing")

    def _evidence(
        self, name: str, title: str, measure: Measure, sentence: str, *, unit: str = "", table: Table | None = None
    ) -> ChargedEvidence:
        return ChargedEvidence(
            id=f"predictions.{name}",
            title=title,
            value=measure.value,
            # An anchor that no noise moves has no range.
            error=measure.error or None,
            unit=unit,
            sentence=sentence,
            figures=() if table is None else (table,),
            epsilon=self._epsilon,
            receipts=(self._tables.receipt.sequence,),
        )

    def number(self, name: str, measure: Measure, found: TableMeasures) -> ChargedEvidence:
        """Return one measure of the predictor."""
        sentence = "Trained on synthetic rows only, counted on held-out rows with noise."
        if not self._tables.forest.columns:
            sentence = "Synthetic rows taught nothing: the most frequent class of theirs is always guessed."
        if name in ("roc_auc", "pr_auc"):
            n_classes, bins = self._tables.forest.shape
            sentence += f" Of scores cut into {n_classes * bins} bins"
            asked = [self._classes[one] for one in found.asked]
            sentence += f", for '{asked[0]}'." if n_classes == 2 and asked else "; mean over classes, one against all."
        if measure.value is None:
            sentence = _reason(name, found)
        return self._evidence(name, f"{_TITLES[name]}, synthetic rows", measure, sentence)

    def anchor(self, name: str, measure: Measure, found: TableMeasures) -> ChargedEvidence:
        """Return the same measure for always guessing the most frequent class of the noisy table."""
        sentence = "No model at all: the anchor at the bottom, from the same counts."
        if measure.value is None:
            sentence = _reason(name, found)
        return self._evidence(f"majority_{name}", f"{_TITLES[name]}, majority class", measure, sentence)

    def rows(self, found: TableMeasures) -> ChargedEvidence:
        """Return the noisy number of rows, and how the numbers came about."""
        config = self._config
        sentence = (
            f"Noisy number of held-out rows with a known '{self._tables.label}'. Boosted trees were trained on "
            "synthetic rows, their numbers made whole, and held-out rows counted by bin of prediction and label. "
            "Ranges (95 %) are from the known noise alone, drawn again about the noisy counts; chance in who was held "
            "out is not in them."
        )
        unknown = [one for place, one in enumerate(self._classes) if place not in found.classes]
        if unknown:
            sentence += f" Noise hides the classes {', '.join(unknown)}; they are left out of means over classes."
        if self._tables.left_out:
            sentence += f" About {max(self._tables.left_out, 0):,.0f} rows without a label were left out."
        untold = [name for name in config.groups if name not in charged_groups(config) and name != config.label]
        if untold:
            sentence += f" Groups of {', '.join(untold)} have too many declared values to be told apart."
        return self._evidence("rows", "Rows tested on", found.rows, sentence, unit="rows")

    def table(self) -> ChargedEvidence:
        """Return the noisy counts by guess and label."""
        counts = self._tables.counts.sum(axis=1)
        error = BAR * self._tables.noise_std * math.sqrt(self._tables.counts.shape[1])
        rows: list[tuple[Cell, ...]] = [
            (guess, *(float(round(count)) for count in row)) for guess, row in zip(self._classes, counts, strict=True)
        ]
        header = ("guessed", *(f"is {name}" for name in self._classes))
        sentence = f"Held-out rows by guess and label, each ± {error:,.0f} rows (95 %, noise alone)."
        nothing = Measure(None, None)
        return self._evidence(
            "table", "Guesses and labels", nothing, sentence, table=Table("Rows", header, tuple(rows))
        )

    def group(self, name: str, counts: NDArray[np.float64], noise_std: float) -> ChargedEvidence:
        """Return measures for every value of a column of groups, and how far their accuracies lie apart."""
        labels = self._config.schema.modelled_column(name).texts(missing="missing")
        told = [
            table_measures(counts[..., place], noise_std, seed=self._config.seed + place)
            for place in range(counts.shape[3])
        ]
        rows = []
        for label, found in zip(labels, told, strict=True):
            cells: list[Cell] = [label, round(found.rows.value or 0.0)]
            for measure in (found.measures[one] for one in _BY_GROUP):
                cells += [measure.value, measure.error]
            rows.append(tuple(cells))
        known = [found.measures["accuracy"] for found in told if found.measures["accuracy"].value is not None]
        gap = Measure(None, None)
        if len(known) > 1:
            low, high = (pick(known, key=lambda one: one.value or 0.0) for pick in (min, max))
            error = math.hypot(low.error or 0.0, high.error or 0.0)
            gap = Measure((high.value or 0.0) - (low.value or 0.0), error)
        titles = [heading for one in _BY_GROUP for heading in (_TITLES[one], f"{_TITLES[one]}, ±")]
        return self._evidence(
            f"groups.{name}",
            f"Widest gap of accuracy between groups of {name}",
            gap,
            f"Measures for every value of '{name}' that noise does not hide; the widest of several gaps is too wide "
            "rather than too narrow.",
            table=Table(f"Predictions by {name}", (name, "rows (noisy)", *titles), tuple(rows)),
        )
