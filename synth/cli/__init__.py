"""The command line: the same code path as the browser, for files of any size and for scripts."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from synth.cli.common import add_config_options, config_of, say, tell
from synth.cli.ledger import add_ledger_commands
from synth.cli.rehearsal import add_rehearsal_commands
from synth.errors import InputError, RunCancelledError, SynthError
from synth.system.paths import path_of

__all__ = ["main"]

logger = logging.getLogger(__name__)

_PATHS = {
    **{"config": "the configuration", "table": "the table", "test_table": "the test table", "out": "the output"},
    **{"folder": "the folder", "folders": "a run", "bundle": "the bundle", "public_key": "the public key"},
    **{"stand_in": "the stand-in", "simulate": "the simulation"},
}
"""What the arguments are that name files, by the name of the argument."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    int
        0; 1 when a check found a difference, or ``replay`` made another table or report; 2 bad input; 3 over budget;
        4 above the allowed epsilon; 5 cancelled; 70 internal; 74 a disk is full.
    """
    parser = _parser()
    parsed = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        _check_paths(parsed)
        return command(parsed)
    except SynthError as error:
        sys.stderr.write(f"synth: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        from synth.ledger.ledger import SPENT_OR_FREED

        sys.stderr.write(f"synth: cancelled. {SPENT_OR_FREED}\n")
        return RunCancelledError.exit_code
    except BrokenPipeError:
        return 0
    except Exception as error:
        from synth.services.incidents import own_error, record_incident

        given = getattr(parsed, "out", None)
        full = own_error(error, *([Path(given)] if isinstance(given, str | Path) else []))
        if full is not None:
            sys.stderr.write(f"synth: {full}\n")
            return full.exit_code
        sys.stderr.write(f"synth: something failed inside Hermitage. Incident {record_incident(error)}.\n")
        return SynthError.exit_code


def _check_paths(parsed: argparse.Namespace) -> None:
    """Refuse what is no path wherever a command takes one."""
    for name, what in _PATHS.items():
        given = getattr(parsed, name, None)
        for one in given if isinstance(given, list) else [given]:
            if one:
                path_of(one, what)


def _demo(parsed: argparse.Namespace) -> int:
    from synth.demonstration import write_demonstration

    table, config = write_demonstration(parsed.folder)
    say(f"Wrote {table} (simulated: no real person is in it) and {config}.")
    say(f"Next: python -m synth run {config} --out {Path(parsed.folder) / 'release'}")
    return 0


def _run(parsed: argparse.Namespace) -> int:
    from synth.services.local import run_locally

    config = config_of(parsed)
    result = run_locally(
        config,
        parsed.out,
        keep_table=parsed.keep_table,
        owner_report=not parsed.no_owner_report,
        force=parsed.force,
        say=tell,
    )
    for line in result.lines:
        say(line)
    return 0


def _forecast(parsed: argparse.Namespace) -> int:
    from synth.services.planning import forecast_lines

    config = config_of(parsed)
    for line in forecast_lines(config):
        say(line)
    return 0


def _report(parsed: argparse.Namespace) -> int:
    from synth.services.local import owner_report_again

    written = owner_report_again(
        parsed.folder,
        say=tell,
        classifiers=parsed.classifiers,
        hard_labels=parsed.hard_labels,
        shadow_models=parsed.shadow_models,
    )
    say(f"Wrote {written}.")
    return 0


def _compare(parsed: argparse.Namespace) -> int:
    from synth.services.comparing import compared_lines

    for line in compared_lines(parsed.folders):
        say(line)
    return 0


def _verify(parsed: argparse.Namespace) -> int:
    from synth.bundle.verify import verify

    verdict = verify(
        parsed.bundle,
        public_key=parsed.public_key,
        memory_bytes=int(parsed.memory * 2**30),
        seconds=parsed.seconds,
    )
    if parsed.json:
        say(json.dumps(verdict.json, indent=2, sort_keys=True))
    else:
        for line in verdict.lines:
            say(line)
    return 0 if verdict.ok else 1


def _replay(parsed: argparse.Namespace) -> int:
    from synth.services.replaying import replay_bundle

    again = replay_bundle(parsed.bundle, parsed.out, refit=parsed.refit, generator=parsed.generator, force=parsed.force)
    for line in again.lines:
        say(line)
    return 0 if again.as_certified else 1


def _generators(_: argparse.Namespace) -> int:
    from synth.generators import cards

    for card in cards():
        say(f"{card.name}: {card.title}. {card.summary}")
        say(f"    Best for: {card.best_for}")
        say(f"    Loses where: {card.loses_where}")
        if card.needs.words:
            say(f"    Needs: {card.needs.words}.")
        say(f"    Source: {card.reference}")
    return 0


def _schema(parsed: argparse.Namespace) -> int:
    from synth.services.drafting import draft_configuration

    if parsed.look and parsed.account is None:
        raise InputError("A look at the rows is recorded: name the people they are about with --account.")
    say(draft_configuration(parsed.table, look_for=parsed.account if parsed.look else None).rstrip("\n"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="synth", description="Turn a private table into rows that can be shared, and check what others made."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="write a simulated table and a configuration that runs")
    demo.add_argument("folder", metavar="DIR")
    demo.set_defaults(command=_demo)

    run = commands.add_parser("run", help="make a synthetic table and its bundle")
    add_config_options(run)
    run.add_argument("--out", required=True, metavar="DIR")
    run.add_argument("--keep-table", action="store_true", help="keep the encrypted copy of the table for later")
    run.add_argument("--no-owner-report", action="store_true", help="do not compare with the private rows")
    run.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    run.set_defaults(command=_run)

    forecast = commands.add_parser("forecast", help="expected error before anything is spent; reads no rows")
    add_config_options(forecast)
    forecast.set_defaults(command=_forecast)

    report = commands.add_parser("report", help="owner-only reports for a finished run whose table was kept")
    report.add_argument("folder", metavar="DIR")
    report.add_argument(
        "--classifiers",
        choices=("quick", "all"),
        default="quick",
        help="what predicts the label: a quick three, or all thirteen, each trained three times",
    )
    report.add_argument(
        "--hard-labels",
        action="store_true",
        help="areas under curves from predicted classes, the convention of printed tables, instead of from scores",
    )
    report.add_argument(
        "--shadow-models",
        type=int,
        nargs="?",
        const=64,
        metavar="N",
        help="attack the most exposed rows with N runs like this one (64 without N), each row in or out by a coin",
    )
    report.set_defaults(command=_report)

    add_rehearsal_commands(commands)

    compare = commands.add_parser("compare", help="publishable numbers of several runs side by side, and their cost")
    compare.add_argument("folders", metavar="DIR", nargs="+")
    compare.set_defaults(command=_compare)

    verify = commands.add_parser("verify", help="check a bundle: its promise, every file and every cell")
    verify.add_argument("bundle", metavar="BUNDLE")
    verify.add_argument("--public-key", metavar="FILE")
    verify.add_argument("--json", action="store_true")
    verify.add_argument("--memory", type=float, default=1.0, metavar="GIB", help="what checking may take (default 1)")
    verify.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long it may take (default 60)")
    verify.set_defaults(command=_verify)

    replay = commands.add_parser(
        "replay", help="make the table and its report again from a bundle, at no cost; exit code 1 where they differ"
    )
    replay.add_argument("bundle", metavar="BUNDLE")
    replay.add_argument("--refit", action="store_true", help="fit the saved noisy answers again")
    replay.add_argument("--generator", metavar="NAME", help="fit another generator to the same answers")
    replay.add_argument("--out", required=True, metavar="DIR")
    replay.add_argument("--force", action="store_true")
    replay.set_defaults(command=_replay)

    add_ledger_commands(commands)
    commands.add_parser("generators", help="what can make rows").set_defaults(command=_generators)

    schema = commands.add_parser("schema", help="draft a schema to edit, from the names of columns")
    schema.add_argument("table", metavar="TABLE")
    schema.add_argument("--look", action="store_true", help="guess kinds from the rows too; recorded with the account")
    schema.add_argument("--account", metavar="NAME", help="the people the rows are about; needed with --look")
    schema.set_defaults(command=_schema)
    return parser
