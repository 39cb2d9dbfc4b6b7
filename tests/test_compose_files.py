"""examples/deploying: what compose.yaml, nginx.conf, the Dockerfiles and docs/deploying.md say of each other."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from compose_here import (
    COMPOSE,
    FOLDER,
    FROM_THE_DOCS,
    PASSES_THE_NAME,
    SERVICES,
    entrypoint,
    instruction,
    secrets_made,
)
from compose_spec import PyCompose
from printed import blocks, commands_by_section

from synth.system.settings import Login, Settings

APP, DATABASE, COMMAND_LINE = (SERVICES[name] for name in ("app", "database", "synth"))
PROXY_CONFIGURATION = (FOLDER / "nginx.conf").read_text(encoding="utf-8")


class Noting(dict[str, str]):
    """An environment that notes which variables are asked for."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_the_file_is_one_of_compose(name: str) -> None:
    """Parsed by the rules of the Compose Specification, once with its merges and once with a word misspelt."""
    content = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    assert "app" in PyCompose.from_yaml(yaml.safe_dump(content)).service_names()
    content["services"]["app"]["enviroment"] = content["services"]["app"].pop("environment", {})
    with pytest.raises(ValueError, match="enviroment"):
        PyCompose.from_yaml(yaml.safe_dump(content))


def test_nginx_has_the_configuration_of_the_docs_and_passes_the_name_on() -> None:
    (text,) = blocks("docs/deploying.md", "nginx")
    for old, new in FROM_THE_DOCS:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert text == PROXY_CONFIGURATION
    assert f"    {PASSES_THE_NAME}\n" in PROXY_CONFIGURATION


def test_the_app_is_the_image_as_it_is() -> None:
    assert "command" not in APP
    assert "entrypoint" not in APP
    assert "healthcheck" not in APP
    assert instruction("HEALTHCHECK")
    assert [f"data:{folder}" for folder in instruction("VOLUME")] == APP["volumes"]
    (port,) = instruction("EXPOSE")
    assert f"proxy_pass         http://app:{port};" in PROXY_CONFIGURATION
    assert COMMAND_LINE["entrypoint"] == [*entrypoint()[:2], "synth"]
    built = [line for line in commands_by_section("docs/deploying.md")["Compose"] if line.startswith("docker build ")]
    assert built == [f"docker build -t {APP['image']} ."]
    cuda = yaml.safe_load((FOLDER / "compose.gpu.yaml").read_text(encoding="utf-8"))["services"]["app"]["image"]
    assert f" -t {cuda} ." in commands_by_section("docs/deploying.md")["Graphics cards"][0]


def test_the_environment_is_known_to_the_server() -> None:
    environment = APP["environment"]
    assert COMMAND_LINE["environment"] == environment
    noting = Noting(environment)
    settings = Settings.from_environment(noting)
    assert set(environment) - noting.asked == {"PGPASSFILE"}  # that one is libpq's
    assert settings.login == Login("header", "X-Forwarded-User")
    assert settings.database_url == "postgresql://hermitage@database/hermitage"
    names = set(re.findall(r"server_name (\S+);", PROXY_CONFIGURATION))
    assert len(names) == 1
    assert set(settings.hosts) == names | {"localhost", "127.0.0.1"}
    variables = DATABASE["environment"]
    assert (variables["POSTGRES_USER"], variables["POSTGRES_DB"]) == ("hermitage", "hermitage")


def test_nobody_but_the_proxy_is_reached_from_outside() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    networks = COMPOSE["networks"]
    closed = {name for name, network in networks.items() if network and network.get("internal")}
    assert closed == {"front", "back"}
    assert {name: set(service["networks"]) for name, service in SERVICES.items()} == {
        "app": {"front", "back"},
        "database": {"back"},
        "proxy": {"outside", "front"},
        "synth": {"back"},
    }


def test_every_name_and_every_path_of_the_file_exists() -> None:
    commands = secrets_made()
    made = {f"./{path}" for line in commands for path in re.findall(r"secrets/[\w.-]+", line)}
    made |= {f"./{line.split()[-1]}" for line in commands if line.startswith("install -d ")}
    assert {secret["file"] for secret in COMPOSE["secrets"].values()} == {path for path in made if "/secrets/" in path}
    for service in SERVICES.values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert source in COMPOSE["volumes"] or source in made or (FOLDER / source).is_file(), mount
        for secret in service.get("secrets", []):
            assert (secret if isinstance(secret, str) else secret["source"]) in COMPOSE["secrets"]
        for other, condition in service.get("depends_on", {}).items():
            assert condition["condition"] == "service_healthy"
            assert "healthcheck" in SERVICES[other] or other == "app"  # the image has one
        if "build" in service:
            assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    used = {mount.split(":")[0] for service in SERVICES.values() for mount in service["volumes"]}
    assert set(COMPOSE["volumes"]) <= used


def test_secrets_lie_where_they_are_looked_for() -> None:
    lie = {
        secret if isinstance(secret, str) else secret["source"]: (
            f"/run/secrets/{secret}" if isinstance(secret, str) else secret["target"]
        )
        for service in SERVICES.values()
        for secret in service.get("secrets", [])
    }
    assert set(lie) == set(COMPOSE["secrets"])
    assert APP["environment"]["PGPASSFILE"] == lie["pgpass"]
    assert DATABASE["environment"]["POSTGRES_PASSWORD_FILE"] == lie["database-password"]
    for name in ("htpasswd", "tls-certificate", "tls-key"):
        assert re.search(rf"(_file|_certificate|_key) +{re.escape(lie[name])};", PROXY_CONFIGURATION)


def test_the_programs_of_a_backup_are_those_of_the_database() -> None:
    version = DATABASE["image"].partition(":")[2]
    assert f"postgresql-client-{version} " in (FOLDER / "synth.Dockerfile").read_text(encoding="utf-8")


def test_only_the_app_has_its_name() -> None:
    """A run's worker is looked for by its number on the machine of that name: another container has other numbers."""
    assert [name for name, service in SERVICES.items() if "hostname" in service] == ["app"]
