"""Who asks: every generator of the registry, and a hand-made run with the questions most likely to go wrong.

The adaptive generator chooses no tables where rows are as few as here, so it asks four times more: told that there are
many rows, with either of its models, as of a table whose columns all go together, and as of one of too many columns to
choose from.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from candidates import candidate_of
from suited import suited
from worlds import LABEL

from synth.generators import GENERATORS, GeneratorTask, make
from synth.generators.adaptive import all_pairs, dp_hp_adaptive, pairs_look, whole_rows
from synth.generators.adaptive import tree as chow_liu
from synth.generators.adaptive.tables import SelectionRounds
from synth.generators.sums_of_squares import kernel_sos
from synth.models import pool
from synth.models.joint_model import MarkovRandomFieldFitter, MixtureFitter
from synth.models.sos_estimation import sobol_pool
from synth.privacy.answers import AnswerSource, RowCount
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more import critic_turns
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.dependence import Dependence
from synth.privacy.more.em_models import GaussianPair, MissingCovariates, RegressionPair
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.forests import Forest
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.gradients import GradientQuestion
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.progress import NullProgress
from synth.schema import Schema

HAND_MADE = "hand-made questions"
CHOOSING = {f"choices by a {model}": model for model in ("field", "mixture")}
TREE = "a tree of columns"
PAIRS = "all pairs of columns"
DESCENT = "noisy gradients"
MIXTURE = "steps of EM"
NETWORK = "a network of columns"
CRITICS = "turns of the worst critics"

QUICK: dict[str, Any] = {
    **{"order": 8, "order_product": 3, "features": 64, "epochs": 2},
    **{"steps": 1, "steps_per_epoch": 1, "batch_size": 16},
    **{"cells": 20_000},
    **{"n": 4, "block": 100},
    **{"support": 20, "bandwidth": "0.2"},
    **{"parts": 3, "turns": 7, "critic_steps": 2},
}
"""Options, where a generator has them, that keep its questions and leave out its training."""


def generator(name: str, schema: Schema) -> Callable[[AnswerSource], Any]:
    known = {field.name for field in dataclasses.fields(GENERATORS[name].options)}
    options = {option: value for option, value in QUICK.items() if option in known}
    schema = suited(name, schema, LABEL)

    def ask(session: AnswerSource) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel_sos, "sobol_pool", partial(sobol_pool, bits=8))
            return make(name, GeneratorTask(schema, LABEL, seed=0, device="cpu"), options).fit(session, NullProgress())

    return ask


class Crowded:
    """Hands questions on, and says that there are rows enough to count columns together."""

    def __init__(self, session: AnswerSource) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def rows(self) -> RowCount:
        return dataclasses.replace(self._session.rows, value=1e5)


def choosing(model: str, schema: Schema) -> Callable[[AnswerSource], Any]:
    def ask(session: AnswerSource) -> Any:
        task = GeneratorTask(schema, LABEL, seed=0, device="cpu")
        with pytest.MonkeyPatch.context() as patch:
            for fitter in (MarkovRandomFieldFitter, MixtureFitter):
                patch.setattr(fitter, "first_steps", 2)
                patch.setattr(fitter, "last_steps", 2)
            # Sets of many columns too, whatever they show, and pools and lists of them that take a moment.
            patch.setattr(dp_hp_adaptive, "STANDS_OUT", -10.0)
            patch.setattr(whole_rows, "_LEAST_EFFECTIVE", 0.0)
            patch.setattr(whole_rows, "_MOST_SETS", 12)
            patch.setattr(pool, "POOL_ROWS", 1000)
            # Rounds that double from the first: a handful of tables instead of dozens.
            patch.setattr(SelectionRounds, "_below_noise", lambda self, chosen: True)
            return make("dp-hp-adaptive", task, {"model": model, "bins": 4, "cells": 3000}).fit(
                Crowded(session), NullProgress()
            )

    return ask


def stump_forest(schema: Schema) -> Forest:
    """Trees of one and two splits over columns of every kind; extreme rows land in leaves of their own."""
    columns = ("age", "job", "visited")
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    nodes = np.array(
        [
            *((0, 50, 1, 2), (1, 30, 3, 4), (0, 0, 2, 2), (0, 0, 3, 3), (0, 0, 4, 4)),
            *((2, 600, 6, 7), (0, 0, 6, 6), (0, 0, 7, 7)),
        ]
    )
    values = np.zeros((8, 2), np.int64)
    values[[2, 3, 4, 6, 7]] = [[0, 900], [500, 0], [0, 2**20], [40, 0], [0, 30]]
    places = (np.arange(sizes["age"]), np.arange(sizes["job"])[::-1], np.arange(sizes["visited"]))
    return Forest(columns, places, nodes, values, np.array([0, 5]), np.array([[450, 520], [500, 1000]]))


def tree(schema: Schema) -> Callable[[AnswerSource], Any]:
    right = chow_liu.maximum_spanning_forest

    def ask(session: AnswerSource) -> Any:
        task = GeneratorTask(schema, LABEL, seed=0, device="cpu")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dp_hp_adaptive, "MANY_COLUMNS", 1)
            # Rows as few as here show no edge above their noise.
            patch.setattr(chow_liu, "maximum_spanning_forest", lambda strengths, least: right(strengths, least=0.0))
            patch.setattr(MarkovRandomFieldFitter, "first_steps", 2)
            patch.setattr(MarkovRandomFieldFitter, "last_steps", 2)
            options = {"model": "field", "cells": 3000}
            return make("dp-hp-adaptive", task, options).fit(Crowded(session), NullProgress())

    return ask


def pairs(schema: Schema) -> Callable[[AnswerSource], Any]:
    def ask(session: AnswerSource) -> Any:
        task = GeneratorTask(schema, LABEL, seed=0, device="cpu")
        with pytest.MonkeyPatch.context() as patch:
            # Whatever is told of so few rows: a dense table.
            patch.setattr(pairs_look, "relations_left", lambda *told, **more: 1.0)
            patch.setattr(all_pairs, "_STEPS", 2)
            patch.setattr(all_pairs, "_MORE", ())
            patch.setattr(all_pairs, "_FITS", 2)
            patch.setattr(all_pairs, "_COMPONENTS", 2)
            patch.setattr(pool, "POOL_ROWS", 1000)
            return make("dp-hp-adaptive", task, {"bins": 6}).fit(Crowded(session), NullProgress())

    return ask


def hand_made(schema: Schema) -> Callable[[AnswerSource], Any]:
    sizes = dict(zip(schema.names, schema.sizes, strict=True))

    def one_hot(*columns: str) -> OneHot:
        return OneHot(columns, (None,) * len(columns), tuple(sizes[column] for column in columns))

    def wide() -> OneHot:
        names = ("age", "region", "income", "visited", "smoker", LABEL)
        return OneHot(names, tuple(np.arange(sizes[name]) * 2 // sizes[name] for name in names))

    def ask(session: AnswerSource) -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        huge = rng.normal(size=(sizes["age"], 4))
        huge[:, -1] *= 1e6  # a column that only a clip keeps in bounds
        signed = Lookup("income", rng.normal(size=(sizes["income"], 6)))
        small = tuple(Lookup(name, np.abs(rng.normal(size=(sizes[name], 3)))) for name in ("age", "region", "smoker"))
        numbers = ("age", "income", "visited")
        fourier = Fourier(
            numbers,
            tuple(np.arange(sizes[name]) * 255 // (sizes[name] - 1) for name in numbers),
            rng.integers(-2048, 2048, (40, 3)),
        )
        label = one_hot(LABEL)
        rows = (signed, small[0], Lookup("region", np.eye(sizes["region"])))
        width = sum(table.dimension for table in rows)
        middle = rng.normal(size=(2, width)) / 4
        stretched = rng.uniform(-1, 1, (width, 4))  # directions that are longer than 1 and not at right angles
        questions = {
            "pairs of rows": RowMoments(rows, 0.3, (0.0, 0.0, 1.0), middle[:1]),
            "powers by class": Product((RowMoments(rows, 0.8, (0.25, 0.5, 0.75), middle, label, stretched), label)),
            "rows with signs": RowMoments(rows, 0.3, (0.0, 1.0, 0.0), projection=stretched),
            "waves in pairs": RowMoments((small[1],), 1.2, (0.0, 0.0, 1.0), waves=fourier),
            "huge": Lookup("age", huge),
            "bins of a forest": Product((stump_forest(schema), label, one_hot("region"))),
            "counts": one_hot("job", "smoker"),
            "six columns": wide(),
            "halves": OneHot(("age",), (np.arange(sizes["age"]) * 2 // sizes["age"],)),
            "other halves": OneHot(("age",), (np.arange(sizes["age"]) % 2,)),
            "by class": Product((Lookup("age", huge), label)),
            "signed product": Product((signed, small[1], label)),
            "wide product": Product((*small, Lookup("job", np.eye(41)[:, :5]), label)),
            "fourier": Product((fourier, label)),
            "stack": Stack((one_hot("region"), fourier, Product(small[:2]), signed), (0.5, 0.5, 0.5, 0.5)),
        }
        share = session.remaining_share / (len(questions) + 2)
        answers = [
            session.noisy_sum(question, share=share, query=query, source="hand-made").value
            for query, question in questions.items()
        ]
        candidates = [
            candidate_of(("job",), np.full(41, 2.5), weight=5.0, penalty=1.0),
            candidate_of(("region", LABEL), np.full((6, 2), 4.0), weight=0.5),
            candidate_of(("smoker",), np.array([10.0, 20.0, 3.0]), weight=2.0),
            candidate_of(wide().columns, np.full((2,) * 6, 1.0), bins=wide().bins),
        ]
        first = session.noisy_max(candidates, share=share, query="first choice", source="hand-made")
        chosen = first.candidate.one_hot
        answers.append(
            session.noisy_sum(chosen, share=session.remaining_share, query="chosen", source="hand-made").value
        )
        answers.append(np.array([session.rows.value]))
        return answers

    return ask


EM_STEPS: dict[str, dict[str, Any]] = {
    "statistics of a pair": {
        **{"model": GaussianPair(0.5), "clip": 0.7, "bounding": "soft", "precision": 1.7, "statistics": True}
    },
    "gradients of a pair": {"model": GaussianPair(0.4, as_printed=False), "clip": 0.3, "bounding": "norm"},
    "gradients of two regressions": {"model": RegressionPair(0.5), "clip": 0.2, "bounding": "norm"},
    "gradients with missing inputs": {
        **{"model": MissingCovariates(0.5, as_printed=False), "clip": 0.4, "bounding": "coordinates"}
    },
}
"""Steps of EM: every model and every bound, as printed and of the likelihood."""


def em_step(name: str, schema: Schema, at: np.ndarray) -> EMStepQuestion:
    """One of them at these parameters, of ages and dates, which may be missing, and of incomes."""
    chosen = ("age", "visited", "income") if type(EM_STEPS[name]["model"]) is not GaussianPair else ("age", "visited")
    tables = tuple(
        Lookup(name, np.linspace(-1, 1, size)[:, None])
        for name, size in zip(schema.names, schema.sizes, strict=True)
        if name in chosen
    )
    tables = tuple(sorted(tables, key=lambda table: chosen.index(table.column)))
    hidden = tuple(
        int(schema.modelled_column(column).missing_code or 0)
        for column in chosen[:2]
        if type(EM_STEPS[name]["model"]) is MissingCovariates
    )
    scales = np.full(len(tables), 3.0)
    return EMStepQuestion(tables=tables, scales=scales, parameters=at, hidden=hidden, **EM_STEPS[name])


def descent(schema: Schema) -> Callable[[AnswerSource], Any]:
    """Descend along the gradients of every loss, on numbers and on Fourier features; some rows are clipped by far.

    Then take steps of EM on every model, with every bound.
    """
    sizes = dict(zip(schema.names, schema.sizes, strict=True))

    def ask(session: AnswerSource) -> list[np.ndarray]:
        rng = np.random.default_rng(6)
        ages = Lookup("age", rng.normal(size=(sizes["age"], 3)))
        cells = OneHot(("region", "smoker"), (None, None), (sizes["region"], sizes["smoker"]))
        linear = Stack((Constant(), ages, cells), (0.4, 0.7, 0.4))
        names = ("age", "visited")
        places = tuple(np.arange(sizes[name]) * 255 // (sizes[name] - 1) for name in names)
        fourier = Fourier(names, places, rng.integers(-2048, 2048, (10, 2)))
        incomes = Lookup("income", np.linspace(-0.5, 0.5, sizes["income"])[:, None])
        ill = Lookup(LABEL, np.array([[0.0], [1.0]]))
        steps = [
            *((linear, incomes, "squared", 0.25), (fourier, incomes, "huber", 0.02), (linear, ill, "logistic", 0.5)),
            (fourier, ill, "logistic", 2.0),
            (linear, Lookup("region", np.eye(sizes["region"])), "softmax", 0.7),
        ]
        answers = []
        for place, (features, target, loss, clip) in enumerate(steps):
            now = 3 * rng.normal(size=features.dimension * target.dimension)
            for step in range(2):
                question = GradientQuestion(features, target, loss, now, clip)  # type: ignore[arg-type]
                share = session.remaining_share / (2 * (len(steps) + len(EM_STEPS) - place) - step)
                query = f"{loss} {place}, step {step}"
                answer = session.noisy_gradient(question, share=share, query=query, source="descent")
                now = now - answer.gradient / max(session.rows.value, 1.0)
                answers.append(answer.value)
        for place, name in enumerate(EM_STEPS):
            now = rng.normal(size=2)
            for step in range(2):
                share = session.remaining_share / (2 * (len(EM_STEPS) - place) - step)
                asked = em_step(name, schema, now)
                answer = session.noisy_gradient(asked, share=share, query=f"{name}, step {step}", source="em")
                now = np.clip(now + answer.gradient / max(session.rows.value, 1.0), -9.0, 9.0)
                answers.append(answer.value)
        return answers

    return ask


def mixture(schema: Schema) -> Callable[[AnswerSource], Any]:
    """Components and steps enough that responsibilities differ from step to step, though rows are few."""

    def ask(session: AnswerSource) -> Any:
        task = GeneratorTask(schema, LABEL, seed=0, device="cpu")
        options = {"components": 3, "steps": 5, "numbers": "gaussian"}
        return make("dp-mixture", task, options).fit(session, NullProgress())

    return ask


def network(schema: Schema) -> Callable[[AnswerSource], Any]:
    """Parents for every column, though rows are few: pairs and sets of three, whole and in parts.

    Before them, what determines the label most, by the score for columns of two values.
    """
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    pairs = [(LABEL, other) for other in ("smoker", "region", "job")]
    determined = [Dependence(OneHot(pair, (None, None), tuple(sizes[name] for name in pair)), "F") for pair in pairs]

    def ask(session: AnswerSource) -> Any:
        session.noisy_max(determined, share=session.remaining_share / 10, query="determined", source="audit")
        session = session.sub_session(session.remaining_share)
        task = GeneratorTask(schema, LABEL, seed=0, device="cpu")
        options = {"bins": 6, "parents": 2, "usefulness": 50.0}
        return make("privbayes", task, options).fit(Crowded(session), NullProgress())

    return ask


def worst_gradients(turns: Any, number: int, part: int, own: np.ndarray, fake: np.ndarray) -> np.ndarray:
    """What a critic could answer at worst: as long as can be, and turned round, or not, if its rows are others."""
    held = np.stack([codes[own] for codes in turns._columns.values()], axis=1).astype("<u4")
    rows = held[np.lexsort(held.T)].tobytes()
    sign = 1.0 if zlib.crc32(rows, turns._question.seed) & 2**16 else -1.0
    return np.full((turns._question.rows, turns._question.width), sign * 1e9)


class Wandering:
    """A training that is led anywhere by noisy answers."""

    def __init__(self, width: int) -> None:
        self.now, self.taken = np.full((6, width), 0.5), 0

    def at(self) -> np.ndarray:
        return self.now

    def move(self, step: np.ndarray) -> None:
        self.now, self.taken = 0.5 + 0.5 * np.sin(self.now * 7 + step.sum()), self.taken + 1


def critics(schema: Schema) -> Callable[[AnswerSource], Any]:
    """Turns of few critics, each of which tells as much of its rows as it can."""
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    tables = (
        Lookup("age", np.linspace(0.0, 1.0, sizes["age"])[:, None]),
        Lookup("job", np.random.default_rng(3).normal(size=(sizes["job"], 2))),
        Lookup("smoker", np.eye(sizes["smoker"])),
    )

    def ask(session: AnswerSource) -> list[np.ndarray]:
        left = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(critic_turns._Turns, "_gradients", worst_gradients)
            for times in range(4):
                question = CriticTurns(
                    tables=tables, parts=4, steps=9, rows=3, clip=0.5, learned=1, batch=8, rate=0.01, seed=times * 1009
                )
                training = Wandering(question.width)
                share = session.remaining_share / (4 - times)
                asked = dataclasses.replace(question, training=training)
                session.noisy_steps(asked, share=share, query=f"turns {times}", source="audit").train(training)
                left.append(training.now)
        return left

    return ask


def asker(name: str, schema: Schema) -> Callable[[AnswerSource], Any]:
    if name in CHOOSING:
        return choosing(CHOOSING[name], schema)
    if name == TREE:
        return tree(schema)
    if name == PAIRS:
        return pairs(schema)
    if name == DESCENT:
        return descent(schema)
    if name == MIXTURE:
        return mixture(schema)
    if name == NETWORK:
        return network(schema)
    if name == CRITICS:
        return critics(schema)
    return hand_made(schema) if name == HAND_MADE else generator(name, schema)


EVERYWHERE = [name for name, card in GENERATORS.items() if not card.needs.sampling]
"""Those that draw samples of units ask nothing where one is replaced; ``sampled_layers`` has layers of their own."""

NAMES = [HAND_MADE, DESCENT, MIXTURE, *EVERYWHERE, *CHOOSING, PAIRS, NETWORK, CRITICS]
