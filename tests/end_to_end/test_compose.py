"""App, database and proxy of examples/deploying/compose.yaml, run for real and outside containers.

The secrets are made by the commands of docs/deploying.md, nginx has the configuration of the example, the server has
the command line of the Dockerfile and the environment of compose.yaml, and PostgreSQL asks for the password.
"""

from __future__ import annotations

import http.client
import os
import shlex
import shutil
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from compose_here import FOLDER, FROM_THE_DOCS, SERVICES, entrypoint, instruction, secrets_made
from printed import ROOT, commands_by_section
from serving import Server, started_server
from test_proxy import HOST, PASSWORD, asked, chromium, free_ports, nginx, replaced
from walking import CODEBOOK, Walker, small_table, walk_to_bundle

from synth import verify
from synth.services.access import local_user

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

PEOPLE = "behind three containers"
"""The account that is charged."""


def make_secrets(folder: Path) -> None:
    """Type the commands of the docs in a copy of the example, with names of the numbers that only containers have."""
    told = f"{PASSWORD}\n" * 2
    for line in secrets_made():
        if os.geteuid() != 0:
            line = line.replace("-o 10001 ", "")
            if line.startswith("chown "):
                continue
        subprocess.run(["sh", "-euc", line], cwd=folder, input=told, text=True, check=True, start_new_session=True)


def add_database(server: Any, password: str) -> None:
    """Give PostgreSQL the user and the database that its image makes, and let it ask for the password."""
    rules = server.directory / "data" / "pg_hba.conf"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE hermitage LOGIN PASSWORD '{password}'".encode())
        connection.execute("CREATE DATABASE hermitage OWNER hermitage")
        rules.write_text("local hermitage hermitage scram-sha-256\n" + rules.read_text())
        connection.execute("SELECT pg_reload_conf()")


def environment_of(folder: Path, database: Any) -> dict[str, str]:
    """Return the environment of the image and of compose.yaml; addresses and paths are those of this test."""
    (line,) = instruction("ENV")
    image = dict(pair.split("=", 1) for pair in shlex.split(line))
    passwords = folder / "pgpass-here"
    passwords.write_text(
        replaced((folder / "secrets" / "pgpass").read_text(), ("database:5432", f"{database.directory}:5432"))
    )
    passwords.chmod(0o600)
    address = replaced(
        SERVICES["app"]["environment"]["DATABASE_URL"],
        ("@database/hermitage", f"@/hermitage?host={database.directory}"),
    )
    of_this_test = {"DATABASE_URL": address, "PGPASSFILE": str(passwords), "HERMITAGE_HOME": str(folder / "home")}
    return {key: value for key, value in image.items() if key != "PATH"} | SERVICES["app"]["environment"] | of_this_test


def typed(environment: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "synth", *words]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_release_is_made_through_all_three(own_server: Any, browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "deploying"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("secrets", "backups"))
    make_secrets(folder)
    assert {path.stat().st_mode & 0o777 for path in (folder / "secrets").iterdir()} == {0o600}
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        folder / "secrets" / "tls.pem", folder / "secrets" / "tls.key"
    )
    add_database(own_server, (folder / "secrets" / "database-password").read_text().strip())
    environment = environment_of(folder, own_server)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://hermitage@/hermitage?host={own_server.directory}&passfile=/nowhere")

    lines = commands_by_section("docs/deploying.md")["Compose"]
    roles = [line.partition("python -m synth ")[2] for line in lines if " python -m synth user " in line]
    user = (folder / "secrets" / "htpasswd").read_text().partition(":")[0]
    assert [line.split()[1] for line in roles] == [user, "hermitage"]

    (port,) = free_ports(1)
    module = [*entrypoint()[2:], "--server.port", str(port)]
    (tmp_path / "server").mkdir()
    (tmp_path / "nginx").mkdir()
    assert entrypoint()[:2] == ["python", "-m"]
    with (
        started_server(tmp_path / "server", variables=environment, port=port, module=module) as server,
        nginx(tmp_path / "nginx", server, lambda text: replaced(text, *FROM_THE_DOCS[1:])) as proxy,
    ):
        for line in roles:
            typed(environment, *line.replace(" hermitage ", f" {local_user()} ").split())
        shutil.copy(folder / "secrets" / "htpasswd", tmp_path / "nginx" / "htpasswd")
        bundle = walked(browser, proxy.address, user, tmp_path)
        for path in ("/", "/_stcore/health", "/media/anything.zip", "/_stcore/upload_file/a/b"):
            assert asked(proxy.port, path, authorized=False, headers="X-Forwarded-User: anna\r\n")[0] == 401, path
        assert stored(own_server) == [(user, PEOPLE)]
        assert past_the_proxy(server) == 403
    assert verify(bundle).ok
    typed(environment, "backup", str(folder / "backups" / "first"))
    assert (folder / "backups" / "first" / "manifest.json").is_file()


def walked(browser: Any, address: str, user: str, folder: Path) -> Path:
    """Walk to a release as a user of the password file, whose browser says that it is somebody else."""
    table = small_table(folder, "table.csv")
    codebook = folder / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account=PEOPLE), encoding="utf-8")
    known = [f"--host-resolver-rules=MAP {HOST} 127.0.0.1", "--no-sandbox", "--disable-gpu"]
    program = browser.browser_type.launch(executable_path=chromium(browser), args=known)
    who = {"username": user, "password": PASSWORD}
    with closing(program):
        headers = {"X-Forwarded-User": "somebody-else"}
        walker = Walker(program, address, ignore_https_errors=True, http_credentials=who, extra_http_headers=headers)
        try:
            return walk_to_bundle(walker, table, codebook, PEOPLE, folder / "bundle.zip")
        finally:
            walker.close()


def stored(database: Any) -> list[tuple[str, str]]:
    """Return whose account PostgreSQL has."""
    address = f"{database.url.replace('/postgres?', '/hermitage?')}"
    with psycopg.connect(address) as connection:
        return [(str(owner), str(name)) for owner, name in connection.execute("SELECT owner, name FROM accounts")]


def past_the_proxy(server: Server) -> int:
    """Ask the server itself, as no proxy does; return the status."""
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    with closing(line):
        line.request("GET", "/")
        return line.getresponse().status
