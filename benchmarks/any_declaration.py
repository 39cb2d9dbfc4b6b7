"""Declarations drawn by a seed, each carried from the bytes of a file to a bundle that has to verify.

    python benchmarks/any_declaration.py --seeds 500 [--first 1000] [--json FILE] [--resume] [--limit 300] [--small]

A seed draws a table, or two that belong together (columns, cells, how files are written) and a configuration of it: the
unit and its rows, what belongs to a unit and what orders its rows,
either relation or single cells, a hold-out, a label, groups, rules, a budget, and a generator or a private model with
some of its options. It is run as ``synth run --as-declared`` does, under an account with a cap, and the bundle is
checked by ``synth.verify`` within its usual limits. Only the noise is new every time. A case ends in one of three ways:

- **ran**: the bundle holds what it claims, and the ledger has what was spent;
- **refused**: by a sentence, before anything was charged, that quotes no cell;
- **failed**: anything else. A traceback or an incident, a warning of numpy, a bundle that does not verify, a refusal
  after the charge, a trial on made-up rows that stopped, a case that took longer than it may.

Each case is a process of its own. Failures are printed one by one with their seeds, and at the end how many there were
of each and how often each sentence refused.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import gzip
import io
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow as pa
import pyarrow.parquet
import yaml
from any_columns import LONGEST, Columns, Draw, Drawn, Written
from any_rules import drawn_rules

import synth
from synth.application import Application
from synth.bundle.verify import Verdict
from synth.cli.local import run_locally
from synth.errors import JobError, SynthError
from synth.estimators import MODELS, describe
from synth.generators import GENERATORS
from synth.generators.options import Between, option_fields
from synth.reading.more.ods import write_ods
from synth.reading.more.xlsx import write_xlsx
from synth.schema import RunConfig, load_config
from synth.services.intake import Reading

USUAL = ""
"""Stands for no generator named, so the default one."""

FITTED = (USUAL, *GENERATORS, USUAL, *MODELS)
"""What is fitted, by the seed: any seeds in a row that are as many as these have each of them."""

MOST = {
    "steps": 60, "epochs": 3, "steps_per_epoch": 20, "features": 1500, "order": 60, "order_product": 8,
    "prod_dimension": 3, "support": 60, "cells": 5_000_000, "batch_size": 2048, "block": 2000, "n": 60, "rows": 2000,
}  # fmt: skip
"""Largest values of options that are drawn, where the declared ones would take hours."""

SHORT = {
    "dp-merf": {"steps": 40},
    "dp-hp": {"steps_per_epoch": 10, "epochs": 1, "order": 30},
    "kernel-sos": {"steps": 20},
}
"""Options that every case of these generators has: their training is long otherwise."""

SMALL = {"steps": 4, "epochs": 1, "steps_per_epoch": 2, "features": 100, "order": 10, "support": 30, "rows": 200}
"""The same for small cases."""

KINDS = ("number",) * 6 + ("category",) * 5 + ("yes_no",) * 2 + ("date", "date", "time", "moment", "drop")

SEPARATORS = {"csv": ",", "tsv": "\t"}
MEMORY_BYTES = 8 * 2**30
"""What a case may take of the machine."""

ACCOUNT = "any people"

AS_DECLARED = Reading(as_declared=True)
"""Cases go on though most of a column may be lost: nobody is told of it here."""


@dataclass(frozen=True)
class Case:
    """A table as the bytes of a file, and its configuration as YAML holds it.

    Attributes
    ----------
    file : str
        Name of the file of the table.
    document : mapping
        What ``synth run`` takes.
    cap : float
        Epsilon that the account may spend.
    traits : frozenset of str
        What it has: the name of what is fitted, and words such as "hold-out".
    rows : int
        Rows of the table.
    second : tuple of str and bytes, optional
        Name and bytes of a second file, where two tables belong together.
    """

    seed: int
    file: str
    data: bytes = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)
    cap: float
    traits: frozenset[str]
    rows: int
    second: tuple[str, bytes] | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The configuration as a file."""
        return yaml.safe_dump(json.loads(json.dumps(self.document)), sort_keys=False, allow_unicode=True, width=120)

    @property
    def columns(self) -> int:
        return len(self.document["columns"])


@dataclass(frozen=True)
class Outcome:
    """How a case ended: ``how`` is ran, refused or failed, and ``words`` the sentence or what failed."""

    seed: int
    how: str
    words: str = ""
    detail: str = ""
    seconds: float = 0.0
    fitted: str = ""
    rows: int = 0
    columns: int = 0


# Drawing --------------------------------------------------------------------------------------------------------------


def drawn(seed: int, *, small: bool = False) -> Case:
    """Draw a case.

    Parameters
    ----------
    seed : int
        Nothing else decides what is drawn.
    small : bool
        A few columns, a few hundred rows and little training.
    """
    return _Drawing(seed, small=small).case()


class _Drawing:
    """One case, while it is drawn."""

    def __init__(self, seed: int, *, small: bool) -> None:
        self.seed, self.small = seed, small
        self.draw = draw = Draw(seed)
        # Drawn apart, so that everything else of a seed is as it is without people who are kept whole.
        self.of_people = Draw((seed, 7))
        self.fitted = FITTED[seed % len(FITTED)]
        self.name = self.fitted or next(iter(GENERATORS))
        self.card = describe(self.name)
        self.rows = 0 if draw.chance(0.01) else draw.size(1, 300 if small else 10_000)
        self.kind = draw.one(("csv",) * 7 + ("tsv", "parquet", "parquet", "xlsx", "ods"))
        self.protects_cell = self.name in {"kahm", "kahm-classifier"} and draw.chance(0.35)
        self.written = self._written()
        self.columns = self._columns()
        self.ids = self._ids()
        self.traits: set[str] = set()

    def case(self) -> Case:
        draw = self.draw
        file, data, form = self._file()
        document: dict[str, Any] = {"table": file, "account": ACCOUNT}
        if form:
            document["format"] = form
        document |= self._people()
        epsilon = draw.amount(0.05, 20)
        document["budget"] = {"epsilon": epsilon}
        if draw.chance(0.4):
            document["budget"]["delta"] = draw.amount(1e-12, 1e-3)
        document |= self._asked()
        declared = draw.some(self.columns, len(self.columns)) if draw.chance(0.2) else self.columns
        document["columns"] = {column.name: column.declared for column in declared}
        document |= self._beside()
        cap = epsilon / 2 if draw.chance(0.01) else 1000.0
        second = None
        if self.card.kind == "generator" and self.ids is not None and self.rows_per_unit > 1:
            file, data, second = self._kept_whole(document, file, data)
        return Case(self.seed, file, data, document, cap, self._traits(document), self.rows, second)

    # The table

    def _written(self) -> Written:
        draw = self.draw
        missing = ("",) if draw.chance(0.6) else draw.one((("", "NA"), ("?",), ("", "?", "n/a"), ("-",), ("", "999")))
        if self.kind not in SEPARATORS or draw.chance(0.75):
            return Written(missing)
        decimal, thousands = draw.one(((",", ""), (",", "."), (".", ","), (",", " "), ("", "'")))
        dates = tuple(draw.some(("%d/%m/%Y", "%d.%m.%Y", "%d/%m/%Y %H:%M"), draw.whole(0, 2)))
        return Written(missing, decimal, thousands, draw.one(("", "", "€", "kg", "%")), dates)

    def _columns(self) -> list[Drawn]:
        draw = self.draw
        columns = Columns(draw, self.rows, self.written, longest=100_000 if self.small else LONGEST)
        needs = self.card.needs
        if needs.numbers and draw.chance(0.9):
            found = [one for _ in range(draw.whole(1, needs.numbers)) for one in columns.number(bare=True)]
            return found + (columns.category((2, 8), bare=True) if draw.chance(0.6) else [])
        most = 8 if self.small else 300 if draw.chance(0.03) else 60
        count = max(draw.size(1, most), needs.columns)
        kinds = KINDS if draw.chance(0.7) else ("number", draw.one(KINDS[:-1]))
        found = [one for _ in range(count) for one in columns.of(draw.one(kinds))]
        if self.protects_cell:
            found = [column for column in found if "of" not in column.declared]
        while sum(column.is_modelled for column in found) < needs.columns:
            found += columns.number()
        if self.card.kind == "model":
            found += columns.number(bare=draw.chance(0.5)) + columns.number(("0", "100", "1"))
        return found

    def _ids(self) -> list[str] | None:
        """Return whose row each is, where an id column tells; it becomes one of the columns."""
        draw = self.draw
        self.rows_per_unit = 1 if draw.chance(0.5) or self.protects_cell else draw.whole(2, 20)
        if self.protects_cell or draw.chance(0.5):
            return None
        units = max(self.rows // draw.whole(1, self.rows_per_unit), 1)
        ids = [f"{draw.one('ABC')}-{int(unit):06d}" for unit in draw.random.integers(0, units, self.rows)]
        ids = ["" if draw.chance(0.02) else one for one in ids] if draw.chance(0.2) else ids
        name = next(name for name in ("person", "unit id", "patient") if name not in {c.name for c in self.columns})
        self.columns.insert(draw.whole(0, len(self.columns)), Drawn(name, {"type": "identifier"}, ids))
        self.id_column = name
        return ids

    # Its file

    def _file(self) -> tuple[str, bytes, dict[str, Any]]:
        draw = self.draw
        held = [column for column in self.columns if column.texts is not None]
        if draw.chance(0.15):
            held = draw.some(held, len(held))
        names, cells = [column.name for column in held], [column.texts or [] for column in held]
        form: dict[str, Any] = {}
        if self.written.missing != ("",):
            form["missing"] = list(self.written.missing)
        if draw.chance(0.08):
            # What nobody declared is left out where that is said, and refused else.
            names, cells = [*names, _UNDECLARED], [*cells, ["Undeclared-Cell"] * self.rows]
            self.undeclared = "refuse" if draw.chance(0.15) else "drop"
        if self.kind == "parquet":
            return "table.parquet", self._parquet(held, names, cells), form
        if self.kind in {"xlsx", "ods"}:
            write = {"xlsx": write_xlsx, "ods": write_ods}[self.kind]
            return f"table.{self.kind}", _undated(write([names, *map(list, zip(*cells, strict=True))])), form
        return self._text(names, cells, form)

    def _parquet(self, held: Sequence[Drawn], names: Sequence[str], cells: Sequence[list[str]]) -> bytes:
        # Times of day are read as texts alone.
        shares = {"time": 0.05}
        typed = {
            column.name: column.typed
            for column in held
            if column.typed is not None and self.draw.chance(shares.get(column.kind, 0.7))
        }
        gone = set(self.written.missing)
        columns = {
            name: pa.array(typed[name] if name in typed else [None if text in gone else text for text in texts])
            for name, texts in zip(names, cells, strict=True)
        }
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.table(columns), buffer)
        return buffer.getvalue()

    def _text(
        self, names: Sequence[str], cells: Sequence[list[str]], form: dict[str, Any]
    ) -> tuple[str, bytes, dict[str, Any]]:
        draw, written = self.draw, self.written
        form |= {key: said for key in ("decimal", "thousands") if (said := getattr(written, key))}
        if written.unit:
            form["units"] = [written.unit]
        if written.dates:
            form["dates"] = list(written.dates)
        separator = SEPARATORS[self.kind]
        if self.kind == "csv" and (written.decimal == "," or draw.chance(0.2)):
            separator = draw.one((";", "|", "\t"))
            form["separator"] = separator
        lines: list[Sequence[str]] = [names]
        if draw.chance(0.12):
            lines, form["header"], form["names"] = [], False, list(names)
            form["separator"] = separator
        elif draw.chance(0.06):
            lines, form["header_rows"], form["names_from"] = [["group"] * len(names), names], 2, 2
        if draw.chance(0.08):
            form["skip_rows"] = draw.whole(1, 3)
            lines = [["made by a program"]] * form["skip_rows"] + lines
        buffer = io.StringIO()
        quoting = csv.QUOTE_ALL if draw.chance(0.15) else csv.QUOTE_MINIMAL
        end = draw.one(("\n", "\n", "\r\n"))
        csv.writer(buffer, delimiter=separator, lineterminator=end, quoting=quoting).writerows(
            [*lines, *zip(*cells, strict=True)]
        )
        text = buffer.getvalue()
        text = text.removesuffix(end) if draw.chance(0.1) else text + end * draw.one((0, 0, 0, 1))
        encodings = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "gb18030", "cp1252", "latin-1")
        encoding = draw.one(encodings)
        try:
            data = text.encode(encoding)
        except UnicodeEncodeError:
            encoding, data = "utf-8", text.encode()
        if encoding not in {"utf-8", "utf-8-sig"}:
            form["encoding"] = encoding
        name = f"table.{self.kind}"
        return (f"{name}.gz", gzip.compress(data, mtime=0), form) if draw.chance(0.1) else (name, data, form)

    # The people

    def _people(self) -> dict[str, Any]:
        draw = self.draw
        unit: dict[str, Any] = {"protects": draw.one(("person", "patient", "household"))}
        unit["rows_per_unit"] = self.rows_per_unit
        told = {"unit": unit}
        units = max(-(-self.rows // self.rows_per_unit), 1)
        if self.ids is not None:
            unit["id_column"] = self.id_column
            units = max(len({one for one in self.ids if one}), 1)
        public = self.protects_cell or draw.chance(0.45)
        if self.name == "kahm" and draw.chance(0.3):
            public = True
        if self.card.needs.sampling and draw.chance(0.9):
            public = self.protects_cell
        told["row_count"] = "public" if public else "private"
        if public and (self.ids is not None or self.rows_per_unit == 1 or draw.chance(0.5)):
            wrong = (units + 7, 2 * units, max(units // 2, 1), 1)
            told["number_of_units"] = units if draw.chance(0.8) else draw.one(wrong)
        if not public or "number_of_units" not in told or draw.chance(0.2):
            least = told.get("number_of_units", units)
            told["people_at_most"] = least if draw.chance(0.3) else max(int(least * draw.amount(1, 1000)), 1)
            if not public and draw.chance(0.1):
                told["people_at_most"] = max(units // 3, 1)
        if self.protects_cell:
            told["protection"] = "cell"
            if draw.chance(0.5):
                told["cell_change"] = draw.amount(0.01, 1)
        return told

    def _kept_whole(
        self, document: dict[str, Any], file: str, data: bytes
    ) -> tuple[str, bytes, tuple[str, bytes] | None]:
        """Declare what belongs to a unit and what orders its rows, and divide some tables in two."""
        draw, unit = self.of_people, document["unit"]
        declared = [column for column in self.columns if column.is_modelled and column.name in document["columns"]]
        orders = [column.name for column in declared if column.kind in {"number", "date", "time"}]
        if orders and draw.chance(0.6):
            unit["ordered_by"] = draw.one(orders)
        own = [column.name for column in declared if column.name != unit.get("ordered_by")]
        if own and draw.chance(0.7):
            unit["same_in_all_rows"] = draw.some(own, draw.whole(1, 4))
        if draw.chance(0.1):
            document["people"] = "separate_rows"
            return file, data, None
        if draw.chance(0.6):
            document["people"] = draw.size(1, 300 if self.small else 5_000)
            del document["rows"]
            if draw.chance(0.8) and "same_in_all_rows" in unit and "header" not in document.get("format", {}):
                return self._divided(document)
        return file, data, None

    def _divided(self, document: dict[str, Any]) -> tuple[str, bytes, tuple[str, bytes]]:
        """Write what belongs to units into one file and their rows into another: some are in one of the two alone."""
        draw, key = self.of_people, self.id_column
        form = document.get("format", {})
        for told in ("separator", "encoding", "skip_rows", "header_rows", "names_from"):
            form.pop(told, None)
        own = document["unit"]["same_in_all_rows"]
        held = {c.name: c.texts for c in self.columns if c.texts is not None and c.name in document["columns"]}
        ids = held[key] or []
        first = list({one: place for place, one in reversed(list(enumerate(ids)))}.values())
        first = [place for place in first if draw.chance(0.95)] or first
        new = [f"new-{number}" for number in range(draw.whole(0, 40))] if draw.chance(0.7) else []
        few = [draw.whole(0, len(ids) - 1) for _ in new] if ids else []
        of_first = [name for name in held if name == key or name in own]
        of_second = [name for name in held if name == key or name not in own]
        lines = [[held[name][place] for name in of_first] for place in first]
        lines += [
            [one if name == key else held[name][place] for name in of_first]
            for one, place in zip(new, few, strict=False)
        ]
        visits = [[held[name][place] for name in of_second] for place in range(len(ids)) if draw.chance(0.98)]
        del document["table"]
        files = []
        for name, names, rows in (("first", of_first, lines), ("second", of_second, visits)):
            if draw.chance(0.3):
                gone = set(self.written.missing)
                cells = {
                    n: pa.array([None if row[i] in gone else row[i] for row in rows], pa.string())
                    for i, n in enumerate(names)
                }
                buffer = io.BytesIO()
                pyarrow.parquet.write_table(pa.table(cells), buffer)
                files.append((f"{name}.parquet", buffer.getvalue()))
                continue
            text = io.StringIO()
            csv.writer(text, delimiter=";" if self.written.decimal == "," else ",").writerows([names, *rows])
            files.append((f"{name}.csv", text.getvalue().encode()))
        if self.written.decimal == ",":
            form["separator"] = ";"
        document["tables"] = {"people": files[0][0], "rows": files[1][0], "key": key}
        document.pop("undeclared", None)
        return *files[0], files[1]

    # What is asked

    def _asked(self) -> dict[str, Any]:
        draw = self.draw
        modelled = [column for column in self.columns if column.is_modelled]
        asked: dict[str, Any] = {}
        label = self._label(modelled)
        if label is not None:
            asked["label"] = label.name
        if self.card.kind == "model":
            asked["model"] = {"name": self.name, "options": self._options(modelled, label)}
            if draw.chance(0.5):
                asked["holdout"] = draw.one((0, 0.1, 0.2, 0.5))
        else:
            if self.fitted != USUAL:
                asked["generator"] = {"name": self.name, "options": self._options(modelled, label)}
            asked["rows"] = draw.size(1, 500 if self.small else 20_000)
            if draw.chance(0.6):
                asked["holdout"] = draw.one((0, 0, 0.05, 0.2, 0.25, 0.5, 0.9))
            if draw.chance(0.2):
                asked["evaluation_share"] = draw.one((0, 0.01, 0.3, 0.9))
            if draw.chance(0.4):
                # A bundle never tells two lines apart that are alike.
                asked["rules"] = list(dict.fromkeys(drawn_rules(draw, modelled, 4)))
        if draw.chance(0.4):
            asked["groups"] = [column.name for column in draw.some(modelled, draw.whole(1, 3))]
        can = label is not None and (label.kind == "number" or 2 <= label.size <= 9) and not self.protects_cell
        can = can and (self.card.kind == "generator" or self.name.startswith("private-"))
        pays = 0.3 if can and asked.get("holdout", 0 if self.card.kind == "model" else 0.2) > 0 else 0.02
        if draw.chance(pays):
            asked["prediction_share"] = draw.one((0.05, 0.2, 0.5))
        if draw.chance(0.5):
            asked["seed"] = draw.one((0, 1, draw.whole(0, 2**40), 2**63 - 1))
        return asked

    def _label(self, modelled: Sequence[Drawn]) -> Drawn | None:
        draw, needed = self.draw, self.card.needs.label
        if not (needed or draw.chance(0.5)):
            return None
        fitting = [column for column in modelled if column.size > 1] or list(modelled)
        if self.card.kind == "model" and "classifier" not in self.name:
            fitting = [column for column in fitting if column.kind == "number"] or fitting
        elif draw.chance(0.8):
            fitting = [column for column in fitting if column.kind in {"category", "yes_no"}] or fitting
        if self.card.kind == "model" and "classifier" in self.name:
            fitting = [column for column in fitting if column.size <= 45] or fitting
        elif draw.chance(0.5):
            fitting = [column for column in fitting if column.size <= 9] or fitting
        return draw.one(fitting)

    def _options(self, modelled: Sequence[Drawn], label: Drawn | None) -> dict[str, Any]:
        draw, card = self.draw, self.card
        hints = get_type_hints(card.options, include_extras=True)
        most = MOST | SMALL if self.small else MOST
        options: dict[str, Any] = {
            name: min(value, SMALL[name]) if self.small else value for name, value in SHORT.get(self.name, {}).items()
        }
        for one in option_fields(card.options):
            if not draw.chance(0.25):
                continue
            marks = getattr(hints[one.name], "__metadata__", ())
            bounds = next((mark for mark in marks if isinstance(mark, Between)), None)
            if one.choices:
                options[one.name] = draw.one(one.choices)
            elif bounds is not None:
                options[one.name] = self._between(one.kind, bounds, most.get(one.name), one.default)
        if options.get("mode") == "paper" or (options.get("mode") == "rows" and not draw.chance(0.5)):
            del options["mode"]
        if options.get("mechanism") == "ridge" and draw.chance(0.8):
            options.pop("loss", None)
        if "purpose" in options and len(modelled) > 1 and draw.chance(0.5):
            naming = next(one.naming for one in option_fields(card.options) if one.naming is not None)
            first, *others = draw.some(modelled, draw.whole(2, 4))
            options["purpose"] = naming.written(first.name, [column.name for column in others])
        if self.protects_cell:
            options["mode"] = "cell"
        elif options.get("mode") == "cell" and not draw.chance(0.1):
            options["mode"] = "record"
        return options

    def _between(self, kind: type, bounds: Between, most: float | None, default: float) -> int | float:
        draw = self.draw
        low, high = bounds.low, bounds.high if most is None else max(min(bounds.high, most), bounds.low)
        if draw.chance(0.1):
            return kind(draw.one((low, high)))
        near = draw.chance(0.5) and default
        least = max(low, default / 4 if near else 0, 1e-6 if kind is float else 1)
        highest = max(min(high, default * 4 if near else high), least)
        return draw.size(int(least), int(highest)) if kind is int else draw.amount(least, highest)

    def _beside(self) -> dict[str, Any]:
        """Return what few configurations say."""
        draw = self.draw
        beside: dict[str, Any] = {}
        if hasattr(self, "undeclared"):
            beside["undeclared"] = self.undeclared
        if draw.chance(0.1):
            beside["domain_source"] = {self.columns[0].name: "the codebook of 2020"}
        if draw.chance(0.1):
            beside["device"] = draw.one(("auto", "cpu"))
        return beside

    def _traits(self, document: Mapping[str, Any]) -> frozenset[str]:
        unit = document["unit"]
        relation = "one_cell" if self.protects_cell else document["row_count"]
        said = {
            "hold-out": document.get("holdout", 0 if self.card.kind == "model" else 0.2) > 0,
            "label": "label" in document,
            "groups": bool(document.get("groups")),
            "rules": bool(document.get("rules")),
            "several rows": unit["rows_per_unit"] > 1,
            "id column": "id_column" in unit,
            "public number": "number_of_units" in document,
            "paid predictions": "prediction_share" in document,
            "one row": self.rows == 1,
            "whole people": "people" in document and "tables" not in document,
            "two tables": "tables" in document,
        }
        kinds = {column.kind for column in self.columns}
        return frozenset({self.name, str(relation), self.kind, *kinds, *(trait for trait, has in said.items() if has)})


def _undated(workbook: bytes) -> bytes:
    """Return a workbook whose parts do not say when they were written."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook)) as made, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as anew:
        for name in made.namelist():
            anew.writestr(zipfile.ZipInfo(name), made.read(name))
    return target.getvalue()


# Carrying out ---------------------------------------------------------------------------------------------------------


def carried_out(case: Case, home: Path) -> Outcome:
    """Run a case as ``synth run`` does, in a new home, and check what came of it."""
    folder = home / "files"
    folder.mkdir(parents=True)
    for name, data in ((case.file, case.data), *(() if case.second is None else (case.second,))):
        (folder / name).write_bytes(data)
    (folder / "any.yaml").write_text(case.text, "utf-8")
    begin = time.perf_counter()
    with installation(home / "home"), told_meanwhile() as told:
        how, words, detail = _ended(case, folder, told)
    return Outcome(
        case.seed,
        how,
        words,
        detail,
        round(time.perf_counter() - begin, 1),
        str(case.document.get("model", case.document.get("generator", {})).get("name", USUAL)),
        case.rows,
        case.columns,
    )


@dataclass
class Told:
    """What was logged and warned of meanwhile."""

    incidents: list[str] = field(default_factory=list)
    warned: list[warnings.WarningMessage] = field(default_factory=list)

    @property
    def of_numbers(self) -> list[str]:
        found = [one for one in self.warned if issubclass(one.category, RuntimeWarning)]
        return list(dict.fromkeys(f"{one.message} at {Path(one.filename).name}:{one.lineno}" for one in found))


@contextlib.contextmanager
def installation(home: Path) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ("HERMITAGE_HOME", "DATABASE_URL")}
    os.environ["HERMITAGE_HOME"] = str(home)
    os.environ.pop("DATABASE_URL", None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class _Incidents(logging.Handler):
    def __init__(self, told: Told) -> None:
        super().__init__(logging.ERROR)
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.incidents.append(record.getMessage())


@contextlib.contextmanager
def told_meanwhile() -> Iterator[Told]:
    told = Told()
    handler, logger = _Incidents(told), logging.getLogger("synth")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as told.warned:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RuntimeWarning)
            yield told
    finally:
        logger.removeHandler(handler)


def _ended(case: Case, folder: Path, told: Told) -> tuple[str, str, str]:
    """Return how a case ended, in what words, and where in the program."""
    config: RunConfig | None = None
    try:
        config = load_config(folder / "any.yaml")
        with Application.from_environment() as application:
            application.set_cap(config.account, case.cap, 0.5)
        result = run_locally(config, folder / "out", reading=AS_DECLARED)
        verdict = synth.verify(result.folder)
        owner = result.folder / "owner" / "report.json"
        problems = [f"the bundle does not verify: {problem}" for problem in problems_of(verdict)]
        if not spent(config.account) > 0:
            problems.append("nothing is spent in the ledger")
        if owner.exists() and "incident" in owner.read_text().lower():
            problems.append("the owner's report tells of an incident")
        words, detail = "", ""
    except SynthError as refusal:
        words, detail = str(refusal), where(refusal)
        problems = _problems_of_refusal(case, config, refusal)
    except Exception as error:
        words, detail = f"{type(error).__name__}: {error}", where(error)
        problems = ["it is no error of ours"]
    problems += [f"an {incident}" for incident in told.incidents]
    problems += [f"numpy warned: {warning}" for warning in told.of_numbers]
    if problems:
        return "failed", f"{'; '.join(problems)}{f'; it said: {words}' if words else ''}", detail
    return ("refused", words, detail) if words else ("ran", "", "")


def problems_of(verdict: Verdict) -> list[str]:
    """Return what keeps a verdict from being a yes: what differs, and what could not be checked."""
    return [*verdict.json["failures"], *verdict.json["not_checked"]]


def _problems_of_refusal(case: Case, config: RunConfig | None, refusal: SynthError) -> list[str]:
    said = str(refusal)
    problems = []
    if config is not None and spent(config.account) > 0:
        problems.append("refused after the charge")
    if isinstance(refusal, JobError):
        problems.append("a run that stopped")
    if said.startswith("Tried out"):
        problems.append("what was found in order was stopped by the trial")
    if "incident" in said.lower() or "Traceback" in said or "\n" in said or not said.rstrip('"').endswith("."):
        problems.append("no sentence of ours")
    quoted_cell = next((cell for cell in cells_nobody_declared(case) if cell in said), None)
    if quoted_cell is not None:
        problems.append("the refusal quotes a cell")
    return problems


def spent(account: str) -> float:
    """Return what the ledger says was spent on an account."""
    with Application.from_environment() as application:
        found = application.store.accounts.named(account)
        if found is None:
            return 0.0
        return float(application.ledger.spent(found.id).epsilon)


_UNDECLARED = "nobody declared this"
"""The name of a column that the configuration does not declare; a refusal may name it."""


def cells_nobody_declared(case: Case) -> frozenset[str]:
    """Return texts of cells that stand in the table and nowhere in the configuration; short ones may be anything."""
    if case.second is not None:
        one = replace(case, file=case.second[0], data=case.second[1], second=None)
        return cells_nobody_declared(replace(case, second=None)) | cells_nobody_declared(one)
    if case.file.endswith((".parquet", ".xlsx", ".ods")):
        return frozenset()
    data = gzip.decompress(case.data) if case.file.endswith(".gz") else case.data
    text = data.decode(case.document.get("format", {}).get("encoding", "utf-8-sig"))
    found = frozenset(re.split(r"[,;|\t\r\n\"]", text))
    configured = case.text
    return frozenset(cell for cell in found if len(cell) >= 8 and cell not in configured and cell != _UNDECLARED)


def where(error: BaseException) -> str:
    """Return the last lines of the traceback that are of this program, and its own last line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/synth/" in frame.filename]
    places = [f"{frame.filename.partition('/synth/')[2]}:{frame.lineno} in {frame.name}" for frame in frames[-6:]]
    context = error.__context__
    return " > ".join(places) + (f" (from {type(context).__name__}: {where(context)})" if context is not None else "")


# The command ----------------------------------------------------------------------------------------------------------


def in_a_process(seed: int, *, small: bool, limit: float) -> Outcome:
    """Carry a case out in a process of its own, for so many seconds at most."""
    with tempfile.TemporaryDirectory(prefix="any-declaration-") as home:
        command = [sys.executable, __file__, "--one", str(seed), "--home", home, *(["--small"] if small else [])]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            said, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Outcome(seed, "failed", f"took longer than {limit:g} seconds", seconds=limit, fitted=_fitted(seed))
        if process.returncode != 0:
            words = f"ended with {process.returncode}: {errors.strip().rpartition(chr(10))[2]}"
            return Outcome(seed, "failed", words, errors[-2000:], fitted=_fitted(seed))
        return Outcome(**json.loads(said.strip().splitlines()[-1]))


def _fitted(seed: int) -> str:
    return FITTED[seed % len(FITTED)]


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def plain(sentence: str) -> str:
    """Return a sentence with what differs from case to case left out: names in quotation marks, and numbers."""
    return re.sub(r"\d[\d,.]*(e[+-]?\d+)?%?", "N", re.sub(r"'[^']*'", "'...'", sentence))[:160]


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the sentences that refused and how often, and how many cases ended in each way."""
    refusals = Counter(plain(one.words) for one in outcomes if one.how == "refused")
    ways = Counter(one.how for one in outcomes)
    lines = [f"{count:5d} x {sentence}" for sentence, count in refusals.most_common()]
    seconds = sum(one.seconds for one in outcomes)
    return [
        *lines,
        f"{len(outcomes)} cases in {seconds:,.0f} s",
        f"ran {ways['ran']} / refused {ways['refused']} / failed {ways['failed']}",
    ]


def shown(outcome: Outcome) -> str:
    return (
        f"seed {outcome.seed} ({outcome.fitted or 'default'}, {outcome.rows:,} rows, {outcome.columns} columns, "
        f"{outcome.seconds:g} s) {outcome.how}: {outcome.words}" + (f"\n    {outcome.detail}" if outcome.detail else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one case")
    parser.add_argument("--small", action="store_true", help="as the tests draw them: few rows, few columns")
    parser.add_argument("--show", action="store_true", help="print what the first seed draws, and run nothing")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="leave out seeds that the file of --json has")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.show:
        case = drawn(given.first, small=given.small)
        print(case.text, case.file, case.data[:1000], sep="\n")
        return
    if given.one is not None:
        limit_memory()
        outcome = carried_out(drawn(given.one, small=given.small), given.home / "case")
        print(json.dumps(dataclasses.asdict(outcome)))
        return
    done: dict[int, Outcome] = {}
    if given.resume and given.json is not None and given.json.exists():
        done = {one["seed"]: Outcome(**one) for one in json.loads(given.json.read_text())}
    for seed in range(given.first, given.first + given.seeds):
        if seed not in done:
            done[seed] = in_a_process(seed, small=given.small, limit=given.limit)
            if given.json is not None:
                given.json.write_text(json.dumps([dataclasses.asdict(one) for one in done.values()], indent=1) + "\n")
        if done[seed].how == "failed":
            print(shown(done[seed]), flush=True)
    print("\n".join(summary(list(done.values()))))


if __name__ == "__main__":
    main()
