"""Exact numbers of a rehearsal: they are safe to publish, because its rows were declared public.

The same functions read private rows for the owner. Only here are their results turned into safe ones, and only a
rehearsal may use it (a test ensures that).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.generators.protocol import GeneratorTask, PrivateModel, ReleasedModel
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence, SafeEvidence, evidence_from_dict
from synth.reports.evidence import evidence_to_dict as to_dict

__all__ = ["REHEARSAL_SENTENCE", "SIMULATED_SENTENCE", "STAND_IN_SENTENCE", "error_of_model", "of_stand_in"]

STAND_IN_SENTENCE = (
    "Stand-in data. Results for your table may be better or worse; they are closer if it resembles this one."
)

SIMULATED_SENTENCE = (
    "Simulated rows, drawn from declarations only. Your rows differ in everything that is not declared."
)

REHEARSAL_SENTENCE = (
    "A rehearsal reads no private row and costs nothing. It says nothing about your private rows unless the stand-in "
    "resembles them."
)
"""The sentence shown with every number of a rehearsal."""

_WORDS = (("private rows", "stand-in rows"), ("real rows", "stand-in rows"))


def of_stand_in(
    evidence: Iterable[OwnerOnlyEvidence], *, sentence: str = STAND_IN_SENTENCE
) -> tuple[SafeEvidence, ...]:
    """Return numbers from stand-in rows as safe ones, with words and colours that say so.

    Parameters
    ----------
    evidence : iterable of OwnerOnlyEvidence
        The numbers from public or simulated rows.
    sentence : str
        What to say about the rows, in place of the owner's warning.
    """
    words = ((OWNER_ONLY_SENTENCE, sentence), *_WORDS)
    found = []
    for entry in evidence:
        body = _said(to_dict(entry), words) | {"id": entry.id, "kind": SafeEvidence.kind}
        found.append(evidence_from_dict(body))
    return tuple(entry for entry in found if isinstance(entry, SafeEvidence))


def error_of_model(model: PrivateModel, codes: NDArray[np.int64], task: GeneratorTask) -> tuple[SafeEvidence, ...]:
    """Return the error of a predicting model on held-out stand-in rows; nothing for other models.

    Parameters
    ----------
    model : PrivateModel
        Fitted.
    codes : array of shape (n_rows, n_modelled)
        Public rows of a stand-in. Rows whose label is missing, or not a number of its range, are left out.
    task : GeneratorTask
        Says which column is predicted.
    """
    if not isinstance(model, ReleasedModel) or not model.card.predicts or task.label is None:
        return ()
    label = task.schema.modelled_column(task.label)
    true = codes[:, task.schema.names.index(task.label)]
    known = true < label.levels if label.levels else true != label.missing_code
    if not known.any():
        return ()
    predicted, true = model.predict(codes[known]), true[known]
    if predicted.ndim == 2:
        right, usual = predicted.argmax(axis=1) == true, np.bincount(true).max() / len(true)
        value, title, unit = 100 * float(right.mean()), "Right on held-out rows", "%"
        beside = f"Always predicting the most common value: {100 * usual:.3g} %."
    else:
        numbers = label.grid_at(true)
        errors = numbers - predicted
        value, title, unit = float(np.sqrt(np.mean(errors**2))), "Error on held-out rows", ""
        beside = f"Root mean square error; always predicting the mean: {float(np.std(numbers)):.4g}."
    return (SafeEvidence(id="model.on_stand_in", title=title, value=value, unit=unit, sentence=beside),)


def _said(value: Any, words: Sequence[tuple[str, str]], key: str = "") -> Any:
    """Replace words in everything that is shown, except in names of columns and in cells."""
    if isinstance(value, dict):
        return {name: _said(inner, words, name) for name, inner in value.items()}
    if isinstance(value, list):
        return value if key in {"categories", "rows", "names"} else [_said(inner, words, key) for inner in value]
    if key == "meaning":
        return "stand_in" if value == "real" else value
    if key == "header" and value == "private":
        return "stand-in"
    if isinstance(value, str):
        for private, public in words:
            value = value.replace(private, public)
    return value
