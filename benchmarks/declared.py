"""Public declarations of the real tables: columns, bounds and categories, from documentation and round numbers."""

from __future__ import annotations

from pathlib import Path

from synth.schema import CategoryColumn, Column, DropColumn, IdentifierColumn, NumberColumn, YesNoColumn


def numbers(text: str, *, missing: bool = False) -> list[Column]:
    """Return numbers from lines of ``name: low high step [special value]``."""
    columns: list[Column] = []
    for line in text.strip().splitlines():
        name, _, values = line.rpartition(":")
        low, high, step, *special = map(float, values.split())
        columns.append(NumberColumn(name.strip(), low, high, step, special=tuple(special), missing=missing))
    return columns


def flags(names: list[str], *, yes: str = "1", no: str = "0", missing: bool = False) -> list[Column]:
    return [YesNoColumn(name, yes=yes, no=no, missing=missing) for name in names]


def category(name: str, values: str | list[str], *, other: bool = False, missing: bool = False) -> Column:
    listed = values.split() if isinstance(values, str) else values
    return CategoryColumn(name, tuple(listed), other=other, missing=missing)


def counted(low: int, high: int) -> list[str]:
    return [str(value) for value in range(low, high + 1)]


DISEASES = (
    "condylomatosis,cervical condylomatosis,vaginal condylomatosis,vulvo-perineal condylomatosis,syphilis,"
    "pelvic inflammatory disease,genital herpes,molluscum contagiosum,AIDS,HIV,Hepatitis B,HPV"
)


def cervical() -> list[Column]:
    # "Smokes" and its kind are written 1.0 and 0.0, the last columns 1 and 0.
    asked = {
        "yes": ["Smokes", "Hormonal Contraceptives", "IUD", "STDs", *(f"STDs:{name}" for name in DISEASES.split(","))],
        "sure": ["Dx:Cancer", "Dx:CIN", "Dx:HPV", "Dx", "Hinselmann", "Schiller", "Citology", "Biopsy"],
    }
    return [
        *numbers("Age: 10 100 1\nSTDs: Number of diagnosis: 0 10 1"),
        *numbers(
            """
            Number of sexual partners: 0 30 1
            First sexual intercourse: 8 40 1
            Num of pregnancies: 0 15 1
            Smokes (years): 0 60 0.5
            Smokes (packs/year): 0 50 0.25
            Hormonal Contraceptives (years): 0 40 0.25
            IUD (years): 0 30 0.25
            STDs (number): 0 12 1
            STDs: Time since first diagnosis: 0 40 1
            STDs: Time since last diagnosis: 0 40 1
            """,
            missing=True,
        ),
        *flags(asked["yes"], yes="1.0", no="0.0", missing=True),
        *flags(asked["sure"]),
    ]


def titanic() -> list[Column]:
    return [
        *(DropColumn(name) for name in ("PassengerId", "Name", "Ticket", "Cabin")),
        *flags(["Survived"]),
        category("Pclass", "1 2 3"),
        category("Sex", "female male"),
        *numbers("Age: 0 100 1", missing=True),
        *numbers("SibSp: 0 10 1\nParch: 0 10 1\nFare: 0 600 0.5"),
        category("Embarked", "C Q S", missing=True),
    ]


def wine() -> list[Column]:
    return [
        *numbers(
            """
            fixed acidity: 3 16 0.1
            volatile acidity: 0 2 0.01
            citric acid: 0 2 0.01
            residual sugar: 0 70 0.1
            chlorides: 0 1 0.001
            free sulfur dioxide: 0 300 1
            total sulfur dioxide: 0 450 1
            density: 0.98 1.04 0.0001
            pH: 2.5 4.5 0.01
            sulphates: 0 2.5 0.01
            alcohol: 8 15 0.1
            """
        ),
        category("quality", counted(0, 10)),
    ]


def insurance() -> list[Column]:
    return [
        *numbers("age: 18 100 1\nbmi: 10 60 0.1\nchildren: 0 10 1\ncharges: 0 100000 100"),
        category("sex", "female male"),
        category("smoker", "no yes"),
        category("region", "northeast northwest southeast southwest"),
    ]


def letters() -> list[Column]:
    segments = "V1: 0 10 1\n" + "\n".join(f"V{k}: -10 70 1" for k in range(2, 6)) + "\nV6: 0 80 0.01\nV7: 0 80 0.01"
    return [*numbers(segments), category("Class", counted(1, 10))]


def creditcard() -> list[Column]:
    components = "\n".join(f"V{k}: -20 20 0.02" for k in range(1, 29))
    return [*numbers(f"Time: 0 172800 60\n{components}\nAmount: 0 5000 1 0"), *flags(["Class"])]


def covtype() -> list[Column]:
    return [
        DropColumn("Id"),
        *numbers(
            """
            Elevation: 1800 4000 1
            Aspect: 0 360 1
            Slope: 0 60 1
            Horizontal_Distance_To_Hydrology: 0 1400 1
            Vertical_Distance_To_Hydrology: -200 600 1
            Horizontal_Distance_To_Roadways: 0 7200 1
            Hillshade_9am: 0 255 1
            Hillshade_Noon: 0 255 1
            Hillshade_3pm: 0 255 1
            Horizontal_Distance_To_Fire_Points: 0 7200 1
            """
        ),
        *flags([f"Wilderness_Area{k}" for k in range(1, 5)] + [f"Soil_Type{k}" for k in range(1, 41)]),
        category("Cover_Type", counted(1, 7)),
    ]


def census(documentation: Path) -> list[Column]:
    """Read the categories off the published documentation; "?" stands for missing in some columns."""
    bounds = {
        "age": "0 90 1",
        "wage per hour": "0 9999 1 0",
        "capital gains": "0 99999 1 0",
        "capital losses": "0 5000 1 0",
        "dividends from stocks": "0 99999 1 0",
        "num persons worked for employer": "0 6 1",
        "weeks worked in year": "0 52 1",
    }
    columns: list[Column] = []
    described = False
    for line in documentation.read_text(encoding="latin-1").splitlines():
        described = described or line.startswith("age:")
        if not described or line.startswith("|") or ":" not in line:
            continue
        name, _, values = line.partition(":")
        if name in bounds:
            columns += numbers(f"{name}: {bounds[name]}")
        elif name == "instance weight":
            columns.append(DropColumn(name))
        else:
            listed = [value.strip() for value in values.strip().removesuffix(".").split(", ")]
            columns.append(category(name, list(dict.fromkeys(listed)), other=True, missing=True))
    return [*columns, category("income", ["- 50000.", "50000+."])]


ICD_CHAPTERS = (
    (1, 139, "infectious"),
    (140, 239, "neoplasms"),
    (240, 279, "endocrine"),
    (280, 289, "blood"),
    (290, 319, "mental"),
    (320, 389, "nervous"),
    (390, 459, "circulatory"),
    (460, 519, "respiratory"),
    (520, 579, "digestive"),
    (580, 629, "genitourinary"),
    (630, 679, "pregnancy"),
    (680, 709, "skin"),
    (710, 739, "musculoskeletal"),
    (740, 759, "congenital"),
    (760, 779, "perinatal"),
    (780, 799, "symptoms"),
    (800, 999, "injury"),
)


def diagnosis(name: str) -> Column:
    """Return an ICD-9 code as its chapter, with diabetes (250) apart."""
    aliases = {f"V{code:02d}": "supplementary" for code in range(1, 92)}
    aliases |= {f"E{code}": "external" for code in range(1000)}
    for first, last, chapter in ICD_CHAPTERS:
        aliases |= {str(code): chapter for code in range(first, last + 1)}
    aliases |= {"250": "diabetes"} | {f"250.{part:02d}": "diabetes" for part in range(100)}
    aliases |= {f"250.{part}": "diabetes" for part in range(10)}
    chapters = tuple(dict.fromkeys(aliases.values()))
    return CategoryColumn(name, chapters, other=True, missing=True, aliases=tuple(aliases.items()))


SPECIALTIES = (
    "InternalMedicine Family/GeneralPractice Cardiology Surgery-General Orthopedics Orthopedics-Reconstructive "
    "Gastroenterology Emergency/Trauma Nephrology Pulmonology Psychiatry Urology ObstetricsandGynecology Radiologist "
    "Surgery-Cardiovascular/Thoracic Surgery-Vascular Surgery-Neuro Oncology Hematology/Oncology Neurology Pediatrics "
    "PhysicalMedicineandRehabilitation Endocrinology Podiatry Otolaryngology Hospitalist"
)
DRUGS = (
    "metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide glipizide glyburide tolbutamide "
    "pioglitazone rosiglitazone acarbose miglitol troglitazone tolazamide examide citoglipton insulin "
    "glyburide-metformin glipizide-metformin glimepiride-pioglitazone metformin-rosiglitazone metformin-pioglitazone"
)


def diabetes() -> list[Column]:
    ages = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
    weights = [f"[{low}-{low + 25})" for low in range(0, 200, 25)] + [">200"]
    return [
        DropColumn("encounter_id"),
        IdentifierColumn("patient_nbr"),
        category("race", "AfricanAmerican Asian Caucasian Hispanic Other", missing=True),
        category("gender", "Female Male Unknown/Invalid"),
        category("age", ages),
        category("weight", weights, missing=True),
        category("admission_type_id", counted(1, 8)),
        category("discharge_disposition_id", counted(1, 30)),
        category("admission_source_id", counted(1, 26)),
        category("payer_code", "BC CH CM CP DM FR HM MC MD MP OG OT PO SI SP UN WC", missing=True),
        category("medical_specialty", SPECIALTIES, other=True, missing=True),
        *numbers(
            """
            time_in_hospital: 1 14 1
            num_lab_procedures: 0 150 1
            num_procedures: 0 6 1
            num_medications: 0 100 1
            number_outpatient: 0 50 1
            number_emergency: 0 80 1
            number_inpatient: 0 30 1
            number_diagnoses: 1 16 1
            """
        ),
        *(diagnosis(f"diag_{k}") for k in (1, 2, 3)),
        category("max_glu_serum", "None Norm >200 >300"),
        category("A1Cresult", "None Norm >7 >8"),
        *(category(drug, "No Down Steady Up") for drug in DRUGS.split()),
        category("change", "No Ch"),
        category("diabetesMed", "No Yes"),
        category("readmitted", "NO <30 >30"),
    ]
