"""A table from a folder on the server: offered where the operator lists one, and taken in as an upload would be."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import TABLE, errors, go, new_people, open_app, texts
from streamlit.testing.v1 import AppTest

from pages.ui.session import application


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A listed folder with one table in two files."""
    found = tmp_path / "claims"
    found.mkdir()
    head, *lines = TABLE.splitlines()
    for year, some in (("2023", lines[::2]), ("2024", lines[1::2])):
        (found / f"{year}.csv").write_text("\n".join([head, *some, ""]), encoding="utf-8")
    monkeypatch.setenv("HERMITAGE_FOLDERS", str(found))
    return found


def read(app: AppTest, path: str) -> AppTest:
    app.text_input(key="folder-path").set_value(path).run()
    return app.button(key="folder-read").click().run()


def test_nothing_is_offered_unless_the_operator_lists_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMITAGE_FOLDERS", raising=False)
    app = go(open_app(), "upload")
    new_people(app, "survey")
    assert not [one for one in app.text_input if one.key == "folder-path"]


def test_files_are_taken_in_from_a_listed_folder(folder: Path) -> None:
    app = go(open_app(), "upload")
    assert f"This server may read tables in {folder}." in texts(app)
    assert "Say above whose table it is, then it can be read." in texts(app)
    new_people(app, "survey")
    assert errors(read(app, "/etc/passwd")) == [
        "'/etc/passwd' leads out of the folders that this server may read. Its operator lists these in "
        "HERMITAGE_FOLDERS."
    ]
    (folder / "2025.csv").write_text("other,names\n1,2\n", encoding="utf-8")
    assert "The files have different headers: column 1 is" in errors(read(app, f"{folder}/*.csv"))[0]
    assert not application().intake.tables()
    assert not application().account_names()
    read(app, f"{folder}/202[34].csv")
    assert not app.exception
    (table,) = application().intake.tables()
    assert (table.name, table.n_rows) == ("2023.csv", len(TABLE.splitlines()) - 1)
    assert "Stored, encrypted." in texts(app)
