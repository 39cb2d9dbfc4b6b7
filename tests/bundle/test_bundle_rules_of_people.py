"""Rules about people from the bytes of a file to a sealed bundle, whose every pair of rows is checked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundle_making import Key, altered, checked, members_of
from people_rules_by_hand import RULES, WARDS, broken_by_hand, rows_of

from synth import estimators
from synth.bundle.fields import Check
from synth.bundle.table_files import read_table, read_units, write_table
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import RunConfig, TableFormat, config_of_text, constraints
from synth.schema.contradictions import problems_of_rules
from synth.schema.rule_lines import read_rules
from synth.services.pipeline import Sealing, fit_and_sample, seal_release

DECLARED = """
account: visits
unit: {protects: patient, id_column: patient, rows_per_unit: 6, same_in_all_rows: [sex], ordered_by: visited}
row_count: private
people_at_most: 1000
budget: {epsilon: 2}
generator: {name: independent}
rows: 300
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  visited: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, missing: true}
  left: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, fallback: 2022-01-01}
  ward: {type: category, values: [general, surgery, heart], fallback: general}
  cost: {type: number, low: 0, high: 900, step: 10, fallback: 0}
"""


def file_of(patients: int, seed: int) -> bytes:
    """Return the bytes of a table of visits that keeps no rule in particular."""
    random = np.random.default_rng(seed)
    lines = ["patient,sex,visited,left,ward,cost"]
    for patient in range(patients):
        for _ in range(random.integers(1, 7)):
            day, stay = int(random.integers(0, 340)), int(random.integers(0, 20))
            dates = [str(np.datetime64("2022-01-01") + shift) for shift in (day, day + stay)]
            visited = dates[0] if random.random() < 0.95 else ""
            ward, cost = WARDS[random.integers(3)], 10 * random.integers(0, 91)
            lines.append(f"P{patient},{'fm'[patient % 2]},{visited},{dates[1]},{ward},{cost}")
    return "\n".join(lines).encode()


def released(config: RunConfig, data: bytes, folder: Path, key: Key) -> Path:
    """Read, ask, fit, make and seal as a run does."""
    folder.mkdir(exist_ok=True)
    form, account = TableFormat(), bytes(32)
    (table,) = PrivateTable.open(
        lambda: io.BytesIO(data), "", config.schema, form, account_key=account, holdout=config.holdout
    )
    fitted = fit_and_sample(config, table, NullProgress())
    sealing = Sealing(signer=key, ledger={"charges": 1, "head": "ab" * 32})
    return seal_release(config, fitted, folder, sealing=sealing, progress=NullProgress()).path


def declarations(seed: int, how_many: int) -> list[tuple[str, ...]]:
    random = np.random.default_rng(seed)
    schema, found = config_of_text(DECLARED).schema, list[tuple[str, ...]]()
    while len(found) < how_many:
        rules = tuple(str(rule) for rule in random.choice(list(RULES), random.integers(1, 4), replace=False))
        about_people = any("count" in rule or "next." in rule for rule in rules)
        if about_people and not any(problems_of_rules(rules, schema)):
            found.append(rules)
    return found


@pytest.fixture(scope="module", autouse=True)
def _small_pool() -> Iterator[None]:
    """Let what follows what be found among fewer rows, which takes seconds less."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimators, "POOL", 4_000)
        yield


@pytest.fixture(scope="module")
def key() -> Key:
    return Key()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 10))])
def test_drawn_rules_are_kept_from_a_file_to_a_verified_bundle(seed: int, tmp_path: Path, key: Key) -> None:
    for number, rules in enumerate(declarations(seed, 2)):
        config = replace(config_of_text(DECLARED), constraints=rules, by_people=bool(number), rows=200, seed=seed)
        path = released(config, file_of(200, seed), tmp_path / str(number), key)
        verdict = checked(path)
        assert verdict.ok, (rules, verdict.lines)
        assert str(Check.RULES_OF_PEOPLE) in verdict.json["checked"]
        table = io.BytesIO(members_of(path)["synthetic.csv"])
        units = read_units(table, config.schema)
        assert units is not None
        table.seek(0)
        codes = read_table(table, config.schema)
        assert broken_by_hand(rows_of(np.asarray(codes), units, config.schema), rules) == {}
        made = units[-1] + 1 if config.by_people else len(units)
        assert made == 200 if config.by_people else made >= 200


KEPT = ("next.cost >= cost", "count <= 4", "next.visited - visited <= 90")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    config = replace(config_of_text(DECLARED), constraints=KEPT)
    return released(config, file_of(300, 3), tmp_path_factory.mktemp("kept"), key)


def forged(bundle: Path, folder: Path, key: Key, change: str) -> tuple[Path, str]:
    """Return a bundle in whose table one pair of rows, or one person, breaks a rule, and what is to be said of it."""
    schema, members = config_of_text(DECLARED).schema, members_of(bundle)
    codes = np.asarray(read_table(io.BytesIO(members["synthetic.csv"]), schema)).astype(np.int64)
    units = read_units(io.BytesIO(members["synthetic.csv"]), schema)
    assert units is not None
    at = {name: place for place, name in enumerate(schema.names)}
    sizes, days = np.bincount(units), codes[:, at["visited"]]
    pairs = np.flatnonzero(np.diff(units) == 0)
    last = np.append(units[1:] != units[:-1], True)[pairs + 1]
    if change == "cost":
        pair = int(pairs[last & (codes[pairs, at["cost"]] > 0)][-1])
        codes[pair + 1, at["cost"]] = 0
        said = f"rows {pair + 1:,} and {pair + 2:,} break 'next.cost >= cost'"
    elif change == "gap":
        pair = int(pairs[last & (days[pairs] + 91 < 365)][-1])
        codes[pair + 1, at["visited"]] = days[pair] + 91
        said = f"rows {pair + 1:,} and {pair + 2:,} break 'next.visited - visited <= 90'"
    else:
        person = int(np.flatnonzero(sizes == 4)[-1])
        row = int(np.flatnonzero(units == person)[-1])
        codes, units = (np.insert(one, row, one[row], axis=0) for one in (codes, units))
        codes, units = (np.delete(one, units.searchsorted(units[-1]), axis=0) for one in (codes, units))
        units = np.cumsum(np.diff(units, prepend=units[0]) != 0)
        said = f"row {int(np.flatnonzero(np.bincount(units)[units] > 4)[0]) + 1:,} breaks 'count <= 4'"
    paths = folder / "synthetic.csv", folder / "synthetic.parquet"
    write_table(codes, schema, *paths, 0, units=units)
    files = {path.name: (lambda data, path=path: path.read_bytes()) for path in paths}
    return altered(bundle, folder / "forged.zip", files=files, sign_with=key), said


@pytest.mark.parametrize("change", ["cost", "gap", "count"])
def test_one_pair_that_breaks_a_rule_is_found(change: str, bundle: Path, key: Key, tmp_path: Path) -> None:
    assert checked(bundle, quick=True).ok
    path, said = forged(bundle, tmp_path, key, change)
    verdict = checked(path, quick=True)
    assert not verdict.ok
    step = next(one for one in verdict.json["steps"] if one["name"] == str(Check.RULES_OF_PEOPLE))
    assert step["found"] == (f"Not every row of synthetic.csv satisfies the rules in config.yaml: {said}.",)


def test_a_check_that_ignores_rules_about_people_is_noticed(
    bundle: Path, key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can tell."""
    nothing = lambda rule, cells, units, count, people: (np.zeros(0, dtype=bool), "")  # noqa: E731
    monkeypatch.setattr(constraints, "_broken_by_people", nothing)
    with pytest.raises(AssertionError):
        test_one_pair_that_breaks_a_rule_is_found("cost", bundle, key, tmp_path)


def test_pairs_are_found_where_a_table_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = config_of_text(DECLARED).schema
    units = np.repeat(np.arange(40), 3)
    codes = np.zeros((len(units), len(schema.names)), dtype=np.int64)
    told = read_rules(["next.cost >= cost", "count <= 3"], schema)
    monkeypatch.setattr(constraints, "_AT_ONCE", 7)
    assert list(constraints.unkept(told, schema, codes, units)) == []
    for pair in np.flatnonzero(np.diff(units) == 0):
        wrong = codes.copy()
        wrong[pair, schema.names.index("cost")] = 1
        (said,) = constraints.unkept(told, schema, wrong, units)
        assert said == f"rows {pair + 1} and {pair + 2} break 'next.cost >= cost'"
