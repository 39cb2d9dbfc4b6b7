"""Every line of .streamlit/config.toml, and the contrast of its colours."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from synth.errors import ConfigError
from synth.system.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))

REQUIRED = {
    "server.address": "127.0.0.1",
    "server.enableCORS": True,
    "server.enableXsrfProtection": True,
    "server.maxUploadSize": 200,
    "server.maxMessageSize": 20,
    "server.fileWatcherType": "none",
    "server.runOnSave": False,
    "server.enableStaticServing": False,
    "server.enableAgentApi": False,
    "server.showEmailPrompt": False,
    "browser.serverAddress": "localhost",
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.showErrorLinks": False,
    "client.toolbarMode": "viewer",
    "runner.magicEnabled": False,
    "runner.postScriptGC": False,
    "runner.enforceSerializableSessionState": True,
    "logger.enableRich": False,
}

PAPER = {"light": ("#FFFFFF", "#F4F6F7"), "dark": ("#12181C", "#1B2328")}
INK = {"light": ("#1F2933", "#0B6E75"), "dark": ("#E6EAED", "#4FB3BA")}


@pytest.mark.parametrize(("name", "value"), REQUIRED.items())
def test_line(name: str, value: object) -> None:
    section, option = name.split(".")
    assert CONFIGURATION[section][option] == value


def test_no_other_line_than_these_and_the_theme() -> None:
    written = {
        f"{section}.{option}" for section, options in CONFIGURATION.items() if section != "theme" for option in options
    }
    assert written == set(REQUIRED)


@pytest.mark.parametrize("name", REQUIRED)
def test_the_installed_streamlit_knows_the_option(name: str) -> None:
    from streamlit import config

    assert name in config.get_config_options(force_reparse=False)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_the_design(theme: str) -> None:
    colours = CONFIGURATION["theme"][theme]
    assert (colours["backgroundColor"], colours["secondaryBackgroundColor"]) == PAPER[theme]
    assert (colours["textColor"], colours["primaryColor"]) == INK[theme]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_at_least_four_and_a_half(theme: str) -> None:
    colours = CONFIGURATION["theme"][theme]
    for ink, paper in itertools.product(("textColor", "primaryColor", "linkColor"), PAPER[theme]):
        assert contrast(colours[ink], paper) >= 4.5, (ink, paper)
    for name in ("green", "blue", "orange", "yellow", "red", "gray"):
        background = colours[f"{name}BackgroundColor"]
        assert contrast(colours[f"{name}TextColor"], background) >= 4.5, name
        # Words of an alert stand in the colour of the text on the colour of the alert.
        assert contrast(colours["textColor"], background) >= 4.5, name


def test_contrast_formula() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.1."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ("", ("localhost", "127.0.0.1")),
        ("synth.example.org", ("localhost", "127.0.0.1", "synth.example.org")),
        (" Synth.Example.org ,,10.0.0.7", ("localhost", "127.0.0.1", "synth.example.org", "10.0.0.7")),
        ("localhost", ("localhost", "127.0.0.1")),
    ],
)
def test_the_names_of_the_server(given: str, hosts: tuple[str, ...]) -> None:
    assert Settings.from_environment({"HERMITAGE_HOSTS": given}).hosts == hosts


@pytest.mark.parametrize(
    "given", ["*", "*.example.org", "https://synth.example.org", "a b", "synth.example.org:8501", "a/b"]
)
def test_what_is_no_name_is_refused(given: str) -> None:
    with pytest.raises(
        ConfigError, match="HERMITAGE_HOSTS must be a list of names of this server, separated by commas"
    ):
        Settings.from_environment({"HERMITAGE_HOSTS": given})


@pytest.mark.thorough
def test_a_server_with_such_a_name_does_not_start_and_says_why() -> None:
    environment = {**os.environ, "HERMITAGE_HOSTS": "*"}
    started = subprocess.run(
        [sys.executable, "-c", "import app"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert started.returncode == 1
    assert started.stderr.startswith("The environment variable HERMITAGE_HOSTS must be a list"), started.stderr
    assert "Traceback" not in started.stderr
