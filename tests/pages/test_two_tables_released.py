"""6 Release of two tables that belong together: each is offered in every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import errors, go, open_app, texts

from pages.ui.session import application
from synth.cli.local import run_locally
from synth.schema import parse_config
from synth.services.intake import Reading

CONFIG = {
    "tables": {"patients": None, "visits": None, "key": "patient"},
    "account": "clinic",
    "unit": {"protects": "patient", "rows_per_unit": 3, "same_in_all_rows": ["sex"]},
    "row_count": "private",
    "people_at_most": 1000,
    "budget": {"epsilon": 5.0, "delta": 1e-6},
    "generator": {"name": "independent"},
    "people": 30,
    "columns": {
        "patient": {"type": "identifier"},
        "sex": {"type": "category", "values": ["f", "m"], "fallback": "f"},
        "ward": {"type": "category", "values": ["a", "b"], "missing": True},
    },
}


@pytest.mark.usefixtures("without_trial")
def test_both_tables_are_offered_in_every_format(tmp_path: Path) -> None:
    files = {"patients": tmp_path / "p.csv", "visits": tmp_path / "v.csv"}
    files["patients"].write_text("patient,sex\n" + "".join(f"p{one},{'fm'[one % 2]}\n" for one in range(100)))
    visits = (f"p{one},{'ab'[number % 2]}\n" for one in range(100) for number in range(one % 4))
    files["visits"].write_text("patient,ward\n" + "".join(visits))
    run = run_locally(
        parse_config(CONFIG), None, tables=files, keep_table=True, owner_report=False, reading=Reading(look=False)
    )
    table_id = application().store.runs[run.run_id].table_id
    app = open_app()
    app.query_params["table"] = table_id
    app.query_params["run"] = run.run_id
    app = go(app.run(), "release")
    assert not errors(app)
    assert "Sealed and signed." in texts(app)
    offered = [button.proto.label for button in app.get("download_button")]
    assert offered == [
        "Download the bundle (zip)",
        *("patients.csv", "patients.parquet", "patients, in your table's format"),
        *("visits.csv", "visits.parquet", "visits, in your table's format"),
    ]
    assert "every row of 'visits' belongs to one of 'patients', and some of these may have none" in texts(app)
