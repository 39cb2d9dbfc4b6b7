"""Uploads: in clear nowhere, two at most wait in a session, and whatever the server does not accept is gone."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import Server, started_server
from walking import Walker, answer_about_people

from synth.application import Application
from synth.demonstration import CLINIC
from synth.store import TableState, now
from synth.system.settings import Settings

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

MEBIBYTE = 2**20
CANARY = "canary-row-"
ROWS = 131_072
"""Of 24 bytes each: three mebibytes, where one is enough for a form parser to use a file."""


def test_no_row_of_an_upload_is_seen_in_clear(server: Server, browser: Any, tmp_path: Path) -> None:
    table = tmp_path / "canaries.csv"
    table.write_text("word,n\n" + "".join(f"{CANARY}{n:010d},7\n" for n in range(ROWS)), encoding="utf-8")
    walker = Walker(browser, server.address)
    walker.open("upload")
    walker.new_people("watched")
    # Slowed down, so that who watches has the time to look at every file more than once.
    walker.context.new_cdp_session(walker.page).send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": MEBIBYTE},
    )
    with Watch(server) as watch:
        walker.upload(0, table)
        walker.page.get_by_text("Stored, encrypted.").wait_for()
    assert watch.rounds > 5
    assert watch.incoming > 0, "the watch has to be able to see the file that the upload is encrypted into"
    assert watch.most_rows == 0, f"{watch.most_rows:,} of {ROWS:,} rows in clear in {watch.place}"
    walker.close()


def test_reading_a_folder_can_be_cancelled_and_leaves_nothing(browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "long.csv").write_bytes(b"word,n\n" + b"some words,7\n" * 50_000)
    with started_server(tmp_path, variables={"HERMITAGE_FOLDERS": str(folder)}) as server:
        walker = Walker(browser, server.address)
        walker.open("upload")
        walker.new_people("claims")
        walker.page.get_by_text("From a folder on this server").click()
        walker.fill("Path of the file or files", str(folder / "long.csv"))
        with parser_stopped(server):
            walker.press("Read and encrypt it")
            walker.page.get_by_test_id("stProgress").filter(has_text="650 kB read").wait_for()
            walker.press("Cancel")
            walker.page.get_by_text("Cancelled. Nothing of the table was kept.").wait_for()
        walker.settle()
        assert not walker.page.get_by_text("Stored, encrypted.").count()
        walker.close()
        database = f"sqlite:///{server.home / 'hermitage.sqlite'}"
        with Application(Settings(home=server.home, database_url=database)) as application:
            assert application.intake.tables() == []
            assert application.account_names() == []
        assert not [path for name in ("vault", "incoming") for path in (server.home / name).glob("**/*.table")]


def running(server: Server, module: str) -> list[psutil.Process]:
    """Return the processes that a server has started to run a module."""
    found = []
    for process in psutil.Process(server.pid).children():
        with suppress(psutil.NoSuchProcess):  # it ended since it was listed
            if module in process.cmdline():
                found.append(process)
    return found


@contextmanager
def parser_stopped(server: Server) -> Iterator[None]:
    """Let no parsing process of a server go on that begins in this block: a table is read until that is cancelled."""
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(0.01):
            for process in running(server, "synth.services.inspection"):
                with suppress(psutil.NoSuchProcess):
                    process.suspend()

    watch = threading.Thread(target=stop)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


class Watch(threading.Thread):
    """Reads all files that a server has open, deleted ones too, and those in its folders, until the block ends."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.rounds = self.most_rows = self.incoming = 0
        self.place = ""
        self._ended = threading.Event()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._look()
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._look()
            except (OSError, psutil.NoSuchProcess):  # a folder or a process went while it was listed: look again
                continue
            self.rounds += 1

    def _look(self) -> None:
        for place, path in self._files():
            try:
                rows = path.read_bytes().count(CANARY.encode())
            except OSError:
                continue
            self.incoming += f"{self.server.home}/incoming" in place
            if rows > self.most_rows:
                self.most_rows, self.place = rows, place

    def _files(self) -> Iterator[tuple[str, Path]]:
        for path in open_files(self.server.pid):
            try:
                place = os.readlink(path)
            except OSError:  # closed since it was listed
                continue
            yield place, path
        for folder in (self.server.temporary, self.server.home):
            for path in folder.rglob("*"):
                if path.is_file():
                    yield str(path), path


def open_files(pid: int) -> Iterator[Path]:
    """Yield the plain files that a process and its children have open, as paths that can be read."""
    process = psutil.Process(pid)
    for one in (process, *process.children(recursive=True)):
        for path in Path(f"/proc/{one.pid}/fd").glob("*"):
            try:
                if path.is_file():
                    yield path
            except OSError:
                continue


@dataclass(frozen=True)
class Session:
    """A browser's session, to send uploads in its name as its page would."""

    server: Server
    path: str
    headers: dict[str, str]

    def put(self, name: str, body: Iterator[bytes] | bytes, **headers: str) -> tuple[int, str]:
        """Send a body as an upload of the session; return status and answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=600)
        sent = {**self.headers, "content-type": "multipart/form-data; boundary=edge", **headers}
        connection.request("PUT", f"{self.path}/{name}", body, {k: v for k, v in sent.items() if v})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def delete(self, name: str) -> int:
        """Take an upload back, as a page does when its owner removes the file."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=600)
        connection.request("DELETE", f"{self.path}/{name}", headers=self.headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def waiting(self) -> int:
        """Return how many files the server has open among the incoming ones."""
        links = [os.readlink(path) for path in open_files(self.server.pid)]
        return sum(link.startswith(f"{self.server.home}/incoming") for link in links)


@pytest.fixture(scope="module")
def session(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a page on a server of these tests' own and take over what its uploads are sent with.

    The tests stand in the order in which they leave uploads behind; the last stops the server.
    """
    folder = tmp_path_factory.mktemp("uploads")
    small = folder / "small.yaml"
    small.write_text("a: 1\n", encoding="utf-8")
    with started_server(folder) as server:
        walker = Walker(browser, server.address)
        walker.open("upload")
        walker.new_people("direct")
        with walker.page.expect_request(lambda request: request.method == "PUT") as sent:
            walker.upload(1, small)
        walker.page.get_by_test_id("stAlertContentError").first.wait_for()
        headers = sent.value.all_headers()
        token = headers["x-xsrftoken"]
        path = sent.value.url.removeprefix(server.address).rpartition("/")[0]
        yield Session(server, path, {"x-xsrftoken": token, "cookie": f"_streamlit_xsrf={token}"})
        walker.close()


def multipart(*pieces: bytes, name: bytes = b"big.csv", end: bytes = b"\r\n--edge--\r\n") -> Iterator[bytes]:
    yield b'--edge\r\nContent-Disposition: form-data; name="f"; filename="' + name + b'"\r\n'
    yield b"Content-Type: text/csv\r\n\r\n"
    yield from pieces
    yield end


BROKEN = {
    "two files": b"".join([*multipart(b"a", end=b"\r\n"), *multipart(b"b")]),
    "no file": b'--edge\r\nContent-Disposition: form-data; name="f"\r\n\r\na\r\n--edge--\r\n',
    "cut short": b"".join(multipart(b"a,b\n" * 100_000, end=b"")),
    "no form": b"a,b\n1,2\n",
    "endless header": b"--edge\r\nX: " + b"x" * MEBIBYTE,
    "endless preamble": b"\r\n" * MEBIBYTE,
    "nothing": b"",
}


def test_what_is_no_upload_of_this_page_is_refused_and_leaves_nothing(session: Session) -> None:
    for name, body in BROKEN.items():
        assert session.put("broken", body)[0] == 400, name
        assert session.waiting() == 0, name
    assert "boundary" not in session.server.log.read_text(encoding="utf-8"), "a log quotes nothing that was sent"
    whole = b"".join(multipart(b"a,b\n1,2\n"))
    assert session.put("no-form", whole, **{"content-type": "text/csv"})[0] == 400
    assert session.put("no-token", whole, **{"x-xsrftoken": ""})[0] == 403
    assert session.put("no-token", whole, **{"x-xsrftoken": "2|a|b|1"})[0] == 403
    stranger = Session(session.server, session.path + "0", session.headers)
    assert stranger.put("no-session", whole)[0] == 400
    assert session.put("claimed-length", whole, **{"content-length": str(300 * MEBIBYTE)})[0] == 413
    # In pieces, without a length: the limit holds while they arrive.
    status, sentence = session.put("pieces", multipart(*[bytes(MEBIBYTE)] * 202))
    assert (status, sentence) == (413, "The file is larger than the 200 MB accepted here.")
    assert session.waiting() == 0
    assert session.put("whole", whole)[0] == 204
    assert session.waiting() == 1


def test_uploads_that_nobody_takes_take_no_memory_and_at_most_two_wait(session: Session) -> None:
    process = psutil.Process(session.server.pid)
    size, block = 60, os.urandom(MEBIBYTE)
    assert session.put("first", multipart(block))[0] == 204
    before = process.memory_info().rss
    for number in range(6):
        assert session.put(f"file-{number}", multipart(*[block] * size)) == (204, "")
        assert session.waiting() <= 2
    grown = (process.memory_info().rss - before) / MEBIBYTE
    assert session.waiting() == 2
    assert grown < 50, f"{grown:,.0f} MiB more after six uploads of {size} MiB"
    assert list((session.server.home / "incoming").iterdir()) == [], "the files have no names: none is left by a kill"
    assert session.delete("file-5") == 204
    assert session.waiting() == 1


def stopped(server: Server) -> bool:
    """Tell a server to stop, and say whether it does so within seconds of its own, however busy the machine is."""
    process = psutil.Process(server.pid)
    before = last = sum(process.cpu_times()[:2])
    process.terminate()
    for _ in range(6000):
        try:
            process.wait(timeout=0.05)
        except psutil.TimeoutExpired:
            last = sum(process.cpu_times()[:2])
        else:
            return last - before < 15
    process.kill()
    return False


def test_a_server_stops_although_somebody_sends_an_upload_that_never_ends(session: Session) -> None:
    asked = {
        "host": f"127.0.0.1:{session.server.port}",
        "content-type": "multipart/form-data; boundary=edge",
        "content-length": str(100 * MEBIBYTE),
        **session.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in asked.items())
    before = session.waiting()
    with socket.create_connection(("127.0.0.1", session.server.port)) as connection:
        connection.sendall(f"PUT {session.path}/slow HTTP/1.1\r\n{lines}\r\n".encode() + b"".join(multipart(end=b"a")))
        while session.waiting() == before:
            time.sleep(0.05)
        assert stopped(session.server)


def test_a_server_stops_while_it_looks_at_a_table_whose_names_are_long(browser: Any, tmp_path: Path) -> None:
    """A name of 60,000 digits held it for 42 seconds, in which it could not be stopped."""
    names = ["9" * 256, "_" * 256, "aA" * 128, "\u202e" * 256, "\u0301" * 256, "=<>" * 85, "id_" * 85]
    table, longer = tmp_path / "names.csv", tmp_path / "longer.csv"
    table.write_text(",".join(names) + "\n" + ",".join("1234567") + "\n1,2,3,4,5,6,7" * 50_000, encoding="utf-8")
    longer.write_text("a," + "9" * 60_000 + "\n1,2\n", encoding="utf-8")
    with started_server(tmp_path) as server:
        walker = Walker(browser, server.address)
        walker.open("upload")
        walker.new_people("names")
        walker.upload(0, longer)
        walker.page.get_by_text("The name of column 2 has 60,000 characters").wait_for()
        walker.upload(0, table)
        walker.page.get_by_text("Stored, encrypted.").wait_for()
        walker.visit("2 Describe", "Describe the table")
        answer_about_people(walker)
        walker.press("Look at my rows and propose everything")
        while not running(server, "synth.services.recognition.process"):
            time.sleep(0.01)
        assert stopped(server)
        walker.close()


def test_a_server_that_nobody_visits_deletes_what_is_due_and_names_what_is_out_of_place(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as application:
        table, _ = application.demonstration(CLINIC)
        application.store.tables.keep_until(table.table_id, now() - timedelta(seconds=1))
        stray = home / "vault" / "22222222-2222-3333-4444-555555555555.table"
        stray.write_bytes(b"ciphertext")
        with started_server(tmp_path):
            for _ in range(6000):
                if application.strays() and application.store.tables[table.table_id].state is TableState.DELETED:
                    break
                time.sleep(0.05)
        assert application.store.tables[table.table_id].state is TableState.DELETED
        assert [event.detail["table"] for event in application.strays()] == [stray.stem]
        assert list((home / "vault").glob("*.table")) == []
