"""A release that begins and ends with a DataFrame: :class:`synth.Release`.

Its rows are written as a CSV table in memory (:mod:`synth.cli.frames`) and take the same path as a file: encrypted into
the vault, charged, read, queried with noise, sealed into a bundle, and deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, Self
from uuid import uuid4

from synth.bundle.replay import drawn_table
from synth.cli.files import empty_folder
from synth.cli.finding import FindResult, check_what_is_described, find_in_document
from synth.cli.frames import FORMAT, OF_CELLS, check_types, frame_as_table, frame_of_table, names_of_frame
from synth.cli.linked import both_of, frames_as_tables, frames_of_joined
from synth.cli.local import run_locally
from synth.cli.previewing import preview_locally
from synth.cli.received import SPENDS_AGAIN, Once, Rows, warn_caller, warn_of_losses
from synth.cli.speaking import Say, on_terminal
from synth.errors import InputError, PrivacyError, SynthError
from synth.names import shown
from synth.privacy.more.found_columns import open_columns
from synth.schema import (
    DeclaredTable,
    RunConfig,
    Schema,
    config_of_schema,
    config_to_mapping,
    format_to_mapping,
    in_full,
    parse_schema,
)
from synth.schema.documents import as_mapping, read
from synth.services.incidents import in_own_words
from synth.services.intake import Reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Release"]


class Release:
    """Synthetic rows with differential privacy from a DataFrame, and the sealed bundle that proves the guarantee.

    Parameters
    ----------
    frame : pandas.DataFrame, or mapping of str to two of them
        The private rows; the index is ignored. The types of its columns are public, as their names are:
        ``docs/python-and-command-line.md`` says how each is read, and which come back. Two tables that belong together
        are given by their names in the schema, which has ``tables: {patients: , visits: , key: patient}`` then.
    schema : Schema or mapping
        What is public about them: from :func:`synth.load_schema`, a completed :func:`synth.draft_schema`, or the keys
        ``columns``, ``unit`` and ``row_count`` (and ``number_of_units`` if it is public) of a configuration;
        ``columns_like`` goes by the names of ``frame``. ``tables`` says how two tables belong together.
    epsilon : float
    delta : float, optional
        By default it follows from the number of people.
    generator : str, optional
        A name from ``synth generators``.
    options : mapping, optional
        Options of the generator.
    account : str, optional
        The people the rows are about; the ledger adds up what is spent on them. Without an account the rows can be
        fitted once, under an account of their own.
    rows : int, optional
        How many synthetic rows to make, by default 10,000; a public number.
    people : int or "separate_rows", optional
        How many people to make instead, where an id column shows which rows are one person's: each has one or several.
        With ``"separate_rows"`` each synthetic row may be a person of its own.
    people_at_most : int, optional
        The largest possible number of people, which is public; required if ``number_of_units`` is not declared.
    label : str, optional
        The column that models will predict.
    find_epsilon : float, optional
        What to spend on finding open columns (``{"type": "find"}``): by default a tenth of ``epsilon``, from which it
        is subtracted. The first :meth:`fit` finds them, once.
    **more : object
        Other keys of a configuration: ``groups``, ``rules``, ``holdout``, ``seed``, ``device``, ``undeclared``, ...

    Attributes
    ----------
    table_ : pandas.DataFrame
        The synthetic rows, with the types of ``frame`` where these can hold what is declared. Of two tables, both
        joined, with the types that the declarations give.
    tables_ : dict of str to pandas.DataFrame
        Where two tables were given: two synthetic ones, with the same names and whose keys fit.
    certificate_ : dict
        The guarantee, as in ``certificate.json``.
    bundle_ : Path
        The sealed bundle; :func:`synth.verify` checks it.
    spent_ : tuple of (float, float)
        Epsilon and delta of this release.
    account_ : str
        The account that was charged.
    found_ : dict
        If columns were open: what was found, as a schema. Correct it where you know better, and give it to another
        Release of the same account, which then finds nothing again: its whole ``epsilon`` is for rows.

    Raises
    ------
    SynthError
        If a declaration cannot be used; no row is read to check it.

    Examples
    --------
    >>> import pandas as pd
    >>> import synth
    >>> visits = pd.DataFrame({"age": [34, 71, 52], "ward": ["A", "B", "A"]})
    >>> schema = {
    ...     "unit": {"protects": "patient", "rows_per_unit": 1},
    ...     "row_count": "private",
    ...     "columns": {
    ...         "age": {"type": "number", "low": 0, "high": 120, "step": 1, "missing": True},
    ...         "ward": {"type": "category", "values": ["A", "B"], "other": True},
    ...     },
    ... }
    >>> release = synth.Release(visits, schema, epsilon=1.0, account="clinic-2026", people_at_most=1000)
    >>> release
    Release(2 columns, epsilon=1, delta=1e-06, generator='dp-hp-adaptive', account='clinic-2026')
    >>> release.fit().table_  # doctest: +SKIP
    """

    table_: pd.DataFrame
    tables_: dict[str, pd.DataFrame]
    certificate_: dict[str, Any]
    bundle_: Path
    spent_: tuple[float, float]
    account_: str
    found_: dict[str, Any]

    def __init__(
        self,
        frame: pd.DataFrame | Mapping[str, pd.DataFrame],
        schema: Schema | Mapping[str, Any],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        generator: str | None = None,
        options: Mapping[str, Any] | None = None,
        account: str | None = None,
        rows: int | None = None,
        people: int | Literal["separate_rows"] | None = None,
        people_at_most: int | None = None,
        label: str | None = None,
        find_epsilon: float | None = None,
        **more: Any,
    ) -> None:
        frames: dict[str | None, pd.DataFrame] = dict(frame.items()) if isinstance(frame, Mapping) else {None: frame}
        names = {table: in_own_words(names_of_frame, one) for table, one in frames.items()}
        self._frames = frames
        self._account = account
        self._find_epsilon = find_epsilon
        self._found: FindResult | None = None
        self._may_fit = True
        asked = {
            "account": account or f"one release of {datetime.now(UTC):%Y-%m-%d}, {uuid4().hex[:8]}",
            "budget": {"epsilon": epsilon, "delta": delta},
            "rows": _USUAL_ROWS if rows is None and people in (None, _SEPARATE) else rows,
            "people_at_most": people_at_most,
            "label": label,
            "format": format_to_mapping(FORMAT),
        }
        if generator is not None:
            asked["generator"] = {"name": generator, "options": dict(options or {})}
        self._config = in_own_words(_config_of, schema, names, asked, more, people)
        self._columns = len(self._config.schema.declared)
        if isinstance(frame, Mapping) or self._config.schema.tables is not None:
            in_own_words(both_of, self._config.schema.tables, frames)
        for one in frames.values():
            in_own_words(check_types, one, self._config.schema)
        self._draws = 0

    def preview(
        self,
        columns: Sequence[str],
        *,
        epsilon: float | None = None,
        anew: bool = False,
        look: bool = True,
        as_declared: bool = False,
    ) -> pd.DataFrame:
        """Count some columns with noise before :meth:`fit` is paid for; only these need to be described.

        Parameters
        ----------
        columns : sequence of str
        epsilon : float, optional
            What to spend, by default a twentieth of that of the release. It is charged in addition, to the same
            account, and the release states both together.
        anew : bool
            Charge it again. Otherwise the same preview of the same people costs nothing again, and gives the same
            counts.
        look, as_declared : bool
            As in :meth:`fit`, of the chosen columns.

        Returns
        -------
        pandas.DataFrame
            One line for each noisy count, with its standard error, as from :func:`synth.answers`.

        Raises
        ------
        InputError
            If a column cannot be previewed, or the noise would hide everything; nothing is spent.
        BudgetExceededError
            If the cap of the account would be exceeded; nothing is spent.
        PrivacyError
            If there is no account, and the same rows were used before.

        Examples
        --------
        >>> release.preview(["age"], epsilon=0.05)[["value_1", "count", "standard_error"]]  # doctest: +SKIP
        """

        def previewed() -> pd.DataFrame:
            found = preview_locally(
                self._config,
                columns,
                epsilon=epsilon,
                anew=anew,
                rows=self._rows(),
                first=self._account is None,
                reading=Reading(look, as_declared, Once().by(warn_of_losses)),
                warn=Once().by(warn_caller),
            )
            return found.counts.frame

        return in_own_words(previewed)

    def fit(
        self,
        out: str | Path | None = None,
        *,
        owner_report: bool = False,
        verbose: bool = False,
        look: bool = True,
        as_declared: bool = False,
    ) -> Self:
        """Spend the budget, make the rows and seal their bundle.

        Parameters
        ----------
        out : path, optional
            A new or empty folder for the bundle; without it, the bundle stays in the home of the installation.
        owner_report : bool
            Also compare with the private rows, for the owner only; the ledger records it.
        verbose : bool
            Show progress on standard error: bars with the time left on a terminal, lines elsewhere.
        look : bool
            Warn, before anything is spent, of what is not as declared in the rows; the look is recorded.
        as_declared : bool
            Go on even if most cells of a column are not as declared.

        Raises
        ------
        PrivacyError
            If there is no account, and the same rows were fitted before.
        NotAsDeclaredError
            If most cells of a column are not as declared; nothing is spent.
        BudgetExceededError
            If the cap of the account would be exceeded; nothing is spent.
        InputError
            If the columns do not have the names in the schema, or the folder is not empty; nothing is spent.

        Warns
        -----
        SameTableWarning
            If the same table was taken in under another account.
        NotAsDeclaredWarning
            If more than a twentieth of a column's cells are not as declared.
        """
        if self._account is None and not self._may_fit:
            raise PrivacyError(SPENDS_AGAIN)
        self._may_fit = False
        try:
            with on_terminal() if verbose else nullcontext() as shown:
                reading = Reading(look, as_declared, Once().by(warn_of_losses))
                return in_own_words(self._fitted, out, owner_report, shown, reading)
        except InputError:
            # Refused before anything was spent.
            self._may_fit = True
            raise

    def _fitted(self, out: str | Path | None, owner_report: bool, say: Say | None, reading: Reading) -> Self:
        warn = Once().by(warn_caller)
        if open_columns(self._config.schema):
            check_what_is_described(self._config)
            if out is not None:
                empty_folder(out, force=False)
            self._find(say, warn, reading)
        rows = self._rows()
        result = run_locally(
            self._config,
            out,
            rows=rows,
            owner_report=owner_report,
            first=self._account is None,
            say=say,
            warn=warn,
            reading=reading,
        )
        self.bundle_ = result.bundle.absolute()
        self.spent_ = (result.epsilon, result.delta)
        self.account_ = self._config.account
        self.certificate_ = json.loads((result.folder / "certificate.json").read_bytes())
        self.table_ = self._table_of(result.table_file)
        if self._config.schema.tables is not None:
            self.tables_ = frames_of_joined(result.table_file, self._config.schema, self._types)
        return self

    def _rows(self) -> Rows:
        """Return the private rows as the bytes of one table, or of two."""
        schema, frames = self._config.schema, self._frames
        if schema.tables is None:
            return frame_as_table(frames[None], schema)
        return frames_as_tables(both_of(schema.tables, frames), schema)

    def _find(self, say: Say | None, warn: Say, reading: Reading) -> None:
        """Find the open columns, once; afterwards this release uses what was found."""
        if self._found is None:
            self._found = find_in_document(
                config_to_mapping(self._config),
                self._config,
                rows=self._rows(),
                epsilon=self._find_epsilon,
                first=self._account is None,
                say=say,
                warn=warn,
                reading=reading,
            )
            said = self._found.document
            self.found_ = {key: said[key] for key in (*_OF_SCHEMA, *_OF_FINDING) if key in said}
            if said.get("people") == _SEPARATE:
                self.found_["people"] = _SEPARATE
            self.account_ = self._config.account
        try:
            self._config = self._found.config
        except SynthError as refusal:
            raise InputError(
                f"{refusal} What was found is paid for and is in found_: correct it there, and give it to another "
                "Release of this account."
            ) from None

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pd.DataFrame | dict[str, pd.DataFrame]:
        """Draw more rows from the released model; they cost nothing, and are not part of the certified table.

        Parameters
        ----------
        n : int, optional
            How many rows, or how many people where ``people`` were asked for; by default as many as were released.
        seed : int, optional
            A public seed. By default each call uses the next one, and so draws other rows.

        Returns
        -------
        pandas.DataFrame, or dict of str to two of them
            As :attr:`table_` or, of two tables, as :attr:`tables_`.

        Raises
        ------
        InputError
            If nothing was fitted yet, or ``n`` is no such number or too large.
        """
        if not hasattr(self, "bundle_"):
            raise InputError("Nothing has been released yet. Call fit first.")
        if n is not None and (isinstance(n, bool) or not isinstance(n, Integral)):
            raise InputError("n is how many rows or people to draw: a whole number.")
        self._draws += seed is None
        chosen = self._config.seed + self._draws if seed is None else seed
        drawn = in_own_words(drawn_table, self.bundle_, rows=self._config.rows if n is None else n, seed=chosen)
        if self._config.schema.tables is not None:
            return frames_of_joined(drawn, self._config.schema, self._types)
        return self._table_of(drawn)

    def _table_of(self, path: Path | BinaryIO) -> pd.DataFrame:
        """Return synthetic rows with the types of the given DataFrame."""
        if self._config.schema.tables is not None:
            return frame_of_table(path)
        return frame_of_table(path, self._config.schema, self._types)

    @property
    def _types(self) -> dict[str, Any]:
        """The types of the given columns, by name."""
        frames = self._frames.values()
        return {name: kind for one in frames for name, kind in zip(names_of_frame(one), one.dtypes, strict=True)}

    def __repr__(self) -> str:
        config = self._config
        return (
            f"Release({self._columns} columns, epsilon={config.epsilon:g}, delta={config.delta:g}, "
            f"generator={config.generator!r}, account={self._account!r})"
        )

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "A Release holds private rows, so it cannot be copied or saved to a file. Keep its bundle instead."
        )


_OF_SCHEMA = ("unit", "row_count", "number_of_units", "columns", "tables")

_USUAL_ROWS = 10_000
_SEPARATE: Literal["separate_rows"] = "separate_rows"

_OF_FINDING = ("domain_source", "found")
"""Keys of a configuration that say where columns come from."""


def _of_cells(said: object) -> dict[str, Any]:
    """Return how texts in cells are read, as a schema after a look has it."""
    section = {} if said is None else dict(read("format", as_mapping, said))
    wrong = sorted(set(section).difference(OF_CELLS))
    if wrong:
        raise InputError(f"The format of a DataFrame has no '{shown(wrong[0])}': only {', '.join(sorted(OF_CELLS))}.")
    return section


def _names_of(names: Mapping[str | None, Sequence[str]], declared: DeclaredTable) -> Sequence[str]:
    if declared.linked_as not in names:
        raise InputError("The schema is about two tables. Give both, in a mapping by their names there.")
    return names[declared.linked_as]


def _config_of(
    schema: Schema | Mapping[str, Any],
    names: Mapping[str | None, Sequence[str]],
    asked: Mapping[str, Any],
    more: Mapping[str, Any],
    people: int | str | None,
) -> RunConfig:
    if not isinstance(schema, Schema | Mapping):
        raise InputError(
            "The schema must come from synth.load_schema, or be a mapping with the keys columns, unit and row_count."
        )
    known = set(asked) | {"table", "test_table", "model"}
    wrong = sorted(known & set(more))
    if wrong:
        raise InputError(f"A Release has no argument '{wrong[0]}': its rows are those of the DataFrame.")
    if not isinstance(schema, Schema):
        more = {**{key: schema[key] for key in _OF_FINDING if key in schema}, **more}
        asked = {**asked, "format": {**asked["format"], **_of_cells(schema.get("format"))}}
        said = {key: one for key, one in schema.items() if key not in (*_OF_FINDING, "format")}
        schema = in_full(said, partial(_names_of, names))
    declared = schema if isinstance(schema, Schema) else parse_schema(schema)
    if people == _SEPARATE:
        declared = replace(declared, people=_SEPARATE)
    elif people is not None:
        asked = {**asked, "people": people}
    return config_of_schema(declared, {key: value for key, value in {**asked, **more}.items() if value is not None})
