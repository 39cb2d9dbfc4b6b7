"""Limits of one input: what is refused, in which words, how soon, and that everything below them is quick."""

from __future__ import annotations

import datetime
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from choosing import few
from timing import require_within

from synth import limits
from synth.errors import ConfigError, InputError, SchemaError, SynthError
from synth.estimators import describe
from synth.generators import GENERATORS
from synth.rehearsal.simulation import load_simulation
from synth.reports.forecast import forecast
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    YesNoColumn,
    config_of_text,
    config_to_yaml,
    load_config,
    parse_column,
    parse_config,
)
from synth.schema.documents import as_number, read, read_mapping
from synth.schema.header import check_names, is_plain
from synth.schema.rule_lines import read_rules
from synth.services.inspection import inspect_header, kind_by_name
from synth.services.planning import check_config, forecast_lines
from synth.system.settings import ReaderLimits

ROOT = Path(__file__).resolve().parents[1]

HEAD = """account: a
budget: {epsilon: 1}
rows: 1
row_count: private
people_at_most: 9
"""
UNIT = "unit: {protects: person, rows_per_unit: 1}\n"
COLUMNS = "columns: {x: {type: number, low: 0, high: 1, missing: true}}\n"


# Names ------------------------------------------------------------------------------------------------------------

LONG = "9" * 60_000

NASTY = {
    "digits": "1" * 60_000,
    "digits and a letter": "1" * 60_000 + "x",
    "underscores": "_" * 60_000,
    "capitals": "aA" * 30_000,
    "spaces": " " * 60_000 + "x",
    "words": "id_" * 20_000 + "-",
    "apostrophes": "'" * 60_000,
    "marks": "\u0301" * 60_000,
    "directions": "\u202e" * 60_000,
    "separators": "=<>" * 20_000,
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", NASTY)
def test_what_is_done_with_a_name_is_linear_in_its_length(name: str) -> None:
    """60,000 digits took 42 seconds; these take milliseconds, and half a second is allowed."""
    from pages.ui.column_rows import guess_role, join_list
    from pages.ui.words import plain
    from synth.names import odd_names, shown, visible

    text = NASTY[name]
    for work in (is_plain, kind_by_name, plain, visible, shown, lambda one: odd_names([one, "b"]),
                 lambda one: guess_role(one, ""), lambda one: join_list([one, "a,b"])):  # fmt: skip
        require_within(0.5, lambda work=work: work(text))


@pytest.mark.parametrize(
    "declare",
    [
        lambda name: NumberColumn(name, 0, 1, 1),
        lambda name: CategoryColumn(name, ("a",)),
        lambda name: YesNoColumn(name),
        lambda name: DateColumn(name, datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
        lambda name: IdentifierColumn(name),
        lambda name: DropColumn(name),
        lambda name: parse_column(name, {"type": "drop"}),
        lambda name: config_of_text(HEAD + UNIT + f"columns: {{{name}: {{type: drop}}}}"),
    ],
)
def test_a_column_cannot_have_a_longer_name(declare: Callable[[str], object]) -> None:
    with pytest.raises(SchemaError, match="has 257 characters; at most 256 are allowed") as caught:
        declare("n" * 257)
    assert len(str(caught.value)) < 300


def test_a_name_of_256_characters_is_one() -> None:
    assert NumberColumn("n" * 256, 0, 1, 1).name == "n" * 256
    check_names(["n" * 256, "b"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_reader_refuses_a_longer_name_and_quotes_nothing_of_it(kind: str) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet

    if kind == "csv":
        stream = io.BytesIO(f"a,{LONG}\n1,2\n".encode())
    else:
        stream = io.BytesIO()
        pa.parquet.write_table(pa.table({"a": [1], LONG: [2]}), stream)
        stream.seek(0)
    with pytest.raises(InputError) as caught:
        inspect_header(stream)
    assert "The name of column 2 has 60,000 characters; at most 256 are allowed." in str(caught.value)
    assert "999" not in str(caught.value)


def test_a_format_of_any_size_is_answered_soon() -> None:
    """Passing over 10^18 lines of a file of eight bytes kept the reading child busy for half an hour."""
    import io

    from synth.schema import TableFormat

    plain = {"header": False, "separator": ","}
    refused = {
        "The file is empty. Send a table with a header and rows.": TableFormat(skip_rows=10**18),
        "The file is empty. Send a table with rows.": TableFormat(skip_rows=10**18, names=("a", "b"), **plain),
        "format: names has 5,001 entries, and at most 5,000": TableFormat(names=tuple(map(str, range(5_001))), **plain),
        f"the encoding '{'u' * 57}...' is not supported": TableFormat(encoding="u" * 10**6),
    }
    for sentence, form in refused.items():
        with pytest.raises(InputError, match=re.escape(sentence)) as caught:
            inspect_header(io.BytesIO(b"a,b\n1,2\n"), form, limits=ReaderLimits(cpu_seconds=10))
        assert len(str(caught.value)) < 200


# Numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_have_a_bounded_number_of_digits() -> None:
    assert read("x", as_number, "1" * 300) == pytest.approx(1.1e299, rel=0.02)
    for text in ("1" * 1001, "1" * 10**6, "0." + "0" * 10**6, "1e" + "0" * 10**6):
        with pytest.raises(SchemaError, match="a number of at most 1,000 characters"):
            read("low", as_number, text)
    with pytest.raises(SchemaError, match="low must be a number"):
        read("low", as_number, 10**400)


def test_cells_of_many_digits_are_no_numbers_and_take_no_time() -> None:
    import numpy as np
    import pyarrow as pa

    from synth.schema.encoding import NO_DAY, days_of_texts, numbers_of_texts

    cells = pa.array(["1" * 1000, "1" * 1001, "1" * 10**6, "7", None, "1e" + "0" * 10**6, "2020-01-01" + " " * 10**6])
    require_within(2, lambda: (numbers_of_texts(cells), days_of_texts(cells, patterns=("%d %m %Y",), shortest=10)))
    assert np.isnan(numbers_of_texts(cells)).tolist() == [False, True, True, False, True, True, True]
    assert (days_of_texts(cells, patterns=(), shortest=10) == NO_DAY).all()


# Documents --------------------------------------------------------------------------------------------------------


def laughs(levels: int) -> str:
    """Return a few hundred bytes of aliases that stand for 10^levels texts."""
    lines = ["- &a [" + ",".join(["lol"] * 10) + "]"]
    lines += [
        f"- &{name} [" + ",".join([f"*{before}"] * 10) + "]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return HEAD + UNIT + COLUMNS + "groups:\n" + "\n".join(lines[:levels]) + "\n"


REFUSED = {
    "billion laughs": (laughs(8), "Line 9 of the configuration has an anchor or an alias"),
    "an anchor": (HEAD + UNIT + "label: &x y\n", "has an anchor or an alias"),
    "an alias": ("account: *x\n", "has an anchor or an alias"),
    "an alias as a key": ("? *x\n: 1\n", "has an anchor or an alias"),
    "an anchor on a key": ("&x account: 1\n", "has an anchor or an alias"),
    "a tag": ("account: !!python/name:os.system x\n", "has a tag"),
    "a harmless tag": ("account: !!str x\n", "has a tag"),
    "a tag of ours": ("account: ! x\n", "has a tag"),
    "deep lists": ("account: " + "[" * 10_000, "nested more than 16 levels deep"),
    "deep mappings": ("account: " + "{a: " * 5_000, "nested more than 16 levels deep"),
    "deep blocks": ("\n".join(" " * d + "a:" for d in range(3_000)), "nested more than 16 levels deep"),
    "a key that is a list": ("[a]: b\n", "A key is not a plain text (line 1)"),
    "a key given twice": ("a: 1\na: 2\n", "A key is given twice (line 2)"),
    "two documents": ("a: 1\n---\nb: 2\n", "begins a second document"),
    "a long text": (f"account: {'x' * 4097}\n", "a text of more than 4,096 characters"),
    "a long key": (f"? {'x' * 4097}\n: 1\n", "a text of more than 4,096 characters"),
    "many values": ("rules: [" + "1," * 500_001 + "]", "exceeds 500,000 keys and values"),
    "many bytes": ("#" + "x" * 5_000_000, "more than 5,000,000 bytes"),
    "many bytes in few characters": ("#" + "\u20ac" * 2_000_000, "more than 5,000,000 bytes"),
    "no mapping": ("[1, 2]", "must be a mapping of keys"),
    "nothing": ("", "must be a mapping of keys"),
    "control characters": ("a: \x00b", "not valid YAML"),
    "half a text": ("a: 'b", "not valid YAML near line 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_document_is_refused_in_one_sentence(name: str) -> None:
    text, sentence = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        config_of_text(text)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 200


COSTLY = {
    "a few hundred bytes": lambda: laughs(8),
    "a codebook of 20 KB": lambda: HEAD + UNIT + "columns:\n"
    + "  c: {type: category, other: true, values: &v [" + ",".join(f"v{i}" for i in range(2_800)) + "]}\ngroups:\n"
    + "- &w [" + ",".join(["*v"] * 50) + "]\n- &x [" + ",".join(["*w"] * 50) + "]\n- [" + ",".join(["*x"] * 10) + "]\n",
    "aliases in a text": lambda: laughs(7).replace("groups:", "label:"),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTLY)
def test_a_costly_document_is_refused_before_memory_is_used(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(COSTLY[name]())
    program = (
        "import resource, sys, time\n"
        "from synth.schema import load_config\n"
        "from synth.errors import ConfigError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "start = time.process_time()\n"
        "try:\n    load_config(sys.argv[1])\n"
        "except ConfigError as error:\n    print('anchor' in str(error))\n"
        "print(time.process_time() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    refused, figures = done.stdout.splitlines()
    seconds, mebibytes = map(float, figures.split())
    assert refused == "True"
    assert seconds < 5  # where aliases are followed it took 37
    assert mebibytes < 32


TEXTS = {
    "account": HEAD.replace("account: a", "account: [a, b]") + UNIT + COLUMNS,
    "label": HEAD + UNIT + COLUMNS + "label: {x: y}\n",
    "device": HEAD + UNIT + COLUMNS + "device: [cpu]\n",
    "generator: name": HEAD + UNIT + COLUMNS + "generator: {name: [dp-hp]}\n",
    "unit: protects": HEAD + "unit: {protects: [person], rows_per_unit: 1}\n" + COLUMNS,
    "unit: id_column": HEAD + "unit: {protects: person, rows_per_unit: 1, id_column: {a: b}}\n" + COLUMNS,
    "rules": HEAD + UNIT + COLUMNS + "rules: [[a, b]]\n",
    "groups": HEAD + UNIT + COLUMNS + "groups: [{a: b}]\n",
    "domain_source": HEAD + UNIT + COLUMNS + "domain_source: {x: [a]}\n",
    "format: separator": HEAD + UNIT + COLUMNS + "format: {separator: [a]}\n",
    "format: missing": HEAD + UNIT + COLUMNS + "format: {missing: [[a]]}\n",
    "table": HEAD + UNIT + COLUMNS + "table: [a]\n",
    "'x': type": HEAD + UNIT + "columns: {x: {type: [drop]}}\n",
    "'x': weight": HEAD + UNIT + "columns: {x: {type: yes_no, weight: {low: high}}}\n",
    "'x': pattern": HEAD + UNIT + "columns: {x: {type: date, low: 2020-01-01, high: 2021-01-01, pattern: {a: b}}}\n",
    "row_count": (HEAD + UNIT + COLUMNS).replace("row_count: private", "row_count: [private]"),
}


@pytest.mark.parametrize("where", TEXTS)
def test_a_list_or_mapping_is_no_text(where: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"{where} must be a text.")):
        config_of_text(TEXTS[where])


def test_a_file_that_never_ends_is_read_only_so_far() -> None:
    for load in (load_config, lambda path: load_simulation(path, rows=5)):
        with pytest.raises(ConfigError, match="has more than 5,000,000 bytes"):
            load("/dev/zero")


def test_plain_words_and_numbers_are_read_as_before() -> None:
    document = read_mapping(
        "a: yes\nb: 'yes'\nc: ~\nd:\ne: 1e-6\nf: 007\ng: Null\nh: OFF\ni: tRue\n"
        "yes: {no: [on, 'on', 2020-01-01]}\n<<: x\n"
    )
    assert document == {
        "a": True, "b": "yes", "c": None, "d": None, "e": "1e-6", "f": "007", "g": None, "h": False, "i": "tRue",
        "yes": {"no": [True, "on", "2020-01-01"]}, "<<": "x",
    }  # fmt: skip


def test_the_reader_in_c_and_the_one_in_python_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    for path in sorted((ROOT / "examples").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        quick = read_mapping(text)
        with monkeypatch.context() as patched:
            patched.setattr("synth.schema.documents._PARSER", yaml.SafeLoader)
            assert read_mapping(text) == quick


# Sizes of declarations --------------------------------------------------------------------------------------------


def config_with(columns: tuple | Schema, **more) -> RunConfig:
    schema = columns if isinstance(columns, Schema) else Schema(columns, PrivacyUnit(), row_count="private")
    settings = {
        "account": "a",
        "epsilon": 1.0,
        "rows": 100,
        "delta": 1e-6,
        "people_at_most": 100_000,
        "generator": "independent",
    }
    return RunConfig(schema=schema, **{**settings, **more})


def yes_no(count: int) -> tuple[YesNoColumn, ...]:
    return tuple(YesNoColumn(f"y{place}", missing=True) for place in range(count))


def numbers(count: int, high: int, *, shorter_by: int = 0) -> tuple[NumberColumn, ...]:
    """Return numbers from 0 to ``high``, each of a range that is ``shorter_by`` shorter than the one before it."""
    return tuple(NumberColumn(f"n{place}", 0, high - shorter_by * place, 1, missing=True) for place in range(count))


def categories(count: int, each: int, length: int = 0) -> tuple[CategoryColumn, ...]:
    values = tuple(f"v{place}".ljust(length, "x") for place in range(each))
    return tuple(CategoryColumn(f"c{place}", values, other=True) for place in range(count))


def with_aliases(count: int, each: int) -> tuple[CategoryColumn, ...]:
    """Return columns of one value that is written in many ways."""
    aliases = tuple((f"v{place}", "v") for place in range(each - 1))
    return tuple(CategoryColumn(f"c{place}", ("v",), other=True, aliases=aliases) for place in range(count))


TOO_MUCH = {
    "columns": (yes_no(limits.COLUMNS + 1), "5,001 columns are declared, and at most 5,000 are allowed"),
    "values": (with_aliases(11, 9_100), "The columns list 100,100 values in total, and at most 100,000 are allowed"),
    "places": (
        numbers(1_300, 26_000),
        r"The numbers and dates have 33,801,300 values in total \(of each at most 1,048,576 are counted\), and at most "
        "33,554,432",
    ),
    "a value": (categories(1, 2, limits.TEXT_CHARACTERS + 1), "'c0' lists a value of more than 4,096 characters"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_declaration_over_a_limit_is_refused(name: str) -> None:
    columns, sentence = TOO_MUCH[name]
    with pytest.raises(SchemaError, match=sentence):
        check_config(config_with(columns))
    if name == "columns":
        with pytest.raises(SchemaError, match=sentence):
            config_of_text(config_to_yaml(config_with(columns)))


def test_rules_and_groups_have_a_number() -> None:
    text = HEAD + UNIT + COLUMNS
    with pytest.raises(ConfigError, match="rules has 1,001 entries, and at most 1,000 are allowed"):
        config_of_text(text + "rules: [" + "x >= 0," * 1_001 + "]")
    names = [f"x{place}" for place in range(101)]
    columns = "columns: {" + ", ".join(f'{name}: {{type: yes_no, fallback: "no"}}' for name in names) + "}\n"
    with pytest.raises(ConfigError, match="groups has 101 entries, and at most 100 are allowed"):
        config_of_text(f"{HEAD}{UNIT}{columns}groups: [{', '.join(names)}]")


def test_rules_of_a_wide_table_are_read_in_linear_time() -> None:
    schema = Schema(tuple(NumberColumn(f"n{place}", 0, 1, 1, missing=True) for place in range(limits.COLUMNS)))
    longest = "n0 >= " + "+".join(f"n{place}" for place in range(1, 600))
    rules = [longest, "n0 <= 1", *["n1 >= n2"] * (limits.CONSTRAINTS - 2)]
    require_within(2, lambda: read_rules(rules, schema))
    for text in ("n0 " + " " * 4_000 + "=", "=" * 4_096, " " * 4_096 + "=", "n0 >= " + "+" * 4_000):

        def refused(text: str = text) -> None:
            with pytest.raises(ConfigError):
                read_rules([text] * 10, schema)

        require_within(1, refused)


def test_bundles_have_no_such_limits() -> None:
    """What was sealed before is read as it was."""
    config = config_with(yes_no(limits.COLUMNS + 1))
    assert parse_config(read_mapping(config_to_yaml(config), sealed=True)) == config


# The largest schemas ----------------------------------------------------------------------------------------------


def mixed() -> tuple:
    """Return 5,000 columns of all kinds, 100,000 declared values among them."""
    dates = tuple(
        DateColumn(f"d{place}", datetime.date(1900, 1, 1), datetime.date(2100, 1, 1), missing=True)
        for place in range(300)
    )
    return (*categories(1_000, 96), *numbers(1_700, 4_999), *yes_no(2_000), *dates)


LARGEST = {
    "yes or no": lambda: yes_no(limits.COLUMNS),
    "categories": lambda: categories(limits.COLUMNS, 20),
    "long categories": lambda: categories(25, 4_000),
    "numbers": lambda: numbers(limits.COLUMNS, 999),
    "finest numbers": lambda: numbers(limits.COLUMNS, limits.PLACES // limits.COLUMNS - 1),
    "unlike numbers": lambda: numbers(limits.COLUMNS, limits.PLACES // limits.COLUMNS - 1, shorter_by=1),
    "mixed": mixed,
}
REFUSED_BY = {
    *(("independent-by-class", kind) for kind in ("mixed", "long categories")),
    *((name, kind) for name in ("kahm", "gs-wgan") for kind in LARGEST),
    *((name, kind) for name in ("dp-gan", "dp-cgan") for kind in ("mixed", "categories", "long categories")),
}
"""Tables of 169,000 values by 97 classes and of 96,000 by 4,001, matrices of so many coordinates, and steps of a
training with so many numbers are no forecast but a sentence."""


@functools.cache
def largest(kind: str) -> Schema:
    """Return a largest schema, which is read and never written: making it takes longer than many forecasts."""
    return Schema(LARGEST[kind](), PrivacyUnit(), row_count="private")


@pytest.mark.parametrize(
    ("kind", "generator"),
    few(
        [*(("mixed", generator) for generator in GENERATORS), ("yes or no", "dp-hp-adaptive")],
        kept=(("mixed", "independent"), ("yes or no", "dp-hp-adaptive")),
    ),
)
def test_the_largest_schema_is_forecast_within_ten_seconds(kind: str, generator: str) -> None:
    within_its_time(kind, generator)


@pytest.mark.slow
@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("kind", sorted(set(LARGEST) - {"mixed"}))
def test_every_largest_schema_is_forecast_within_its_time(kind: str, generator: str) -> None:
    within_its_time(kind, generator)


SECONDS = {("dp-hp-adaptive", "unlike numbers"): 30}
"""What columns of the same codes share is worked out for each of them where no two have the same."""


def within_its_time(kind: str, generator: str) -> None:
    """Check, plan and forecast as pages and command line do; processor time, as the machine may be busy."""
    seconds = SECONDS.get((generator, kind), 10)
    label = {"independent-by-class": 0, "dp-cgan": 0}.get(generator)
    schema = largest(kind)
    config = config_with(schema, generator=generator, label=None if label is None else schema.names[label])
    if (generator, kind) in REFUSED_BY or describe(generator).needs.numbers:
        match = (
            r"[Aa]t most [0-9,]+ (are allowed|numbers (in its answer|of a row)|groups|can be released)|learns at most"
        )
        require_within(seconds, lambda: refused(config, match))
        return
    found: list[Sequence[str]] = []
    require_within(seconds, lambda: found.append(forecast_lines(config)))
    assert len(found[-1]) < limits.COLUMNS + 200


def refused(config: Any, match: str) -> None:
    with pytest.raises(SynthError, match=match):
        forecast_lines(config)


def test_pairs_are_made_when_they_are_asked_for() -> None:
    found = forecast(config_with(yes_no(limits.COLUMNS))).pairs
    assert len(found) == 12_497_500
    assert next(iter(found)).columns == ("y0", "y1")
    assert [cell.columns for cell in found.worst(2)] == [("y0", "y1"), ("y0", "y2")]


def test_pairs_are_those_of_a_list() -> None:
    """The worst, the median and the largest range are those of all pairs listed one by one."""
    import statistics

    columns = (
        *categories(3, 5),
        *numbers(4, 200),
        *yes_no(3),
        CategoryColumn("long", tuple("abcdefghijk"), other=True),
    )
    for generator in ("independent-by-class", "dp-hp-adaptive", "independent"):
        found = forecast(config_with(columns, generator=generator, label="c1")).pairs
        listed = list(found)
        assert len(listed) == len(found)
        ranges = [cell.range95 for cell in listed]
        assert found.range95 == (pytest.approx(statistics.median(ranges)), pytest.approx(max(ranges)))
        for most in (1, 7, 30, 100):
            best = sorted((cell.moved for cell in listed), reverse=True)[:most]
            assert [cell.moved for cell in found.worst(most)] == pytest.approx(best)


@pytest.mark.thorough
def test_the_largest_document_is_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "largest.yaml"
    path.write_text(config_to_yaml(config_with(mixed())), encoding="utf-8")
    assert path.stat().st_size < limits.DOCUMENT_BYTES
    require_within(10, lambda: load_config(path))


# Where patterns may be used ---------------------------------------------------------------------------------------


def test_no_pattern_runs_over_what_a_stranger_wrote() -> None:
    """Patterns take more than linear time only where someone forgets; here nobody can.

    Listed: ids of our own numbers, what checks or seals a bundle, in a process with limits of its own, the outside of
    the server, whose patterns see paths and names of hosts, and two places of a report: one looks for the drawings that
    we drew, where names are escaped, the other for ends of sentences, two characters at a time. Which answer a refusal
    at a terminal means is looked for by fixed words in a sentence of ours. A condition on the rows of a database has a
    bounded length, over which its pattern goes once (tests/test_conditions.py); cells of a database are compared with
    forms of fixed lengths, in a process with limits of its own, and so are those of workbooks, where no part of a
    pattern can be repeated in two ways. Formats of columns in files of SPSS, Stata and SAS have at most 64 signs.
    """
    allowed = {
        "synth/schema/columns_like.py",  # patterns of names, where no star gives back what it took
        "synth/dictionaries/values.py",  # short texts of a public codebook; lists are split sign by sign
        "pages/report.py", "pages/server/serving.py", "pages/server/uploads.py", "pages/server/signing_in.py",
        "synth/services/table_paths.py",  # names of files; a star gives back what it took to no other star
        "synth/cli/asking.py", "synth/reports/wording.py",
        "synth/bundle/checks.py", "synth/bundle/fields.py", "synth/bundle/verify.py", "synth/bundle/linter.py",
        "synth/bundle/table_files.py",
        "synth/reading/more/database.py", "synth/schema/conditions.py",
        "synth/reading/more/ods.py", "synth/reading/more/parts.py", "synth/reading/more/xlsx.py",
        "synth/reading/more/statistical.py",
        "synth/reports/marginals/__init__.py", "synth/reports/membership/__init__.py",
        "synth/reports/prediction/__init__.py", "synth/reports/report.py", "synth/system/settings.py",
        "synth/schema/stored.py",  # one class of signs, digits
        "synth/schema/header.py",  # one line of a few signs, each of which fits in one way
        "synth/services/recognition/notations.py",  # texts of at most 64 signs, in a process with limits of its own
        "synth/system/machine.py",  # the name of a card, of at most 80 signs
        "synth/schema/schema.py", "pages/ui/joining.py",  # the name of a table or file: one class of signs each
    }  # fmt: skip
    sources = [ROOT / "app.py", *(ROOT / "pages").rglob("*.py"), *(ROOT / "synth").rglob("*.py")]
    users = {
        str(path.relative_to(ROOT))
        for path in sources
        if re.search(r"^\s*(import|from) (re|regex|fnmatch)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == allowed


def test_paths_and_hosts_of_any_length_take_no_time() -> None:
    """A request line and its headers may have 64 KiB."""
    from pages.server.serving import _name_of
    from pages.server.uploads import UPLOAD_PATH
    from synth.system.settings import Settings

    for host in ("a." * 30_000 + "!", "a" * 60_000 + ":x", "-" * 60_000, "[" + ":" * 60_000, "a-." * 20_000):

        def named(host: str = host) -> None:
            assert _name_of(host) == ""
            with pytest.raises(ConfigError):
                Settings.from_environment({"HERMITAGE_HOSTS": host})

        require_within(0.5, named)
    for path in ("/_stcore/upload_file/" * 3_000, "/" * 60_000, "/a" * 30_000 + "/_stcore/upload_file/a"):
        require_within(0.5, lambda path=path: UPLOAD_PATH.fullmatch(path))


# What is printed --------------------------------------------------------------------------------------------------


def test_the_documented_limits_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "known-limits.md").read_text(encoding="utf-8")
    section = text.partition("## Limits of one input")[2]
    printed = dict(re.findall(r"^\| `([A-Z_]+)` \|.*\| ([0-9,]+) \|$", section, re.MULTILINE))
    assert printed == {name: f"{getattr(limits, name):,}" for name in limits.__all__}
