"""The demonstration tables: simulated visits to a regional clinic network. No real person is in them.

The process is public and seeded. Patients have an age, a sex, a district, an insurance, and smoke or not; each has one
to four visits. A visit has a date (by weekday and season), a diagnosis group that depends on age and season, a length
of stay, a cost that follows from stay and diagnosis, blood pressures that are missing more often for the young, and a
readmission that depends on age, stay, diagnosis, smoking and on living in the most remote district, the small group
that fares worse.

There are two tables. The network has enough people for its budget, so its synthetic rows are accurate. The clinic, one
small part of the network, has too few people and too small a budget on purpose, so that the report shows what
inaccurate rows look like.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from synth.errors import InputError
from synth.schema import RunConfig, parse_config
from synth.schema.documents import read_mapping
from synth.system.paths import path_of

if TYPE_CHECKING:
    import pandas as pd
    from pandas.api.extensions import ExtensionArray

__all__ = [
    "CLINIC",
    "NETWORK",
    "Demonstration",
    "demonstration_bytes",
    "demonstration_config",
    "demonstration_config_text",
    "demonstration_table",
    "write_demonstration",
]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One of the two tables: how many people and visits it has, and its settings.

    Attributes
    ----------
    stem : str
        The beginning of the names of its files.
    account : str
        The account of its people.
    patients, visits : int
        How many are simulated; ``visits`` is between one and four times ``patients``.
    people_at_most : int
        The declared public bound.
    epsilon : float
    why : str
        One sentence: why its rows are accurate or not.
    more : str
        Further lines of the configuration.
    """

    stem: str
    account: str
    patients: int
    visits: int
    people_at_most: int
    epsilon: float
    why: str
    more: str = ""

    @property
    def table_name(self) -> str:
        """The file name of the table."""
        return f"{self.stem}-visits.csv"


NETWORK = Demonstration(
    stem="demonstration",
    account="demonstration",
    patients=35_000,
    visits=60_000,
    people_at_most=40_000,
    epsilon=2.0,
    why="It has enough people for accurate rows at epsilon 2.",
    more="prediction_share: 0.1\n",
)
CLINIC = Demonstration(
    stem="small-clinic",
    account="demonstration of one clinic",
    patients=1_200,
    visits=2_000,
    people_at_most=1_500,
    epsilon=0.5,
    why="It has too few people for accurate rows at epsilon 0.5, on purpose.",
)

MOST_VISITS = 4
"""The most visits of one patient: the fewer rows a person can have, the less noise is needed."""
DISTRICTS = (
    "Ashford", "Brook", "Castle", "Dale", "Eastgate", "Fairfield", "Grange", "Harbour", "Isle", "Kingsway", "Lakeside",
    "Moor",
)  # fmt: skip
DIAGNOSES = (
    "arrhythmia", "asthma", "back pain", "bronchitis", "chest pain", "depression", "diabetes", "fracture",
    "gastritis", "heart failure", "hypertension", "infection", "injury", "migraine", "pneumonia", "pregnancy", "stroke",
    "tumour",
)  # fmt: skip
_SEVERE = (9, 14, 16, 17)
"""Heart failure, pneumonia, stroke and tumour: these patients come back more often."""
_COMMON = np.array([0, 0, 0.7, 0.4, 0, 0.2, 0.5, 0.4, 0, -0.4, 1.1, 0.9, 0.8, 0, -0.2, 0, -0.8, -0.6])
"""How common each diagnosis is, as a log weight."""
INSURANCES = ("public", "private", "worker", "none")

_CONFIG = """
table: {table}
account: {account}
unit:
  protects: patient
  rows_per_unit: {most_visits}
  id_column: patient
  same_in_all_rows: [age, sex, district, insurance, smoker]
  ordered_by: visited
row_count: private
people_at_most: {people_at_most}
budget: {{epsilon: {epsilon}}}
holdout: 0.2
generator: {{name: {generator}, options: {{}}}}
rows: {rows}
label: readmitted
groups: [sex, district]
{more}seed: 0
columns:
  patient: {{type: identifier}}
  visited: {{type: date, low: 2023-01-01, high: 2025-12-31, step: month, fallback: 2024-07-01}}
  age: {{type: number, low: 0, high: 110, step: 1, fallback: 40}}
  sex: {{type: category, values: [female, male], fallback: female}}
  district: {{type: category, values: [{districts}], fallback: Ashford}}
  insurance: {{type: category, values: ["public", "private", "worker", "none"], fallback: public}}
  diagnosis: {{type: category, values: [{diagnoses}], fallback: infection}}
  stay_days: {{type: number, low: 0, high: 60, step: 1, special: [0], fallback: 0}}
  cost: {{type: number, low: 0, high: 40000, step: 50, special: [0], fallback: 0}}
  systolic: {{type: number, low: 70, high: 230, step: 1, missing: true}}
  diastolic: {{type: number, low: 40, high: 140, step: 1, missing: true}}
  smoker: {{type: yes_no, yes: "yes", no: "no", fallback: "no"}}
  readmitted: {{type: yes_no, yes: "yes", no: "no", fallback: "no"}}
  note: {{type: drop}}
"""


def demonstration_table(which: Demonstration = NETWORK, *, seed: int = 2026) -> pd.DataFrame:
    """Simulate a table.

    Returns
    -------
    DataFrame of ``which.visits`` visits of at most ``which.patients`` patients, 14 columns, in the order of the visits
    """
    import pandas as pd  # here and below, because it loads slowly and is rarely needed

    random = np.random.default_rng(seed)
    n_patients, n = which.patients, which.visits
    # One to four visits, few for most people; the last patients may be left out so that the table has a round length.
    visits = 1 + random.binomial(MOST_VISITS - 1, random.beta(0.9, 2.8, n_patients))
    patient = np.repeat(np.arange(n_patients), visits)
    patient = np.sort(random.permutation(patient)[:n] if len(patient) >= n else _top_up(visits, n, random))

    district = random.choice(12, n_patients, p=_shares(np.linspace(2.2, 0.25, 12)))
    age = np.clip(np.where(random.random(n_patients) < 0.3, random.normal(12, 9, n_patients).__abs__(),
                           random.normal(56, 19, n_patients)), 0, 104).astype(int)  # fmt: skip
    female = random.random(n_patients) < 0.53
    insurance = np.where(age < 18, 0, random.choice(4, n_patients, p=(0.58, 0.2, 0.17, 0.05)))
    smoker = random.random(n_patients) < np.where(age < 15, 0.0, 0.32 - 0.002 * age + 0.05 * ~female)

    day = _days(n, random)
    diagnosis = _diagnoses(age[patient], female[patient], day, random)
    stay = _stays(diagnosis, age[patient], random)
    cost = _costs(stay, diagnosis, insurance[patient], random)
    systolic, diastolic = _pressures(age[patient], smoker[patient], random)
    remote = district[patient] == 11
    severe = np.isin(diagnosis, _SEVERE)
    risk = -4.6 + 0.03 * age[patient] + 0.16 * np.minimum(stay, 15) + severe + 0.9 * smoker[patient] + 1.2 * remote
    readmitted = random.random(n) < 1 / (1 + np.exp(-risk))

    order = np.argsort(day, kind="stable")
    frame = pd.DataFrame(
        {
            "patient": [f"P{number:05d}" for number in patient],
            "visited": (np.datetime64("2023-01-01") + day).astype("datetime64[D]").astype(str),
            "age": age[patient],
            "sex": np.where(female, "female", "male")[patient],
            "district": np.array(DISTRICTS)[district][patient],
            "insurance": np.array(INSURANCES)[insurance][patient],
            "diagnosis": np.array(DIAGNOSES)[diagnosis],
            "stay_days": stay,
            "cost": cost,
            "systolic": systolic,
            "diastolic": diastolic,
            "smoker": np.where(smoker, "yes", "no")[patient],
            "readmitted": np.where(readmitted, "yes", "no"),
            "note": [f"simulated note {number}" for number in random.integers(0, 10**9, n)],
        }
    )
    return frame.iloc[order].reset_index(drop=True)


def demonstration_config(which: Demonstration = NETWORK) -> RunConfig:
    """Return the configuration that belongs to the table."""
    return parse_config(read_mapping(demonstration_config_text(which)))


def demonstration_config_text(which: Demonstration = NETWORK, *, table: str | None = None) -> str:
    """Return the same configuration as a person would write it."""
    text = _CONFIG.format(
        table="null" if table is None else table,
        account=which.account,
        most_visits=MOST_VISITS,
        people_at_most=which.people_at_most,
        epsilon=which.epsilon,
        rows=which.visits,
        more=which.more,
        generator=RunConfig.__dataclass_fields__["generator"].default,
        districts=", ".join(DISTRICTS),
        diagnoses=", ".join(DIAGNOSES),
    )
    return "# A simulated table: it contains no real person.\n" + text.lstrip()


def demonstration_bytes(which: Demonstration = NETWORK, *, seed: int = 2026) -> io.BytesIO:
    """Return the table as a CSV file in memory."""
    text = demonstration_table(which, seed=seed).to_csv(index=False, lineterminator="\n")
    return io.BytesIO(text.encode())


def write_demonstration(folder: str | Path, which: Demonstration = NETWORK) -> tuple[Path, Path]:
    """Write the table and a configuration that runs into ``folder``; return both paths."""
    folder = path_of(folder, "the folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"The folder '{folder.name}' cannot be created. Name another one.") from None
    table, config = folder / which.table_name, folder / f"{which.stem}.yaml"
    table.write_bytes(demonstration_bytes(which).getvalue())
    config.write_text(demonstration_config_text(which, table=table.name), encoding="utf-8")
    return table, config


def _shares(weights: np.ndarray) -> np.ndarray:
    shares: np.ndarray = weights / weights.sum()
    return shares


def _top_up(visits: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """Give more visits to patients who have fewer than the most until there are enough."""
    visits = visits.copy()
    while visits.sum() < n:
        open_patients = np.flatnonzero(visits < MOST_VISITS)
        visits[random.choice(open_patients, min(len(open_patients), n - visits.sum()), replace=False)] += 1
    return np.repeat(np.arange(len(visits)), visits)


def _days(n: int, random: np.random.Generator) -> np.ndarray:
    """Days since the first of January 2023: fewer at weekends, more in winter."""
    days = np.arange(3 * 365 + 1)
    weekday = (days + 6) % 7  # the first day was a Sunday
    weight = np.where(weekday >= 5, 0.35, 1.0) * (1 + 0.3 * np.cos(2 * np.pi * days / 365.25))
    return random.choice(days, n, p=_shares(weight))


def _diagnoses(age: np.ndarray, female: np.ndarray, day: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Diagnosis groups by age, sex and season, by the Gumbel trick on log weights."""
    n = len(age)
    winter = np.cos(2 * np.pi * day / 365.25)
    weight = np.zeros((n, len(DIAGNOSES))) + _COMMON
    slope = np.array([2, -1.5, 0.5, 0, 1.5, 0, 1.2, 0.2, 0, 3.5, 2.2, 0, -0.8, -0.8, 1.0, 0, 3.0, 1.8])
    season = np.array([0, 0.5, 0, 1.2, 0, 0.3, 0, 0.3, 0, 0.2, 0, 0.6, -0.4, 0, 1.2, 0, 0, 0])
    weight += slope * (age[:, None] - 45) / 45 + season * winter[:, None]
    pregnant = female & (age >= 16) & (age <= 46)
    weight[:, 15] = np.where(pregnant, 1.6, -20.0)
    choice: np.ndarray = np.argmax(weight + random.gumbel(size=weight.shape), axis=1)
    return choice


def _stays(diagnosis: np.ndarray, age: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Days in hospital: about half none, the rest with a long tail."""
    severity = np.array([2, 1, 0.6, 1, 1, 2.5, 1.5, 2, 0.8, 4, 1, 2, 1.2, 0.3, 4, 2, 6, 5])[diagnosis]
    stays = random.random(len(age)) < 0.25 + 0.09 * np.minimum(severity, 6)
    length = random.gamma(1.2, severity * (0.7 + age / 90))
    return np.where(stays, np.clip(np.ceil(length), 1, 60), 0).astype(int)


def _costs(stay: np.ndarray, diagnosis: np.ndarray, insurance: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Cost in multiples of fifty: log-normal, following from stay and diagnosis; zero where nothing is billed."""
    base = 120 + 60 * (diagnosis % 7) + 640 * stay
    cost = base * np.exp(random.normal(0, 0.35, len(stay)))
    free = random.random(len(stay)) < np.where(stay == 0, 0.25, 0.02) + 0.2 * (insurance == 3)
    return np.where(free, 0, np.clip(50 * np.round(cost / 50), 50, 40_000)).astype(int)


def _pressures(age: np.ndarray, smoker: np.ndarray, random: np.random.Generator) -> list[ExtensionArray]:
    """Two correlated pressures; about 7 % missing, the young more often."""
    import pandas as pd

    common = random.normal(0, 1, len(age))
    systolic = np.clip(np.round(104 + 0.45 * age + 4 * smoker + 13 * common), 70, 230)
    diastolic = np.clip(np.round(66 + 0.16 * age + 8 * (0.75 * common + 0.66 * random.normal(0, 1, len(age)))), 40, 140)
    missing = random.random(len(age)) < np.where(age < 30, 0.15, 0.04)
    pair: list[ExtensionArray] = []
    for values in (systolic, diastolic):
        column = pd.array(values.astype(int), dtype="Int64")
        column[missing] = pd.NA
        pair.append(column)
    return pair
