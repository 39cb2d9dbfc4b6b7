"""What a look recognises in files of eight countries' ways of writing, and in real ones, beside what is right.

    python benchmarks/recognise.py            # 32 files that are made here, and those in the folder HERMITAGE_DATA

Every made file is read as it is proposed, and each of its cells compared with what was written. Of real files the types
of columns are compared with what their documentation says.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from synth.reading.reader import ask
from synth.reading.request import Request
from synth.schema import ModelledColumn, code_dtype, parse_column
from synth.services.recognition import Recognised, recognise
from synth.system.settings import ReaderLimits

ROWS = 400


@dataclass(frozen=True)
class Country:
    """How files are written somewhere."""

    name: str
    encodings: tuple[str, ...]
    separator: str
    decimal: str
    thousands: str
    pattern: str
    names: tuple[str, str, str, str, str, str]
    """Age, amount, day, sex, smoker, town."""

    sexes: tuple[str, str]
    truths: tuple[str, str]
    towns: tuple[str, ...]
    missing: str
    unit: str
    title: str


COUNTRIES = (
    Country("DE", ("cp1252", "utf-8"), ";", ",", ".", "%d.%m.%Y",
            ("Alter", "Größe der Miete", "Aufnahme", "Geschlecht", "Raucher", "Wohnort"), ("weiblich", "männlich"),
            ("ja", "nein"), ("Köln", "München", "Würzburg"), "k. A.", "€", "Auswertung für das Jahr"),
    Country("FR", ("cp1252", "utf-8-sig"), ";", ",", "\u00a0", "%d/%m/%Y",
            ("âge", "coût", "arrivée", "sexe", "fumeur", "région"), ("femme", "homme"), ("oui", "non"),
            ("Nîmes", "Orléans", "Besançon"), "ND", "€", "Relevé de l'année"),
    Country("CH", ("utf-8", "mac-roman"), ";", ".", "'", "%d.%m.%Y",
            ("Alter", "Prämie", "Eintritt", "Geschlecht", "Raucher", "Gemeinde"), ("w", "m"), ("Ja", "Nein"),
            ("Zürich", "Genève", "Köniz"), "-", "CHF", "Übersicht"),
    Country("UK", ("utf-8", "cp1252"), ",", ".", ",", "%d/%m/%Y",
            ("age", "cost (£)", "admitted", "sex", "smoker", "town"), ("F", "M"), ("Y", "N"),
            ("Leeds", "York", "Bath"), "NA", "£", "Return of the year"),
    Country("US", ("utf-8", "utf-16"), ",", ".", ",", "%m/%d/%Y",
            ("age", "charges", "admitted", "gender", "smoker", "state"), ("female", "male"), ("TRUE", "FALSE"),
            ("CO", "NY", "TX"), "NULL", "$", "Annual extract"),
    Country("BR", ("latin-1", "utf-8"), ";", ",", ".", "%d/%m/%Y",
            ("idade", "renda média", "admissão", "sexo", "fumante", "município"), ("feminino", "masculino"),
            ("sim", "não"), ("São Paulo", "Brasília", "Belém"), "..", "R$", "Relatório do ano"),
    Country("PL", ("cp1250", "iso8859-2"), ";", ",", " ", "%Y-%m-%d",
            ("wiek", "dochód", "przyjęcie", "płeć", "palący", "województwo"), ("kobieta", "mężczyzna"), ("tak", "nie"),
            ("łódzkie", "śląskie", "świętokrzyskie"), "n.d.", "zł", "Zestawienie za rok"),
    Country("JP", ("cp932", "euc_jp"), ",", ".", ",", "%Y/%m/%d",
            ("年齢", "年収", "入院日", "性別", "喫煙", "都道府県"), ("女", "男"), ("はい", "いいえ"),
            ("東京都", "大阪府", "北海道"), "不明", "円", "年度の集計"),
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A file, its keys that have to be found, and what its cells mean."""

    name: str
    data: bytes
    right: dict[str, Any]
    means: dict[str, list[Any]]


def made_files() -> Iterator[Made]:
    """Yield four files for every country."""
    for number, country in enumerate(COUNTRIES):
        for kind in ("plain", "title and missing", "units", "no header"):
            yield _made(country, kind, random.Random(100 * number + len(kind)))  # noqa: S311


def _made(country: Country, kind: str, draw: random.Random) -> Made:
    ages = [draw.randrange(18, 90) for _ in range(ROWS)]
    amounts = [round(draw.lognormvariate(7.3, 0.9), 2) for _ in range(ROWS)]
    days = [date(2023, 1, 1) + timedelta(draw.randrange(700)) for _ in range(ROWS)]
    chosen = [[draw.choice(values) for _ in range(ROWS)] for values in (country.sexes, country.truths, country.towns)]
    gone = [kind == "title and missing" and draw.random() < 0.08 for _ in range(ROWS)]
    unit = f" {country.unit}" if kind == "units" else ""
    written = [
        [country.missing if no else str(age) for age, no in zip(ages, gone, strict=True)],
        [_number(amount, country) + unit for amount in amounts],
        [day.strftime(country.pattern) for day in days],
        *chosen,
    ]
    means: list[list[Any]] = [[None if no else age for age, no in zip(ages, gone, strict=True)], amounts, days, *chosen]
    header = kind != "no header"
    names = country.names if header else tuple(f"column_{place}" for place in range(1, 7))
    lines = [_line(names, country)] if header else []
    lines += [_line(cells, country) for cells in zip(*written, strict=True)]
    lines = [country.title, "", *lines] if kind == "title and missing" else lines
    encoding = country.encodings[kind in ("units", "no header")]
    right: dict[str, Any] = {"decimal": country.decimal, "thousands": country.thousands.replace("\u00a0", " ")}
    text = "\r\n".join([*lines, ""])
    if encoding not in ("utf-8", "utf-8-sig", "utf-16") and not text.isascii():
        right["encoding"] = {"latin-1": "cp1252"}.get(encoding, encoding)
    if country.pattern != "%Y-%m-%d":
        right["dates"] = (country.pattern,)
    if kind == "title and missing":
        right |= {"skip_rows": 1, "missing": ("", country.missing)}
    if not header:
        right |= {"header": False, "separator": country.separator}
    if encoding == "utf-16" and not header:
        right["encoding"] = "utf-16"
    return Made(
        f"{country.name}, {kind}, {encoding}", text.encode(encoding), right, dict(zip(names, means, strict=True))
    )


def _number(value: float, country: Country) -> str:
    grouped = f"{value:,.2f}".replace(",", "\0").replace(".", country.decimal)
    return grouped.replace("\0", country.thousands)


def _line(cells: Sequence[str], country: Country) -> str:
    return country.separator.join(f'"{cell}"' if country.separator in cell else cell for cell in cells)


def read_back(data: bytes, found: Recognised) -> dict[str, list[str]]:
    """Read a table with the proposed format and columns, as a run would."""
    columns = tuple(parse_column(one.name, one.body) for one in found.columns)
    modelled = [column for column in columns if isinstance(column, ModelledColumn)]
    texts: dict[str, list[str]] = {column.name: [] for column in modelled}

    def add(body: bytes) -> None:
        rows, place = int.from_bytes(body[:8], "little"), 8
        for column in modelled:
            codes = np.frombuffer(body, code_dtype(column.size), rows, place)
            place += codes.nbytes
            texts[column.name] += column.texts(codes)

    ask(io.BytesIO(data), Request(format=found.form, limits=ReaderLimits(), columns=columns), add)
    return texts


def _same(cell: str, value: Any) -> bool:
    if value is None or cell == "":
        return (cell == "") == (value is None)
    if isinstance(value, int | float):
        return abs(float(cell) - value) < 1e-9 + 0.005 * (value > 20_000)
    return cell == str(value)


def _usual(found: Recognised, key: str) -> Any:
    value = getattr(found.form, key)
    return value or {"decimal": "."}.get(key, value) if key == "decimal" else value


def made_row(made: Made) -> str:
    """Return a line of the table about a file that was made here."""
    found = recognise(io.BytesIO(made.data), look=True)
    wrong = {key: value for key, value in made.right.items() if _usual(found, key) != value}
    texts = read_back(made.data, found) if all(column.body for column in found.columns) else {}
    cells = sum(map(len, made.means.values()))
    same = sum(
        _same(cell, value)
        for name, values in made.means.items()
        for cell, value in zip(texts.get(name, []), values, strict=False)
    )
    missed = "; ".join(f"{key}: {_usual(found, key)!r}, right is {value!r}" for key, value in wrong.items()) or "all"
    said = ", ".join(f"{one.key} {one.value!r}" for one in found.proposals if one.key != "names")
    return f"| {made.name} | {said} | {missed} | {same:,} of {cells:,} |".replace("\u00a0", " ")


REAL = {
    "titanic/titanic.csv": "i y n i c n n n x n x c",
    "insurance/insurance.csv": "n c n n y c n",
    "wine_quality/winequality-red.csv": "n n n n n n n n n n n n",
    "wine_quality/winequality-white.csv": "n n n n n n n n n n n n",
    "cervical/risk_factors_cervical_cancer.csv": (
        "n n n n y n n y n y n y n y y y y y y y y y y y y n n n y y y y y y y y"
    ),
    "adult/adult.data.gz": "n c n c n c c c c c n n n c c",
    "adult/adult.test.gz": "n c n c n c c c c c n n n c c",
    "artificial_characters/artificial-characters_train.csv.gz": "n n n n n n n n",
    "creditcard_fraud_sample/creditcard_sample.csv.gz": f"n {'n ' * 28}n y",
    "diabetes130/diabetic_data.csv.gz": (
        f"i i c c c c n n n n c c n n n n n n c c c n c c {'c ' * 23}c y c"
    ),
    "covtype_sample/covtype_train.csv.gz": f"i {'n ' * 10}{'y ' * 44}n",
    "kddcup99_10pct/kddcup.data_10_percent.gz": f"n c c c {'n ' * 37}c",
}  # fmt: skip
"""Number, category, yes/no, identifier, or left out: what the documentation of each file says of its columns."""

_LETTERS = {"number": "n", "category": "c", "yes_no": "y", "identifier": "i", "drop": "x", "date": "d", "time": "t"}
_ALSO = {("n", "y"), ("y", "n"), ("c", "y"), ("y", "c"), ("n", "c"), ("c", "n"), ("i", "x"), ("x", "i")}
"""Types that say the same of a column in other words, such as 0 and 1 as a number."""


def real_row(folder: Path, name: str, right: str) -> str:
    """Return a line of the table about a real file."""
    with (folder / name).open("rb") as stream:
        found = recognise(stream, look=True)
    letters = [_LETTERS[str(one.body["type"])] if one.body else "?" for one in found.columns]
    wanted = right.split()
    pairs = list(zip(found.columns, letters, wanted, strict=True)) if len(letters) == len(wanted) else []
    same = sum(said == asked for _, said, asked in pairs)
    also = [f"{one.name}: {said} for {asked}" for one, said, asked in pairs if said != asked and (said, asked) in _ALSO]
    wrong = [
        f"{one.name}: {said} for {asked}" for one, said, asked in pairs if said != asked and (said, asked) not in _ALSO
    ]
    keys = ", ".join(f"{one.key} {one.value!r}" for one in found.proposals if one.key != "names")
    more = f", {len(also)} in other words ({'; '.join(also[:3])}{'; ...' if len(also) > 3 else ''})" if also else ""
    return f"| {name} | {found.rows:,} | {keys} | {same} of {len(wanted)}{more} | {'; '.join(wrong) or 'none'} |"


def main() -> None:
    print("| file | proposed | keys that are not right | cells read as meant |\n|---|---|---|---|")
    for made in made_files():
        print(made_row(made), flush=True)
    folder = os.environ.get("HERMITAGE_DATA")
    if folder is None:
        return
    print("\n| real file | rows | proposed | types as documented | not right |\n|---|---|---|---|---|")
    for name, right in REAL.items():
        print(real_row(Path(folder), name, right), flush=True)


if __name__ == "__main__":
    main()
