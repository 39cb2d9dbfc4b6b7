"""The command line: the same code path as the browser, for files of any size and for scripts."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from synth.cli.keeping import add_command, add_keeping_commands, open_application
from synth.cli.speaking import SpokenProgress, ask, on_terminal, say, tell
from synth.errors import EXIT_CODES, AttackError, InputError, RunCancelledError, SynthError
from synth.system.paths import path_of

if TYPE_CHECKING:
    from synth.reports.report import ReportOption
    from synth.schema import RunConfig
    from synth.schema.source import DatabaseSource

__all__ = ["config_of", "main"]

_PATHS = {
    **{"config": "the configuration", "table": "the table", "test_table": "the test table", "out": "the output"},
    **{"folder": "the folder", "folders": "a run", "bundle": "the bundle", "public_key": "the public key"},
    **{"stand_in": "the stand-in", "simulate": "the simulation"},
    **{"dictionary": "the dictionary", "source": "the source", "models": "a party's file", "like": "the bundle"},
}
"""What each argument that names a file is, by the name of the argument."""

_BUNDLE = "a sealed bundle: bundle.zip, or the folder it was unpacked into"
_PUBLIC_KEY = "the public key (PEM) of the signer you expect; without it, anyone may have signed"
_OUT = "a new or empty folder for the results"
_CONFIG = "the configuration; synth schema drafts one"
_FIND = "first find what is open privately, with E of the budget (default: a tenth)"
_KEEP_TABLE = "keep the encrypted copy of the table; otherwise it is deleted at the end"
_VARIABLE = "the environment variable that holds the password"
_FROM = "postgresql://NAME@HOST/DATABASE, sqlite:///FILE, or the name of a connection in HERMITAGE_DATABASES"
_FORMAT = "how the file is written, as under 'format' in a configuration: encoding=latin-1, header_rows=2, sheet=S"
_NO_LOOK = "do not say what is not as declared in the rows; nothing is recorded as a look at them then"
_AS_DECLARED = "go on even if most lines, or most cells of a column, are not as declared and will be lost"
_FORCE = "allow a folder that is not empty"


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


_CONFIG_OPTIONS: tuple[tuple[str, Callable[[str], object], str, str], ...] = (
    ("--table", str, "PATH", "the private table, or a quoted pattern for several files with the same header"),
    ("--test-table", str, "PATH", "rows of other people, for the owner's report only"),
    ("--epsilon", float, "E", "how much one unit may change what is published; smaller protects more"),
    ("--delta", float, "D", "the chance that the guarantee may fail; keep it far below 1 / number of people"),
    ("--generator", str, "NAME", "another generator, with its default options; synth generators lists them"),
    ("--rows", _at_least_one, "N", "how many synthetic rows to make; a public number"),
    ("--people", _at_least_one, "N", "how many people to make instead, each with one or several rows; a public number"),
    ("--account", str, "A", "the people the rows are about; the ledger adds up what is spent on them"),
    ("--device", str, "D", "where to compute: auto, cpu or cuda"),
    ("--seed", int, "S", "public seed of training and sampling; the privacy noise has no seed"),
)
"""Options that replace what a configuration says."""

_MOST_SIMULATED = 20_000
"""The most rows that are simulated where no number is given."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    int
        A key of :data:`synth.errors.EXIT_CODES`.
    """
    typed = sys.argv[1:] if arguments is None else arguments
    # Reports declare their options themselves; to read them loads what reports are made of.
    parsed = _parser(options_of_reports="report" in typed).parse_args(typed)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        _check_paths(parsed)
        return command(parsed)
    except SynthError as error:
        sys.stderr.write(f"synth: {error}\n")
        return error.exit_code
    except KeyboardInterrupt as stopped:
        from synth.ledger.ledger import SPENT_OR_FREED

        sys.stderr.write(f"synth: {stopped or f'cancelled. {SPENT_OR_FREED}'}\n")
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
    """Refuse an argument that cannot be a path."""
    for name, what in _PATHS.items():
        given = getattr(parsed, name, None)
        for one in given if isinstance(given, list) else [given]:
            if one:
                path_of(one, what)


# From a table to a release -------------------------------------------------------------------------------------------


def _demo(parsed: argparse.Namespace) -> int:
    from synth.demonstration import CLINIC, NETWORK, write_demonstration

    table, config = write_demonstration(parsed.folder, CLINIC if parsed.small else NETWORK)
    say(f"Wrote {table} (simulated; it contains no real person) and {config}.")
    say(f"Next: synth run {config} --out {Path(parsed.folder) / 'release'}")
    return 0


def _schema(parsed: argparse.Namespace) -> int:
    from synth.cli.files import draft_configuration

    if parsed.look and parsed.account is None:
        raise InputError("A look at the rows is recorded. Name the people they are about with --account.")
    source = _source_of(parsed)
    if source is not None and parsed.look:
        raise InputError("--look does not work with a database. Leave it out.")
    if source is None and parsed.table is None:
        raise InputError("Name a table: synth schema TABLE.")
    if parsed.second is not None and (source is not None or parsed.look):
        raise InputError(
            "Two tables are drafted from the names in two files: leave out --from and --look. In the app, 2 Describe "
            "can look at the rows of both."
        )
    text = _with_password(
        parsed,
        lambda password: draft_configuration(
            source or parsed.table,
            look_for=parsed.account if parsed.look else None,
            dictionaries=parsed.dictionary or (),
            presets=parsed.preset or (),
            empty=parsed.empty == "missing",
            written=parsed.format or (),
            vouched=parsed.header,
            tell=tell,
            password=password,
            second=parsed.second,
            key=parsed.key,
        ),
    )
    say(text.rstrip("\n"))
    return 0


def _run(parsed: argparse.Namespace) -> int:
    from synth.cli.finding import completed_where_open, found_and_kept
    from synth.cli.local import run_locally
    from synth.cli.received import Once
    from synth.services.intake import Reading

    said = Once()
    if parsed.config is None:
        asked = _asked_config(parsed.table)
        wanted = {"look": not parsed.no_look, "as_declared": parsed.as_declared}
        parsed.config = completed_where_open(asked, ask, said, **wanted)
    found = partial(found_and_kept, path=parsed.config, epsilon=parsed.find)
    with on_terminal() as shown:
        warn = said.by(shown)
        reading = Reading(not parsed.no_look, parsed.as_declared, warn)
        result = _with_password(
            parsed,
            lambda password: run_locally(
                config_of(parsed, password),
                parsed.out,
                password=password,
                find=None
                if parsed.find is False
                else partial(found, password=password, reading=reading, say=shown, warn=warn),
                keep_table=parsed.keep_table,
                owner_report=not parsed.no_owner_report,
                force=parsed.force,
                reading=reading,
                say=shown,
                warn=warn,
            ),
        )
    say(*result.lines)
    for line in result.losses:
        tell(f"Not as declared (only you are told): {line}")
    return 0


_Done = TypeVar("_Done")


def _with_password(parsed: argparse.Namespace, do: Callable[[str | None], _Done]) -> _Done:
    """Call ``do`` with the database password from the environment, or ask for the password at a terminal."""
    from synth.services.databases import PasswordNeededError

    named = parsed.password_env
    if named is not None and named not in os.environ:
        raise InputError(f"The environment variable '{named}' is not set. Set it, or leave --password-env out.")
    try:
        return do(None if named is None else os.environ[named])
    except PasswordNeededError:
        if named is not None or not sys.stdin.isatty():
            raise
        return do(getpass.getpass("Password of the database: "))


def _source_of(parsed: argparse.Namespace, told: DatabaseSource | None = None) -> DatabaseSource | None:
    """Return the database named by the options, or by the configuration as the options change it, or None."""
    from synth.schema.source import DatabaseSource

    # An address has a scheme, and the name of a connection none.
    by_name = parsed.from_ is not None and "://" not in parsed.from_
    given = {
        "connection" if by_name else "url": parsed.from_,
        "schema": parsed.schema_name,
        "where": parsed.where,
        "sql": parsed.sql,
        "columns": parsed.only_columns,
    }
    given = {key: value for key, value in given.items() if value is not None}
    if told is None and parsed.from_ is None:
        if given or parsed.password_env:
            raise InputError("Name the database with --from, for example postgresql://reader@host/clinic.")
        return None
    if parsed.table is not None:
        given["table"] = parsed.table
    before: dict[str, Any] = {} if told is None or parsed.from_ is not None else told.to_mapping()
    # A query replaces a table with all that is said of it, and a table replaces a query.
    gone = {"sql", "view"} if "table" in given else set()
    if "sql" in given:
        gone = {"table", "view", "schema", "columns", "where"}
    return DatabaseSource.from_mapping({key: one for key, one in before.items() if key not in gone} | given)


def _asked_config(table: str | None) -> Path:
    """Ask for a configuration, question by question, at a terminal."""
    from synth.cli.asking import ask_configuration

    if not sys.stdin.isatty():
        raise InputError(
            "Name a configuration: synth run CONFIG.yaml --out DIR. synth schema TABLE drafts one. At a terminal, "
            "synth run without a configuration asks for what it needs."
        )
    tell("Only the first line of the table is read, and nothing is spent until you have answered every question.")
    return ask_configuration(table, ask, tell)


def _find(parsed: argparse.Namespace) -> int:
    from synth.cli.files import format_keys
    from synth.cli.finding import find_locally
    from synth.services.intake import Reading

    with on_terminal() as shown:
        reading = Reading(not parsed.no_look, parsed.as_declared, shown)
        said = format_keys(parsed.format or ())
        asked = {name: getattr(parsed, name) for name in ("table", "epsilon", "delta", "keep_table")}
        written = _with_password(
            parsed,
            lambda password: find_locally(
                parsed.config,
                parsed.out,
                **asked,
                written=said,
                password=password,
                reading=reading,
                say=shown,
                warn=shown,
            ),
        )
    say(f"Next: synth run {written} --out release")
    return 0


def _preview(parsed: argparse.Namespace) -> int:
    from synth.cli.files import new_file
    from synth.cli.previewing import preview_locally
    from synth.services.intake import Reading

    out = None if parsed.out is None else new_file(path_of(parsed.out, "the file of counts"))
    columns = [name.strip() for name in parsed.columns.split(",")]
    spend = {"epsilon": parsed.spend, "delta": parsed.spend_delta}
    with on_terminal() as shown:
        reading = Reading(not parsed.no_look, parsed.as_declared, shown)
        preview = _with_password(
            parsed,
            lambda password: preview_locally(
                config_of(parsed, password),
                columns,
                **spend,
                anew=parsed.anew,
                keep_table=parsed.keep_table,
                password=password,
                reading=reading,
                say=shown,
                warn=shown,
            ),
        )
    if out is None:
        preview.counts.write_csv(sys.stdout)
    else:
        _write_new(out, preview.counts.csv.encode())
        tell(f"Wrote {out}. It may be published: the charge covers it.")
    return 0


def _forecast(parsed: argparse.Namespace) -> int:
    from synth.services.planning import forecast_lines

    config = config_of(parsed)
    say(*forecast_lines(config))
    return 0


def config_of(parsed: argparse.Namespace, password: str | None = None) -> RunConfig:
    """Read the configuration and apply the options given; another generator keeps no option of the one it replaces.

    ``password`` is that of the database whose columns the configuration declares by patterns.
    """
    from synth.cli.files import format_over
    from synth.schema import DeclaredTable, load_config

    def source_of(told: DatabaseSource | None) -> DatabaseSource | None:
        return _source_of(parsed, told) if hasattr(parsed, "from_") else told

    def names(declared: DeclaredTable) -> Sequence[str]:
        from synth.cli.loading import names_in_table

        stand_in = getattr(parsed, "stand_in", None)
        source = None if stand_in is not None else source_of(declared.source)
        path = stand_in or parsed.table or declared.path
        form = format_over(declared.format, parsed.format or ())
        return names_in_table(replace(declared, path=path, source=source, format=form), password)

    config = load_config(parsed.config, names)
    config = replace(config, format=format_over(config.format, parsed.format or ()))
    source = source_of(config.source)
    options = {"table", "test_table", "epsilon", "delta", "rows", "account", "device", "seed"}
    if source is not None:
        # The name after --table is that of the database's table then.
        options.remove("table")
        config = replace(config, table=None, source=source)
    changes = {name: getattr(parsed, name) for name in options if getattr(parsed, name, None) is not None}
    generator = getattr(parsed, "generator", None)
    people = getattr(parsed, "people", None)
    if people is not None and "rows" in changes:
        raise InputError("--people and --rows are both given. Keep the one that you want a number of.")
    if config.is_model and (generator is not None or people is not None or "rows" in changes):
        raise InputError(
            "The configuration names a model, which makes no rows. Leave --generator, --rows and --people out."
        )
    if "rows" in changes or people is not None:
        changes |= {"by_people": people is not None, "rows": changes.get("rows", people)}
    if generator is not None and generator != config.generator:
        changes |= {"generator": generator, "options": {}}
    return replace(config, **changes)


def _rehearse(parsed: argparse.Namespace) -> int:
    from synth.cli.local import rehearse_locally
    from synth.rehearsal.grid import Grid, GridRehearsal
    from synth.rehearsal.simulation import Simulation, load_simulation

    config = config_of(parsed)
    stand_in: str | Simulation = parsed.stand_in
    if parsed.stand_in is None:
        rows = min(config.rows or config.people_at_most, _MOST_SIMULATED)
        stand_in = load_simulation(parsed.simulate, rows=rows) if parsed.simulate else Simulation(rows=rows)
    grid = None
    if parsed.grid or parsed.epsilons or parsed.generators or parsed.purpose or parsed.seeds is not None:
        grid = Grid.usual(
            config,
            epsilons=tuple(parsed.epsilons or ()) or None,
            generators=tuple(parsed.generators or ()) or None,
            seeds=parsed.seeds,
            purpose=parsed.purpose,
        )
    with on_terminal() as shown:
        found = rehearse_locally(config, stand_in, grid=grid, out=parsed.out, say=shown)
    say(*found.lines)
    if found.incident is not None:
        return AttackError.exit_code
    return RunCancelledError.exit_code if isinstance(found, GridRehearsal) and found.done < found.of else 0


def _check_again(parsed: argparse.Namespace) -> int:
    from synth.cli.local import check_again_locally

    with on_terminal() as shown:
        result = check_again_locally(
            parsed.run, parsed.out, memory=parsed.memory, seconds=parsed.seconds, force=parsed.force, say=shown
        )
    say(*result.lines)
    return 0


def _report(parsed: argparse.Namespace) -> int:
    from synth.cli.local import owner_report_again
    from synth.reports.registry import options_of_reports

    asked = {option.name: getattr(parsed, option.name) for option in options_of_reports()}
    with on_terminal() as shown:
        written = owner_report_again(parsed.folder, say=shown, **asked)
    say(f"Wrote {written}.")
    return 0


def _add_option(parser: argparse.ArgumentParser, option: ReportOption) -> None:
    flag = f"--{option.name.replace('_', '-')}"
    if isinstance(option.default, bool):
        parser.add_argument(flag, action="store_true", help=option.help)
    elif option.number is not None:
        parser.add_argument(flag, type=int, nargs="?", const=option.number, metavar="N", help=option.help)
    else:
        parser.add_argument(flag, choices=option.choices, default=option.default, help=option.help)


def _compare(parsed: argparse.Namespace) -> int:
    from synth.services import run_folder

    with open_application() as application:
        found = application.compare([run_folder.run_in(Path(folder)) for folder in parsed.folders])
    say(*found.lines)
    return 0


# Bundles -------------------------------------------------------------------------------------------------------------


def _verify(parsed: argparse.Namespace) -> int:
    from synth.bundle.fields import explained
    from synth.bundle.verify import Limits, verify

    if parsed.explain:
        say(*explained())
        return 0
    if parsed.bundle is None:
        raise InputError("Name the bundle to check, or use --explain.")
    limits = Limits(parsed.memory, parsed.seconds)
    verdict = verify(
        parsed.bundle,
        public_key=parsed.public_key,
        quick=parsed.quick,
        refit=parsed.refit,
        memory_bytes=limits.memory_bytes,
        seconds=limits.seconds,
    )
    with suppress(BrokenPipeError):  # the exit code counts, whoever stops reading
        say(*([json.dumps(verdict.json, indent=2, sort_keys=True)] if parsed.json else verdict.lines))
    return verdict.outcome.exit_code


def _replay(parsed: argparse.Namespace) -> int:
    from synth.bundle.replay import replay
    from synth.cli.files import empty_folder

    folder = empty_folder(parsed.out, force=parsed.force)
    again = replay(parsed.bundle, folder, refit=parsed.refit, generator=parsed.generator, public_key=parsed.public_key)
    with suppress(BrokenPipeError):
        say(*again.lines)
    return again.outcome.exit_code


def _rows(parsed: argparse.Namespace) -> int:
    from synth.bundle.as_declared import tables_as_declared
    from synth.cli.files import empty_folder

    out = path_of(parsed.out, "the file of rows")
    made = tables_as_declared(path_of(parsed.bundle, "the bundle"))
    files = {out if name is None else out / f"{name}.csv": rows for name, rows in made.items()}
    if None not in made:
        empty_folder(out, force=False).mkdir(parents=True, exist_ok=True)
    for path, rows in files.items():
        _write_new(path, rows)
    say(f"Wrote {' and '.join(map(str, files))}.")
    return 0


def _answers(parsed: argparse.Namespace) -> int:
    from synth.bundle.counted import counts_of_bundle

    out = None if parsed.out is None else path_of(parsed.out, "the file of counts")
    counts = counts_of_bundle(path_of(parsed.bundle, "the bundle"), parsed.public_key).only(parsed.question or ())
    if out is None:
        counts.write_csv(sys.stdout)
    else:
        _write_new(out, counts.csv.encode())
        tell(f"Wrote {out}.")
    if counts.sentence:
        tell(counts.sentence)
    return 0


def _write_new(out: Path, made: bytes) -> None:
    try:
        with out.open("xb") as file:
            file.write(made)
    except FileExistsError:
        raise InputError(f"'{out.name}' exists already. Name a new file.") from None
    except OSError:
        raise InputError(f"'{out.name}' cannot be written. Name a file in a folder that exists.") from None


def _parties(parsed: argparse.Namespace) -> int:
    from synth.services.parties import classify, fit_party_model

    source, out = Path(parsed.source), Path(parsed.out)
    if not parsed.models:
        lines = fit_party_model(source, out)
    elif not parsed.like:
        raise InputError("To classify rows, name the bundle that declares their columns with --like.")
    else:
        lines = classify(source, [Path(one) for one in parsed.models], out, like=Path(parsed.like))
    say(*lines)
    return 0


def _generators(_: argparse.Namespace) -> int:
    from synth.generators import cards

    say(*(line for card in cards() for line in card.lines))
    return 0


def _models(_: argparse.Namespace) -> int:
    from synth.estimators import model_cards

    say(*(line for card in model_cards() for line in card.lines))
    return 0


def _predict(parsed: argparse.Namespace) -> int:
    from synth.bundle.predicting import predict

    say(*predict(Path(parsed.bundle), Path(parsed.table), public_key=parsed.public_key).written(Path(parsed.out)))
    return 0


def _estimate(parsed: argparse.Namespace) -> int:
    from synth.rehearsal.estimating import estimate, written

    with on_terminal() as shown:
        asked = {"replicates": parsed.replicates, "seed": parsed.seed, "progress": SpokenProgress(shown)}
        say(*written(estimate(parsed.bundle, *parsed.questions, **asked), parsed.out))
    return 0


# Options -------------------------------------------------------------------------------------------------------------


def _parser(*, options_of_reports: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="synth",
        description="Turn a private table into synthetic rows that can be shared, and check the releases of others.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = add_command(commands, "demo", "write a simulated table and a configuration that runs", _demo)
    demo.add_argument("folder", metavar="DIR", help="where to write both; the folder is created if it does not exist")
    demo.add_argument("--small", action="store_true", help="a clinic with too few people for its budget: poor accuracy")

    _add_schema(commands)
    _add_find(commands)
    _add_preview(commands)
    forecast = add_command(
        commands, "forecast", "say how accurate the rows will be, before anything is spent; reads no rows", _forecast
    )
    _add_config_options(forecast)
    _add_rehearse(commands)
    _add_run(commands, "run", "make a synthetic table or fit a private model, and seal the bundle")

    again = add_command(
        commands,
        "check-again",
        "check the sealed bundle of a run again that could not check it, and release it if it holds; charges nothing",
        _check_again,
    )
    again.add_argument("run", metavar="RUN", help="the id of the run, as its message and synth ledger name it")
    again.add_argument("--out", required=True, metavar="DIR", help=_OUT)
    _add_limits(again)
    again.add_argument("--force", action="store_true", help=_FORCE)

    report = add_command(
        commands, "report", "write the owner's report of a finished run again; its table must have been kept", _report
    )
    report.add_argument("folder", metavar="DIR", help="the folder that synth run --keep-table wrote")
    if options_of_reports:
        from synth.reports.registry import options_of_reports as declared

        for option in declared():
            _add_option(report, option)

    _add_bundle_commands(commands)
    add_command(commands, "generators", "list the generators", _generators)
    _add_model_commands(commands)
    add_keeping_commands(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser that lists the exit codes below its help; the parsers of commands are of this kind too."""

    def __init__(self, **given: Any) -> None:
        codes = "\n".join(f"  {code:<4}{words}" for code, words in EXIT_CODES.items())
        kind = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=kind, epilog=f"exit codes:\n{codes}", **given)


def _add_schema(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    schema = add_command(commands, "schema", "draft a configuration from the names of the columns", _schema)
    schema.add_argument(
        "table",
        metavar="TABLE",
        nargs="?",
        help="a text (also .gz), Parquet, Arrow (Feather), a workbook, a file of SPSS, Stata or SAS, or the name of a "
        "table of a database; no row is read",
    )
    words = "a second table with rows of the same people, such as visits of patients"
    schema.add_argument("second", metavar="SECOND", nargs="?", help=words)
    words = "of two tables, the column that says in both whose row it is"
    schema.add_argument("--key", metavar="COLUMN", help=words)
    _add_database_options(schema)
    schema.add_argument("--format", action="append", metavar="KEY=VALUE", help=_FORMAT)
    words = "the first line holds the names of the columns, even if it looks like a row"
    schema.add_argument("--header", action="store_true", help=words)
    words = "propose the format and all columns from the rows; the look is recorded with the account"
    schema.add_argument("--look", action="store_true", help=words)
    schema.add_argument("--account", metavar="NAME", help="the people the rows are about; required with --look")
    schema.add_argument(
        "--dictionary",
        action="append",
        metavar="FILE",
        help="a data dictionary (CSV, Excel, datapackage.json, YAML, .names or a bundle); repeat to add more",
    )
    schema.add_argument(
        "--preset",
        action="append",
        metavar="PRESET=COLUMNS",
        help="a public preset for one or several columns, such as age=patient_age or money:500000=income,rent",
    )
    schema.add_argument(
        "--empty", choices=["missing"], help="what empty and unreadable cells become in all other columns"
    )


def _add_find(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    find = add_command(commands, "find", "find privately what a configuration leaves open ({type: find})", _find)
    find.add_argument("config", metavar="CONFIG.yaml", help=_CONFIG)
    find.add_argument("--table", metavar="PATH", help="the private table, instead of the one in the configuration")
    find.add_argument("--epsilon", type=float, metavar="E", help="what to spend; default: a tenth of the budget")
    find.add_argument("--delta", type=float, metavar="D", help="default: a tenth of the budget's delta")
    find.add_argument("--out", metavar="FILE", help="the completed configuration; default: CONFIG-found.yaml")
    find.add_argument("--keep-table", action="store_true", help=_KEEP_TABLE)
    find.add_argument("--format", action="append", metavar="KEY=VALUE", help=_FORMAT)
    _add_reading_options(find)
    find.add_argument("--password-env", metavar="VARIABLE", help=_VARIABLE)


def _add_preview(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    preview = add_command(
        commands, "preview", "show noisy histograms of some columns, for a small charge before a release", _preview
    )
    preview.add_argument("config", metavar="CONFIG.yaml", help=_CONFIG)
    preview.add_argument("--columns", required=True, metavar="A,B", help="the columns, with commas between their names")
    words = "what to spend, in addition to a later release; default: a twentieth of its budget"
    preview.add_argument("--epsilon", dest="spend", type=float, metavar="E", help=words)
    preview.add_argument(
        "--delta", dest="spend_delta", type=float, metavar="D", help="default: a twentieth of the budget's delta"
    )
    words = "charge it again, although the same preview of these people was paid for: the table is another one since"
    preview.add_argument("--anew", action="store_true", help=words)
    preview.add_argument("--table", metavar="PATH", help="the private table, instead of the one in the configuration")
    preview.add_argument("--out", metavar="FILE", help="a new file for the counts; without it, they are printed")
    preview.add_argument("--keep-table", action="store_true", help=_KEEP_TABLE)
    preview.add_argument("--format", action="append", metavar="KEY=VALUE", help=_FORMAT)
    _add_reading_options(preview)
    _add_database_options(preview)


def _add_rehearse(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rehearse = add_command(
        commands,
        "rehearse",
        "try a configuration on public or simulated rows: accuracy and all attacks, at no cost",
        _rehearse,
    )
    _add_config_options(rehearse)
    rows = rehearse.add_mutually_exclusive_group(required=True)
    rows.add_argument("--stand-in", metavar="PATH", help="a public table with the columns of the configuration")
    rows.add_argument(
        "--simulate",
        nargs="?",
        const="",
        metavar="FILE.yaml",
        help="simulate rows from the configuration; the file may give columns a shape, public shares and a correlation",
    )
    rehearse.add_argument(
        "--grid",
        action="store_true",
        help="several runs side by side: epsilon from 0.25 to 4, this generator and the control, three seeds",
    )
    rehearse.add_argument("--epsilons", type=float, nargs="+", metavar="E", help="the epsilons of the grid")
    words = "the generators of the grid; 'all' for every one that can make the table, with one seed"
    rehearse.add_argument("--generators", nargs="+", metavar="NAME", help=words)
    rehearse.add_argument("--seeds", type=int, metavar="N", help="the number of seeds of the grid")
    words = "what the rows are for: the best generator for it comes first; default: prediction if there is a label"
    rehearse.add_argument("--purpose", choices=["prediction", "counts"], help=words)
    rehearse.add_argument("--out", metavar="FILE", help="write the whole report to this file, as JSON")


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str) -> None:
    """Add the command that runs a configuration."""
    run = add_command(commands, name, words, _run)
    _add_config_options(run, needed=False)
    _add_database_options(run)
    run.add_argument("--out", required=True, metavar="DIR", help=_OUT)
    run.add_argument("--find", nargs="?", type=float, default=False, const=None, metavar="E", help=_FIND)
    run.add_argument("--keep-table", action="store_true", help=_KEEP_TABLE)
    _add_reading_options(run)
    run.add_argument("--no-owner-report", action="store_true", help="skip the comparison with the private rows")
    run.add_argument("--force", action="store_true", help=_FORCE)


def _add_config_options(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """Let a command take a configuration and change it."""
    if needed:
        parser.add_argument("config", metavar="CONFIG.yaml", help=_CONFIG)
    else:
        without = f"{_CONFIG}. Without one, you are asked questions at the terminal"
        parser.add_argument("config", metavar="CONFIG.yaml", nargs="?", help=without)
    for flag, kind, metavar, words in _CONFIG_OPTIONS:
        parser.add_argument(flag, type=kind, metavar=metavar, help=words)
    parser.add_argument("--format", action="append", metavar="KEY=VALUE", help=_FORMAT)


def _add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Let a command be told, or not, what its charge would be spent on."""
    parser.add_argument("--no-look", action="store_true", help=_NO_LOOK)
    parser.add_argument("--as-declared", action="store_true", help=_AS_DECLARED)


def _add_database_options(parser: argparse.ArgumentParser) -> None:
    """Let a command read a table of a database, which --table or TABLE names."""
    group = parser.add_argument_group("a table of a database")
    group.add_argument("--from", dest="from_", metavar="URL", help=_FROM)
    group.add_argument("--schema-name", metavar="S", help="the database schema that the table is in")
    group.add_argument("--only-columns", metavar="C", nargs="+", help="columns to read; default: those declared")
    group.add_argument(
        "--where", metavar="W", help="a condition on one row, such as \"age >= 18 AND town IN ('A', 'B')\""
    )
    group.add_argument(
        "--sql", metavar="Q", help="a query of your own instead of a table; the certificate states what this assumes"
    )
    group.add_argument("--password-env", metavar="VARIABLE", help=_VARIABLE)


def _add_bundle_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that read what a run wrote."""
    compare = add_command(
        commands, "compare", "put the publishable numbers of several runs side by side, with what they cost", _compare
    )
    compare.add_argument("folders", metavar="DIR", nargs="+", help="the folder that synth run wrote, one for each run")

    verify = add_command(
        commands,
        "verify",
        "check a bundle: its guarantee and every file; draw its rows and make its report again, and compare",
        _verify,
    )
    verify.add_argument("bundle", metavar="BUNDLE", nargs="?", help=_BUNDLE)
    words = "print every field of a bundle, and what recomputes it, instead of checking one"
    verify.add_argument("--explain", action="store_true", help=words)
    verify.add_argument("--public-key", metavar="FILE", help=_PUBLIC_KEY)
    verify.add_argument("--json", action="store_true", help="print the verdict as JSON, for programs")
    words = "leave out what draws the rows and makes the report again, and say so"
    verify.add_argument("--quick", action="store_true", help=words)
    verify.add_argument("--refit", action="store_true", help="also fit the model to the noisy answers again")
    _add_limits(verify)

    replay = add_command(
        commands,
        "replay",
        "write the table and its report again from a bundle, at no cost, and compare them",
        _replay,
    )
    replay.add_argument("bundle", metavar="BUNDLE", help=_BUNDLE)
    replay.add_argument("--public-key", metavar="FILE", help=_PUBLIC_KEY)
    replay.add_argument("--refit", action="store_true", help="also fit the noisy answers again, and compare the model")
    replay.add_argument("--generator", metavar="NAME", help="fit another generator to the same noisy answers")
    replay.add_argument("--out", required=True, metavar="DIR", help=_OUT)
    replay.add_argument("--force", action="store_true", help=_FORCE)

    rows = add_command(
        commands, "rows", "write the synthetic rows of a bundle in the format of the private table", _rows
    )
    rows.add_argument("bundle", metavar="BUNDLE", help=_BUNDLE)
    words = "a new file, which other programs can read as they read the private table; of two tables, a new folder"
    rows.add_argument("--out", metavar="FILE", required=True, help=words)

    answers = add_command(
        commands, "answers", "write every noisy count of a bundle as CSV, with its error and an interval", _answers
    )
    answers.add_argument("bundle", metavar="BUNDLE", help=_BUNDLE)
    words = 'only this question, named as in the file or by its columns, such as "age,income"; may be repeated'
    answers.add_argument("--question", action="append", metavar="Q", help=words)
    answers.add_argument("--out", metavar="FILE", help="a new file; without it, the counts are printed")
    answers.add_argument("--public-key", metavar="FILE", help=_PUBLIC_KEY)

    words = "estimate means, shares, quantiles or a regression from a bundle, with intervals"
    estimate = add_command(commands, "estimate", words, _estimate)
    estimate.add_argument("bundle", metavar="BUNDLE", help=_BUNDLE)
    words = 'such as "mean income by sex where age >= 18"; several may be asked at once'
    estimate.add_argument("questions", metavar="QUESTION", nargs="+", help=words)
    words = "second releases to simulate for the intervals, each as slow as the fit (default 20); 0: no intervals"
    estimate.add_argument("--replicates", type=int, default=20, metavar="N", help=words)
    words = "public seed of the rows in second releases (default 0)"
    estimate.add_argument("--seed", type=int, default=0, metavar="N", help=words)
    estimate.add_argument("--out", metavar="FILE", help="write the numbers to this file too, as CSV")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Let a check use other than the usual memory and time."""
    parser.add_argument("--memory", type=float, default=1.0, metavar="GIB", help="memory limit in GiB (default 1)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="time limit in seconds (default 60)")


def _add_model_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands about private models, and about machines of several parties."""
    model = add_command(commands, "model", "list the private models, fit one, or predict with a released one", _models)
    actions = model.add_subparsers(metavar="ACTION")
    _add_run(actions, "fit", "fit a private model and seal its bundle; the same as synth run")
    predict = add_command(
        actions, "predict", "predict the label of your own rows; the bundle is verified first", _predict
    )
    predict.add_argument("bundle", metavar="BUNDLE", help=_BUNDLE)
    predict.add_argument("table", metavar="TABLE", help="CSV, TSV or Parquet with the columns that the model uses")
    predict.add_argument("--out", metavar="FILE", required=True, help="the predictions as CSV, one line for each row")
    predict.add_argument("--public-key", metavar="FILE", help=_PUBLIC_KEY)
    parties = add_command(
        commands,
        "parties",
        "build affine hull machines from released rows, or classify rows with those of several parties",
        _parties,
    )
    parties.add_argument(
        "source", metavar="BUNDLE", help="the bundle whose rows to use; with --models, the table to classify"
    )
    words = "the file to write: the machines or, with --models, the class of every row"
    parties.add_argument("--out", metavar="FILE", required=True, help=words)
    parties.add_argument("--models", metavar="FILE", nargs="+", help="the machines of all parties")
    parties.add_argument("--like", metavar="BUNDLE", help="with --models: the bundle that declares the columns")
