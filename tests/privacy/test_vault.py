"""The encrypted table store: what comes out went in, nothing lies in clear, and nothing altered is opened."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from synth.errors import LedgerError, TableError
from synth.ledger.chain import Chain
from synth.ledger.ledger import Ledger
from synth.ledger.notes import SEEN_ELSEWHERE
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, EventKind, Store, TableKind, TableState, WorkState, now
from synth.system.settings import Settings
from synth.vault.keys import Keys, load_keys
from synth.vault.sealing import CHUNK_BYTES, DecryptedStream, encrypt_stream, seal, unseal
from synth.vault.vault import Vault

CANARY = b"canary-7391-ZQ"
BUDGET = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)
TABLE = "11111111-2222-3333-4444-555555555555"
KEY = bytes(range(32))


@pytest.fixture
def vault(store: Store, keys: Keys) -> Vault:
    return Vault(store, keys, Ledger(store, keys))


def put(vault: Vault, account: Account, content: bytes = b"a\n1\n", *, name: str = "people.csv", **how: object) -> str:
    with vault.taking(io.BytesIO(content), account_id=account.id, name=name, **how) as table:  # type: ignore[arg-type]
        return table.id


def files(store: Store, table_id: str) -> tuple[Path, Path]:
    directory = store.settings.home / "vault"
    return directory / f"{table_id}.table", directory / f"{table_id}.header"


# --- chunks -------------------------------------------------------------------------------------------------------


def encrypted(tmp_path: Path, content: bytes, *, key: bytes = KEY, table_id: str = TABLE) -> Path:
    path = tmp_path / "chunks"
    with path.open("wb") as target:
        size = encrypt_stream(io.BytesIO(content), target, key=key, table_id=table_id, observe=lambda _: None)
    assert size == len(content)
    return path


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES + 17]
)
def test_every_length_comes_back(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    path = encrypted(tmp_path, content)
    with DecryptedStream(path, key=KEY, table_id=TABLE, size=size) as stream:
        assert io.BufferedReader(stream).read() == content


def test_a_source_that_gives_few_bytes_at_a_time_is_read_to_its_end(tmp_path: Path) -> None:
    class Dripping(io.RawIOBase):
        left = CHUNK_BYTES + 3

        def read(self, size: int = -1) -> bytes:  # type: ignore[override]
            piece = b"x" * min(size, 7_001, self.left)
            self.left -= len(piece)
            return piece

    path = tmp_path / "chunks"
    with path.open("wb") as target:
        size = encrypt_stream(Dripping(), target, key=KEY, table_id=TABLE, observe=lambda _: None)  # type: ignore[arg-type]
    assert size == CHUNK_BYTES + 3
    with DecryptedStream(path, key=KEY, table_id=TABLE, size=size) as stream:
        assert stream.readall() == b"x" * size


@given(moves=st.lists(st.tuples(st.integers(0, 2 * CHUNK_BYTES + 50), st.integers(0, 5000)), max_size=6))
@hypothesis_settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_seeking_reads_what_a_file_would(tmp_path: Path, moves: list[tuple[int, int]]) -> None:
    content = bytes(range(251)) * (2 * CHUNK_BYTES // 251 + 1)
    path = encrypted(tmp_path, content)
    plain = io.BytesIO(content)
    with io.BufferedReader(DecryptedStream(path, key=KEY, table_id=TABLE, size=len(content))) as stream:
        for position, length in moves:
            assert stream.seek(position) == plain.seek(position)
            assert stream.read(length) == plain.read(length)
        assert stream.seek(-3, os.SEEK_END) == plain.seek(-3, os.SEEK_END)
        assert stream.read() == plain.read()


def test_equal_chunks_and_equal_tables_look_different(tmp_path: Path) -> None:
    """Under one key no nonce is used twice, or two ciphertexts would show the difference of their plaintexts."""
    data = encrypted(tmp_path, bytes(2 * CHUNK_BYTES)).read_bytes()
    length = CHUNK_BYTES + 16
    assert data[:CHUNK_BYTES] != data[length : length + CHUNK_BYTES]


def test_every_table_has_a_key_of_its_own(vault: Vault, store: Store, account: Account) -> None:
    first, second = put(vault, account), put(vault, account)
    assert vault._headers.read(first).key != vault._headers.read(second).key
    assert files(store, first)[0].read_bytes() != files(store, second)[0].read_bytes()


def flip_first_byte(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def flip_in_second_chunk(data: bytes) -> bytes:
    at = CHUNK_BYTES + 16 + 100
    return data[:at] + bytes([data[at] ^ 128]) + data[at + 1 :]


def flip_last_bit(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def exchange_chunks(data: bytes) -> bytes:
    length = CHUNK_BYTES + 16
    return data[length : 2 * length] + data[:length] + data[2 * length :]


def repeat_first_chunk(data: bytes) -> bytes:
    length = CHUNK_BYTES + 16
    return data[:length] + data[:length] + data[2 * length :]


def drop_last_chunk(data: bytes) -> bytes:
    return data[: 2 * (CHUNK_BYTES + 16)]


def cut_one_byte(data: bytes) -> bytes:
    return data[:-1]


def append_one_byte(data: bytes) -> bytes:
    return data + b"\0"


@pytest.mark.parametrize(
    "attack",
    [
        flip_first_byte,
        flip_in_second_chunk,
        flip_last_bit,
        exchange_chunks,
        repeat_first_chunk,
        drop_last_chunk,
        cut_one_byte,
        append_one_byte,
    ],
)
def test_altered_chunks_do_not_open(tmp_path: Path, attack: Callable[[bytes], bytes]) -> None:
    content = CANARY * (2 * CHUNK_BYTES // len(CANARY) + 100)
    path = encrypted(tmp_path, content)
    path.write_bytes(attack(path.read_bytes()))
    with pytest.raises(TableError, match="altered or damaged") as caught:
        DecryptedStream(path, key=KEY, table_id=TABLE, size=len(content)).readall()
    assert CANARY.decode() not in str(caught.value)


def test_a_shorter_table_under_the_same_key_does_not_pass_for_the_whole(tmp_path: Path) -> None:
    """Cut at a chunk's end and told the shorter size, the last chunk still knows that it was not the last."""
    path = encrypted(tmp_path, b"x" * (2 * CHUNK_BYTES))
    path.write_bytes(path.read_bytes()[: CHUNK_BYTES + 16])
    with pytest.raises(TableError):
        DecryptedStream(path, key=KEY, table_id=TABLE, size=CHUNK_BYTES)


def test_chunks_of_another_table_do_not_open(tmp_path: Path) -> None:
    path = encrypted(tmp_path, b"content", table_id=TABLE.replace("1", "6"))
    with pytest.raises(TableError):
        DecryptedStream(path, key=KEY, table_id=TABLE, size=7)


def test_small_secrets_open_with_their_own_key_and_context_only() -> None:
    sealed = seal(KEY, b"secret", context=b"one")
    assert unseal(KEY, sealed, context=b"one") == b"secret"
    assert seal(KEY, b"secret", context=b"one") != sealed
    for key, value, context in [
        (KEY[::-1], sealed, b"one"),
        (KEY, sealed, b"two"),
        (KEY, flip_last_bit(sealed), b"one"),
        (KEY, b"", b"one"),
    ]:
        with pytest.raises(TableError):
            unseal(key, value, context=context)


# --- the vault ----------------------------------------------------------------------------------------------------


def test_a_table_comes_back_and_is_recorded(vault: Vault, store: Store, account: Account) -> None:
    content = b"a,b\n" + b"1,2\n" * 300_000
    table_id = put(vault, account, content, kind=TableKind.TEST, retention=timedelta(hours=2))
    with vault.open(table_id) as stream:
        assert stream.read() == content
    table = store.tables[table_id]
    assert (table.name, table.kind, table.size) == ("people.csv", TableKind.TEST, len(content))
    assert table.keep_until is not None
    assert timedelta(hours=1.9) < table.keep_until - now() <= timedelta(hours=2)


def test_files_are_private_and_named_by_number(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account, b"x", name="../../evil.csv")
    directory = store.settings.home / "vault"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == {f"{table_id}.table", f"{table_id}.header"}
    vault.open(table_id).close()
    assert {path.suffix for path in directory.iterdir()} == {".table", ".header", ".mark"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


@pytest.mark.parametrize("table_id", ["../keys/master", "nothing", ""])
def test_only_known_numbers_open(vault: Vault, table_id: str) -> None:
    with pytest.raises(TableError, match="no such table"):
        vault.open(table_id)


def test_no_plain_byte_reaches_the_disk(vault: Vault, store: Store, account: Account) -> None:
    """Home holds the database with its write-ahead log, the keys and the vault; temporary files would be found too."""
    content = b"name,age\n" + (CANARY + b",47\n") * 100_000
    table_id = put(vault, account, content, retention=timedelta(hours=1))
    with vault.open(table_id) as stream:
        assert stream.read(len(content)) == content
        assert_no_canary(store.settings.home)
    vault.split_key(account.id)
    assert_no_canary(store.settings.home)
    assert vault.purge(at=now() + timedelta(hours=2)) == (table_id,)
    assert_no_canary(store.settings.home)


def assert_no_canary(home: Path) -> None:
    # In a process of its own: reading a database's file in this one would drop SQLite's locks on it.
    assert any(home.rglob("*.table")) or any(home.rglob("*.key"))
    searched = subprocess.run(["grep", "-rlaF", CANARY.decode(), str(home)], capture_output=True, text=True)
    assert (searched.returncode, searched.stdout) == (1, "")


def test_a_table_that_is_too_large_leaves_nothing(vault: Vault, store: Store, account: Account) -> None:
    with pytest.raises(TableError, match="larger than the 1 MiB"):
        put(vault, account, b"x" * (2**20 + 1), limit=2**20)
    assert list((store.settings.home / "vault").iterdir()) == []
    assert store.tables.of_account(account.id) == ()


def test_an_upload_that_breaks_off_leaves_nothing(vault: Vault, store: Store, account: Account) -> None:
    class Breaking(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:  # type: ignore[override]
            raise ConnectionResetError(0, "canary in a message", "file")

    with (
        pytest.raises(TableError, match="could not be stored"),
        vault.taking(Breaking(), account_id=account.id, name="x"),  # type: ignore[arg-type]
    ):
        pass
    assert list((store.settings.home / "vault").iterdir()) == []


def test_deleting_takes_key_and_rows(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account)
    vault.delete(table_id, who="owner")
    assert not any(path.exists() for path in files(store, table_id))
    assert store.tables[table_id].state is TableState.DELETED
    with pytest.raises(TableError, match="was deleted"):
        vault.open(table_id)
    vault.delete(table_id, who="owner")
    assert len(store.events.of_account(account.id, EventKind.TABLE_DELETED)) == 1


def test_purging_takes_what_is_due_and_not_needed(vault: Vault, store: Store, account: Account) -> None:
    due = put(vault, account, retention=timedelta(hours=1))
    needed = put(vault, account, retention=timedelta(hours=1))
    kept = put(vault, account, retention=None)
    run = store.runs.add(account_id=account.id, config="{}", owner="owner", table_id=needed)
    later = now() + timedelta(hours=2)
    assert vault.purge() == ()
    assert vault.purge(at=later) == (due,)
    store.work.move(run.id, WorkState.FAILED)
    assert vault.purge(at=later) == (needed,)
    assert vault.open(kept).read() == b"a\n1\n"


def test_a_table_is_not_opened_after_its_time(vault: Vault, store: Store, account: Account) -> None:
    """Whatever a timer does: whoever opens a table whose time is up deletes it instead."""
    table_id = put(vault, account, retention=timedelta(hours=1))
    store.tables.keep_until(table_id, now() - timedelta(seconds=1))
    with pytest.raises(TableError, match="The retention time of this table has passed, so it was deleted"):
        vault.open(table_id)
    assert not any(path.exists() for path in files(store, table_id))
    assert store.tables[table_id].state is TableState.DELETED
    (event,) = store.events.of_account(account.id, EventKind.TABLE_DELETED)
    assert event.who == "retention"


def test_a_run_that_is_not_finished_reads_its_table_after_its_time(
    vault: Vault, store: Store, account: Account
) -> None:
    table_id = put(vault, account, retention=timedelta(hours=1))
    store.runs.add(account_id=account.id, config="{}", owner="owner", table_id=table_id)
    store.tables.keep_until(table_id, now() - timedelta(seconds=1))
    assert vault.open(table_id).read() == b"a\n1\n"


def strays(store: Store) -> dict[str, str]:
    return {event.detail["table"]: event.detail["what"] for event in store.events.of_kind(EventKind.STRAY_REMOVED)}


def test_what_no_screen_lists_is_removed_and_named(vault: Vault, store: Store, account: Account) -> None:
    kept, lost, emptied = (put(vault, account) for _ in range(3))
    killed = "22222222-2222-3333-4444-555555555555"
    files(store, TABLE)[0].write_bytes(b"ciphertext without a header")
    for path, like in zip(files(store, killed), files(store, kept), strict=True):
        path.write_bytes(like.read_bytes())
    with store.writing() as connection:
        # As a database that was set back: the files are whole, the key is good, and no record knows them.
        connection.execute(text("DELETE FROM tables WHERE id = :id"), {"id": lost})
    for path in files(store, emptied):
        path.unlink()
    vault.purge()
    gone = {path for stem in (TABLE, killed, lost, emptied) for path in files(store, stem)}
    assert not any(path.exists() for path in gone)
    assert strays(store) == {
        TABLE: "files without a record",
        killed: "files without a record",
        lost: "files without a record",
        emptied: "a record without its files",
    }
    assert store.tables[emptied].state is TableState.DELETED
    assert vault.open(kept).read() == b"a\n1\n"
    vault.purge()
    assert len(store.events.of_kind(EventKind.STRAY_REMOVED)) == 4, "each is named once"


TAKING_IN = """
import sys
from pathlib import Path
from synth.system.settings import Settings
from synth.ledger.ledger import Ledger
from synth.vault.keys import load_keys
from synth.vault.vault import Vault
from synth.store import Store

settings = Settings(Path(sys.argv[1]), sys.argv[2])
store, keys = Store(settings), load_keys(settings.home)
with Vault(store, keys, Ledger(store, keys)).taking(sys.stdin.buffer, account_id=sys.argv[3], name="slow.csv"):
    pass
"""


def test_a_table_that_another_process_is_taking_in_is_no_stray(vault: Vault, store: Store, account: Account) -> None:
    settings = store.settings
    command = [sys.executable, "-c", TAKING_IN, str(settings.home), settings.database_url, account.id]
    other = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert other.stdin is not None
    try:
        other.stdin.write(b"x" * (3 * CHUNK_BYTES))
        other.stdin.flush()
        directory = settings.home / "vault"
        found = wait_for(lambda: list(directory.glob("*.table")))
        vault.purge()
        assert found == list(directory.glob("*.table")), "its record is still to come"
        assert strays(store) == {}
    finally:
        other.kill()
        other.wait()
    # Killed: the system lets go of its lock, and now the file is one that no record will ever know.
    vault.purge()
    assert strays(store) == {found[0].stem: "files without a record"}
    assert list(directory.glob("*.table")) == []


def wait_for(condition: Callable[[], list[Path]]) -> list[Path]:
    for _ in range(6000):
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("the other process wrote nothing within five minutes")


def test_drafts_of_a_killed_process_are_swept_after_a_day(vault: Vault, store: Store, account: Account) -> None:
    put(vault, account)
    draft = store.settings.home / "vault" / f"{account.id}.mark.0123456789abcdef"
    draft.write_bytes(b"half a mark")
    vault.purge(at=now() + timedelta(hours=1))
    assert draft.exists(), "another process may be writing it"
    vault.purge(at=now() + timedelta(days=2))
    assert not draft.exists()


def test_a_header_of_another_table_does_not_open(vault: Vault, store: Store, account: Account) -> None:
    first, second = put(vault, account, b"first"), put(vault, account, b"other")
    for left, right in zip(files(store, first), files(store, second), strict=True):
        left.write_bytes(right.read_bytes())
    with pytest.raises(TableError, match="altered or damaged"):
        vault.open(first)
    assert vault.open(second).read() == b"other"


def test_a_damaged_header_does_not_open(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account)
    header = files(store, table_id)[1]
    header.write_bytes(flip_last_bit(header.read_bytes()))
    with pytest.raises(TableError, match="altered or damaged"):
        vault.open(table_id)
    header.unlink()
    with pytest.raises(TableError, match="missing from disk"):
        vault.open(table_id)


def test_another_master_key_opens_nothing(vault: Vault, store: Store, account: Account, keys: Keys) -> None:
    table_id = put(vault, account)
    others = replace(keys, master=os.urandom(32))
    stranger = Vault(store, others, Ledger(store, others))
    with pytest.raises(TableError, match="altered or damaged"):
        stranger.open(table_id)


def test_a_table_is_of_the_account_under_which_it_was_taken_in(vault: Vault, store: Store, account: Account) -> None:
    """Neither its record nor that of a run gives it to people who would be charged in the place of its own."""
    table_id, other = put(vault, account), store.accounts.open("others")
    with vault.of_account(account.id).open(table_id) as stream:
        assert stream.read()
    with pytest.raises(TableError, match="taken in under another account"):
        vault.of_account(other.id).open(table_id)
    with store.writing() as connection:
        connection.execute(text("UPDATE tables SET account_id = :other"), {"other": other.id})
    for opened in (vault, vault.of_account(other.id)):
        with pytest.raises(TableError, match="taken in under another account"):
            opened.open(table_id)


def test_the_split_key_is_one_per_account_and_sealed(vault: Vault, store: Store, account: Account) -> None:
    other = store.accounts.open("others")
    key = vault.split_key(account.id)
    assert len(key) == 32
    assert vault.split_key(account.id) == key != vault.split_key(other.id)
    with store.reading() as connection:
        sealed = connection.execute(
            text("SELECT split_key FROM accounts WHERE id = :id"), {"id": account.id}
        ).scalar_one()
    assert key not in bytes(sealed)


def test_a_split_key_of_another_account_does_not_open(vault: Vault, store: Store, account: Account) -> None:
    other = store.accounts.open("others")
    vault.split_key(account.id)
    copy = text("UPDATE accounts SET split_key = (SELECT split_key FROM accounts WHERE id = :a) WHERE id = :b")
    with store.writing() as connection:
        connection.execute(copy, {"a": account.id, "b": other.id})
    with pytest.raises(TableError):
        vault.split_key(other.id)


# --- the same people again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [b"a,b\n1,2\n", b"a,b\r\n1,2\r\n", b"\xef\xbb\xbfa,b\n1,2\n", b"a,b\n1,2", b"a,b\n1,2\n\n\n"],
    ids=["same", "windows line ends", "byte-order mark", "no last line end", "blank lines at the end"],
)
def test_the_same_table_under_another_account_is_noticed(
    vault: Vault, store: Store, account: Account, again: bytes
) -> None:
    put(vault, account, b"a,b\n1,2\n")
    other = store.accounts.ensure("others", Neighbours.REPLACE, PrivacyUnit())[0]
    second = put(vault, other, again)
    assert [twin.account_id for twin in vault.twins(store.tables[second])] == [account.id]
    assert Ledger(store).notes(account.id) == Ledger(store).notes(other.id) == (SEEN_ELSEWHERE,)
    # For the owner alone: on a certificate the sentence would be a function of every row of both tables.
    for one in (account, other):
        assert Ledger(store).notes(one.id, run_id="any") == ()


def test_the_same_table_is_noticed_after_it_was_deleted(vault: Vault, store: Store, account: Account) -> None:
    vault.delete(put(vault, account))
    other = store.accounts.open("others")
    assert len(vault.twins(store.tables[put(vault, other)])) == 1


def test_other_tables_and_the_same_account_give_no_warning(vault: Vault, store: Store, account: Account) -> None:
    put(vault, account, b"a\n1\n")
    put(vault, account, b"a\n1\n")
    put(vault, store.accounts.open("others"), b"a\n2\n")
    assert Ledger(store).notes(account.id) == ()


def test_a_fingerprint_confirms_no_guess_without_the_key(
    vault: Vault, store: Store, account: Account, tmp_path: Path
) -> None:
    import hashlib

    table = store.tables[put(vault, account, b"a\n1\n")]
    assert table.fingerprint not in {hashlib.sha256(guess).hexdigest() for guess in (b"a\n1\n", b"a\n1")}
    stranger = Settings(home=tmp_path / "else", database_url=f"sqlite:///{tmp_path / 'else' / 'h.sqlite'}")
    with Store(stranger) as elsewhere:
        there = elsewhere.accounts.open("city survey")
        other = Vault(elsewhere, load_keys(stranger.home), Ledger(elsewhere))
        assert elsewhere.tables[put(other, there, b"a\n1\n")].fingerprint != table.fingerprint


# --- the ledger behind the tables ---------------------------------------------------------------------------------


def spend(store: Store, account: Account) -> None:
    ledger = Ledger(store)
    ledger.spend(ledger.reserve(account.id, "run", BUDGET, purpose="run"))


def un_spend(store: Store, account: Account, keep: int) -> None:
    """Do what restoring an old backup of the database does."""
    with store.writing() as connection:
        drop_triggers(connection)
        connection.execute(
            text("DELETE FROM charges WHERE account_id = :id AND position > :keep"), {"id": account.id, "keep": keep}
        )


def drop_triggers(connection: object) -> None:
    sqlite = connection.dialect.name == "sqlite"  # type: ignore[attr-defined]
    names = ["charges_no_update", "charges_no_delete"] if sqlite else ["charges_append_only"]
    for name in names:
        connection.execute(  # type: ignore[attr-defined]
            text(f"DROP TRIGGER {name}" if sqlite else f"DROP TRIGGER {name} ON charges")
        )


@pytest.mark.parametrize("kept", ["mark and headers", "headers"])
def test_no_table_opens_over_a_ledger_that_has_lost_rows(
    vault: Vault, store: Store, account: Account, kept: str
) -> None:
    first, second = put(vault, account), put(vault, account)
    spend(store, account)
    vault.open(first).close()
    un_spend(store, account, keep=1)
    if kept == "headers":
        (store.settings.home / "vault" / f"{account.id}.mark").unlink()
    Ledger(store).chain(account.id)  # a chain that was cut is whole: the headers are what tells
    for table_id in (first, second):
        with pytest.raises(LedgerError, match="lacks charges that were already spent"):
            vault.open(table_id)
    assert store.accounts[account.id].frozen
    with pytest.raises(LedgerError, match="frozen"):
        spend(store, account)


def test_a_ledger_that_went_another_way_is_noticed(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account)
    spend(store, account)
    vault.open(table_id).close()
    un_spend(store, account, keep=0)
    spend(store, account)
    spend(store, account)
    with pytest.raises(LedgerError, match="lacks charges that were already spent"):
        vault.open(table_id)


def test_the_mark_outlives_the_tables(vault: Vault, store: Store, account: Account) -> None:
    """Tables are deleted after their run; what was spent on their people still cannot be un-spent."""
    first = put(vault, account)
    spend(store, account)
    vault.open(first).close()
    vault.delete(first)
    un_spend(store, account, keep=0)
    with pytest.raises(LedgerError, match="lacks charges that were already spent"):
        vault.open(put(vault, account))


def test_an_altered_mark_is_noticed(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account)
    vault.open(table_id).close()
    mark = store.settings.home / "vault" / f"{account.id}.mark"
    mark.write_bytes(flip_last_bit(mark.read_bytes()))
    with pytest.raises(LedgerError, match="was altered"):
        vault.open(table_id)


def test_a_restored_ledger_is_completed_and_accepted(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account)
    ledger = Ledger(store)
    for certificate in ("first", "second"):
        charge = ledger.spend(ledger.reserve(account.id, "run", BUDGET, purpose="run"))
        vault.open(table_id).close()
        ledger.release(charge, certificate)
    complete = ledger.spent(account.id)
    un_spend(store, account, keep=3)
    with pytest.raises(LedgerError):
        vault.open(table_id)

    ledger.enter_certificate(account.id, BUDGET, certificate_id="second", who="admin")
    with pytest.raises(LedgerError, match="already in the ledger"):
        ledger.enter_certificate(account.id, BUDGET, certificate_id="first", who="admin")
    vault.accept_ledger(account.id, who="admin")
    assert vault.open(table_id).read() == b"a\n1\n"
    assert ledger.spent(account.id) == complete
    assert not store.accounts[account.id].frozen
    (event,) = store.events.of_account(account.id, EventKind.THAWED)
    assert event.who == "admin"


def test_a_broken_chain_cannot_be_accepted(vault: Vault, store: Store, account: Account) -> None:
    spend(store, account)
    with store.writing() as connection:
        drop_triggers(connection)
        connection.execute(text("UPDATE charges SET mu_squared_units = 0"))
    with pytest.raises(LedgerError, match="altered at row 1"):
        vault.accept_ledger(account.id, who="admin")


def test_a_table_deleted_while_it_is_opened_stays_deleted(
    vault: Vault, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_id = put(vault, account)
    check = Vault.check_ledger

    def meanwhile(self: Vault, account_id: str) -> None:
        check(self, account_id)
        vault.delete(table_id)

    monkeypatch.setattr(Vault, "check_ledger", meanwhile)
    with pytest.raises(TableError, match="missing from disk"):
        vault.open(table_id)
    assert not any(path.exists() for path in files(store, table_id))


def test_other_accounts_stay_open(vault: Vault, store: Store, account: Account) -> None:
    other = store.accounts.ensure("others", Neighbours.REPLACE, PrivacyUnit())[0]
    mine, theirs = put(vault, account), put(vault, other, b"b\n2\n")
    spend(store, account)
    vault.open(mine).close()
    un_spend(store, account, keep=0)
    assert vault.open(theirs).read() == b"b\n2\n"


def test_a_header_carries_the_count_and_head_and_shows_neither(vault: Vault, store: Store, account: Account) -> None:
    table_id = put(vault, account)
    spend(store, account)
    vault.open(table_id).close()
    head = Ledger(store).head(account.id)
    header = vault._headers.read(table_id)
    assert (header.count, header.digest) == (head.count, head.digest) == (2, head.digest)
    sealed = files(store, table_id)[1].read_bytes()
    with pytest.raises((UnicodeDecodeError, json.JSONDecodeError)):
        json.loads(sealed)
    assert head.digest.encode() not in sealed


def test_rows_appended_while_a_table_opens_are_no_alarm(
    vault: Vault, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process spends and advances a header before this one has read the ledger, and after it."""
    first, second = put(vault, account), put(vault, account)
    ledger, chains = Ledger(store), Ledger.chains

    def advance() -> None:
        ledger.spend(ledger.reserve(account.id, "other run", BUDGET, purpose="run"))
        vault.open(second).close()

    def meanwhile(self: Ledger, account_ids: tuple[str, ...]) -> dict[str, Chain | LedgerError]:
        monkeypatch.setattr(Ledger, "chains", chains)
        advance()
        found = chains(self, account_ids)
        advance()
        return found

    monkeypatch.setattr(Ledger, "chains", meanwhile)
    assert vault.open(first).read() == b"a\n1\n"
    assert ledger.head(account.id).count == 4
