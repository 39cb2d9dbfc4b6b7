"""How accurate a release will be, before anything is spent: computed from declared facts alone, no row is read.

The noise of every question is planned with the code that the private session uses, so the forecast is exact:
:class:`PlannedSession` answers every question with zeros and the receipt that the real session would write. Questions
follow from the schema, the options and the budget alone, so the noise is known before a row is read. The forecast is
about noise only: the error of a generator's model comes on top, and its smoothing reduces it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from typing import Any, Literal

from synth.errors import BudgetExceededError, ConfigError, PrivacyError
from synth.estimators import describe, make, promised_epsilon
from synth.generators import PURE, GeneratorTask
from synth.privacy.accounting import SLACK_ALLOWANCE, PrivacyBudget, epsilon_of, mu_of_budget
from synth.privacy.answers import AnswerSource, AnswerT, NoisyAnswer, RowCount, of_kind
from synth.privacy.costs import between_neighbours
from synth.privacy.feature_maps import Constant, OneHot
from synth.privacy.more.perturbed_rows import RowsPlan, RowsQuestion
from synth.privacy.questions import Allowance, Answer, Question, plan_of
from synth.privacy.receipt import Receipt
from synth.progress import NullProgress
from synth.reports.code_tables import coarse_bins, coarse_size
from synth.reports.expected import (
    Basis,
    BudgetShare,
    CellForecast,
    ColumnNoise,
    Forecast,
    ModelForecast,
    PairForecasts,
    PredictionForecast,
    promise_of,
)
from synth.reports.holdout import PREDICTION_QUERY, holdout_losses, holdout_tables, planned_question
from synth.reports.measured import EVALUATION_QUERY, MeasuredTable, evaluation_question, measured_tables
from synth.schema import RunConfig, Schema, column_title

__all__ = [
    "PREDICTIONS",
    "AllPlannedError",
    "PlannedSession",
    "UnplannedError",
    "budget_parts",
    "forecast",
    "one_way_noise",
    "pure_refusal",
    "smallest_epsilon",
]

PREDICTIONS = "predictions"
"""Name of the part of a budget that pays for predictions on the hold-out."""

ROW_COUNT_SHARE = 0.02
"""Share of mu^2 that measures the number of rows if it is private."""

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-3, 100.0


def pure_refusal(config: RunConfig) -> str | None:
    """Say in one sentence why a generator or model cannot run with a delta of 0, or return None where it can."""
    card = describe(config.generator)
    if config.delta or card.answers_pure:
        return None
    return (
        f"{card.kind} '{card.name}' asks more than counts and private choices, and only these can be answered with a "
        f"delta of 0. Choose {', '.join(PURE[:-1])} or {PURE[-1]} (4 Generate), or a delta above 0, for example 1e-6 "
        "(3 Budget)."
    )


def budget_parts(config: RunConfig) -> tuple[BudgetShare, ...]:
    """Return how a run divides its budget; the shares of mu^2 add up to 1."""
    config, parts, card = config.asked, [], describe(config.generator)
    refusal = pure_refusal(config)
    if refusal is not None:
        raise ConfigError(refusal)
    if not config.schema.rows_are_public:
        parts.append(BudgetShare("row count", f"How many {config.schema.unit.counted} are there?", ROW_COUNT_SHARE))
    # If no sum may be asked, or no row is made, nothing is evaluated.
    sums = config.schema.allows_sums and not config.is_model
    if sums and config.evaluation_share > 0 and not _measures_one_ways(config):
        parts.append(BudgetShare("evaluation", "How often is each value of each column?", config.evaluation_share))
    if config.prediction_share > 0:
        trained = "by the model" if config.is_model else "after training on synthetic ones"
        question = f"How well is '{config.label}' of held-out rows predicted {trained}?"
        parts.append(BudgetShare(PREDICTIONS, question, config.prediction_share))
    left = 1 - math.fsum(part.share for part in parts)
    if left <= 0:
        raise ConfigError(
            "evaluation_share and prediction_share leave nothing for the generator. Choose smaller shares, for example "
            "0.1 and 0.05."
        )
    return (*parts, BudgetShare(card.kind, f"What '{config.generator}' learns from", left))


def _measures_one_ways(config: RunConfig) -> bool:
    """Return whether the generator's answers will contain a one-way table of every column; noisy rows do not."""
    task = GeneratorTask.of(config, device="cpu")
    generator = make(config.generator, task, config.options)
    return generator.card.measures_one_ways and not generator.perturbs_rows


def forecast(config: RunConfig) -> Forecast:
    """Forecast the noise of a run.

    Raises
    ------
    ConfigError
        If the generator or an option is unknown.
    """
    config = config.asked
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    rows = _measured_rows(config)
    session = PlannedSession(config.schema, budget, rows=rows)
    parts = budget_parts(config)
    shares = {part.name: part.share for part in parts}
    row_count_std = 0.0
    if "row count" in shares:
        count = session.noisy_sum(Constant(), share=shares["row count"], query="number of rows", source="forecast")
        row_count_std = count.noise_std
    if "evaluation" in shares:
        question = evaluation_question(config.schema)
        session.noisy_sum(question, share=shares["evaluation"], query=EVALUATION_QUERY, source="forecast")
    prediction = _prediction(config, session, shares[PREDICTIONS]) if PREDICTIONS in shares else None
    task = GeneratorTask.of(config, device="cpu")
    generator = make(config.generator, task, config.options)
    before = len(session.answers)
    if config.is_model or generator.card.measures_one_ways or generator.perturbs_rows:
        try:
            with suppress(AllPlannedError):
                generator.fit(session.sub_session(session.remaining_share, ends=True), NullProgress())
        except UnplannedError:
            # Questions up to the first private choice are known in advance; later ones depend on the rows.
            if not _planned_rows(session):
                parts = (*parts[:-1], *_around_the_choices(parts[-1], session.answers[before:], budget, config))
        else:
            parts = (*parts[:-1], *_question_by_question(parts[-1], session.answers[before:], budget))
    of_model = None
    if config.is_model:
        parts = _steps_together(parts, generator.card.questions)
        of_model = ModelForecast(generator.expected(session.answers[before:], rows), generator.assumptions)
    row_noise, row_epsilon = _row_noise(session, config)
    tables = measured_tables(session.sums)
    return Forecast(
        epsilon=promised_epsilon(config),
        delta=config.delta,
        people=config.people_at_most,
        rows=rows,
        rows_sentence=_rows_sentence(config, rows),
        counted=config.schema.unit.counted,
        promise=promise_of(
            promised_epsilon(config),
            config.delta,
            pure=not config.schema.allows_sums,
        ),
        columns=_columns(config, tables, rows),
        pairs=_pairs(config, budget, tables, rows),
        row_count_std=row_count_std,
        parts=parts,
        row_noise=row_noise,
        row_epsilon=row_epsilon,
        prediction=prediction,
        of_model=of_model,
    )


def _measured_rows(config: RunConfig) -> float:
    """Return how many rows are measured if each unit has one, with the declared number or upper bound of units."""
    return _units(config) * (1 - config.holdout)


def _units(config: RunConfig) -> int:
    """Return the declared number of units if it is public, else the declared upper bound."""
    return config.schema.number_of_units or config.people_at_most


def _rows_sentence(config: RunConfig, rows: float) -> str:
    """Say which rows shares of rows refer to, and how they change with the number of units or rows."""
    unit = config.schema.unit
    counted = unit.counted
    several = unit.rows_per_unit > 1
    bound = "number" if config.schema.number_of_units else "upper bound"
    which = f"the declared {bound} of {_units(config):,} (unit: {unit.protects})"
    which += ", one row each" if several else ""
    which += f", less the {config.holdout:.0%} held out" if config.holdout else ""
    more = f"; with up to {unit.rows_per_unit} rows each, smaller by up to that factor" if several else ""
    said = f"Shares of {counted} refer to {rows:,.0f} {counted}: {which}"
    if counted != "rows":
        said = f"Each {unit.protects} counts once, however many rows are kept together. {said}"
    if config.schema.number_of_units:
        return f"{said}{more}."
    return f"{said}. With fewer units they are larger in proportion{more}."


def _prediction(config: RunConfig, session: PlannedSession, share: float) -> PredictionForecast:
    """Plan the question about the hold-out; trees change no noise."""
    held = session.sub_session(share)
    release = held.noisy_sum(planned_question(config), share=1.0, query=PREDICTION_QUERY, source="forecast")
    rows = _units(config) * config.holdout
    held_out = [replace(release, receipt=replace(release.receipt, part="holdout"))]
    losses = holdout_losses(held_out)
    if losses is not None:
        by_group = tuple((one.column, len(one.losses), one.noise_std) for one in losses.groups)
        return PredictionForecast(rows, 1, losses.overall.noise_std, by_group, number=True)
    tables = holdout_tables(held_out)
    if tables is None:
        raise ConfigError("The predictions of this run cannot be planned.")
    groups = [(name, counts.shape[3], noise_std) for name, counts, noise_std in tables.groups]
    bins = math.prod(tables.predictor.shape)
    return PredictionForecast(rows, bins, tables.noise_std, tuple(groups))


def _planned_rows(session: PlannedSession) -> list[tuple[RowsQuestion, RowsPlan]]:
    """Return the questions that release rows one by one, and their noise."""
    return [
        (question, plan)
        for question, plan in session.unforeseen
        if isinstance(question, RowsQuestion) and isinstance(plan, RowsPlan)
    ]


def _row_noise(session: PlannedSession, config: RunConfig) -> tuple[tuple[ColumnNoise, ...], float | None]:
    """Return the noise on every column if rows are released, and what noise on cells is worth for a whole row."""
    found, row_epsilon = [], None
    for question, plan in _planned_rows(session):
        names = [table.column for table in question.tables]
        found += [ColumnNoise(name, std) for name, std in zip(names, plan.noise_stds, strict=True)]
        row_epsilon = plan.worth_for_a_row(config.delta)
    return tuple(found), row_epsilon


def _question_by_question(
    generator: BudgetShare, asked: Sequence[Answer], budget: PrivacyBudget
) -> tuple[BudgetShare, ...]:
    """Divide a generator's part into its questions, if it has several; the last gets what rounding left."""
    if len(asked) < 2:
        return (generator,)
    shares = [answer.receipts[0].units / budget.units for answer in asked[:-1]]
    shares.append(generator.share - math.fsum(shares))
    return tuple(
        BudgetShare(answer.query, generator.question, share) for answer, share in zip(asked, shares, strict=True)
    )


def _steps_together(parts: Sequence[BudgetShare], words: Mapping[str, str]) -> tuple[BudgetShare, ...]:
    """Merge consecutive questions that differ only in a number at the end, such as the steps of a descent."""
    found = []
    for name, same in groupby(parts, key=lambda part: part.name.rstrip("0123456789").strip()):
        steps = tuple(same)
        first, share = steps[0], math.fsum(part.share for part in steps)
        title = first.name if len(steps) == 1 else f"{name}, {len(steps)} times"
        found.append(BudgetShare(title, words.get(first.name, first.question), share))
    return tuple(found)


def _around_the_choices(
    generator: BudgetShare, first: Sequence[Answer], budget: PrivacyBudget, config: RunConfig
) -> tuple[BudgetShare, ...]:
    """Divide a generator's part into the questions before its first private choice, and everything after them."""
    words = describe(config.generator).questions
    known = [
        BudgetShare(
            answer.query,
            words.get(answer.query, "What is measured before columns are chosen"),
            answer.receipts[0].units / budget.units,
        )
        for answer in first
    ]
    left = generator.share - math.fsum(part.share for part in known)
    chosen = BudgetShare("private choices", "Which columns depend on each other most, and how?", left)
    return (*known, chosen)


def smallest_epsilon(config: RunConfig, rows: float, *, of: Literal["columns", "pairs"] = "columns") -> float:
    """Return the smallest epsilon at which the error of every count is at most ``rows`` with 95 % probability.

    Parameters
    ----------
    config : RunConfig
        The run; its epsilon is not used.
    rows : float
        Required half width, in rows; positive.
    of : {"columns", "pairs"}
        Which counts.

    Returns
    -------
    float
        Rounded up to four digits, from 0.001 to 100.

    Raises
    ------
    ConfigError
        If even epsilon 100 is not enough, or nothing measures such counts.
    """
    counted = config.asked.schema.unit.counted
    if not (math.isfinite(rows) and rows > 0):
        raise ConfigError(f"The wanted error must be a positive number of {counted}, got {rows:g}.")
    widest = _widest(config, 1.0, of)
    if widest is None:
        raise ConfigError("This run measures no such counts. Raise evaluation_share above 0.")
    # Noise is inversely proportional to mu, or where delta is 0 to epsilon, apart from the rounding of grids, which the
    # loop corrects.
    times = widest / rows
    epsilon = epsilon_of((mu_of_budget(1.0, config.delta) * times) ** 2, config.delta) if config.delta else times
    epsilon = _rounded_up(max(min(epsilon, 2 * LARGEST_EPSILON), SMALLEST_EPSILON))
    while epsilon <= LARGEST_EPSILON:
        reached = _widest(config, epsilon, of)
        if reached is not None and reached <= rows:
            return epsilon
        epsilon = _rounded_up(epsilon * (1 + 1e-4))
    raise ConfigError(f"Not even epsilon {LARGEST_EPSILON:g} brings every count within {rows:g} {counted}.")


def one_way_noise(config: RunConfig) -> float:
    """Return the standard error, in rows, of one-way tables that share a run's whole budget: that of the control."""
    if not config.schema.allows_sums:
        # One cell moves two counts of one column's table by 1 each: Laplace noise of scale 2 / epsilon on every count.
        return 2 * math.sqrt(2.0) / config.epsilon
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    session = PlannedSession(config.schema, budget, rows=1.0)
    session.noisy_sum(evaluation_question(config.schema), share=1.0, query=EVALUATION_QUERY, source="forecast")
    return max(table.noise_std for table in measured_tables(session.sums))


def _columns(config: RunConfig, tables: Sequence[MeasuredTable], rows: float) -> tuple[CellForecast, ...]:
    found: dict[str, CellForecast] = {}
    for table in tables:
        basis: Basis = "evaluation" if table.query == EVALUATION_QUERY else "generator"
        for axis, name in enumerate(table.columns):
            # Adding up the cells of the other columns adds their variances.
            noise = table.noise_std * math.sqrt(table.counts.size / table.counts.shape[axis])
            if name not in found or noise < found[name].noise_std:
                words = (column_title(config.schema, name),)
                found[name] = CellForecast.of(words, table.counts.shape[axis], noise, rows, basis)
    return tuple(found[name] for name in config.schema.names if name in found)


def _pairs(config: RunConfig, budget: PrivacyBudget, tables: Sequence[MeasuredTable], rows: float) -> PairForecasts:
    names = config.schema.names
    if len(names) < 2 or not config.schema.allows_sums or config.is_model:
        return PairForecasts()
    place_of = {name: place for place, name in enumerate(names)}
    measured = {
        tuple(sorted(table.columns, key=place_of.__getitem__)): table
        for table in reversed(tables)
        if len(table.columns) == 2
    }
    titles = {name: column_title(config.schema, name) for name in names}
    return PairForecasts(
        names=tuple(titles.values()),
        bins=tuple(coarse_size(column) for column in config.schema.modelled),
        noise_std=_noise_of_every_pair(config, budget),
        rows=rows,
        measured={
            frozenset(pair): CellForecast.of(pair, table.counts.size, table.noise_std, rows, "generator")
            for pair, table in ((tuple(titles[name] for name in names), table) for names, table in measured.items())
        },
    )


def _noise_of_every_pair(config: RunConfig, budget: PrivacyBudget) -> float:
    """Return the noise if every pair is asked with an equal share of the budget; all tables have the same bound."""
    session = PlannedSession(config.schema, budget, rows=1.0)
    two = sorted(config.schema.modelled, key=lambda column: -coarse_size(column))[:2]
    bins = tuple(coarse_bins(column) for column in two)
    question = OneHot(columns=tuple(column.name for column in two), bins=bins, sizes=tuple(one.size for one in bins))
    share = 1 / math.comb(len(config.schema.names), 2)
    return session.noisy_sum(question, share=share, query="pair", source="forecast").noise_std


def _widest(config: RunConfig, epsilon: float, of: Literal["columns", "pairs"]) -> float | None:
    found = forecast(replace(config, epsilon=epsilon))
    if of == "pairs":
        return None if found.pairs.range95 is None else found.pairs.range95[1]
    return max((cell.range95 for cell in found.columns), default=None)


def _rounded_up(epsilon: float) -> float:
    scale = 10.0 ** (3 - math.floor(math.log10(epsilon)))
    return math.ceil(epsilon * scale * (1 - 1e-9)) / scale


# A session that plans -------------------------------------------------------------------------------------------------


_DUST = 1e-9
"""Share of a budget that rounding may leave; no question is asked with less."""


class UnplannedError(PrivacyError):
    """The next question depends on the rows, so it cannot be planned without them."""


class AllPlannedError(PrivacyError):
    """The budget is planned in full, so what a generator would learn from the last answer need not be computed."""


class PlannedSession(AnswerSource):
    """A session without rows, which plans noise as the real one does and answers zeros.

    Parameters
    ----------
    schema : Schema
        The declared table.
    budget : PrivacyBudget
        The whole budget.
    rows : float
        Declared number of rows.
    """

    __slots__ = ("_ends", "_root_units", "_spent_units", "_units", "answers", "budget", "rows", "schema", "unforeseen")

    schema: Schema
    budget: PrivacyBudget
    rows: RowCount

    def __init__(self, schema: Schema, budget: PrivacyBudget, *, rows: float) -> None:
        self.schema, self.budget = schema, budget
        self.rows = RowCount(rows, 0.0, public=True)
        self.answers: list[Answer] = []
        self.unforeseen: list[tuple[Question[Any, Any], Any]] = []
        """Questions whose noise is planned, but not what follows from their answers, with their plans."""
        self._units = self._root_units = budget.units
        self._spent_units = 0
        self._ends = False

    @property
    def sums(self) -> tuple[NoisyAnswer, ...]:
        """The noisy sums among the answers."""
        return of_kind(self.answers, NoisyAnswer)

    @property
    def remaining_share(self) -> float:
        """Share of this session's budget that is left."""
        return (self._units - self._spent_units) / self._units

    def sub_session(self, share: float, *, ends: bool = False) -> PlannedSession:
        """Set a share aside; its questions are collected with the others.

        With ``ends``, the question that uses it up raises :class:`AllPlannedError` after it has been planned.
        """
        view = object.__new__(PlannedSession)
        view.schema, view.budget, view.rows = self.schema, self.budget, self.rows
        view.answers, view.unforeseen = self.answers, self.unforeseen
        view._root_units, view._spent_units = self._root_units, 0
        view._units = self._charged(share)
        view._ends = ends
        return view

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Plan a question and answer zeros.

        Raises
        ------
        UnplannedError
            If the next question depends on the answer, and so on the rows. The noise of this question is kept.
        AllPlannedError
            If this was the last question.
        """
        question.check(self.schema)
        units = self._charged(share)
        slack = SLACK_ALLOWANCE * units / self._root_units
        between = partial(between_neighbours, schema=self.schema)
        added = math.fsum(receipt.additive_delta for one in self.answers for receipt in one.receipts)
        plan = plan_of(question, Allowance(self.schema, self.budget, units, slack, between, added))
        if question.unforeseen:
            self.unforeseen.append((question, plan))
            which = question.unforeseen.format(query=query)
            raise UnplannedError(f"{which} depends on the rows and cannot be planned without them.")
        receipts = tuple(
            Receipt.of(cost, self.schema, query=query, source=source, sequence=len(self.answers) + place, private=False)
            for place, cost in enumerate(plan.costs)
        )
        answer = question.foreseen(receipts, plan)
        self.answers.append(answer)
        if self._ends and self.remaining_share < _DUST:
            raise AllPlannedError("Every question is planned.")
        return answer

    def _charged(self, share: float) -> int:
        units = math.floor(self._units * Fraction(share))
        if not 0 < units <= self._units - self._spent_units:
            raise BudgetExceededError(f"A share of {share:.6g} is not left; {self.remaining_share:.6g} is.")
        self._spent_units += units
        return units
