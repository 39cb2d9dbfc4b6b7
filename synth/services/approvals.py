"""A second person's approval of releases with a large epsilon.

A request is for one configuration of one account, exactly as it would be released. Nothing is reserved or read for it.
Request, answer and use are entries in the chain of the account. An approval is good for one charge of that
configuration, which states no more than was approved; a reservation that is freed gives it back. The ledger checks it
in the same transaction that reserves the budget.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import uuid4

from synth.errors import ApprovalRequiredError, InputError, LedgerError, NotAllowedError
from synth.estimators import promised_epsilon
from synth.ledger.charging import Approval, answers_of_requests, approvals_used, requests_in
from synth.ledger.ledger import Ledger
from synth.ledger.notes import asked_digest
from synth.ledger.rulings import POLICY_NAME, Policy, Role, Roles
from synth.ledger.spending import Cost
from synth.names import one_form, shown
from synth.privacy.accounting import PrivacyBudget
from synth.reports.forecast import forecast
from synth.schema import Neighbours, RunConfig, config_to_mapping, parse_config
from synth.services.access import Access, internal, use_case
from synth.store import Account, Decision, DecisionKind, Store

__all__ = ["Approvals", "Request", "limit_by_policy", "require_without_approval"]

LARGEST_DELTA = 1e-5
"""The largest delta at which epsilons are compared with the policy: at a larger one any noise has a small epsilon."""

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
    epsilon : float
        The most that its certificate would state.
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
    epsilon: float
    state: RequestState
    decided_by: str = ""
    because: str = ""
    decided: datetime | None = None

    @property
    def caution(self) -> str | None:
        """What the stated epsilon is worth, where that is not what the policy compares; else None."""
        weight = _weight_of(self.config)
        return None if weight.is_plain else f"This release has {weight.words}."

    def covers(self, config: RunConfig) -> bool:
        """Whether a configuration states no more than was asked: a preview since then adds to it."""
        return promised_epsilon(config) <= self.epsilon

    @property
    def line(self) -> str:
        """The request as a line of text."""
        decided = f" by {self.decided_by}: {self.because}" if self.decided_by else ""
        asked = f"{self.config.schema.sentence}  {self.config.generator}  asked by {self.asked_by}"
        return (
            f"{self.id}  {self.asked:%Y-%m-%d %H:%M}  {self.account}  epsilon {self.epsilon:g}  delta "
            f"{self.config.delta:g}  {asked}  {self.state}{decided}"
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
        policy, weight = self._roles.policy(), _weight_of(config)
        weight.require_small(policy)
        if not weight.needs_approval(policy):
            raise InputError("This release needs no approval: start it.")
        if self.access.is_single_user:
            raise ApprovalRequiredError(_alone(policy, weight))
        account, _ = self._store.accounts.ensure(
            config.account, config.schema.neighbours, config.schema.unit, self.access.owner
        )
        latest = self._latest(config)
        if latest is not None and latest.state == "waiting" and latest.covers(config):
            return latest
        request = uuid4().hex[:8]
        body = {"request": request, "config": _text(config), "epsilon": promised_epsilon(config)}
        self._ledger.note_request(account.id, body, who=self.access.name)
        return self._called(request)[0]

    @use_case(Role.OWNER, Role.APPROVER, Role.AUDITOR, Role.ADMIN)
    def all(self) -> tuple[Request, ...]:
        """Return the requests, newest first: an owner's own, and all of them for everybody else."""
        sees_all = self.access.roles & {Role.APPROVER, Role.AUDITOR, Role.ADMIN}
        found = [request for account, request in self._all() if sees_all or self.access.owns(account)]
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
            If the same user asked for it, or owns its account.
        InputError
            If there is no such request, it was decided already, or no reason is given.
        """
        return self._decide(request, DecisionKind.APPROVED, because)

    @use_case(Role.APPROVER)
    def refuse(self, request: str, *, because: str) -> Request:
        """Refuse a request that waits. Parameters and errors as :meth:`approve`."""
        return self._decide(request, DecisionKind.REFUSED, because)

    @use_case(Role.APPROVER)
    def hindrance(self, request: Request) -> str | None:
        """Return why this user may not decide a request, in one sentence, or None."""
        account = self._store.accounts.named(request.account)
        if _is_same(request.asked_by, self.access.name):
            return "You asked for this yourself, so somebody else has to decide it."
        if account is not None and _is_same(account.owner, self.access.name):
            return "The account is yours, so somebody else has to decide it."
        return None

    @internal
    def can_be_asked(self, config: RunConfig, *, after_refusal: bool = True) -> bool:
        """Whether a release needs an approval that can be asked for now."""
        policy, weight = self._roles.policy(), _weight_of(config)
        if not weight.needs_approval(policy) or not weight.is_small(policy) or self.access.is_single_user:
            return False
        latest = self._latest(config)
        if latest is None or latest.state == "used" or not latest.covers(config):
            return True
        return after_refusal and latest.state == "refused"

    def _latest(self, config: RunConfig) -> Request | None:
        """Return the approval that a configuration can use now; else the latest request for it, or None."""
        account = self._store.accounts.named(config.account)
        if account is None:
            return None
        found = [one for one in reversed(self._of(account)) if _digest(one.config) == _digest(config)]
        usable = (one for one in found if one.state == "approved" and one.covers(config))
        return next(usable, next(iter(found), None))

    @internal
    def require(self, config: RunConfig) -> Approval | None:
        """Refuse a release whose epsilon is too large, or that still has to be approved.

        Returns
        -------
        Approval or None
            What the ledger has to find, if an approval is needed.

        Raises
        ------
        ApprovalRequiredError
            What to do about it.
        """
        policy, weight = self._roles.policy(), _weight_of(config)
        weight.require_small(policy)
        if not weight.needs_approval(policy):
            return None
        if self.access.is_single_user:
            raise ApprovalRequiredError(_alone(policy, weight))
        latest = self._latest(config)
        if latest is not None and latest.state == "approved" and latest.covers(config):
            return Approval(latest.id, promised_epsilon(config))
        raise ApprovalRequiredError(f"{_above(policy, weight)} {_standing(latest)} Nothing was charged.")

    def _decide(self, request: str, kind: DecisionKind, because: str) -> Request:
        found, account = self._called(request)
        if not because.strip():
            raise InputError("Give a reason: it is kept with the decision.")
        hindrance = self.hindrance(found)
        if hindrance is not None:
            raise NotAllowedError(hindrance)
        body = {
            "request": found.id,
            "config": _digest(found.config),
            "epsilon": found.epsilon,
            "delta": found.config.delta,
            "asked_by": found.asked_by,
            "because": because.strip(),
        }
        self._ledger.answer_request(account.id, kind, body, who=self.access.name)
        return self._called(found.id)[0]

    def _called(self, request: str) -> tuple[Request, Account]:
        called = request.strip().lower()
        found = next(((one, account) for account, one in self._all() if one.id == called), None)
        if found is None:
            raise InputError(f"There is no request '{shown(request)}'. synth approvals lists them.")
        return found

    def _all(self) -> Iterator[tuple[Account, Request]]:
        for account in self._store.accounts.all():
            # An altered chain of one account can be charged nothing, and must not hide the requests of all others.
            with suppress(LedgerError):
                for request in self._of(account):
                    yield account, request

    def _of(self, account: Account) -> list[Request]:
        chain = self._ledger.chain(account.id)
        answers, used = answers_of_requests(chain), approvals_used(chain)
        return [_request(name, asked, account, answers.get(name), used) for name, asked in requests_in(chain).items()]


def _request(name: str, asked: Decision, account: Account, answer: Decision | None, used: Container[str]) -> Request:
    state: RequestState = "waiting"
    if answer is not None:
        approved = answer.kind is DecisionKind.APPROVED
        state = "refused" if not approved else "used" if name in used else "approved"
    return Request(
        id=name,
        account=account.name,
        asked_by=asked.who,
        asked=asked.time,
        config=parse_config(json.loads(asked.body["config"])),
        epsilon=float(asked.body["epsilon"]),
        state=state,
        decided_by="" if answer is None else answer.who,
        because="" if answer is None else str(answer.body["because"]),
        decided=None if answer is None else answer.time,
    )


def _text(config: RunConfig) -> str:
    return json.dumps(config_to_mapping(config.published()))


def _digest(config: RunConfig) -> str:
    return asked_digest(_text(config))


def _is_same(one: str, other: str) -> bool:
    """Whether two names are of one person: a provider may write an address with capitals or without."""
    return one_form(one).casefold() == one_form(other).casefold()


# What the policy says -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weight:
    """What the policy is about: an epsilon, and what it is worth for a whole unit at a delta that is not large.

    Attributes
    ----------
    epsilon, delta : float
        As they are stated.
    compared : float
        At the same delta, or at ``LARGEST_DELTA`` where that is smaller.
    of_cell : bool
        Whether the stated epsilon is that of one cell, and the compared one of a row.
    """

    epsilon: float
    delta: float
    compared: float
    of_cell: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the epsilon as it is stated is the one that is compared."""
        return self.delta <= LARGEST_DELTA and not self.of_cell

    @property
    def words(self) -> str:
        """The epsilon, and where it differs what is compared."""
        if self.is_plain:
            return f"epsilon {self.epsilon:g}"
        stated = "for one cell" if self.of_cell else f"at delta {self.delta:g}"
        worth = f"epsilon {self.compared:.3g}" if math.isfinite(self.compared) else "no epsilon"
        which = f"{'for a row ' if self.of_cell else ''}at delta {min(self.delta, LARGEST_DELTA):g}"
        return f"epsilon {self.epsilon:g} {stated}, which is worth {worth} {which}"

    @property
    def too_large(self) -> str:
        """What to make smaller where it is too large."""
        return "epsilon" if self.delta <= LARGEST_DELTA or self.of_cell else "delta"

    def needs_approval(self, policy: Policy) -> bool:
        """Whether the policy asks for a second person."""
        return policy.approval_epsilon is not None and self.compared > policy.approval_epsilon

    def is_small(self, policy: Policy) -> bool:
        """Whether the policy allows it to a release, approved or not."""
        return policy.release_epsilon is None or self.compared <= policy.release_epsilon

    def require_small(self, policy: Policy) -> None:
        """Refuse what the policy allows to no release.

        Raises
        ------
        ApprovalRequiredError
            With the limit.
        """
        if not self.is_small(policy):
            raise ApprovalRequiredError(
                f"The policy of this installation allows at most epsilon {policy.release_epsilon:g} for one release, "
                f"and this one has {self.words.removeprefix('epsilon ')}. Use a smaller {self.too_large}, or "
                "ask an administrator."
            )


def _weight_of(config: RunConfig) -> _Weight:
    promised, at = promised_epsilon(config), min(config.delta, LARGEST_DELTA)
    if config.schema.neighbours is Neighbours.CELL:
        of_row = forecast(replace(config, delta=at)).row_epsilon
        return _Weight(promised, config.delta, math.inf if of_row is None else of_row, of_cell=True)
    return _Weight(promised, config.delta, promised_epsilon(config, at=at))


def require_without_approval(policy: Policy, budget: PrivacyBudget, cost: Cost, what: str) -> None:
    """Refuse a finding or a preview whose epsilon would need an approval, which is for releases.

    Parameters
    ----------
    policy : Policy
    budget : PrivacyBudget
        As it is stated.
    cost : Cost
        What the ledger counts for it.
    what : str
        What it is, for the message.

    Raises
    ------
    ApprovalRequiredError
    """
    is_small = budget.delta <= LARGEST_DELTA
    # Neither is about single cells.
    weight = _Weight(budget.epsilon, budget.delta, budget.epsilon if is_small else cost.epsilon(LARGEST_DELTA))
    weight.require_small(policy)
    if weight.needs_approval(policy):
        raise ApprovalRequiredError(
            f"Above epsilon {policy.approval_epsilon:g} a second person has to approve, which is possible for a "
            f"release and not for {what} of {weight.words}. Use a smaller {weight.too_large} for it."
        )


def _standing(latest: Request | None) -> str:
    if latest is None:
        return "Ask for it, and start the run once it is approved."
    if latest.state == "waiting":
        return f"That was asked for as request {latest.id}, and is not decided yet: start the run once it is approved."
    if latest.state == "refused":
        return f"Request {latest.id} was refused by {latest.decided_by}: {latest.because}."
    if latest.state == "used":
        return f"The approval of request {latest.id} was used by an earlier run: ask for another one."
    return (
        f"Request {latest.id} was approved for epsilon {latest.epsilon:g}, before more was shown about these people: "
        "ask for another one."
    )


def _above(policy: Policy, weight: _Weight) -> str:
    return f"This release has {weight.words}; above {policy.approval_epsilon:g}, a second person has to approve it."


def _alone(policy: Policy, weight: _Weight) -> str:
    return (
        f"{_above(policy, weight)} This installation has only one user, so nobody can. Use a smaller epsilon, or give "
        "somebody else the role of approver."
    )


def limit_by_policy(ledger: Ledger, account: Account, policy: Policy) -> None:
    """Give an account that nobody has given a limit the one that the policy sets now, as an entry of its ledger."""
    decided = [one.who for one in ledger.chain(account.id).decisions if one.kind is DecisionKind.CAP]
    is_own = decided and decided[-1] != POLICY_NAME
    limit = policy.account_epsilon, policy.account_delta
    if not is_own and (account.epsilon_cap, account.delta_cap) != limit:
        ledger.set_cap(account.id, epsilon=limit[0], delta=limit[1], who=POLICY_NAME)
