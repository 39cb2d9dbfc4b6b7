"""Commands about an installation itself and what it keeps: its screens, what was spent, rows of its bundles."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from synth.cli.speaking import say, tell
from synth.errors import InputError, LedgerError
from synth.system.packages import is_installed
from synth.system.paths import path_of

if TYPE_CHECKING:
    from synth.application import Application

__all__ = ["add_keeping_commands", "open_application", "open_browser"]

_FROZEN_REMEDY = (
    "Enter every release that its ledger lacks (synth account --enter BUNDLE ...), then accept it: "
    "synth account NAME --accept"
)


def open_application() -> Application:
    """Open the installation; imported late, since it loads every library that a run needs."""
    from synth.application import Application

    return Application.from_environment()


# Screens --------------------------------------------------------------------------------------------------------------

_PACKAGE = Path(__file__).resolve().parents[1]


def _app(parsed: argparse.Namespace) -> int:
    if not is_installed("streamlit"):
        raise ModuleNotFoundError(name="streamlit")  # which ends as the sentence that says what to install
    # A wheel carries the screens; in a copy of the repository they stand beside the package.
    script = next(path for path in (_PACKAGE / "screens" / "app.py", _PACKAGE.parent / "app.py") if path.is_file())
    environment = dict(os.environ)
    if parsed.home is not None:
        environment["HERMITAGE_HOME"] = str(path_of(parsed.home, "the home").absolute())
    address = f"http://127.0.0.1:{parsed.port}"
    if not parsed.no_browser and not environment.get("HERMITAGE_NO_BROWSER"):
        opener = f"from synth.cli.keeping import open_browser; open_browser({address!r})"
        nobody = subprocess.DEVNULL
        subprocess.Popen([sys.executable, "-c", opener], stdout=nobody, stderr=nobody)
    tell(f"Hermitage is starting at {address} (stop it with Ctrl-C).")
    options = ["--server.headless", "true", "--server.port", str(parsed.port), *parsed.more]
    # In the place of this process, so that whoever stops it stops the server.
    os.execve(sys.executable, [sys.executable, "-m", "streamlit", "run", str(script), *options], environment)  # noqa: S606


def open_browser(address: str, *, patience: float = 60.0) -> None:
    """Open a browser once a server answers; a machine without a screen simply does not."""
    import time
    import urllib.request
    import webbrowser

    for _ in range(int(2 * patience)):
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:  # noqa: S310 - of our own
                if answer.read() == b"ok":
                    webbrowser.open(address)
                    return
        except OSError:
            time.sleep(0.5)


# What was spent, and keeping it safe ----------------------------------------------------------------------------------


def _account(parsed: argparse.Namespace) -> int:
    chosen = {
        "--heads": parsed.heads,
        "--check-heads": parsed.check_heads is not None,
        "--enter": parsed.enter is not None,
    }
    asked = [option for option, given in chosen.items() if given]
    about_one = (
        parsed.name is not None or parsed.accept or parsed.epsilon_cap is not None or parsed.delta_cap is not None
    )
    if len(asked) > 1 or (asked and about_one):
        raise InputError(f"{asked[0]} stands alone: leave out the name and every other option.")
    if parsed.heads:
        return _heads()
    if parsed.check_heads is not None:
        return _check_heads(path_of(parsed.check_heads, "the heads"))
    if parsed.enter is not None:
        return _enter(parsed.enter)
    if parsed.name is None:
        raise InputError("Name an account. synth ledger lists those there are.")
    return _one_account(parsed)


def _one_account(parsed: argparse.Namespace) -> int:
    with open_application() as application:
        if (parsed.epsilon_cap is None) != (parsed.delta_cap is None):
            raise InputError("A cap needs both numbers: --epsilon-cap and --delta-cap.")
        if parsed.epsilon_cap is not None:
            application.set_cap(parsed.name, parsed.epsilon_cap, parsed.delta_cap)
        if parsed.accept:
            application.accept_ledger(parsed.name, who="owner")
        view = application.account(parsed.name)
    say(*view.lines)
    if view.frozen:
        say(f"It is frozen and takes no run. {_FROZEN_REMEDY}")
    return 0


def _heads() -> int:
    from synth.ledger.heads import heads_text

    with open_application() as application:
        say(heads_text(application.ledger.heads()).rstrip("\n"))
    return 0


def _check_heads(path: Path) -> int:
    from synth.ledger.heads import check_heads

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise InputError(f"The file '{path.name}' cannot be read. Name one that synth account --heads wrote.") from None
    with open_application() as application:
        found = check_heads(text, application.store.accounts.all(), application.ledger.chain)
    say(*found.lines)
    return 0 if found.ok else 1


def _enter(paths: list[str]) -> int:
    from synth.services.entering import enter_bundles

    with open_application() as application:
        entered = enter_bundles(application.installation, paths, who="owner")
        for one in entered:
            say(one.sentence)
        frozen = sorted({one.account for one in entered if application.account(one.account).frozen})
    for name in frozen:
        say(f"'{name}' stays frozen until you accept its ledger as complete: synth account '{name}' --accept")
    return LedgerError.exit_code if any(one.was_there for one in entered) else 0


def _ledger(_: argparse.Namespace) -> int:
    from synth.ledger.ledger import SPENT_OR_FREED

    with open_application() as application:
        rows = application.ledger_rows()
    if not rows:
        say("Nothing spent yet.")
        return 0
    say(*(row.line for row in rows), SPENT_OR_FREED)
    return 0


def _backup(parsed: argparse.Namespace) -> int:
    from synth.ledger.backup import back_up
    from synth.system.settings import Settings

    folder = path_of(parsed.folder, "the backup")
    made = back_up(Settings.from_environment(), folder, with_tables=parsed.with_tables)
    tables = "with the encrypted tables" if made.with_tables else "without private tables"
    say(f"Wrote {made.files} files to {made.folder}, {tables}. It holds the keys: keep it as safe as the rows.")
    return 0


def _restore(parsed: argparse.Namespace) -> int:
    from synth.ledger.backup import restore
    from synth.system.settings import Settings

    found = restore(Settings.from_environment(), path_of(parsed.folder, "the backup"))
    say(f"Restored {len(found.accounts)} accounts and {found.runs} runs as of {found.made:%Y-%m-%d %H:%M} UTC.")
    if found.lost_tables:
        say(f"{found.lost_tables} private tables are not in the backup; upload them again where they are needed.")
    if found.accounts:
        say(f"Every account is frozen, because what was spent after that time is not in its ledger. {_FROZEN_REMEDY}")
    return 0


_REMOVE = "remove"
"""What is typed to remove an installation."""


def _uninstall(parsed: argparse.Namespace) -> int:
    from synth.ledger.backup import contents, remove
    from synth.system.settings import Settings

    settings = Settings.from_environment()
    if not parsed.everything:
        raise InputError(
            "To remove keys, tables and ledger of this installation, write synth uninstall --everything. The program "
            "itself is removed by pip uninstall hermitage."
        )
    there = contents(settings)
    tell(
        f"This removes from {settings.home}: the keys, {there.tables} private tables, the ledger of {there.accounts} "
        f"accounts, and the files of all runs."
    )
    tell(
        f"What stays: bundles that were handed out ({there.releases} releases), which verify as before, and backups. "
        "Nobody can add up any more what was spent on these people: make a backup first if you may release about them "
        "again. Stop the server before."
    )
    tell(f"Type {_REMOVE} to go on:")
    if sys.stdin.readline().strip() != _REMOVE:
        raise InputError("Nothing was removed.")
    left = remove(settings)
    say("Removed. Nothing but a backup brings it back.")
    if left:
        say(f"In {settings.home} stays what is not ours: {', '.join(left)}.")
    return 0


def _rows(parsed: argparse.Namespace) -> int:
    from synth.bundle.as_declared import rows_as_declared

    out = path_of(parsed.out, "the file of rows")
    made = rows_as_declared(path_of(parsed.bundle, "the bundle"))
    try:
        with out.open("xb") as file:
            file.write(made)
    except FileExistsError:
        raise InputError(f"'{out.name}' exists already. Name a new file.") from None
    except OSError:
        raise InputError(f"'{out.name}' cannot be written. Name a file in a folder that exists.") from None
    say(f"Wrote {parsed.out}.")
    return 0


def _incidents(parsed: argparse.Namespace) -> int:
    with open_application() as application:
        if parsed.clear is not None:
            application.stops.clear(parsed.clear, who="owner", because=parsed.because)
            say(f"Cleared incident {parsed.clear}. Its configuration can be released again.")
            return 0
        found = application.stops.all()
    if not found:
        say("No rehearsal has stopped anything.")
    say(*(stop.line for stop in found))
    return 0


def add_keeping_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those there are."""
    app = commands.add_parser("app", help="open the screens in a browser; needs the extra 'app'")
    app.add_argument("--port", type=int, default=8501, metavar="N", help="where it listens on this machine (8501)")
    app.add_argument("--home", metavar="DIR", help="where keys, tables and ledger are kept, instead of HERMITAGE_HOME")
    app.add_argument("--no-browser", action="store_true", help="start the server and open nothing")
    app.add_argument("more", metavar="OPTION", nargs="*", help="after --: options of streamlit run, passed on")
    app.set_defaults(command=_app)

    account = commands.add_parser("account", help="show an account, set its cap, or see that no ledger is behind")
    account.add_argument("name", metavar="NAME", nargs="?", help="whose ledger; synth ledger lists them")
    account.add_argument("--epsilon-cap", type=float, metavar="E", help="the most that may be spent on them in all")
    account.add_argument("--delta-cap", type=float, metavar="D", help="the delta at which that is added up")
    account.add_argument(
        "--accept", action="store_true", help="take its ledger as complete and let it be charged again, after a restore"
    )
    account.add_argument("--heads", action="store_true", help="print how far every ledger has come, to keep elsewhere")
    account.add_argument("--check-heads", metavar="FILE", help="compare with what --heads printed; 1 if one is behind")
    account.add_argument(
        "--enter",
        metavar="CERTIFICATE",
        nargs="+",
        help="enter releases that a restored ledger lacks: bundles, or certificates with their bundle beside them",
    )
    account.set_defaults(command=_account)

    commands.add_parser("ledger", help="list everything that was spent").set_defaults(command=_ledger)

    backup = commands.add_parser("backup", help="copy the installation, in use or not, into a new folder")
    backup.add_argument("folder", metavar="DIR", help="a new or empty folder; it will hold the keys")
    backup.add_argument("--with-tables", action="store_true", help="copy the encrypted private tables too")
    backup.set_defaults(command=_backup)

    restore = commands.add_parser("restore", help="restore a backup into an empty home and database, frozen")
    restore.add_argument("folder", metavar="DIR", help="what synth backup wrote")
    restore.set_defaults(command=_restore)

    uninstall = commands.add_parser("uninstall", help="remove keys, private tables and ledger, after a typed word")
    uninstall.add_argument("--everything", action="store_true", help="needed: say that all of it is to be removed")
    uninstall.set_defaults(command=_uninstall)

    rows = commands.add_parser("rows", help="write the rows of a bundle as the private table is written")
    rows.add_argument("bundle", metavar="BUNDLE", help="a bundle: the zip, or its folder")
    rows.add_argument("--out", metavar="FILE", required=True, help="a new file; whatever reads the table reads it")
    rows.set_defaults(command=_rows)

    incidents = commands.add_parser("incidents", help="list what rehearsals have stopped, or clear it")
    incidents.add_argument("--clear", metavar="INCIDENT", help="let its configuration be released again")
    incidents.add_argument("--because", metavar="TEXT", default="", help="why; kept with the incident")
    incidents.set_defaults(command=_incidents)
