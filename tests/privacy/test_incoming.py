"""Uploads that wait: ciphertext on the disk, two to a session, and forgotten in time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from synth.errors import InputError
from synth.vault.incoming import LONGEST_WAIT_SECONDS, RECONNECT_SECONDS, Incoming, NoPlaceError
from synth.vault.sealing import CHUNK_BYTES

CANARY = b"canary-7391-ZQ,"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def incoming(tmp_path: Path, clock: Clock) -> Incoming:
    return Incoming(tmp_path / "incoming", clock=clock)


def arrived(incoming: Incoming, session: str = "a", file_id: str = "1", content: bytes = b"x") -> bytes:
    arrival = incoming.arrive(session, file_id)
    arrival.write(content)
    return arrival.finish()


def open_files(folder: Path) -> Iterator[Path]:
    for path in Path("/proc/self/fd").iterdir():
        if path.is_symlink() and os.readlink(path).startswith(str(folder)):
            yield path


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
def test_what_was_sent_in_any_pieces_comes_back_once(incoming: Incoming, size: int) -> None:
    content = os.urandom(size)
    arrival = incoming.arrive("a", "1")
    for start in range(0, size, 77_777):
        arrival.write(content[start : start + 77_777])
    ticket = arrival.finish()
    with incoming.claim(ticket) as stream:
        assert stream.read() == content
        stream.seek(0)
        assert stream.read(10) == content[:10]
    with pytest.raises(InputError, match="no longer available"):
        incoming.claim(ticket)
    assert incoming.waiting("a") == 0


def test_a_file_that_is_kept_is_read_again_until_it_is_forgotten(incoming: Incoming, tmp_path: Path) -> None:
    ticket, other = arrived(incoming, content=CANARY), arrived(incoming, file_id="2")
    for _ in range(2):
        with incoming.claim(ticket, keep=True) as stream:
            assert stream.read() == CANARY
    incoming.forget("a", keep=ticket)
    with pytest.raises(InputError, match="no longer available"):
        incoming.claim(other)
    assert incoming.claim(ticket).read() == CANARY
    assert incoming.waiting("a") == 0
    ticket = arrived(incoming)
    incoming.forget("a")
    with pytest.raises(InputError, match="no longer available"):
        incoming.claim(ticket, keep=True)
    assert list(open_files(tmp_path)) == []


def test_the_file_has_no_name_and_holds_ciphertext(incoming: Incoming, tmp_path: Path) -> None:
    ticket = arrived(incoming, content=CANARY * 200_000)
    assert list((tmp_path / "incoming").iterdir()) == []
    assert (tmp_path / "incoming").stat().st_mode & 0o777 == 0o700
    (path,) = open_files(tmp_path)
    kept = path.read_bytes()
    assert len(kept) > len(CANARY) * 200_000
    assert CANARY not in kept
    incoming.claim(ticket).close()
    assert list(open_files(tmp_path)) == []


def test_a_third_upload_takes_the_place_of_the_one_that_waits_longest(incoming: Incoming, tmp_path: Path) -> None:
    tickets = {}
    for name in ("first", "second", "third"):
        tickets[name] = arrived(incoming, file_id=name, content=name.encode())
        arrived(incoming, session="b", file_id=name)
    assert incoming.waiting("a") == incoming.waiting("b") == 2
    assert len(list(open_files(tmp_path))) == 4
    with pytest.raises(InputError, match=r"a session keeps at most 2 files, for at most an hour\. Choose it again"):
        incoming.claim(tickets["first"])
    with incoming.claim(tickets["second"]) as stream:
        assert stream.read() == b"second"


def test_two_that_are_arriving_leave_no_place(incoming: Incoming) -> None:
    first = incoming.arrive("a", "1")
    incoming.arrive("a", "2")
    with pytest.raises(NoPlaceError, match="already being uploaded"):
        incoming.arrive("a", "3")
    first.finish()
    incoming.arrive("a", "3")
    assert incoming.waiting("a") == 2


def test_an_upload_that_was_forgotten_while_it_arrived_is_not_kept(incoming: Incoming, tmp_path: Path) -> None:
    arrival = incoming.arrive("a", "1")
    arrival.write(b"begun")
    incoming.forget("a", "1")
    arrival.write(b"and on")
    with pytest.raises(InputError, match="no longer available"):
        incoming.claim(arrival.finish())
    assert list(open_files(tmp_path)) == []


def test_one_that_has_not_arrived_cannot_be_claimed(incoming: Incoming) -> None:
    arrival = incoming.arrive("a", "1")
    with pytest.raises(InputError, match="no longer available"):
        incoming.claim(arrival._waiting.ticket.encode())


@pytest.mark.parametrize("ticket", [b"", b"x" * 32, b"\xff\xfe", b"a,b\n1,2\n"])
def test_nothing_but_a_ticket_is_a_ticket(incoming: Incoming, ticket: bytes) -> None:
    arrived(incoming)
    with pytest.raises(InputError, match="no longer available"):
        incoming.claim(ticket)
    assert incoming.waiting("a") == 1


def test_age_and_the_end_of_a_session_forget(incoming: Incoming, clock: Clock, tmp_path: Path) -> None:
    arrived(incoming, session="here")
    arrived(incoming, session="gone")
    clock.seconds += RECONNECT_SECONDS - 1
    incoming.sweep(lambda session: session == "here")
    assert (incoming.waiting("here"), incoming.waiting("gone")) == (1, 1), "a line that was lost for a moment"
    clock.seconds += 2
    incoming.sweep(lambda session: session == "here")
    assert (incoming.waiting("here"), incoming.waiting("gone")) == (1, 0)
    clock.seconds += LONGEST_WAIT_SECONDS
    incoming.sweep(lambda session: True)
    assert incoming.waiting("here") == 0
    assert list(open_files(tmp_path)) == []


def test_a_full_disk_is_told_to_whoever_takes_the_upload(incoming: Incoming, tmp_path: Path) -> None:
    arrival = incoming.arrive("a", "1")
    full = open("/dev/full", "wb")  # noqa: SIM115 - closed by the upload
    arrival._waiting.file.close()
    arrival._waiting.file = arrival._writer._target = full
    arrival.write(CANARY * 200_000)
    arrival.write(b"the rest is dropped")
    with pytest.raises(InputError, match=r"could not be stored \(No space left on device\). Check the disk"):
        incoming.claim(arrival.finish())
    assert full.closed


def test_a_disk_that_takes_no_file_is_told_to_whoever_takes_the_upload(tmp_path: Path) -> None:
    (tmp_path / "incoming").write_bytes(b"a file where the folder would be")
    incoming = Incoming(tmp_path / "incoming")
    with pytest.raises(InputError, match=r"could not be stored \(File exists\). Check the disk"):
        incoming.claim(arrived(incoming))
    assert incoming.waiting("a") == 0
