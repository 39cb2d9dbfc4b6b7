"""Commands about an installation: its screens, its accounts and ledger, backups, and incidents."""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from synth.cli.speaking import say, tell
from synth.errors import InputError, LedgerError
from synth.names import numbered
from synth.system.packages import is_installed
from synth.system.paths import path_of

if TYPE_CHECKING:
    from synth.application import Application

__all__ = ["add_command", "add_keeping_commands", "open_application", "open_browser"]

_FROZEN_REMEDY = (
    "Enter every release that is missing from its ledger (synth account --enter BUNDLE ...), then accept the ledger: "
    "synth account NAME --accept"
)


def open_application() -> Application:
    """Open the installation. It is imported late, because it loads every library that a run needs."""
    from synth.application import Application

    return Application.for_local_user()


# Screens --------------------------------------------------------------------------------------------------------------

_PACKAGE = Path(__file__).resolve().parents[1]


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 65_536:  # 0 is any that is free
        raise argparse.ArgumentTypeError(f"a port is a number up to 65535, got {number}")
    return number


def _app(parsed: argparse.Namespace) -> int:
    if not is_installed("streamlit"):
        raise ModuleNotFoundError(name="streamlit")  # the message says what to install
    # A wheel contains the screens; in a copy of the repository they are beside the package.
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
    # It replaces this process, so that stopping one stops the other.
    os.execve(sys.executable, [sys.executable, "-m", "streamlit", "run", str(script), *options], environment)  # noqa: S606


def open_browser(address: str, *, patience: float = 60.0) -> None:
    """Open a browser once the server answers; do nothing on a machine without a screen."""
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
        parsed.name is not None
        or parsed.open
        or parsed.accept
        or parsed.owner is not None
        or parsed.epsilon_cap is not None
        or parsed.delta_cap is not None
    )
    if len(asked) > 1 or (asked and about_one):
        raise InputError(f"{asked[0]} is used alone. Leave out the name and every other option.")
    if parsed.heads:
        return _heads()
    if parsed.check_heads is not None:
        return _check_heads(path_of(parsed.check_heads, "the heads"))
    if parsed.enter is not None:
        return _enter(parsed.enter)
    if parsed.name is None:
        raise InputError("Name an account. synth ledger lists those that something was spent on.")
    return _one_account(parsed)


def _one_account(parsed: argparse.Namespace) -> int:
    with open_application() as application:
        if (parsed.epsilon_cap is None) != (parsed.delta_cap is None):
            raise InputError("A cap needs both numbers: --epsilon-cap and --delta-cap.")
        if not parsed.open and application.store.accounts.named(parsed.name) is None:
            raise InputError(_no_account(parsed.name, application.account_names()))
        if parsed.open:
            application.open_account(parsed.name)
        if parsed.owner is not None:
            application.hand_over(parsed.name, parsed.owner)
        if parsed.epsilon_cap is not None:
            application.set_cap(parsed.name, parsed.epsilon_cap, parsed.delta_cap)
        if parsed.accept:
            application.accept_ledger(parsed.name, who=application.access.name)
        view = application.account(parsed.name)
    say(*view.lines)
    if view.frozen:
        say(f"This account is frozen: no run can spend on it. {_FROZEN_REMEDY}")
    return 0


def _no_account(name: str, others: list[str]) -> str:
    near = difflib.get_close_matches(name, others, n=1)
    meant = f" Did you mean '{near[0]}'?" if near else ""
    return f"There is no account '{name}'.{meant} To open one with this name, add --open."


def _heads() -> int:
    with open_application() as application:
        say(application.heads().rstrip("\n"))
    return 0


def _check_heads(path: Path) -> int:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise InputError(f"The file '{path.name}' cannot be read. Name the output of synth account --heads.") from None
    with open_application() as application:
        found = application.check_heads(text)
    say(*found.lines)
    return 0 if found.ok else 1


def _enter(paths: list[str]) -> int:
    with open_application() as application:
        entered = application.enter_releases(paths)
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
    say(f"Wrote {made.files} files to {made.folder}, {tables}. They include the keys: keep them as safe as the rows.")
    return 0


def _user(parsed: argparse.Namespace) -> int:
    from synth.ledger.rulings import roles_called
    from synth.services.access import local_user

    with open_application() as application:
        if parsed.roles is not None:
            if parsed.name is None:
                raise InputError("Name the user whose roles these are.")
            # Whoever can run this can read the keys: so the first administrator is made, and one after all have left.
            application.roles.give(parsed.name, roles_called(parsed.roles.split(",")), who=local_user())
        found = application.roles.all()
    if parsed.name is not None:
        found = {name: roles for name, roles in found.items() if name == parsed.name}
    if not found:
        say("This user has no role." if parsed.name else "There are no users: whoever reaches this may do everything.")
    say(*(f"{name}: {', '.join(sorted(roles))}" for name, roles in found.items()))
    return 0


def _policy(parsed: argparse.Namespace) -> int:
    from dataclasses import asdict

    from synth.ledger.rulings import Policy

    asked = {name: getattr(parsed, name) for name in asdict(Policy())}
    given = {name: None if value == 0 else value for name, value in asked.items() if value is not None}
    with open_application() as application:
        if given:
            application.set_policy(Policy(**{**asdict(application.policy()), **given}))
        say(*application.policy().lines)
    return 0


def _approvals(parsed: argparse.Namespace) -> int:
    with open_application() as application:
        if parsed.approve is not None:
            application.approvals.approve(parsed.approve, because=parsed.because)
        if parsed.refuse is not None:
            application.approvals.refuse(parsed.refuse, because=parsed.because)
        found = application.approvals.all()
    if not found:
        say("Nobody has asked for an approval.")
    say(*(one.line for one in found))
    return 0


def _restore(parsed: argparse.Namespace) -> int:
    from synth.ledger.backup import restore
    from synth.system.settings import Settings

    found = restore(Settings.from_environment(), path_of(parsed.folder, "the backup"))
    say(
        f"Restored {numbered(len(found.accounts), 'account')} and {numbered(found.runs, 'run')} as of "
        f"{found.made:%Y-%m-%d %H:%M} UTC."
    )
    if found.lost_tables:
        say(f"Not in the backup: {numbered(found.lost_tables, 'private table')}. Upload what you still need again.")
    if found.accounts:
        say(f"Every account is frozen, because its ledger lacks what was spent after that time. {_FROZEN_REMEDY}")
    return 0


_REMOVE = "remove"
"""The word to type to remove an installation."""


def _uninstall(parsed: argparse.Namespace) -> int:
    from synth.ledger.backup import contents, remove
    from synth.system.settings import Settings

    settings = Settings.from_environment()
    if not parsed.everything:
        raise InputError(
            "To remove the keys, tables and ledger of this installation, type synth uninstall --everything. To remove "
            "the program itself, type pip uninstall hermitage."
        )
    there = contents(settings)
    tell(
        f"This removes from {settings.home}: the keys, {numbered(there.tables, 'private table')}, the ledger of "
        f"{numbered(there.accounts, 'account')}, and the files of all runs."
    )
    tell(
        f"This does not remove backups, nor the bundles of {numbered(there.releases, 'release')}, which verify as "
        "before. Without the ledger, nobody can add up what was spent on these people: make a backup first if you may "
        "release data about them again. Stop the server first."
    )
    tell(f"Type {_REMOVE} to continue:")
    if sys.stdin.readline().strip() != _REMOVE:
        raise InputError("Nothing was removed.")
    left = remove(settings)
    say("Removed. Only a backup can restore it.")
    if left:
        say(f"Files of other programs stay in {settings.home}: {', '.join(left)}.")
    return 0


def _incidents(parsed: argparse.Namespace) -> int:
    with open_application() as application:
        if parsed.clear is not None:
            application.stops.clear(parsed.clear, who=application.access.name, because=parsed.because)
            say(f"Cleared incident {parsed.clear}. Releases with its configuration are allowed again.")
            return 0
        found = application.stops.all()
    if not found:
        say("No rehearsal has stopped a configuration.")
    say(*(stop.line for stop in found))
    return 0


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    words: str,
    command: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Add a command that says the same of itself in the list of commands and in its own help."""
    parser = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    parser.set_defaults(command=command)
    return parser


def add_keeping_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands about an installation."""
    account = add_command(
        commands, "account", "show an account, cap what may be spent, or check that no ledger is behind", _account
    )
    account.add_argument("name", metavar="NAME", nargs="?", help="the account; synth ledger lists those with charges")
    account.add_argument("--open", action="store_true", help="open an account with this name, if there is none yet")
    account.add_argument("--owner", metavar="USER", help="hand the account over to another owner")
    account.add_argument("--epsilon-cap", type=float, metavar="E", help="the most that may be spent on these people")
    account.add_argument("--delta-cap", type=float, metavar="D", help="the delta at which epsilon is added up")
    account.add_argument(
        "--accept", action="store_true", help="after a restore: accept the ledger as complete, so that runs may spend"
    )
    words = "print how far every ledger has come; keep it in another place"
    account.add_argument("--heads", action="store_true", help=words)
    words = "compare the ledgers with a file from --heads; exit code 1 if one is behind"
    account.add_argument("--check-heads", metavar="FILE", help=words)
    account.add_argument(
        "--enter",
        metavar="CERTIFICATE",
        nargs="+",
        help="enter releases that are missing from a restored ledger: bundles, or certificates beside their bundle",
    )

    add_command(commands, "ledger", "list everything that was spent", _ledger)

    incidents = add_command(
        commands, "incidents", "list what rehearsals have stopped, or clear an incident", _incidents
    )
    incidents.add_argument("--clear", metavar="INCIDENT", help="allow releases with its configuration again")
    incidents.add_argument("--because", metavar="TEXT", default="", help="the reason; it is kept with the incident")

    user = add_command(commands, "user", "list the users and their roles, or give a user roles", _user)
    user.add_argument("name", metavar="NAME", nargs="?", help="as the login says it, or an account of this machine")
    words = "exactly these, separated by commas: owner, approver, auditor, admin; '' takes all away"
    user.add_argument("--roles", metavar="ROLES", help=words)

    policy = add_command(commands, "policy", "show or change what this installation allows; 0 removes a limit", _policy)
    policy.add_argument("--release-epsilon", type=float, metavar="E", help="the largest epsilon of one release")
    policy.add_argument("--approval-epsilon", type=float, metavar="E", help="above it, a second person has to approve")
    words = "the limit of an account that has none of its own"
    policy.add_argument("--account-epsilon", type=float, metavar="E", help=words)
    policy.add_argument("--account-delta", type=float, metavar="D", help="the delta at which that limit is added up")

    approvals = add_command(
        commands, "approvals", "list what was asked to be approved, or approve or refuse it", _approvals
    )
    approvals.add_argument("--approve", metavar="REQUEST", help="as a second person: let the run be charged, once")
    approvals.add_argument("--refuse", metavar="REQUEST", help="as a second person: do not")
    approvals.add_argument("--because", metavar="TEXT", default="", help="the reason; it is kept with the decision")

    app = add_command(commands, "app", "open the app in a browser; needs the extra 'app'", _app)
    app.add_argument("--port", type=_port, default=8501, metavar="N", help="the port on this machine (default 8501)")
    words = "the folder for keys, tables and ledger, instead of HERMITAGE_HOME"
    app.add_argument("--home", metavar="DIR", help=words)
    app.add_argument("--no-browser", action="store_true", help="start the server without opening a browser")
    app.add_argument("more", metavar="OPTION", nargs="*", help="options of streamlit run, after --")

    backup = add_command(
        commands, "backup", "copy the installation into a new folder, even while it is in use", _backup
    )
    backup.add_argument("folder", metavar="DIR", help="a new or empty folder; it will contain the keys")
    backup.add_argument("--with-tables", action="store_true", help="copy the encrypted private tables too")

    restore = add_command(
        commands, "restore", "restore a backup into an empty home and database; every account is frozen", _restore
    )
    restore.add_argument("folder", metavar="DIR", help="the folder that synth backup wrote")

    uninstall = add_command(
        commands, "uninstall", "remove keys, private tables and ledger, after you type a word to confirm", _uninstall
    )
    uninstall.add_argument("--everything", action="store_true", help="required: confirm that all of it is removed")
