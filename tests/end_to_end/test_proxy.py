"""The proxy of docs/deploying.md: a real nginx with the configuration that stands there, before the real server.

An owner's browser walks through it, a path without the password is refused, and nothing of a table is in a file of
nginx. The last is looked for while half of an upload has arrived, among deleted files too: nginx deletes the name of
such a file at once and keeps the file open.
"""

from __future__ import annotations

import base64
import datetime
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from printed import ROOT, blocks
from serving import Server, started_server
from walking import CODEBOOK, Walker, small_table

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
NAME, PASSWORD = "anna", "a password of the test"
CREDENTIALS = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
CANARY = b"canary-of-the-proxy"
MEBIBYTE = 2**20
FEW, MANY = 20, 6000
"""Looks at nginx's files: for what must not be there, and for what will be, however busy the machine is."""

HOST = "synth.example.org"
"""The name in the docs; only the browser of the test knows where it is."""

if NGINX is None or shutil.which("openssl") is None:
    pytest.skip(
        "no nginx or openssl found: install them with 'apt-get install -y nginx openssl'", allow_module_level=True
    )


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that answers to the name of the docs, as its container does."""
    with started_server(tmp_path_factory.mktemp("named"), variables={"HERMITAGE_HOSTS": HOST}) as server:
        yield server


@dataclass(frozen=True)
class Proxy:
    """A running nginx: its port, its folder, and its processes."""

    port: int
    folder: Path
    pid: int

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.port}"

    def bytes_on_disk(self) -> bytes:
        """Everything in its folder, and in files that its processes hold open, with a name or without one."""
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        master = psutil.Process(self.pid)
        for process in [master, *master.children(recursive=True)]:
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                if os.path.realpath(descriptor).startswith(str(self.folder)):
                    found.append(descriptor)
        return b"\n".join(path.read_bytes() for path in found)


def configuration() -> str:
    (block,) = blocks("docs/deploying.md", "nginx")
    return block


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, f"the configuration has no '{old}'"
        text = text.replace(old, new)
    return text


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@contextmanager
def nginx(folder: Path, server: Server, change: Callable[[str], str] = str) -> Iterator[Proxy]:
    """Run nginx with the configuration of the docs on free ports; only addresses and folders are replaced."""
    secured, plain = free_ports(2)
    text = replaced(
        configuration(),
        ("listen 443 ssl", f"listen 127.0.0.1:{secured} ssl sndbuf=16k"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("/etc/nginx/tls/hermitage.pem", str(folder / "tls.pem")),
        ("/etc/nginx/tls/hermitage.key", str(folder / "tls.key")),
        ("/etc/nginx/hermitage.htpasswd", str(folder / "htpasswd")),
        ("http://127.0.0.1:8501", server.address),
    )
    (folder / "hermitage.conf").write_text(change(text), encoding="utf-8")
    certificate(folder)
    write_password(folder / "htpasswd")
    parts = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = " ".join(f"{part}_temp_path {folder / part};" for part in parts)
    main = (
        f"{'user root;' if os.geteuid() == 0 else ''} daemon off; worker_processes 1; pid {folder / 'nginx.pid'}; "
        f"error_log {folder / 'error.log'}; events {{}} "
        f"http {{ access_log {folder / 'access.log'}; {paths} include {folder / 'hermitage.conf'}; }}"
    )
    (folder / "nginx.conf").write_text(main, encoding="utf-8")
    process = subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        for _ in range(1200):
            assert process.poll() is None, (folder / "error.log").read_text(encoding="utf-8")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", secured)) == 0:
                    break
            time.sleep(0.1)
        yield Proxy(secured, folder, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=600)


def write_password(path: Path) -> None:
    """Type the command of the docs, which asks twice; without a terminal it reads what it is told."""
    (command,) = re.findall(
        r"^`(printf .*)` asks for", (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8"), re.M
    )
    command = replaced(command, ("/etc/nginx/hermitage.htpasswd", shlex.quote(str(path))))
    told = f"{PASSWORD}\n" * 2
    subprocess.run(["sh", "-euc", command], input=told, text=True, check=True, start_new_session=True)
    assert path.read_text(encoding="utf-8").startswith(f"{NAME}:$apr1$")


def certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + datetime.timedelta(days=36500))
    (folder / "tls.pem").write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def connected(port: int, *, window: int | None = None) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # its certificate is the test's own
    line = socket.socket()
    line.settimeout(300)
    if window is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    line.connect(("127.0.0.1", port))
    return context.wrap_socket(line)


def question(port: int, path: str, *, authorized: bool, headers: str = "", host: str = "127.0.0.1") -> bytes:
    password = f"Authorization: Basic {CREDENTIALS}\r\n" if authorized else ""
    return f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{password}{headers}Connection: close\r\n\r\n".encode()


def asked(port: int, path: str, *, authorized: bool, headers: str = "", host: str = "127.0.0.1") -> tuple[int, bytes]:
    """Ask for a path; return the status and what was answered."""
    with closing(connected(port)) as line:
        line.sendall(question(port, path, authorized=authorized, headers=headers, host=host))
        answer = b""
        while piece := line.recv(65536):
            answer += piece
    return int(answer.split(b" ", 2)[1]), answer


def is_on_disk(proxy: Proxy, sought: bytes, *, looks: int) -> bool:
    """Look for bytes in nginx's files, as many times at most."""
    for _ in range(looks):
        if sought in proxy.bytes_on_disk():
            return True
        time.sleep(0.05)
    return False


def is_kept_after_half_an_upload(proxy: Proxy, *, looks: int) -> bool:
    """Send two of three MiB of an upload, and say whether rows of it are in nginx's files then."""
    piece = (CANARY + b",17,north\n") * (MEBIBYTE // (len(CANARY) + 10))
    head = (
        f"PUT /_stcore/upload_file/nobody/nothing HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n"
        f"Authorization: Basic {CREDENTIALS}\r\nContent-Type: multipart/form-data; boundary=line\r\n"
        f"Content-Length: {3 * MEBIBYTE}\r\n\r\n"
        '--line\r\nContent-Disposition: form-data; name="file"; filename="table.csv"\r\n\r\n'
    )
    with closing(connected(proxy.port)) as line:
        line.sendall(head.encode())
        for _ in range(2):
            try:
                line.sendall(piece)
            except OSError:
                break  # the server has refused a session that is not one, and nginx passed that on
        return is_on_disk(proxy, CANARY, looks=looks)


def test_no_path_is_reached_without_the_password(server: Server, tmp_path: Path) -> None:
    paths = (
        "/",
        "/_stcore/health",
        "/_stcore/host-config",
        "/media/anything.zip",
        "/_stcore/upload_file/a/b",
        "/upload",
    )
    upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with nginx(tmp_path, server) as proxy:
        assert [asked(proxy.port, path, authorized=False)[0] for path in paths] == [401] * len(paths)
        assert asked(proxy.port, "/_stcore/stream", authorized=False, headers=upgrade)[0] == 401
        status, answer = asked(proxy.port, "/_stcore/health", authorized=True)
    assert status == 200
    assert answer.endswith(b"ok")


def test_nothing_of_an_upload_is_in_a_file_of_nginx_while_it_arrives(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server) as proxy:
        assert not is_kept_after_half_an_upload(proxy, looks=FEW)


def test_with_buffering_it_would_be(server: Server, tmp_path: Path) -> None:
    """The same look finds the rows where the line that matters is missing."""

    def without(text: str) -> str:
        return re.sub(r"proxy_request_buffering\s+off;", "", text)

    with nginx(tmp_path, server, without) as proxy:
        assert is_kept_after_half_an_upload(proxy, looks=MANY)


def test_an_owner_walks_through_it_under_its_name(named: Server, browser: Any, tmp_path: Path) -> None:
    table = small_table(tmp_path, "canary.csv", rows=60_000)
    table.write_bytes(table.read_bytes().replace(b"made up", CANARY))
    assert table.stat().st_size > 3 * MEBIBYTE
    codebook = tmp_path / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account="behind a proxy"), encoding="utf-8")
    folder = tmp_path / "nginx"
    folder.mkdir()
    owner = {"username": NAME, "password": PASSWORD}
    known = [f"--host-resolver-rules=MAP {HOST} 127.0.0.1", "--no-sandbox", "--disable-gpu"]
    program = browser.browser_type.launch(executable_path=chromium(browser), args=known)
    with nginx(folder, named) as proxy, closing(program):
        walker = Walker(program, proxy.address, ignore_https_errors=True, http_credentials=owner)
        try:
            walker.open()
            walker.press("Start with your own table")
            walker.see("Upload a table")
            walker.new_people("behind a proxy")
            walker.upload(1, codebook)
            walker.page.get_by_text("The description has been filled in from the file.").wait_for()
            looks = looks_while_uploading(walker, table, proxy)
            walker.page.get_by_text("Stored, encrypted.").wait_for()
        finally:
            walker.close()
        assert len(looks) > 3
        assert not any(looks)
        assert CANARY not in proxy.bytes_on_disk()


def test_a_name_that_is_not_the_servers_is_refused_behind_it_too(server: Server, tmp_path: Path) -> None:
    """A name that HERMITAGE_HOSTS does not list is passed on by nginx, and the server refuses it."""
    with nginx(tmp_path, server) as proxy:
        assert asked(proxy.port, "/_stcore/health", authorized=True, host=f"other.{HOST}")[0] == 403
        assert asked(proxy.port, "/_stcore/health", authorized=True)[0] == 200


def chromium(browser: Any) -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return found or str(browser.browser_type.executable_path)


def looks_while_uploading(walker: Walker, table: Path, proxy: Proxy) -> list[bool]:
    """Upload slowly, and say at every look while the file is under way whether nginx has rows of it on the disk."""
    page, looks, answered = walker.page, [], []
    page.on("requestfinished", lambda request: request.method == "PUT" and answered.append(request.url))
    line = walker.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": MEBIBYTE}
    line.send("Network.emulateNetworkConditions", slow)
    walker.upload(0, table)
    for _ in range(600):
        looks.append(CANARY in proxy.bytes_on_disk())
        page.wait_for_timeout(50)
        if answered:
            break
    line.send("Network.emulateNetworkConditions", slow | {"uploadThroughput": -1})
    return looks


@pytest.mark.parametrize("buffered", [False, True])
def test_nothing_of_a_slow_download_is_in_a_file_of_nginx(server: Server, tmp_path: Path, *, buffered: bool) -> None:
    """An answer that nobody reads yet; without the two lines the same look finds it on the disk."""

    def change(text: str) -> str:
        pattern = r"proxy_buffering\s+off;|proxy_max_temp_file_size\s+0;"
        return re.sub(pattern, "", text) if buffered else text

    with nginx(tmp_path, server, change) as proxy:
        page = asked(proxy.port, "/", authorized=True)[1].decode()
        scripts = re.findall(r'(?:src|href)="\./(static/js/[^"]+\.js)"', page)
        answers = {path: asked(proxy.port, f"/{path}", authorized=True)[1] for path in scripts}
        largest = max(answers, key=lambda path: len(answers[path]))
        assert len(answers[largest]) > MEBIBYTE // 2
        marker = answers[largest][-MEBIBYTE // 4 :][:4096]
        with closing(connected(proxy.port, window=4096)) as line:
            line.sendall(question(proxy.port, f"/{largest}", authorized=True))
            assert is_on_disk(proxy, marker, looks=MANY if buffered else FEW) == buffered
