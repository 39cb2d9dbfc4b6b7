from __future__ import annotations

from itertools import product

import pytest

from synth.errors import JobError
from synth.store import Account, Run, Store, Work, WorkState
from synth.store.work import ACTIVE_STATES, FINISHED_STATES, SOURCES

HOST = "machine"


def planned(store: Store, account: Account, owner: str = "owner") -> Run:
    return store.runs.add(account_id=account.id, config='{"rows": 5}', owner=owner)


def queued(store: Store, account: Account, owner: str = "owner", *, gpus: int = 0) -> Run:
    run = planned(store, account, owner)
    store.work.put(run.id, gpus=gpus, cpus=0)
    return store.runs[run.id]


def take(store: Store, *, slots: int = 9, gpus: tuple[str, ...] = (), host: str = HOST) -> Work | None:
    return store.work.take(host=host, slots=slots, gpus=gpus)


def test_a_run_comes_back_as_it_was_planned(store: Store, account: Account) -> None:
    run = planned(store, account)
    assert store.runs[run.id] == run
    assert store.runs.of_account(account.id) == store.runs.all() == (run,)


def test_runs_of_one_second_stand_in_the_order_they_came(store: Store, account: Account) -> None:
    came = [queued(store, account).id for _ in range(12)] + [planned(store, account).id]
    assert [run.id for run in store.runs.all()] == came


def test_an_unknown_run_is_a_sentence(store: Store) -> None:
    with pytest.raises(JobError, match="no such run"):
        store.runs["nothing"]


def test_no_run_leads_back_to_work() -> None:
    """From no finished state does any chain of moves reach a state in which rows are read again."""
    for finished, state in product(FINISHED_STATES, (WorkState.QUEUED, *ACTIVE_STATES)):
        assert finished not in SOURCES[state]


@pytest.mark.parametrize("state", [WorkState.FAILED, WorkState.CANCELLED])
def test_a_stopped_run_stays_stopped(store: Store, account: Account, state: WorkState) -> None:
    run = planned(store, account)
    assert store.work.move(run.id, state, message="It stopped.")
    assert not store.work.move(run.id, WorkState.RUNNING)
    with pytest.raises(JobError):
        store.work.claim(run.id, host=HOST, pid=1, pid_created=1.0)
    with pytest.raises(JobError, match=f"is {state}"):
        store.work.advance(run.id, WorkState.MEASURED)
    assert store.runs[run.id].message == "It stopped."
    assert store.runs[run.id].finished is not None


def test_a_run_is_claimed_once(store: Store, account: Account) -> None:
    run = queued(store, account)
    assert take(store) is not None
    claimed = store.work.claim(run.id, host=HOST, pid=10, pid_created=1.5)
    assert (claimed.state, claimed.pid, claimed.pid_created) == (WorkState.RUNNING, 10, 1.5)
    with pytest.raises(JobError, match="never executed twice"):
        store.work.claim(run.id, host=HOST, pid=11, pid_created=2.5)
    store.work.note_process(run.id, pid=12, pid_created=3.5)
    assert store.runs[run.id].pid == 10


def test_a_run_that_was_put_back_goes_first_and_on_its_own_machine(store: Store, account: Account) -> None:
    run, other = queued(store, account, gpus=1), queued(store, account)
    assert (first := take(store, gpus=("0",))) is not None
    claimed = store.work.claim(run.id, host=HOST, pid=10, pid_created=1.5)
    assert (first.attempts, claimed.attempts, claimed.went_on) == (1, 1, False)
    assert store.work.put_back(claimed, gpus=0)
    waiting = store.runs[run.id]
    assert (waiting.state, waiting.claimed, waiting.pid, waiting.gpu, waiting.gpus) == (
        *(WorkState.QUEUED, False, None, None, 0),
    )
    assert not store.work.put_back(claimed, gpus=0), "it is nobody's now"
    assert (elsewhere := take(store, host="other")) is not None
    assert elsewhere.id == other.id
    assert (second := take(store)) is not None
    assert (second.id, second.attempts, second.went_on) == (run.id, 2, True)
    assert not store.work.put_back(claimed, gpus=0), "it is another worker's now"
    store.work.claim(run.id, host=HOST, pid=11, pid_created=2.5)
    with pytest.raises(JobError, match="never executed twice"):
        store.work.claim(run.id, host=HOST, pid=12, pid_created=3.5)
    assert store.runs[run.id].attempts == 2


@pytest.mark.parametrize("state", [WorkState.REPORTED, WorkState.FAILED, WorkState.CANCELLED])
def test_what_ended_is_not_put_back(store: Store, account: Account, state: WorkState) -> None:
    run = queued(store, account)
    take(store)
    claimed = store.work.claim(run.id, host=HOST, pid=10, pid_created=1.5)
    store.work.move(run.id, state)
    assert not store.work.put_back(claimed, gpus=0)
    assert store.runs[run.id].state is state


def test_a_run_that_is_to_be_cancelled_is_not_put_back(store: Store, account: Account) -> None:
    run = queued(store, account)
    take(store)
    claimed = store.work.claim(run.id, host=HOST, pid=10, pid_created=1.5)
    store.work.request_cancel(run.id)
    assert not store.work.put_back(claimed, gpus=0)


def test_a_process_that_goes_on_by_itself_is_counted(store: Store, account: Account) -> None:
    run = planned(store, account)
    assert store.work.claim(run.id, host=HOST, pid=1, pid_created=1.0).attempts == 1
    store.work.move(run.id, WorkState.MEASURED)
    store.work.count_attempt(run.id)
    again = store.work[run.id]
    assert (again.attempts, again.state, again.went_on) == (2, WorkState.RUNNING, True)


def test_a_run_is_handed_in_once(store: Store, account: Account) -> None:
    run = queued(store, account)
    with pytest.raises(JobError, match="already submitted"):
        store.work.put(run.id, gpus=0, cpus=0)


def test_the_queue_keeps_its_order_and_counts_slots_per_machine(store: Store, account: Account) -> None:
    runs = [queued(store, account, f"owner {index}") for index in range(4)]
    taken = [take(store, slots=2), take(store, slots=2), take(store, slots=2), take(store, slots=2, host="other")]
    assert [run.id if run else None for run in taken] == [runs[0].id, runs[1].id, None, runs[2].id]
    store.work.move(runs[0].id, WorkState.FAILED)
    assert (last := take(store, slots=2)) is not None
    assert last.id == runs[3].id


def test_the_lowest_free_gpu_is_handed_out(store: Store, account: Account) -> None:
    runs = [queued(store, account, gpus=1) for _ in range(3)]
    on_processor = queued(store, account, gpus=0)
    taken = [take(store, gpus=("0", "1")) for _ in range(4)]
    assert [run and run.gpu for run in taken] == ["0", "1", None, None]
    assert taken[2] is not None
    assert taken[2].id == on_processor.id  # it needs no GPU and does not wait behind one that does
    store.work.move(runs[0].id, WorkState.FAILED)
    assert (last := take(store, gpus=("0", "1"))) is not None
    assert (last.id, last.gpu) == (runs[2].id, "0")


def test_a_run_that_wants_a_gpu_uses_the_processor_where_there_is_none(store: Store, account: Account) -> None:
    queued(store, account, gpus=1)
    assert (run := take(store, gpus=())) is not None
    assert run.gpu is None


def test_progress_is_kept_and_tells_whether_to_go_on(store: Store, account: Account) -> None:
    run = planned(store, account)
    store.work.claim(run.id, host=HOST, pid=1, pid_created=1.0)
    note = {"phase": "Fitting", "step": 3, "steps": 9, "losses": [0.5, 0.25]}
    assert store.work.note_progress(run.id, **note)
    seen = store.runs[run.id]
    assert (seen.phase, seen.step, seen.steps, seen.losses) == ("Fitting", 3, 9, (0.5, 0.25))
    store.work.request_cancel(run.id)
    assert not store.work.note_progress(run.id, **note)
    store.work.move(run.id, WorkState.FAILED)
    assert not store.work.note_progress(run.id, **note)
    assert not store.work.beat(run.id)


def test_times_are_whole_seconds(store: Store, account: Account) -> None:
    run = planned(store, account)
    store.work.claim(run.id, host=HOST, pid=1, pid_created=1.0)
    seen = store.runs[run.id]
    times = [seen.created, seen.started, seen.heartbeat]
    assert all(time is not None and time.microsecond == 0 and time.tzinfo is not None for time in times)
