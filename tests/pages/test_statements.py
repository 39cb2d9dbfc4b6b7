"""How often a page asks the database while nobody changes it: one server answers everybody from one process."""

from __future__ import annotations

import pytest
from asked import statements
from driving import errors, go
from streamlit.testing.v1 import AppTest

MOST = 20
"""Statements of a view, of which every transaction has one to begin; once it was 80 to 400."""


@pytest.mark.four_cases
@pytest.mark.parametrize("page", ["start", "upload", "describe", "budget", "generate", "compare", "ledger", "admin"])
def test_a_page_that_is_drawn_again_asks_little(finished: AppTest, page: str) -> None:
    go(finished, page)
    with statements() as asked:
        finished.run()
    assert not errors(finished)
    assert len(asked) <= MOST, "\n".join(asked)
