"""Recognise tables in the process of a test, and read them as they are proposed; the program does so in processes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from json import loads
from typing import Any

import numpy as np
from reading_here import read_here

from synth.reading.process import work
from synth.reading.request import Request, error_named
from synth.schema import Column, ModelledColumn, TableFormat, code_dtype, parse_column
from synth.services.recognition import Recognised, recognised_of
from synth.services.recognition.process import answer_with_proposals
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

__all__ = ["ReadBack", "read_as_proposed", "recognise_here"]

LIMITS = ReaderLimits()


def recognise_here(
    data: bytes, form: TableFormat | None = None, *, look: bool = True, alone: bool = False
) -> Recognised:
    """Stand in for :func:`synth.services.recognition.recognise`: the same bytes in, the same frames out."""
    request = Request(format=form or TableFormat(), limits=LIMITS)
    answers = io.BytesIO()
    work(
        Request.from_bytes(request.to_bytes()),
        io.BytesIO(data),
        answers,
        lambda *asked: answer_with_proposals(*asked, look=look, alone=alone),
    )
    answers.seek(0)
    kind, body = read_frame(answers)
    if kind == b"E":
        said = loads(body)
        raise error_named(said.pop("type"), said.pop("text"), **said)
    return recognised_of(loads(body), looked=look)


@dataclass(frozen=True)
class ReadBack:
    """What a run reads: the texts of each column, and how many cells of each are not as declared."""

    texts: Mapping[str, list[str]]
    lost: Mapping[str, int]
    odd_lines: tuple[int, dict[str, int]]


def read_as_proposed(data: bytes, found: Recognised) -> ReadBack:
    """Read a table with the proposed format and columns, as a run would."""
    columns: tuple[Column, ...] = tuple(parse_column(one.name, one.body) for one in found.columns)
    modelled = [column for column in columns if isinstance(column, ModelledColumn)]
    held: dict[str, list[Any]] = {column.name: [] for column in modelled}

    def add(body: bytes) -> None:
        rows, place = int.from_bytes(body[:8], "little"), 8
        for column in modelled:
            codes = np.frombuffer(body, code_dtype(column.size), rows, place)
            place += codes.nbytes
            held[column.name] += column.texts(codes)

    request = Request(format=found.form, limits=LIMITS, columns=columns)
    end = read_here(io.BytesIO(data), request, add)
    lost = {name: malformed + outside for name, (_, malformed, outside) in end["counts"].items()}
    return ReadBack(held, lost, tuple(end["lines"]))
