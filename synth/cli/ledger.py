"""The commands about what was spent and about keeping it safe: accounts, ledger, backups, advisories."""

from __future__ import annotations

import argparse
from pathlib import Path

from synth.cli.common import say
from synth.errors import InputError, LedgerError
from synth.system.paths import path_of

__all__ = ["add_ledger_commands"]


def add_ledger_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those there are."""
    account = commands.add_parser("account", help="show an account, set its cap, or see that no ledger is behind")
    account.add_argument("name", metavar="NAME", nargs="?")
    account.add_argument("--epsilon-cap", type=float, metavar="E")
    account.add_argument("--delta-cap", type=float, metavar="D")
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

    commands.add_parser("ledger", help="everything that was spent").set_defaults(command=_ledger)

    backup = commands.add_parser("backup", help="copy the installation, in use or not, into a new folder")
    backup.add_argument("folder", metavar="DIR")
    backup.add_argument("--with-tables", action="store_true", help="copy the encrypted private tables too")
    backup.set_defaults(command=_backup)

    restore = commands.add_parser("restore", help="restore a backup into an empty home and database, frozen")
    restore.add_argument("folder", metavar="DIR")
    restore.set_defaults(command=_restore)

    commands.add_parser(
        "advisory", help="releases of earlier versions that faults may have touched, and what to do"
    ).set_defaults(command=_advisory)


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
    from synth.services.application import Application
    from synth.services.cell_worth import row_worth_words

    with Application.from_environment() as application:
        if (parsed.epsilon_cap is None) != (parsed.delta_cap is None):
            raise InputError("A cap needs both numbers: --epsilon-cap and --delta-cap.")
        if parsed.epsilon_cap is not None:
            application.set_cap(parsed.name, parsed.epsilon_cap, parsed.delta_cap)
        if parsed.accept:
            application.accept_ledger(parsed.name, who="owner")
        view = application.account(parsed.name)
    cap = "no cap" if view.epsilon_cap is None else f"cap {view.epsilon_cap:g} at delta {view.delta_cap:g}"
    say(f"{view.name}: epsilon {view.epsilon_spent:.4g} spent ({cap}), simple sum {view.epsilon_simple_sum:.4g}, "
         f"{view.releases} releases. {view.unit_sentence or 'Nobody has described its people yet'}.")  # fmt: skip
    if view.row_worth is not None:
        say(f"All of it, simply added: epsilon {view.epsilon_simple_sum:.4g}{row_worth_words(view.row_worth)}, "
             f"at delta {view.row_worth[1]:g}.")  # fmt: skip
    if view.frozen:
        say(f"It is frozen and takes no run. {FROZEN_REMEDY}")
    return 0


FROZEN_REMEDY = (
    "Enter every release that its ledger lacks (synth account --enter BUNDLE ...), then accept it: "
    "synth account NAME --accept"
)


def _heads() -> int:
    from synth.services.application import Application
    from synth.services.heads import heads_text

    with Application.from_environment() as application:
        say(heads_text(application.store, application.ledger).rstrip("\n"))
    return 0


def _check_heads(path: Path) -> int:
    from synth.services.application import Application
    from synth.services.heads import check_heads

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise InputError(f"The file '{path.name}' cannot be read. Name one that synth account --heads wrote.") from None
    with Application.from_environment() as application:
        found = check_heads(text, application.store, application.ledger)
    for line in found.lines:
        say(line)
    return 0 if found.ok else 1


def _enter(paths: list[str]) -> int:
    from synth.services.application import Application
    from synth.services.entering import enter_bundles

    with Application.from_environment() as application:
        entered = enter_bundles(application, paths, who="owner")
        for one in entered:
            say(one.sentence)
        frozen = sorted({one.account for one in entered if application.account(one.account).frozen})
    for name in frozen:
        say(f"'{name}' stays frozen until you accept its ledger as complete: synth account '{name}' --accept")
    return LedgerError.exit_code if any(one.was_there for one in entered) else 0


def _ledger(_: argparse.Namespace) -> int:
    from synth.ledger.ledger import SPENT_OR_FREED
    from synth.services.application import Application
    from synth.services.cell_worth import row_worth_words

    with Application.from_environment() as application:
        rows = application.ledger_rows()
    if not rows:
        say("Nothing spent yet.")
        return 0
    for row in rows:
        cost = f"epsilon {row.epsilon:g}{row_worth_words(row.row_worth)}  delta {row.delta:g}  {row.state}"
        say(f"{row.time:%Y-%m-%d %H:%M}  {row.account}  #{row.sequence}  {cost}  run {row.run_id}  {row.purpose}")
    say(SPENT_OR_FREED)
    return 0


def _backup(parsed: argparse.Namespace) -> int:
    from synth.services.backup import back_up
    from synth.system.settings import Settings

    folder = path_of(parsed.folder, "the backup")
    made = back_up(Settings.from_environment(), folder, with_tables=parsed.with_tables)
    tables = "with the encrypted tables" if made.with_tables else "without private tables"
    say(f"Wrote {made.files} files to {made.folder}, {tables}. It holds the keys: keep it as safe as the rows.")
    return 0


def _restore(parsed: argparse.Namespace) -> int:
    from synth.services.backup import restore
    from synth.system.settings import Settings

    found = restore(Settings.from_environment(), path_of(parsed.folder, "the backup"))
    say(f"Restored {len(found.accounts)} accounts and {found.runs} runs as of {found.made:%Y-%m-%d %H:%M} UTC.")
    if found.lost_tables:
        say(f"{found.lost_tables} private tables are not in the backup; upload them again where they are needed.")
    if found.accounts:
        say(f"Every account is frozen, because what was spent after that time is not in its ledger. {FROZEN_REMEDY}")
    return 0


def _advisory(_: argparse.Namespace) -> int:
    from synth.services.advisories import advisory_lines
    from synth.services.application import Application

    with Application.from_environment() as application:
        for line in advisory_lines(application.store):
            say(line)
    return 0
