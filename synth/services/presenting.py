"""Rows of the store as people read them."""

from __future__ import annotations

from synth.ledger.ledger import Ledger
from synth.schema import RunConfig
from synth.services.cell_worth import row_epsilon_of_config, worth_of_charge, worth_of_charges
from synth.services.views import AccountView, LedgerRow, RunState, RunView
from synth.store import Account, Charge, ChargeState, Run, Store, now
from synth.store import RunState as StoredState

__all__ = ["account_view", "ledger_row", "run_view"]

_SHOWN: dict[StoredState, RunState] = {
    StoredState.PLANNED: "queued",
    StoredState.QUEUED: "queued",
    StoredState.RUNNING: "running",
    StoredState.MEASURED: "running",
    StoredState.REPORTED: "reported",
    StoredState.RELEASED: "released",
    StoredState.FAILED: "failed",
    StoredState.CANCELLED: "cancelled",
}


def account_view(account: Account, ledger: Ledger, store: Store) -> AccountView:
    """Return an account with what was spent on it."""
    spent = ledger.spent(account.id)
    return AccountView(
        name=account.name,
        neighbours=account.neighbours,
        unit_sentence=account.sentence,
        epsilon_cap=account.epsilon_cap,
        delta_cap=account.delta_cap,
        epsilon_spent=spent.epsilon,
        epsilon_simple_sum=spent.simple_epsilon,
        releases=spent.releases,
        notes=ledger.notes(account.id),
        row_worth=worth_of_charges(ledger.current(account.id), store),
        frozen=account.frozen,
    )


def ledger_row(charge: Charge, account: str, store: Store) -> LedgerRow:
    """Return a row of the ledger under its account's name."""
    return LedgerRow(
        sequence=charge.position,
        time=charge.time,
        account=account,
        run_id=charge.run_id,
        purpose=charge.purpose,
        epsilon=charge.epsilon,
        delta=charge.delta,
        state=charge.state.value,
        certificate_id=charge.certificate_id,
        row_worth=worth_of_charge(charge, store),
    )


def run_view(
    run: Run,
    *,
    config: RunConfig,
    account: str,
    table_name: str,
    charges: tuple[Charge, ...] = (),
    full_disk: str | None = None,
) -> RunView:
    """Return where a run stands, given the latest row of each of its charges; its seconds are whole ones."""
    begun, ended = run.started, run.finished or now()
    return RunView(
        run_id=run.id,
        account=account,
        table_name=table_name,
        generator=config.generator,
        epsilon=config.epsilon,
        delta=config.delta,
        rows=config.rows,
        state=_SHOWN[run.state],
        phase=run.phase,
        step=run.step,
        of=run.steps,
        message=run.message or None,
        incident=run.incident_id,
        device=run.device,
        losses=run.losses,
        created=run.created,
        elapsed_seconds=0 if begun is None else max(0, int((ended - begun).total_seconds())),
        row_worth=(row_epsilon_of_config(run.config), config.delta) if config.schema.protection == "cell" else None,
        spent=any(charge.state not in (ChargeState.RESERVED, ChargeState.FREED) for charge in charges),
        # One that was put back and still waits has not gone on yet, but will.
        went_on=run.went_on or (run.attempts == 1 and run.state is StoredState.QUEUED),
        full_disk=full_disk,
    )
