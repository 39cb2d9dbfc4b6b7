"""A check's memory follows what a bundle holds, not how many values a declared range has."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_making import Key, config_of, seal

from synth.bundle.verify import verify
from synth.schema import CategoryColumn, NumberColumn

pytestmark = pytest.mark.thorough

LONGEST = 10**9
"""Values of the longest range that may be declared."""

LONGEST_OF_RULES = 2**24
"""Values of the longest that a rule may be about."""

MEMORY = 3 * 2**28
"""The check of a short range needs two thirds of it, and any array as long as these ranges more than is left."""


def test_ranges_of_a_thousand_million_values_take_no_more_memory_than_short_ones(tmp_path: Path) -> None:
    columns = (
        NumberColumn("income", 0, LONGEST - 1, 1),
        NumberColumn("debt", 1 - LONGEST, -1000, 1, missing=True),
        CategoryColumn("region", ("north", "south")),
    )
    key = Key()
    sealed = seal(config_of(columns, generator="dp-hp-adaptive", evaluation_share=0.1, rows=300), tmp_path, key)
    verdict = verify(sealed.path, key.public_key_pem, memory_bytes=MEMORY)
    assert verdict.ok, verdict.lines
    assert sealed.path.stat().st_size < 2**22


def test_a_rule_about_two_such_ranges_is_kept_and_checked_in_as_little(tmp_path: Path) -> None:
    columns = (NumberColumn("a", 0, LONGEST_OF_RULES - 1, 1), NumberColumn("b", 0, LONGEST_OF_RULES - 1, 1))
    rules = ("b >= a", "if a is a multiple of 3 then b is a multiple of 2")
    key = Key()
    sealed = seal(config_of(columns, generator="dp-hp-adaptive", constraints=rules, rows=300), tmp_path, key)
    verdict = verify(sealed.path, key.public_key_pem, memory_bytes=MEMORY)
    assert verdict.ok, verdict.lines
    assert sealed.path.stat().st_size < 2**22
