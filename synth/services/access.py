"""Who asks, and whether they may: checked by every use case itself, so that no screen has to.

A use case is a public method of :class:`synth.application.Application` or of one of its services. :func:`use_case`
says which roles may ask for it and whose account, table or run it is about; a method that everybody may call is marked
by :func:`for_everyone`, and one that no user reaches by :func:`internal`. ``tests/services/test_roles.py`` goes through
all of them with every role.
"""

from __future__ import annotations

import functools
import inspect
import os
import pwd
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from synth.errors import NotAllowedError, TableError
from synth.ledger.rulings import Role, Roles
from synth.store import SINGLE_USER, Account, Store
from synth.store.accounts import MAXIMUM_NAME_LENGTH

__all__ = [
    "ITSELF",
    "Access",
    "HasAccess",
    "Subject",
    "UseCase",
    "for_everyone",
    "internal",
    "local_user",
    "require_still_owner",
    "use_case",
]

Subject = Literal["account", "name", "look_for", "config", "table_id", "run_id", "preview_id", "subject"]
"""The parameter that says whose account a use case is about."""

_C = TypeVar("_C", bound=Callable[..., Any])


class Access:
    """What one user may do.

    Parameters
    ----------
    store : Store, optional
    roles : Roles, optional
        Both are needed for a user.
    user : str, optional
        The name of the user; by default the program itself, which may do everything.
    login : bool
        Whether the installation has a login, so that nobody has a role by default.
    """

    def __init__(
        self,
        store: Store | None = None,
        roles: Roles | None = None,
        *,
        user: str | None = None,
        login: bool = False,
    ) -> None:
        self._store, self._known, self._user, self._login = store, roles, user, login

    @property
    def is_the_program(self) -> bool:
        """Whether no user asks, but the program itself."""
        return self._user is None

    @property
    def is_single_user(self) -> bool:
        """Whether the installation has no users and no login: whoever reaches it may do everything."""
        return self._standing() is None

    @property
    def name(self) -> str:
        """The name under which what is asked for is recorded."""
        return self.owner or SINGLE_USER

    @property
    def owner(self) -> str | None:
        """The owner of the accounts that this user has; None for all of them."""
        return None if self.is_the_program or self.is_single_user else self._user

    @property
    def roles(self) -> frozenset[Role]:
        """The roles of the user as they are now; a role that was taken away is gone at once."""
        had = None if self.is_the_program else self._standing()
        return frozenset(Role) if had is None else had

    def _standing(self) -> frozenset[Role] | None:
        """Return the roles that the user was given; None where there are neither users nor a login."""
        users = {} if self._known is None else self._known.all()
        return users.get(str(self._user), frozenset()) if users or self._login else None

    def signed(self, typed: str) -> str:
        """Return a typed name as it is recorded: beside the name of the user, if there are several and it differs."""
        owner, name = self.owner, typed.strip()
        return (name if owner in {None, name} else f"{owner} ({name})")[:MAXIMUM_NAME_LENGTH]

    def owns(self, account: Account) -> bool:
        """Whether an account is this user's."""
        return bool(self.own([account]))

    def own(self, accounts: Iterable[Account]) -> list[Account]:
        """Return those of some accounts that are this user's."""
        had = None if self.is_the_program else self._standing()
        return [one for one in accounts if had is None or (Role.OWNER in had and one.owner == self._user)]

    def seen(self, accounts: Iterable[Account]) -> list[Account]:
        """Return those of some accounts of which this user sees what was spent."""
        return list(accounts) if self.sees_all else self.own(accounts)

    @property
    def sees_all(self) -> bool:
        """Whether this user sees what was spent on every account."""
        return bool(self.roles & {Role.AUDITOR, Role.ADMIN})

    def require(self, *roles: Role, subject: Account | None = None) -> None:
        """Refuse what none of the user's roles allows.

        Parameters
        ----------
        *roles : Role
            One of them is enough; as an owner only about one's own account.
        subject : Account, optional
            The account that it is about.

        Raises
        ------
        NotAllowedError
            Which role is missing, or that it belongs to another owner.
        """
        standing = None if self.is_the_program else self._standing()
        if standing is None:
            return
        had = standing.intersection(roles)
        if had - {Role.OWNER} or (had and (subject is None or subject.owner == self._user)):
            return
        if had:
            raise NotAllowedError("This belongs to another owner. Ask an administrator to hand over the account.")
        if not self._login and self._user == SINGLE_USER:
            raise NotAllowedError(
                "This installation has users, and no login is set up (HERMITAGE_LOGIN), so nobody can be told apart "
                "here. Ask an administrator."
            )
        if not self._user:
            raise NotAllowedError("You are not signed in, or your sign-in has expired. Load the page again to sign in.")
        wanted = [role.value for role in Role if role in roles]
        raise NotAllowedError(
            f"You are '{self._user}' here, and this needs the role of {' or '.join(wanted)}. An administrator gives "
            f"it: synth user '{self._user}' --roles {wanted[0]}"
        )

    def account_of(self, about: Subject, value: Any) -> Account | None:
        """Return the account that a parameter of a use case is about; None where it does not exist yet."""
        store = self._store
        if value is None or store is None:
            return None
        if about in ("account", "name", "look_for"):
            return store.accounts.named(str(value))
        if about == "config":
            return store.accounts.named(value.account)
        if about == "run_id":
            return store.accounts[store.runs[str(value)].account_id]
        if about != "preview_id":
            with suppress(*([] if about == "table_id" else [TableError])):  # a subject may be a preview too
                return store.accounts[store.tables[str(value)].account_id]
        charges = store.charges.of_run(str(value))
        return store.accounts[charges[0].account_id] if charges else None


ITSELF = Access()
"""The program itself: a worker, or the server between two requests."""


def require_still_owner(roles: Roles, user: str) -> None:
    """Refuse, before anything is charged, work of a user whose role was taken away while it waited.

    Raises
    ------
    NotAllowedError
    """
    users = roles.all()
    if users and Role.OWNER not in users.get(user, frozenset()):
        raise NotAllowedError(
            f"'{user}', who asked for this, has not the role of owner any more, so it was not started. Somebody "
            "with that role can start it again."
        )


def local_user() -> str:
    """Return the name of the account of this machine that runs the program; the environment cannot change it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number without a name
        return f"uid-{os.getuid()}"


# Use cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UseCase:
    """Who may ask for a method: users with one of some roles, about their own ``subject`` where they are owners.

    ``roles`` is None for everybody, and empty for the program alone.
    """

    roles: frozenset[Role] | None
    subject: Subject | None = None

    def require(self, access: Access, about: Any = None) -> None:
        """Refuse a user who may not ask for it, as :meth:`Access.require` does; ``about`` is the subject's value."""
        if self.roles is None or access.is_the_program:
            return
        # Whoever has none of the roles is told nothing about what exists.
        access.require(*self.roles)
        if self.subject is not None and self.roles & {Role.OWNER}:
            access.require(*self.roles, subject=access.account_of(self.subject, about))


class HasAccess(Protocol):
    """A service with use cases."""

    access: Access


def use_case(*roles: Role, about: Subject | None = None) -> Callable[[_C], _C]:
    """Let a method be called by users with one of some roles.

    Parameters
    ----------
    *roles : Role
    about : Subject, optional
        The parameter that says whose account it is about. An owner is refused where it is another owner's; where the
        account does not exist yet, it will be the caller's.
    """
    case = UseCase(frozenset(roles), about)

    def marked(method: _C) -> _C:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def checked(self: HasAccess, *given: Any, **named: Any) -> Any:
            value = signature.bind(self, *given, **named).arguments.get(about) if about is not None else None
            case.require(self.access, value)
            return method(self, *given, **named)

        checked.use_case = case  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return marked


def for_everyone(method: _C) -> _C:
    """Mark a method that everybody may call, with or without a role."""
    method.use_case = UseCase(None)  # type: ignore[attr-defined]
    return method


def internal(method: _C) -> _C:
    """Mark a public method that services call, and no user reaches."""
    method.use_case = UseCase(frozenset())  # type: ignore[attr-defined]
    return method
