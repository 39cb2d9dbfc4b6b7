"""Exact numbers of a rehearsal: read from rows that somebody declared public, so they are safe.

The same functions read private rows for the owner; their results are turned into safe ones here and nowhere else, and
only a rehearsal may ask for it (a test holds that).
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

STAND_IN_SENTENCE = "Stand-in data. Yours may do better or worse; more like this if your table resembles it."

SIMULATED_SENTENCE = "Simulated rows, drawn from declarations alone. Yours differ in all that was not declared."

REHEARSAL_SENTENCE = (
    "A rehearsal reads no private row and costs nothing. It says nothing about your private rows unless the stand-in "
    "is like them."
)
"""What is said wherever numbers of a rehearsal are shown."""

_WORDS = (("private rows", "stand-in rows"), ("real rows", "stand-in rows"))


def of_stand_in(
    evidence: Iterable[OwnerOnlyEvidence], *, sentence: str = STAND_IN_SENTENCE
) -> tuple[SafeEvidence, ...]:
    """Return numbers read from stand-in rows as safe ones, in words and colours that say so.

    Parameters
    ----------
    evidence : iterable of OwnerOnlyEvidence
        Of public rows, or of rows that were simulated.
    sentence : str
        What is said of the rows, in place of the owner's warning.
    """
    words = ((OWNER_ONLY_SENTENCE, sentence), *_WORDS)
    found = []
    for entry in evidence:
        body = _said(to_dict(entry), words) | {"id": entry.id, "kind": SafeEvidence.kind}
        found.append(evidence_from_dict(body))
    return tuple(entry for entry in found if isinstance(entry, SafeEvidence))


def error_of_model(model: PrivateModel, codes: NDArray[np.int64], task: GeneratorTask) -> tuple[SafeEvidence, ...]:
    """Return how a model that predicts does on stand-in rows that it was not fitted to; nothing of any other.

    Parameters
    ----------
    model : PrivateModel
        Fitted.
    codes : array of shape (n_rows, n_modelled)
        Rows of a stand-in, which are public. Those whose label is missing or no number of its range are left out.
    task : GeneratorTask
        Says which column is foretold.
    """
    if not isinstance(model, ReleasedModel) or not model.card.predicts or task.label is None:
        return ()
    label = task.schema.modelled_column(task.label)
    true = codes[:, task.schema.names.index(task.label)]
    numbers = label.grid()
    known = true < len(numbers) if len(numbers) else true != label.missing_code
    if not known.any():
        return ()
    foretold, true = model.predict(codes[known]), true[known]
    if foretold.ndim == 2:
        right, usual = foretold.argmax(axis=1) == true, np.bincount(true).max() / len(true)
        value, title, unit = 100 * float(right.mean()), "Right on held-out rows", "%"
        beside = f"Always the commonest value: {100 * usual:.3g} %."
    else:
        errors = numbers[true] - foretold
        value, title, unit = float(np.sqrt(np.mean(errors**2))), "Error on held-out rows", ""
        beside = f"Root of the mean square; always the mean: {float(np.std(numbers[true])):.4g}."
    return (SafeEvidence(id="model.on_stand_in", title=title, value=value, unit=unit, sentence=beside),)


def _said(value: Any, words: Sequence[tuple[str, str]], key: str = "") -> Any:
    """Go through all that is shown; names of columns and cells, in categories and rows, are left as they are."""
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
