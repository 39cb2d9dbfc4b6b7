"""Taking a table in fails at any step, for any reason: no table, no account, no file of it stays."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from town import HEADER, ROWS, TABLE

import synth
from synth.application import Application
from synth.errors import SynthError, TableError
from synth.reading import reader
from synth.services import intake
from synth.system.settings import Settings
from synth.vault import vault

ROOT = str(Path(synth.__file__).parent)
FAULTS: tuple[Callable[[], BaseException], ...] = (
    MemoryError,
    KeyboardInterrupt,
    lambda: pa.ArrowInvalid("canary cell"),
    lambda: OSError(errno.EIO, "canary cell"),
    lambda: ConnectionResetError(errno.ECONNRESET, "the client went away"),
)


@pytest.fixture
def application(settings: Settings) -> Iterator[Application]:
    with Application(settings) as opened:
        yield opened


def standing(application: Application) -> dict[str, Any]:
    """What the home and the database hold."""
    store = application.store
    accounts = store.accounts.all()
    with store.reading() as connection:
        events = connection.exec_driver_sql("SELECT count(*) FROM events").scalar_one()
    folder = application.settings.home / "vault"
    return {
        "files": sorted(path.name for path in folder.iterdir()),
        "accounts": [account.name for account in accounts],
        "tables": [table.id for account in accounts for table in store.tables.of_account(account.id)],
        "events": events,
    }


class Step:
    """Raises at the n-th call of a function of ours."""

    def __init__(self, number: int, fault: Callable[[], BaseException]) -> None:
        self.calls = 0
        self._number, self._fault = number, fault

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            self.calls += 1
            if self.calls == self._number:
                raise self._fault()


def receive(application: Application, step: Step, *, name: str = "town") -> str:
    previous = sys.gettrace()
    sys.settrace(step)
    try:
        return application.intake.receive(io.BytesIO(TABLE), account=name, name="people.csv").table_id
    finally:
        sys.settrace(previous)


@pytest.mark.thorough
def test_a_failure_at_any_step_leaves_nothing(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    # The header is read once for real, by its process: that is before anything is kept, and takes a second each time.
    header = intake.inspect_header(io.BytesIO(TABLE), intake.TableFormat())
    monkeypatch.setattr(intake, "inspect_header", lambda stream, form, **limits: header)
    application.intake.receive(io.BytesIO(TABLE), account="twins", name="people.csv")
    counted = Step(0, MemoryError)
    application.intake.delete_table(receive(application, counted, name="counted"))
    before = standing(application)
    kept, said = 0, []
    for number in range(1, counted.calls + 5):
        name = f"town {number}"
        try:
            table_id = receive(application, Step(number, FAULTS[number % len(FAULTS)]), name=name)
        except BaseException as error:
            said.append(str(error) if isinstance(error, SynthError) else "")
            after = standing(application)
            if after == before:
                continue
            # The transaction was committed, and the failure came while its connection was given back.
            (table_id,) = set(after["tables"]) - set(before["tables"])
            kept += 1
        assert application.intake.table(table_id).columns
        with application.vault.open(table_id) as stream:
            assert stream.read() == TABLE
        before = standing(application)
    assert counted.calls > 60
    assert not [words for words in said if "canary" in words]
    assert kept <= 5, "more steps after the commit than giving the connection back"


class Broken(io.BytesIO):
    """A file whose sender goes away in the middle, once it is encrypted."""

    def __init__(self, content: bytes, fault: BaseException) -> None:
        super().__init__(content)
        self._fault = fault
        self.encrypting = self.broke_off = False

    def read(self, size: int | None = -1) -> bytes:
        if self.encrypting and self.tell() > 2**20:
            self.broke_off = True
            raise self._fault
        return super().read(size)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "fault", [ConnectionResetError(errno.ECONNRESET, "gone"), MemoryError(), KeyboardInterrupt(), pa.ArrowInvalid("x")]
)
def test_a_sender_that_goes_away_leaves_nothing(
    application: Application, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = standing(application)
    sender = Broken(HEADER + ROWS * 700, fault)
    encrypt = vault.encrypt_stream

    def encrypting(*streams: Any, **how: Any) -> int:
        sender.encrypting = True
        return encrypt(*streams, **how)

    monkeypatch.setattr(vault, "encrypt_stream", encrypting)
    with pytest.raises(TableError if isinstance(fault, OSError) else type(fault)):
        application.intake.receive(sender, account="town", name="people.csv")
    assert sender.broke_off
    assert standing(application) == before
    assert before["accounts"] == []


def test_a_killed_reader_leaves_nothing(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    before = standing(application)
    started: list[int] = []
    start = reader.Confined

    def killed(*module: str, **given: Any) -> Any:
        confined = start(*module, **given)
        started.append(confined.process.pid)
        confined.process.kill()
        return confined

    monkeypatch.setattr(reader, "Confined", killed)
    with pytest.raises(TableError):
        application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv")
    assert started
    assert standing(application) == before
