"""A fuzz of the reading child, of configurations, and of everything that is done with names.

Each input is taken or refused in one sentence of ours that quotes no cell, within a budget of processor time in this
process and in the child. The seeds are fixed: what is found once is found again. ``pytest -m audit -k fuzz`` runs all;
the first of them run with every test.
"""

from __future__ import annotations

import random

import pytest
from fuzzing import CANARY, documents, judged, names_in_files, read, read_document, tables

SERVER_SECONDS, CHILD_SECONDS, MEBIBYTES = 2.0, 10.0, 256.0
"""Of one input; a child needs about one second to start."""

ALL = {"names": range(30), "tables": range(150), "documents": range(400)}
FIRST = {"names": range(2), "tables": range(4), "documents": range(25)}


def fuzzed(kind: str, seed: int) -> int:
    """Run every input of one seed and return how many there were."""
    chance = random.Random(f"{kind} {seed}")
    if kind == "documents":
        inputs = [(lambda text=text: read_document(text)) for text in documents(chance)]
    else:
        made = names_in_files(chance) if kind == "names" else tables(chance)
        inputs = [(lambda data=data, form=form: read(data, form)) for data, form in made]
    for place, work in enumerate(inputs):
        outcome = judged(work)
        where = f"{kind}, seed {seed}, input {place}: {outcome}"[:600]
        assert outcome.server_seconds < SERVER_SECONDS, where
        assert outcome.child_seconds < CHILD_SECONDS, where
        assert outcome.grown_mebibytes < MEBIBYTES, where
        if outcome.sentence is not None:
            assert outcome.sentence.isprintable(), where
            assert len(outcome.sentence) < 1_000, where
            assert outcome.sentence.endswith((".", "'.")), where
            # A document is public in every part; of a table only the names are.
            assert kind == "documents" or CANARY not in outcome.sentence, where
    return len(inputs)


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in FIRST.items() for seed in seeds])
def test_the_first_inputs(kind: str, seed: int) -> None:
    assert fuzzed(kind, seed) > 0


@pytest.mark.audit
@pytest.mark.parametrize("kind", ALL)
def test_fuzz(kind: str) -> None:
    assert sum(fuzzed(kind, seed) for seed in ALL[kind]) >= len(ALL[kind])
