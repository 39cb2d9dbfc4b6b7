"""Configurations read for this machine: where they declare columns by patterns, the names come from the table here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from synth.errors import InputError, TableError
from synth.schema import DeclaredTable, RunConfig, Schema
from synth.schema import load_config as read_config
from synth.schema import load_schema as read_schema
from synth.system.paths import path_of

__all__ = ["load_config", "load_schema", "names_in_table"]


def load_config(path: str | Path, table: object = None) -> RunConfig:
    """Read a configuration file; table paths in it are relative to it.

    Parameters
    ----------
    path : path
    table : path or pandas.DataFrame, or mapping of str to these, optional
        The table whose names ``columns_like`` goes by, instead of the one that the file names; two that belong
        together, by what they are called. No row is used, and a table is opened only if names are needed.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown key, or a value that cannot be used.
    """
    return read_config(path, partial(_names, table))


def load_schema(path: str | Path, table: object = None) -> Schema:
    """Read what a file declares about a table; the other keys of a configuration are ignored.

    Parameters
    ----------
    path : path
    table : path or pandas.DataFrame, or mapping of str to these, optional
        As for :func:`load_config`.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown key, or a value that cannot be used.
    """
    return read_schema(path, partial(_names, table))


def _names(given: object, declared: DeclaredTable) -> Sequence[str]:
    if isinstance(given, Mapping):
        if declared.linked_as is None:
            raise InputError("The configuration is about one table. Name one, not several.")
        given = given.get(declared.linked_as)
    elif given is not None and declared.linked_as is not None:
        raise InputError(
            "The configuration is about two tables. Name both, as a mapping by what they are called there."
        )
    if given is None:
        return names_in_table(declared)
    if isinstance(given, str | Path):
        return names_in_table(replace(declared, path=str(path_of(given, "the table")), source=None))
    from synth.cli.frames import names_of_frame

    return names_of_frame(given)


def names_in_table(declared: DeclaredTable, password: str | None = None) -> tuple[str, ...]:
    """Return the names of the columns of a table, in order: those that its format gives, or those it has itself.

    Parameters
    ----------
    declared : DeclaredTable
    password : str, optional
        Of the database.

    Raises
    ------
    InputError
        If no table is named, it cannot be read, or its first line looks like a row and names more than is declared.
    """
    from synth.cli.files import names_in_source
    from synth.services.inspection import inspect_header
    from synth.services.table_paths import open_table

    if declared.source is not None and declared.source.columns:
        return declared.source.columns
    if declared.source is None and declared.format.names is not None:
        return declared.format.names
    if declared.source is not None:
        with names_in_source(declared.source, password) as (_, stream):
            return inspect_header(stream).names
    if declared.path is None:
        raise declared.unnamed
    with open_table(declared.path, declared.format) as (_, stream):
        try:
            return inspect_header(stream, declared.format).names
        except TableError as refusal:
            if refusal.key != "header":
                raise
            stream.seek(0)
            names = inspect_header(stream, declared.format, vouched=True).names
            if not declared.says_names(names):  # it may be a row, so nothing of it is shown
                raise
            return names
