"""What all commands share: options that change a configuration, and saying something."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from synth.names import visible_lines

if TYPE_CHECKING:
    from synth.schema import RunConfig

__all__ = ["add_config_options", "config_of", "say", "tell"]


def config_of(parsed: argparse.Namespace) -> RunConfig:
    """Read the configuration and apply the options given; another generator keeps no option of the one it replaces."""
    from synth.schema import load_config

    config = load_config(parsed.config)
    changes = {
        name: value
        for name, value in {
            "table": parsed.table,
            "test_table": parsed.test_table,
            "epsilon": parsed.epsilon,
            "delta": parsed.delta,
            "rows": parsed.rows,
            "account": parsed.account,
            "device": parsed.device,
            "seed": parsed.seed,
        }.items()
        if value is not None
    }
    if parsed.generator is not None and parsed.generator != config.generator:
        changes |= {"generator": parsed.generator, "options": {}}
    return replace(config, **changes)


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Let a command take a configuration and change it."""
    parser.add_argument("config", metavar="CONFIG.yaml")
    parser.add_argument("--table", metavar="PATH")
    parser.add_argument("--test-table", metavar="PATH")
    parser.add_argument("--epsilon", type=float, metavar="E")
    parser.add_argument("--delta", type=float, metavar="D")
    parser.add_argument("--generator", metavar="NAME")
    parser.add_argument("--rows", type=int, metavar="N")
    parser.add_argument("--account", metavar="A")
    parser.add_argument("--device", metavar="D")
    parser.add_argument("--seed", type=int, metavar="S")


def say(line: str) -> None:
    """Say a result; what cannot be seen in it is said by its number."""
    sys.stdout.write(visible_lines(line) + "\n")
    sys.stdout.flush()


def tell(line: str) -> None:
    """Say how far something is, apart from results."""
    sys.stderr.write(visible_lines(line) + "\n")
    sys.stderr.flush()
