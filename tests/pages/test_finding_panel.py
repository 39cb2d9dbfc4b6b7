"""2 Describe, find privately: what was found and what stayed open, finding anew, and a worker that died."""

from __future__ import annotations

import os

import pytest
from driving import declare_people, errors, go, open_app, texts, upload_table
from streamlit.testing.v1 import AppTest
from test_describe import edit

from pages.ui.finding import _config_to_find, open_names
from pages.ui.session import application
from synth.jobs.processes import birth_of
from synth.progress import NullProgress
from synth.services.finding import carry_out
from synth.store import Work
from synth.system.machine import this_host

TABLE = "age,region,flavour\n" + "".join(
    f"{18 + number % 60},{('north', 'south')[number % 2]},says {number}\n" for number in range(2_000)
)


def open_lines(app: AppTest) -> list[str]:
    return open_names(app.session_state["draft"]["columns"])


def begun(app: AppTest, *, alive: bool) -> Work:
    """Charge a finding of what is open, and claim it as this process or as one that is gone."""
    held, opened = app.session_state["draft"], application()
    config = _config_to_find(held, open_lines(app))
    work = opened.findings.reserve(config, table_id=held["table_id"], epsilon=0.4)
    born = birth_of(os.getpid()) if alive else 0.0
    opened.store.work.claim(work.id, host=this_host(), pid=os.getpid(), pid_created=born)
    return work


def charges() -> list[str]:
    found = application().store.accounts.named("survey")
    return [] if found is None else [charge.state.value for charge in application().ledger.current(found.id)]


@pytest.mark.thorough
def test_a_worker_that_died_leaves_words_and_what_was_found_can_be_found_anew() -> None:
    app = go(upload_table(open_app(), TABLE.encode()), "describe")
    declare_people(app)
    app.number_input(key="field:number_of_units").set_value(5000).run()
    assert open_lines(app) == ["age", "region", "flavour"]
    work = begun(app, alive=False)
    application().ledger.spend(application().ledger.charges_of(work.id)[0], config=str(work.asked))
    app.run()
    assert any("so it stays spent." in words and "charged again" in words for words in errors(app))
    assert charges() == ["failed-spent"]
    assert "Find 3 undescribed columns privately (spends 0.10)" in [one.label for one in app.button]

    work = begun(app, alive=True)
    carry_out(application().installation, work.id, NullProgress())
    app.run()
    assert charges() == ["failed-spent", "released"]
    assert not errors(app)
    held = app.session_state["draft"]
    assert (open_lines(app), held["epsilon"]) == ([], 0.6)
    assert set(held["domain_source"]) == {"age", "region"}
    edit(app, region={"role": "", "categories": ""}).run()
    assert "1 undescribed column left. A release supports one finding" in texts(app)
    app.button(key="find-anew").click().run()
    held = app.session_state["draft"]
    assert open_lines(app) == ["age", "region", "flavour"]
    assert (held["found"], held["domain_source"], held["epsilon"]) == (None, {}, 0.6)
    assert "Find 3 undescribed columns privately (spends 0.06)" in [one.label for one in app.button]
    assert charges() == ["failed-spent", "released"]


def test_a_finding_that_found_nothing_says_how_to_go_on_and_one_that_cannot_is_not_offered() -> None:
    few = "age,region\n" + "".join(f"{18 + number},{('north', 'south')[number % 2]}\n" for number in range(30))
    app = go(upload_table(open_app(), few.encode()), "describe")
    declare_people(app)
    work = begun(app, alive=True)
    carry_out(application().installation, work.id, NullProgress())
    app.run()
    assert not errors(app)
    assert "Nothing was found: at this epsilon, the table has too few rows" in texts(app)
    assert "is not charged again: describe columns by hand" in texts(app)

    app.button(key="find-anew").click().run()
    app.number_input(key="field:number_of_units").set_value(40).run()
    assert "would find nothing: a column needs about" in texts(app)
    assert not [one for one in app.button if one.key == "find-privately"]
    assert charges() == ["released"]
