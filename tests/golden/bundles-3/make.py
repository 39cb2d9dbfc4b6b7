"""Make bundles like these, with new noise and a new key: ``PYTHONPATH=. make.py FOLDER [NAME ...]`` (see README.md)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "golden_checks"))


def main(target: Path, *names: str) -> None:
    """Simulate a table for each configuration, or for some, release it, and keep the bundle."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HERMITAGE_HOME": f"{scratch}/home", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.environ.pop("DATABASE_URL", None)
        from golden_cases import BUNDLES, configuration, stand_in

        from synth.cli.local import run_locally

        for name in names or BUNDLES:
            table = Path(scratch) / f"{name}.csv"
            table.write_bytes(stand_in(name))
            result = run_locally(configuration(name), Path(scratch) / name, table=table, owner_report=False)
            shutil.copyfile(result.bundle, target / f"{name}.zip")
        shutil.copyfile(next(Path(scratch, "home").rglob("*public*.pem")), target / "public-key.pem")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
