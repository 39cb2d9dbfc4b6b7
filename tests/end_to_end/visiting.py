"""Visitors without a browser: they speak Streamlit's protocol over a web socket, and do what a list of actions says."""

from __future__ import annotations

import asyncio
import http.client
import math
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import FileURLs, UploadedFileInfo
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

__all__ = ["ANSWER_SECONDS", "RUN", "SEAL", "WAY", "Action", "LostError", "Visitor", "actions", "visitor_of"]

ANSWER_SECONDS = 60.0
PIECE_BYTES = 2**16

WAY = """
open                                            Turn a private table into rows you can share.
press   Start with your own table               Upload a table
offered Is it about the same people = No, new people   Upload a table
write   A name for these people = {account}     Upload a table
upload  Codebook = codebook.yaml                Upload a table
upload  Table = {account}.csv                   Upload a table
press   Continue to 2 Describe                  Describe the table
press   Continue to 3 Budget                    Choose a privacy budget
press   Continue to 4 Generate                  Generate rows
"""
RUN = """
press   Spend 2.00 and generate                 Generate rows
confirm Spend 2.00 and generate                 Generate rows
follow  Continue to 5 Report                    Generate rows
press   Continue to 5 Report                    Read the report
press   Continue to 6 Release                   Release
visit   Ledger                                  Ledger
"""
"""What comes before a run, and a run with its report."""
SEAL = """
check   No protected unit has more rows         Release
check   What I declared public was typed        Release
check   I may share a table                     Release
write   Your name, kept in the records = A. Steward   Release
press   Seal release                            Release
"""


@dataclass(frozen=True, slots=True)
class Action:
    """One line of a list: what is done, with what, and the heading of the screen that must stand there afterwards."""

    verb: str
    words: str
    heading: str


def actions(lines: str, account: str = "") -> list[Action]:
    parsed = []
    for line in lines.replace("{account}", account).strip().splitlines():
        verb, _, rest = line.partition(" ")
        words, _, heading = rest.strip().rpartition("   ")
        parsed.append(Action(verb, words.strip(), heading.strip()))
    return parsed


class LostError(Exception):
    """An action that did not lead where it leads."""


class Visitor:
    """What a browser holds of one session, and the protocol that it speaks.

    Attributes
    ----------
    ticks : list of float
        Seconds that each look at a moving run took.
    deadline : float
        Moment of the monotonic clock until which a run is followed.
    upload_seconds : float
        How long the bytes of an upload take at least.
    """

    def __init__(self, connection: ClientConnection, port: int, cookie: str) -> None:
        self.connection = connection
        self.port = port
        self.cookie = cookie
        self.ticks: list[float] = []
        self.deadline = math.inf
        self.upload_seconds = 0.0
        self.session_id = ""
        self.page_hash = ""
        self.query = ""
        self.pages: dict[str, str] = {}
        self.elements: dict[tuple[int, ...], tuple[Element, str]] = {}
        self.states: dict[str, WidgetState] = {}
        self.timers: dict[str, float] = {}

    @property
    def headings(self) -> list[str]:
        return [held.heading.body for held, _ in self.elements.values() if held.WhichOneof("type") == "heading"]

    def widget(self, kind: str, words: str, *, last: bool = False) -> tuple[Any, str]:
        """Return a widget whose label begins with these words, and the fragment it belongs to."""
        found = [
            (getattr(held, kind), fragment)
            for held, fragment in self.elements.values()
            if held.WhichOneof("type") == kind and getattr(held, kind).label.startswith(words)
        ]
        if not found:
            raise LostError(f"no {kind} '{words}'")
        return found[-1 if last else 0]

    def offers(self, kind: str, words: str) -> bool:
        """Whether there is such a widget."""
        return any(
            held.WhichOneof("type") == kind and getattr(held, kind).label.startswith(words)
            for held, _ in self.elements.values()
        )

    def errors(self) -> list[str]:
        shown = [held for held, _ in self.elements.values() if held.WhichOneof("type") in {"alert", "exception"}]
        return [held.alert.body or held.exception.message for held in shown if held.alert.format in {0, 1}]

    async def rerun(
        self, *changed: WidgetState, fragment: str = "", page: str | None = None, timer: bool = False
    ) -> None:
        """Send what changed, and read until the run of the script has ended and no other follows."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string = self.query
        state.page_script_hash = self.page_hash if page is None else page
        state.fragment_id = fragment
        state.is_auto_rerun = timer
        state.context_info.timezone = "UTC"
        for held in changed:
            if held.WhichOneof("value") != "trigger_value":
                self.states[held.id] = held
        present = {self._identity(held) for held, _ in self.elements.values()}
        state.widget_states.widgets.extend(held for key, held in self.states.items() if key in present)
        state.widget_states.widgets.extend(held for held in changed if held.WhichOneof("value") == "trigger_value")
        await self.connection.send(message.SerializeToString())
        await self._until_ended()

    async def _until_ended(self) -> None:
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                message = ForwardMsg.FromString(await self.connection.recv())
                kind = message.WhichOneof("type")
                if kind == "script_finished" and message.script_finished in {0, 3}:
                    return
                self._take(kind, message)

    def _take(self, kind: str | None, message: ForwardMsg) -> None:
        if kind == "new_session":
            again = set(message.metadata.run.fragment_ids)
            kept = {path: held for path, held in self.elements.items() if again and held[1] not in again}
            self.elements = kept
            self.timers = self.timers if again else {}
            self.session_id = message.new_session.initialize.session_id or self.session_id
            self.page_hash = message.new_session.page_script_hash
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            path = tuple(message.metadata.delta_path)
            self.elements[path] = (message.delta.new_element, message.delta.fragment_id)
        elif kind == "navigation":
            self.pages = {held.page_name: held.page_script_hash for held in message.navigation.app_pages}
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "auto_rerun":
            self.timers[message.auto_rerun.fragment_id] = message.auto_rerun.interval
        elif kind == "stop_auto_rerun":
            for fragment in message.stop_auto_rerun.fragment_ids:
                self.timers.pop(fragment, None)

    @staticmethod
    def _identity(held: Element) -> str:
        kind = held.WhichOneof("type")
        return str(getattr(getattr(held, kind), "id", "")) if kind else ""

    async def upload(self, words: str, path: Path) -> None:
        uploader, fragment = self.widget("file_uploader", words)
        request = BackMsg()
        request.file_urls_request.request_id = os.urandom(8).hex()
        request.file_urls_request.file_names.append(path.name)
        request.file_urls_request.session_id = self.session_id
        await self.connection.send(request.SerializeToString())
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                message = ForwardMsg.FromString(await self.connection.recv())
                if message.WhichOneof("type") == "file_urls_response":
                    break
        urls = message.file_urls_response.file_urls[0]
        body = path.read_bytes()
        status = await asyncio.to_thread(self._put, urls, path.name, body)
        if status not in {200, 204}:
            raise LostError(f"the upload was answered with {status}")
        changed = WidgetState(id=uploader.id)
        changed.file_uploader_state_value.uploaded_file_info.append(
            UploadedFileInfo(name=path.name, size=len(body), file_id=urls.file_id, file_urls=urls)
        )
        await self.rerun(changed, fragment=fragment)
        self.states.pop(uploader.id, None)

    def _put(self, urls: FileURLs, name: str, body: bytes) -> int:
        border = os.urandom(12).hex()
        head = f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        whole = head.encode() + body + f"\r\n--{border}--\r\n".encode()
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        headers = {"Content-Type": f"multipart/form-data; boundary={border}", "Cookie": self.cookie}
        headers["X-Xsrftoken"] = self.cookie.partition("=")[2]
        try:
            headers["Content-Length"] = str(len(whole))
            asked.request("PUT", urls.upload_url, self._pieces(whole), headers)
            return asked.getresponse().status
        finally:
            asked.close()

    def _pieces(self, whole: bytes) -> Iterator[bytes]:
        starts = range(0, len(whole), PIECE_BYTES)
        for start in starts:
            time.sleep(self.upload_seconds / len(starts))
            yield whole[start : start + PIECE_BYTES]

    async def perform(self, action: Action, folder: Path) -> None:
        """Do one action, and see that it led where it leads."""
        name, _, value = (part.strip() for part in action.words.partition("="))
        match action.verb:
            case "open":
                await self.rerun()
            case "press":
                button, fragment = self.widget("button", action.words)
                await self.rerun(WidgetState(id=button.id, trigger_value=True), fragment=fragment)
            case "confirm":
                button, fragment = self.widget("button", action.words, last=True)
                await self.rerun(WidgetState(id=button.id, trigger_value=True), fragment=fragment)
            case "offered" if not self.offers("radio", name):
                pass  # nothing to choose: the page asks only where the ledger knows people
            case "offered" | "choose":
                radio, fragment = self.widget("radio", name)
                await self.rerun(WidgetState(id=radio.id, string_value=value), fragment=fragment)
            case "write":
                box, fragment = self.widget("text_input", name)
                await self.rerun(WidgetState(id=box.id, string_value=value), fragment=fragment)
            case "upload":
                await self.upload(name, folder / value)
            case "check":
                box, fragment = self.widget("checkbox", action.words)
                await self.rerun(WidgetState(id=box.id, bool_value=True), fragment=fragment)
            case "visit":
                await self.rerun(page=self.pages[action.words])
            case "follow":
                await self._follow(action.words)
        if action.heading not in self.headings:
            kinds = sorted({str(held.WhichOneof("type")) for held, _ in self.elements.values()})
            raise LostError(f"saw {self.headings[:1]}, was told {self.errors()[:1]}, got {kinds}")
        if shown := self.errors():
            raise LostError(f"was told: {shown[0][:80]}")

    async def _follow(self, button: str) -> None:
        """Ask once a second how the run goes, as the page does in a browser, until it offers the report."""
        while True:
            if any(held.button.label == button for held, _ in self.elements.values()):
                return
            if not self.timers:
                raise LostError(f"the run ended without a report: {self.errors()[:1]}")
            if time.monotonic() > self.deadline:
                raise LostError("the run had not ended when the time was up")
            fragment, interval = next(iter(self.timers.items()))
            await asyncio.sleep(interval)
            began = time.monotonic()
            await self.rerun(fragment=fragment, timer=True)
            self.ticks.append(time.monotonic() - began)


@asynccontextmanager
async def visitor_of(
    port: int, *, more: Mapping[str, str] | None = None, session: str | None = None
) -> AsyncIterator[Visitor]:
    """Connect to a server on the loopback address as a browser does that opens its first page there.

    Parameters
    ----------
    port : int
    more : mapping, optional
        Headers that a proxy adds.
    session : str, optional
        The session that it says it was in before.
    """
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    await asyncio.to_thread(asked.request, "GET", "/_stcore/health")
    answer = await asyncio.to_thread(asked.getresponse)
    await asyncio.to_thread(answer.read)
    asked.close()
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    headers = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{port}", **(more or {})}
    protocols: Any = ["streamlit", cookie.partition("=")[2] or "none", *filter(None, [session])]
    async with connect(
        f"ws://127.0.0.1:{port}/_stcore/stream",
        subprotocols=protocols,
        additional_headers=headers,
        max_size=2**25,
        compression=None,
    ) as connection:
        yield Visitor(connection, port, cookie)
