"""The commands about rehearsals: ``synth rehearse`` and ``synth incidents``."""

from __future__ import annotations

import argparse

from synth.cli.common import add_config_options, config_of, say, tell
from synth.errors import AttackError

__all__ = ["MOST_SIMULATED", "add_rehearsal_commands"]

MOST_SIMULATED = 20_000
"""Rows that are simulated at most where nobody says how many."""


def add_rehearsal_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those there are."""
    rehearse = commands.add_parser(
        "rehearse", help="the same run on public or simulated rows: what to expect and every attack, at no cost"
    )
    add_config_options(rehearse)
    rows = rehearse.add_mutually_exclusive_group(required=True)
    rows.add_argument("--stand-in", metavar="PATH", help="a public table with the columns of the configuration")
    rows.add_argument(
        "--simulate",
        nargs="?",
        const="",
        metavar="FILE.yaml",
        help="rows drawn from what is declared; the file gives columns shapes, public shares and links",
    )
    rehearse.add_argument(
        "--grid", action="store_true", help="epsilons 0.25 to 4, the generator and the control, three seeds, together"
    )
    rehearse.add_argument("--epsilons", type=float, nargs="+", metavar="E", help="the epsilons of a grid")
    rehearse.add_argument("--generators", nargs="+", metavar="NAME", help="the generators of a grid")
    rehearse.add_argument("--seeds", type=int, metavar="N", help="how many seeds of a grid")
    rehearse.add_argument("--out", metavar="FILE", help="write the whole report there, as JSON")
    rehearse.set_defaults(command=_rehearse)

    incidents = commands.add_parser("incidents", help="what rehearsals have stopped, and clearing it")
    incidents.add_argument("--clear", metavar="INCIDENT", help="let its configuration be released again")
    incidents.add_argument("--because", metavar="TEXT", default="", help="why; kept with the incident")
    incidents.set_defaults(command=_incidents)


def _rehearse(parsed: argparse.Namespace) -> int:
    from synth.rehearsal.rehearsing_grid import Grid
    from synth.rehearsal.simulation import Simulation
    from synth.rehearsal.simulation_file import load_simulation
    from synth.services.local import rehearse_locally

    config = config_of(parsed)
    stand_in: str | Simulation = parsed.stand_in
    if parsed.stand_in is None:
        rows = min(config.rows, MOST_SIMULATED)
        stand_in = load_simulation(parsed.simulate, rows=rows) if parsed.simulate else Simulation(rows=rows)
    grid = None
    if parsed.grid or parsed.epsilons or parsed.generators or parsed.seeds is not None:
        grid = Grid.usual(
            config,
            epsilons=tuple(parsed.epsilons or ()) or None,
            generators=tuple(parsed.generators or ()) or None,
            seeds=parsed.seeds,
        )
    found = rehearse_locally(config, stand_in, grid=grid, out=parsed.out, say=tell)
    for line in found.lines:
        say(line)
    return 0 if found.incident is None else AttackError.exit_code


def _incidents(parsed: argparse.Namespace) -> int:
    from synth.services.application import Application

    with Application.from_environment() as application:
        if parsed.clear is not None:
            application.stops.clear(parsed.clear, who="owner", because=parsed.because)
            say(f"Cleared incident {parsed.clear}. Its configuration can be released again.")
            return 0
        found = application.stops.all()
    if not found:
        say("No rehearsal has stopped anything.")
    for stop in found:
        state = "stands" if stop.cleared_by is None else f"cleared by {stop.cleared_by}: {stop.because}"
        say(f"{stop.time:%Y-%m-%d %H:%M}  {stop.incident}  {stop.generator}  {stop.attacks}  {state}")
    return 0
