"""Make what a bundle holds again from the rest of it: its rows, its report, its questions, its model.

Checks compare what is made here with what was sealed; a replay writes it for the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.bundle.archive import canonical_json
from synth.bundle.certificate import Certificate, current_versions
from synth.bundle.measurements import Measurements
from synth.bundle.model_file import ModelCard, differing
from synth.bundle.recorded_session import AllAskedError, RecordedSession, Repeated
from synth.errors import VerificationError
from synth.estimators import DrawnRows, drawn_rows, make, restore, rows_as_asked
from synth.generators import Generator, GeneratorTask, PrivateModel, State
from synth.generators.protocol import ReleasedModel
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import ROW_COUNT_QUERY, NoisyAnswer, RowCount, of_kind
from synth.privacy.feature_maps import Constant, FeatureMap
from synth.progress import NullProgress, Progress
from synth.reports.code_tables import compare_marginals
from synth.reports.document import published_evidence, published_rows, report_document
from synth.reports.forecast import PREDICTIONS, budget_parts
from synth.reports.holdout import PREDICTION_QUERY, model_question, trained_question
from synth.reports.measured import EVALUATION_QUERY, evaluation_question
from synth.schema import RunConfig, Schema
from synth.system.machine import device_name, is_lack_of_means, one_thread, resolved_device

__all__ = [
    "MOST_DISTANCE",
    "Agreement",
    "agreement_of_models",
    "asked_again",
    "device_again",
    "differs_elsewhere",
    "distance_of_tables",
    "fitted_by",
    "report_of",
    "restored",
    "rows_again",
    "rows_measured",
]

MOST_DISTANCE = 0.02
"""Largest mean total variation distance between the marginals of a sealed model and of the same answers fitted again
with other versions or on another processor. Last bits of a fit move single rows; another model is further away."""

_ROWS_OF_MODELS = 20_000
"""Rows that are drawn of two models, with the same public seed, to compare their marginals."""


# Where a difference is no proof -------------------------------------------------------------------------------------


def differs_elsewhere(certificate: Certificate, *, device: str | None = None) -> str:
    """Return what was different when a bundle was made: versions, processor or device; empty if nothing was.

    Where it is empty, everything that follows from a bundle can be made again to the last bit.

    Parameters
    ----------
    certificate : Certificate
    device : str, optional
        What fits here, "cpu" or "cuda"; where nothing is fitted, the device plays no part, as the processor draws rows.
    """
    here, stated = current_versions(), dict(certificate.versions)
    names = sorted(name for name in here.keys() | stated.keys() if here.get(name) != stated.get(name))
    found = [f"{name} {stated.get(name, 'none')} (here {here.get(name, 'none')})" for name in names]
    if device is not None and certificate.device != device_name(device):
        found.append(f"{certificate.device} (here {device_name(device)})")
    return ", ".join(found)


def device_again(certificate: Certificate, config: RunConfig) -> str:
    """Return the device to compute on again: as the configuration asks for if the certificate states a graphics card.

    "auto" means the card for the work that suits it: that the run took the card was decided then, and is not again.

    Without a card the processor is used.
    """
    asked = "cpu" if certificate.device == "cpu" else config.device
    return "cpu" if asked == "cuda" and resolved_device("auto") == "cpu" else asked


# Rows and report ----------------------------------------------------------------------------------------------------


def restored(card: ModelCard, state: State) -> PrivateModel:
    """Rebuild a sealed generator or model, which is untrusted.

    Raises
    ------
    VerificationError
        If it cannot be rebuilt.
    """
    with _of_untrusted("model.safetensors cannot be used"):
        return restore(card.generator, card.task, card.options, state)


@one_thread()
def rows_again(fitted: PrivateModel, config: RunConfig) -> DrawnRows:
    """Draw the rows of a sealed generator, which is untrusted; a model has none.

    Raises
    ------
    VerificationError
        If no rows can be drawn from it.
    """
    with _of_untrusted("No rows can be drawn from model.safetensors"):
        return drawn_rows(fitted, config)


@contextmanager
def _of_untrusted(problem: str) -> Iterator[None]:
    """Raise a :class:`VerificationError` where a library stumbles over a state that no fit leaves."""
    try:
        yield
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if is_lack_of_means(error):
            raise
        raise VerificationError(f"{problem}: it was altered or damaged. Ask for the bundle again.") from None


@one_thread()
def report_of(known: Measurements, config: RunConfig, fitted: PrivateModel, drawn: DrawnRows) -> bytes:
    """Return report.json: what the rows, the answers and the model say."""
    evidence = published_evidence(
        rows_as_asked(drawn, config),
        known.sums,
        config.asked,
        rows=known.rows,
        facts=(*fitted.facts(), *drawn.facts),
        pictures=fitted.pictures(),
        receipts=[receipt for answer in known.answers for receipt in answer.receipts],
    )
    return canonical_json(report_document(evidence))


# Questions and model ------------------------------------------------------------------------------------------------


def rows_measured(known: Measurements) -> RowCount:
    """Return how many rows the answers are about, public or noisy.

    Raises
    ------
    VerificationError
        If the bundle does not say.
    """
    rows = known.rows or published_rows(known.sums)
    if rows is None:
        raise VerificationError(
            "The bundle does not say how many rows were measured, so the answers cannot be fitted again."
        )
    return rows


@one_thread()
def asked_again(
    known: Measurements,
    config: RunConfig,
    *,
    device: str,
    fit: bool,
    trained: bool = True,
    progress: Progress | None = None,
) -> tuple[PrivateModel | None, Repeated]:
    """Ask every question of a run again, of its recorded answers, as the run asked them of the rows.

    Parameters
    ----------
    known : Measurements
    config : RunConfig
    device : str
        "auto", "cpu" or "cuda".
    fit : bool
        Whether to fit the generator or model to the last answers too. Otherwise it is stopped once all answers were
        given to it.
    trained : bool
        Where rows are fitted, whether to train the predictors of held-out rows again too.
    progress : Progress, optional

    Returns
    -------
    fitted : PrivateModel or None
        None if it was stopped.
    repeated : Repeated
        The receipts that the questions should have, and how the recorded ones differ.

    Raises
    ------
    PrivacyError
        If a question is asked that was not answered, or another one.
    """
    asked = config.asked
    schema = asked.schema
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=schema.neighbours)
    own = frozenset(answer.query for answer in known.answers) - {PREDICTION_QUERY}
    session = RecordedSession(
        schema, budget, rows=rows_measured(known), answers=known.answers, ends=frozenset() if fit else own
    )
    shares = {part.name: part.share for part in budget_parts(asked)}
    held = session.holdout_session(share=shares[PREDICTIONS]) if PREDICTIONS in shares else None
    fitted = None
    with suppress(AllAskedError):
        if "row count" in shares:
            session.noisy_sum(Constant(), share=shares["row count"], query=ROW_COUNT_QUERY, source="number of rows")
        if "evaluation" in shares:
            session.noisy_sum(
                evaluation_question(schema), share=shares["evaluation"], query=EVALUATION_QUERY, source="report"
            )
        fitted = fitted_by(session.sub_session(session.remaining_share), config, device=device, progress=progress)
    if held is not None:
        questions = [one.feature_map for one in of_kind(known.answers, NoisyAnswer) if one.query == PREDICTION_QUERY]
        if fitted is not None and (trained or isinstance(fitted, ReleasedModel)):
            questions = [_prediction_asked(fitted, config)]
        for question in questions:
            with suppress(AllAskedError):
                held.noisy_sum(question, share=held.remaining_share, query=PREDICTION_QUERY, source="report")
    return fitted, session.repeated


def _prediction_asked(fitted: PrivateModel, config: RunConfig) -> FeatureMap:
    """Return the question about held-out rows: that of a released model, or of what is trained on the drawn rows."""
    if isinstance(fitted, ReleasedModel):
        return model_question(fitted, config.asked)
    return trained_question(rows_as_asked(rows_again(fitted, config), config), config.asked, failed=_raised)


def _raised(error: Exception) -> None:
    raise error


def fitted_by(
    session: RecordedSession, config: RunConfig, *, device: str, progress: Progress | None = None
) -> PrivateModel:
    """Fit the generator or model of a configuration to recorded answers."""
    task = GeneratorTask.of(config, device=device)
    return make(config.generator, task, config.options).fit(session, progress or NullProgress())


# How far apart --------------------------------------------------------------------------------------------------------


def distance_of_tables(one: NDArray[np.int64], other: NDArray[np.int64], schema: Schema, *, seed: int) -> float:
    """Return the mean total variation distance of the marginals of two tables of codes, over columns and pairs.

    Numbers and dates are compared in at most 32 public bins.
    """
    columns = [[table[:, place] for place in range(table.shape[1])] for table in (one, other)]
    found = compare_marginals(columns, schema, coarse=True, seed=seed)
    means = [found.by_alpha[alpha].means[0] for alpha in (1, 2)]
    return float(np.mean([mean for mean in means if mean is not None]))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two models that were fitted to the same answers agree.

    Attributes
    ----------
    differing : tuple of str
        Names of the tensors that differ in any bit.
    distance : float, optional
        How far apart the models are in their own marginals: mean total variation distance over columns and pairs, of
        rows drawn with the same public seed; for released models the largest difference of a tensor, relative to its
        largest number. None if the tensors do not even have the same shapes, or a number is not finite.
    """

    differing: tuple[str, ...]
    distance: float | None = 0.0

    @property
    def identical(self) -> bool:
        """Whether they are the same to the last bit."""
        return not self.differing

    @property
    def is_close(self) -> bool:
        """Whether other versions, or another processor, can explain the difference."""
        return self.distance is not None and self.distance <= MOST_DISTANCE

    @property
    def sentence(self) -> str:
        """The same in words."""
        if self.identical:
            return "model.safetensors is what the noisy answers give, to the last bit."
        others = f" and {len(self.differing) - 1} more tensors" if len(self.differing) > 1 else ""
        far = "cannot be compared" if self.distance is None else f"are {self.distance:.2g} apart"
        return (
            f"model.safetensors is not what the noisy answers give: it differs in '{self.differing[0]}'{others}. The "
            f"two models {far} in their marginals; up to {MOST_DISTANCE:g} may be due to other versions or another "
            "processor."
        )


@one_thread()
def agreement_of_models(ours: PrivateModel, sealed: PrivateModel, config: RunConfig) -> Agreement:
    """Compare a model that was fitted again with the sealed one; rules are not applied."""
    one, other = ours.state(), sealed.state()
    away = (*sorted(one.keys() ^ other.keys()), *differing(one, other))
    if not away:
        return Agreement(())
    try:
        if isinstance(ours, Generator) and isinstance(sealed, Generator):
            one_table, other_table = (fitted.sample(_ROWS_OF_MODELS, config.seed) for fitted in (ours, sealed))
            return Agreement(away, distance_of_tables(one_table, other_table, config.asked.schema, seed=config.seed))
        return Agreement(away, _largest_difference(one, other))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return Agreement(away, None)


def _largest_difference(one: State, other: State) -> float | None:
    """Return the largest difference of a number, relative to the largest of its tensor; None if shapes differ."""
    if one.keys() != other.keys() or any(one[name].shape != other[name].shape for name in one):
        return None
    gaps = [
        np.abs(one[name].astype(np.float64) - other[name]).max(initial=0.0)
        / max(np.abs(other[name].astype(np.float64)).max(initial=0.0), np.finfo(np.float64).tiny)
        for name in one
    ]
    found = float(max(gaps, default=0.0))
    return found if np.isfinite(found) else None
