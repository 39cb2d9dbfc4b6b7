"""What a run will ask and what it will cost, from declared facts only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache, partial

from synth.errors import ConfigError, PrivacyError, SchemaError
from synth.estimators import delta_added, describe, make, promised_epsilon
from synth.generators import GeneratorTask
from synth.ledger.ledger import Ledger
from synth.ledger.spending import Cost, CostOf, over_cap_error, stays_within_cap
from synth.privacy.accounting import PrivacyBudget
from synth.progress import NullProgress
from synth.reports.expected import NO_LIMIT, Forecast
from synth.reports.forecast import AllPlannedError, PlannedSession, budget_parts, forecast, pure_refusal
from synth.reports.holdout import paid_refusal
from synth.reports.wording import number_text, rounded_up
from synth.schema import Neighbours, RunConfig, config_to_mapping, parse_config, size_problem, undeclared_facts
from synth.schema.contradictions import check_rules
from synth.services.stops import Stops
from synth.services.views import BudgetPart, Plan
from synth.store import Account, Store, check_same_promise

__all__ = [
    "check_config",
    "cost_of_run",
    "forecast_lines",
    "ledger_refusal",
    "plan_run",
    "prediction_lines",
    "totals_with_another",
]

_MOST_PAIRS, _WORST_PAIRS = 1_000, 100
"""The most pairs that are printed; of more pairs, only the worst."""


def check_config(config: RunConfig) -> None:
    """Refuse what a run would refuse, before anything is reserved or read.

    Raises
    ------
    InputError
        If the generator, an option or a rule cannot be used, or a fact is not declared that rows must not reveal.
    """
    problem = size_problem(config.schema.columns) or undeclared_facts(config.schema)
    if problem is not None:
        raise SchemaError(problem)
    config.format.check()
    if config.test_format is not None:
        config.test_format.check()
    task = GeneratorTask.of(config)
    kind = describe(config.generator).kind
    if (kind == "model") != config.is_model:
        raise ConfigError(f"'{config.generator}' is a {kind}: name it under '{kind}:'.")
    pure = pure_refusal(config)
    if pure is not None:
        raise ConfigError(pure)
    make(config.generator, task, config.options)
    _check_steps(config)
    refusal = paid_refusal(describe(config.generator), config) if config.is_model and config.prediction_share else None
    if refusal is not None:
        raise ConfigError(f"{refusal} Leave prediction_share out.")
    check_rules(config.constraints, config.schema)
    _check_written(config)
    # Where units are kept whole, one row is asked for each, so that of rows is the public number of units.
    schema = config.asked.schema
    units = schema.number_of_units
    if units is not None and schema.rows_are_public and round(config.holdout * units) == units:
        who = schema.unit.protects if units == 1 else schema.unit.plural
        raise ConfigError(f"holdout: {config.holdout:g} of {units:,} {who} leaves none to learn from. Hold out fewer.")


def _check_steps(config: RunConfig) -> None:
    """Refuse a training on samples for whose steps no noise is enough, however few rows the noisy count finds.

    Where it finds one row, that is in every sample, and steps cost most.
    """
    if not describe(config.generator).needs.sampling:
        return
    asked = config.asked
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=asked.schema.neighbours)
    (share,) = (part.share for part in budget_parts(asked) if part.name == "generator")
    planned = PlannedSession(asked.schema, budget, rows=1.0).sub_session(share, ends=True)
    try:
        with suppress(AllPlannedError):
            make(config.generator, GeneratorTask.of(config, device="cpu"), config.options).fit(planned, NullProgress())
    except PrivacyError as error:
        raise ConfigError(f"'{config.generator}' cannot train with epsilon {config.epsilon:g}: {error}") from None


def _check_written(config: RunConfig) -> None:
    """Refuse a configuration that Python allows but that its file, which every bundle contains, does not."""
    mapping = config_to_mapping(config.published())
    try:
        json.dumps(mapping, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            "A name or a text of the configuration contains half a character (a lone surrogate), which a file cannot "
            "contain. Type it again."
        ) from None
    parse_config(mapping)


def plan_run(config: RunConfig, *, store: Store, ledger: Ledger) -> Plan:
    """Plan a run, without reading rows or writing anything: its parts, the forecast, the account before and after."""
    check_config(config)
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    account = store.accounts.named(config.account)
    before, after, total, cap, refusal = 0.0, config.epsilon, config.epsilon, None, None
    if account is not None:
        before = ledger.spent(account.id).epsilon
        following = ledger.after(account.id, budget, cost_of=cost_of_run(config))
        after, total, cap = following.epsilon, following.simple_epsilon, account.epsilon_cap
        refusal = ledger_refusal(config, account, budget, ledger, cost_of_run(config))
    stop = Stops(store).of(config)
    expected = forecast(config)
    return Plan(
        parts=_priced_parts(config, expected),
        forecast=expected,
        epsilon_spent_before=before,
        epsilon_after=after,
        simple_sum_after=total,
        epsilon_cap=cap,
        refusal=refusal if stop is None else stop.sentence,
    )


def totals_with_another(
    config: RunConfig, epsilons: Sequence[float], *, store: Store, ledger: Ledger
) -> tuple[float, ...]:
    """Return the composed total that will be spent on these people after this release and another one like it.

    Parameters
    ----------
    config : RunConfig
        The run; its epsilon is not used.
    epsilons : sequence of float
        The epsilon of both releases.
    """
    neighbours = config.schema.neighbours
    account = store.accounts.named(config.account)
    before, delta = Cost(), config.delta
    if account is not None:
        before = Cost.of_charges(ledger.current(account.id))
        delta = ledger.after(account.id, PrivacyBudget(epsilon=1.0, delta=delta, neighbours=neighbours)).delta
    added = delta_added(config)
    return tuple(_epsilon_of_two(before, epsilon, config.delta, neighbours, added, delta) for epsilon in epsilons)


@lru_cache(maxsize=1024)
def _epsilon_of_two(
    before: Cost, epsilon: float, delta: float, neighbours: Neighbours, added: float, at: float
) -> float:
    one = Cost.of_budget(epsilon, delta, neighbours, additive_delta=added)
    return (before + one + one).epsilon(at)


def cost_of_run(config: RunConfig) -> CostOf:
    """Return what the ledger charges for the budget of a run: of delta, a training on samples adds a part."""
    return partial(Cost.of_budget, additive_delta=delta_added(config))


def ledger_refusal(
    config: RunConfig, account: Account, budget: PrivacyBudget, ledger: Ledger, cost_of: CostOf = Cost.of_budget
) -> str | None:
    """Return the message with which the ledger would refuse the budget of a run or a finding, or None."""
    try:
        check_same_promise(account, budget.neighbours, config.schema.unit)
        if budget.neighbours is Neighbours.CELL:
            ledger.check_hidden(account.id, json.dumps(config_to_mapping(config.published())))
    except PrivacyError as error:
        return str(error)
    before = Cost.of_charges(ledger.current(account.id))
    if stays_within_cap(account, before + cost_of(budget.epsilon, budget.delta, budget.neighbours)):
        return None
    return str(over_cap_error(account, before, budget, cost_of))


def _priced_parts(config: RunConfig, expected: Forecast) -> tuple[BudgetPart, ...]:
    """Return the lines of "where the budget goes": shares of mu^2 that add up to 1, each with its epsilon alone."""
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    return tuple(
        BudgetPart(
            name=part.name,
            question=part.question,
            share=part.share,
            epsilon_alone=budget.epsilon_of_share(part.share),
        )
        for part in expected.parts
    )


def forecast_lines(config: RunConfig) -> list[str]:
    """Return the forecast of a configuration as lines of text."""
    check_config(config)
    expected = forecast(config)
    lines = [f"epsilon {config.epsilon:g}, delta {config.delta:g}. {config.schema.sentence}. No row is read."]
    lines += _found_lines(config)
    lines += [
        f"  {part.share:7.1%}  {part.name} (epsilon {part.epsilon_alone:.3g} alone)"
        for part in _priced_parts(config, expected)
    ]
    return [
        *lines,
        *prediction_lines(expected),
        *_model_lines(expected),
        *_rows_lines(expected),
        *_forecast_table(config, expected),
    ]


def _found_lines(config: RunConfig) -> list[str]:
    """Return what was spent on a finding and on previews before the run, and what all cost together."""
    spent = [] if config.found is None else [f"epsilon {config.found.epsilon:g} was spent on finding columns"]
    spent += [f"epsilon {one.epsilon:g} was spent on a preview" for one in config.previews]
    if not spent:
        return []
    together = number_text(rounded_up(promised_epsilon(config)))
    return [f"In addition, {', '.join(spent)}; the release states at most epsilon {together} for all of it."]


def prediction_lines(found: Forecast) -> list[str]:
    """Return how accurate predictions on the hold-out will be, if they are paid for."""
    told = found.prediction
    if told is None:
        return []
    of = found.counted
    among = f"one row for each of {found.people:,} units" if of == "rows" else f"at most {found.people:,}"
    lines = [
        f"Predictions on {told.rows:,.0f} held-out {of} (of {among}): standard "
        f"error of the {told.measure} "
        + (
            f"at most {told.accuracy_std:.2g}."
            if told.number
            else f"{told.accuracy_std:.2g}, from {told.bins} counts with a standard error of {told.noise_std:.3g} {of}."
        )
    ]
    if told.hidden:
        lines.append(f"  Noise will hide the {told.measure}. Hold out more {of}, or give predictions a larger share.")
    lines += [
        f"  by {name}: in a group of {told.group_rows(noise_std):,.0f} held-out {of} the {told.measure} has a standard "
        f"error of {told.told:g}."
        for name, _, noise_std in told.groups
    ]
    return lines


def _model_lines(found: Forecast) -> list[str]:
    """Return what a model says about its fit in advance."""
    told = found.of_model
    if told is None:
        return []
    facts = [f"{fact.title}: {number_text(fact.value)}. {fact.sentence}" for fact in told.facts]
    return [*facts, *(f"Assumed public: {sentence}" for sentence in told.assumptions)]


def _rows_lines(found: Forecast) -> list[str]:
    """Return the noise of each cell, if rows are released one by one."""
    lines = []
    if found.row_epsilon is not None:
        lines.append(
            f"One cell is protected. This corresponds to epsilon = {found.row_epsilon:.6g} at delta = "
            f"{found.delta:.3g} for replacing a row by one with the same label; a changed label is not protected."
        )
    if found.row_noise:
        lines.append("Noise on every cell (standard deviation, as a multiple of the range of its column):")
    for noise in found.row_noise:
        drowned = "  wider than the whole range" if noise.drowned else ""
        lines.append(f"  {noise.column:40} {noise.std:9.3g}{drowned}")
    return lines


def _forecast_table(config: RunConfig, found: Forecast) -> list[str]:
    promise = found.promise
    # The protection of single cells has no delta.
    but = "" if found.row_epsilon is not None or not found.delta else f", except with a chance of about {found.delta:g}"
    # Beyond a million, digits are meaningless.
    limited = promise.odds <= NO_LIMIT
    factor = f"at most a factor of {number_text(rounded_up(promise.odds))}" if limited else "more than a million times"
    protected = "cell" if found.row_epsilon is not None else config.schema.unit.protects
    # Pure noise has no lower ceiling than that of any method.
    tighter = f", and {number_text(100 * promise.noise_caught)} in 100 with this noise" if config.delta else ""
    lines = [
        f"The odds about one {protected} change by {factor}{but}. An attacker who accepts one false alarm in 100 finds "
        f"at most {number_text(100 * promise.caught)} in 100 true cases by any method{tighter}.",
    ]
    if found.columns or found.pairs:
        lines.append(
            f"Expected error of a count, in {found.counted} (95 %, from noise alone), and the share of "
            f"{found.counted} that noise moves to another value:"
        )
    pairs = found.pairs if len(found.pairs) <= _MOST_PAIRS else found.pairs.worst(_WORST_PAIRS)
    for cell in (*found.columns, *pairs):
        name = " x ".join(cell.columns)
        lines.append(f"  {name:40} {cell.cells:9,} counts  +-{cell.range95:9.1f}  {cell.moved_words:>16}  {cell.basis}")
    if len(pairs) < len(found.pairs):
        lines.append(f"  These are the {len(pairs)} of {len(found.pairs):,} pairs that noise affects most.")
    if found.columns or found.pairs:
        lines.append(found.rows_sentence)
    return lines
