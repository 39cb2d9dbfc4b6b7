"""A second person's approval of releases with a large epsilon.

A request is for one configuration of one account, exactly as it would be released. Nothing is reserved or read for it.
Its approval is an entry in the chain of the account, and is good for one charge of that configuration; a reservation
that is freed gives it back. The ledger checks it in the same transaction that reserves the budget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import uuid4

from synth.errors import ApprovalRequiredError, InputError, NotAllowedError
from synth.estimators import promised_epsilon
from synth.ledger.charging import answers_of_requests, approvals_left
from synth.ledger.ledger import Ledger
from synth.ledger.notes import asked_digest
from synth.ledger.rulings import Policy, Role, Roles
from synth.names import shown
from synth.schema import RunConfig, config_to_mapping, parse_config
from synth.services.access import Access, internal, use_case
from synth.store import Account, Decision, DecisionKind, Event, EventKind, Store

__all__ = ["Approvals", "Request", "limit_by_policy", "require_without_approval"]

RequestState = Literal["waiting", "approved", "used", "refused"]


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked to be approved, and what became of it.

    Attributes
    ----------
    id : str
        Eight hexadecimal digits.
    account, asked_by : str
    asked : datetime
    config : RunConfig
        What would be released; no row.
    state : {"waiting", "approved", "used", "refused"}
        ``used`` once a run has been charged.
    decided_by, because : str
        Empty while it waits.
    decided : datetime, optional
    """

    id: str
    account: str
    asked_by: str
    asked: datetime
    config: RunConfig
    state: RequestState
    decided_by: str = ""
    because: str = ""
    decided: datetime | None = None

    @property
    def epsilon(self) -> float:
        """The most that its certificate would state."""
        return promised_epsilon(self.config)

    @property
    def line(self) -> str:
        """The request as a line of text."""
        decided = f" by {self.decided_by}: {self.because}" if self.decided_by else ""
        return (
            f"{self.id}  {self.asked:%Y-%m-%d %H:%M}  {self.account}  epsilon {self.epsilon:g}  delta "
            f"{self.config.delta:g}  {self.config.generator}  asked by {self.asked_by}  {self.state}{decided}"
        )


class Approvals:
    """The requests of one installation.

    Parameters
    ----------
    store : Store
    ledger : Ledger
    roles : Roles
    access : Access
        Who asks.
    """

    def __init__(self, store: Store, ledger: Ledger, roles: Roles, *, access: Access) -> None:
        self._store, self._ledger, self._roles, self.access = store, ledger, roles, access

    @use_case(Role.OWNER, about="config")
    def ask(self, config: RunConfig) -> Request:
        """Ask for the approval of a configuration; the same request that still waits is returned again.

        Raises
        ------
        InputError
            If it needs none.
        ApprovalRequiredError
            If nobody else can approve it, or the policy does not allow it.
        """
        policy = self._roles.policy()
        _require_small(policy, promised_epsilon(config))
        if not _needs_approval(policy, promised_epsilon(config)):
            raise InputError("This release needs no approval: start it.")
        if self.access.is_single_user:
            raise ApprovalRequiredError(_alone(policy, promised_epsilon(config)))
        account, _ = self._store.accounts.ensure(
            config.account, config.schema.neighbours, config.schema.unit, self.access.owner
        )
        asked = json.dumps(config_to_mapping(config.published()))
        latest = self._latest(config)
        if latest is not None and latest.state == "waiting":
            return latest
        request = uuid4().hex[:8]
        self._store.events.add(
            EventKind.APPROVAL_ASKED,
            account_id=account.id,
            who=self.access.name,
            detail={"request": request, "config": asked},
        )
        return self._called(request)

    @use_case(Role.OWNER, Role.APPROVER, Role.AUDITOR, Role.ADMIN)
    def all(self) -> tuple[Request, ...]:
        """Return the requests, newest first: an owner's own, and all of them for everybody else."""
        accounts: Iterable[Account] = self._store.accounts.all()
        if not self.access.roles & {Role.APPROVER, Role.AUDITOR, Role.ADMIN}:
            accounts = self.access.own(accounts)
        found = [request for account in accounts for request in self._of(account)]
        return tuple(sorted(found, key=lambda one: (one.asked, one.id), reverse=True))

    @use_case(Role.APPROVER)
    def approve(self, request: str, *, because: str) -> Request:
        """Approve a request that waits.

        Parameters
        ----------
        request : str
        because : str
            Kept with the decision, in the chain of the account.

        Raises
        ------
        NotAllowedError
            If the same user asked for it.
        InputError
            If there is no such request, it was decided already, or no reason is given.
        """
        return self._decide(request, DecisionKind.APPROVED, because)

    @use_case(Role.APPROVER)
    def refuse(self, request: str, *, because: str) -> Request:
        """Refuse a request that waits. Parameters and errors as :meth:`approve`."""
        return self._decide(request, DecisionKind.REFUSED, because)

    @internal
    def can_be_asked(self, config: RunConfig, *, after_refusal: bool = True) -> bool:
        """Whether a release needs an approval that can be asked for now."""
        policy, epsilon = self._roles.policy(), promised_epsilon(config)
        if not _needs_approval(policy, epsilon) or not _is_small(policy, epsilon) or self.access.is_single_user:
            return False
        latest = self._latest(config)
        return latest is None or latest.state == "used" or (after_refusal and latest.state == "refused")

    def _latest(self, config: RunConfig) -> Request | None:
        account = self._store.accounts.named(config.account)
        requests = [] if account is None else self._of(account)
        return next((one for one in reversed(requests) if _digest(one.config) == _digest(config)), None)

    @internal
    def require(self, config: RunConfig) -> str | None:
        """Refuse a release whose epsilon is too large, or that still has to be approved.

        Returns
        -------
        str or None
            The digest of the configuration if the ledger has to find an approval of it.

        Raises
        ------
        ApprovalRequiredError
            What to do about it.
        """
        policy, epsilon = self._roles.policy(), promised_epsilon(config)
        _require_small(policy, epsilon)
        if not _needs_approval(policy, epsilon):
            return None
        if self.access.is_single_user:
            raise ApprovalRequiredError(_alone(policy, epsilon))
        latest = self._latest(config)
        if latest is not None and latest.state == "approved":
            return _digest(config)
        raise ApprovalRequiredError(f"{_above(policy, epsilon)} {_standing(latest)} Nothing was charged.")

    def _decide(self, request: str, kind: DecisionKind, because: str) -> Request:
        found = self._called(request)
        if not because.strip():
            raise InputError("Give a reason: it is kept with the decision.")
        if found.asked_by == self.access.name:
            raise NotAllowedError("You asked for this yourself, so somebody else has to decide it.")
        account = self._store.accounts.named(found.account)
        assert account is not None  # a request has an account, and accounts stay  # noqa: S101
        body = {
            "request": found.id,
            "config": _digest(found.config),
            "epsilon": found.epsilon,
            "delta": found.config.delta,
            "asked_by": found.asked_by,
            "because": because.strip(),
        }
        self._ledger.answer_request(account.id, kind, body, who=self.access.name)
        return self._called(found.id)

    def _called(self, request: str) -> Request:
        for event in self._store.events.of_kind(EventKind.APPROVAL_ASKED):
            if event.detail["request"] == request.strip().lower():
                account = self._store.accounts[str(event.account_id)]
                return next(one for one in self._of(account) if one.id == event.detail["request"])
        raise InputError(f"There is no request '{shown(request)}'. synth approvals lists them.")

    def _of(self, account: Account) -> list[Request]:
        events = self._store.events.of_account(account.id, EventKind.APPROVAL_ASKED)
        if not events:
            return []
        chain = self._ledger.chain(account.id)
        decided = answers_of_requests(chain)
        left = approvals_left(chain, {run.id: run.config for run in self._store.runs.of_account(account.id)})
        # The latest approvals of a configuration are those that are left.
        return [_request(event, account, decided, left) for event in reversed(events)][::-1]


def _request(event: Event, account: Account, decided: Mapping[str, Decision], left: dict[str, int]) -> Request:
    config = parse_config(json.loads(event.detail["config"]))
    decision = decided.get(event.detail["request"])
    state: RequestState = "waiting"
    if decision is not None and decision.kind is DecisionKind.REFUSED:
        state = "refused"
    elif decision is not None:
        digest = str(decision.body["config"])
        state = "approved" if left.get(digest, 0) > 0 else "used"
        left[digest] = left.get(digest, 0) - 1
    made = {} if decision is None else {"decided_by": decision.who, "because": str(decision.body["because"])}
    return Request(
        id=event.detail["request"],
        account=account.name,
        asked_by=event.who,
        asked=event.time,
        config=config,
        state=state,
        decided=None if decision is None else decision.time,
        **made,
    )


def _digest(config: RunConfig) -> str:
    return asked_digest(json.dumps(config_to_mapping(config.published())))


def _needs_approval(policy: Policy, epsilon: float) -> bool:
    """Whether the policy asks for a second person at an epsilon."""
    return policy.approval_epsilon is not None and epsilon > policy.approval_epsilon


def _is_small(policy: Policy, epsilon: float) -> bool:
    """Whether the policy allows an epsilon to a release, approved or not."""
    return policy.release_epsilon is None or epsilon <= policy.release_epsilon


def _require_small(policy: Policy, epsilon: float) -> None:
    """Refuse an epsilon that the policy allows to no release.

    Raises
    ------
    ApprovalRequiredError
        With the limit.
    """
    if not _is_small(policy, epsilon):
        raise ApprovalRequiredError(
            f"The policy of this installation allows at most epsilon {policy.release_epsilon:g} for one release, and "
            f"this one has {epsilon:g}. Use a smaller epsilon, or ask an administrator."
        )


def require_without_approval(policy: Policy, epsilon: float, what: str) -> None:
    """Refuse a finding or a preview whose epsilon would need an approval, which is for releases.

    Raises
    ------
    ApprovalRequiredError
    """
    _require_small(policy, epsilon)
    if _needs_approval(policy, epsilon):
        raise ApprovalRequiredError(
            f"Above epsilon {policy.approval_epsilon:g} a second person has to approve, which is possible for a "
            f"release and not for {what}. Use a smaller epsilon for it."
        )


def _standing(latest: Request | None) -> str:
    if latest is None:
        return "Ask for it, and start the run once it is approved."
    if latest.state == "waiting":
        return f"That was asked for as request {latest.id}, and is not decided yet: start the run once it is approved."
    if latest.state == "refused":
        return f"Request {latest.id} was refused by {latest.decided_by}: {latest.because}."
    return f"The approval of request {latest.id} was used by an earlier run: ask for another one."


def _above(policy: Policy, epsilon: float) -> str:
    return (
        f"This release has epsilon {epsilon:g}; above {policy.approval_epsilon:g}, a second person has to approve it."
    )


def _alone(policy: Policy, epsilon: float) -> str:
    return (
        f"{_above(policy, epsilon)} This installation has only one user, so nobody can. Use a smaller epsilon, or give "
        "somebody else the role of approver."
    )


def limit_by_policy(ledger: Ledger, account: Account, policy: Policy) -> None:
    """Give an account without a limit the one that the policy sets, as an entry of its ledger."""
    if account.epsilon_cap is None and policy.account_epsilon is not None:
        ledger.set_cap(account.id, epsilon=policy.account_epsilon, delta=policy.account_delta, who="policy")
