"""A bundle in the hands of a stranger: another process with no database, no home and no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bundle_making import Key, config_of, members_of, seal

from synth.bundle.archive import MEMBERS

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, socket, sys

def refuse(*arguments, **named):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from synth.cli import main

codes = [main(["verify", "bundle.zip", "--public-key", "key.pem"])]
known = ("sqlalchemy", "psycopg", "streamlit", "synth.store", "synth.application")
loaded = [name for name in known if name in sys.modules]
codes.append(main(["replay", "bundle.zip", "--out", "again"]))
sys.stderr.write(json.dumps({"codes": codes, "loaded": loaded}))
"""


@pytest.mark.thorough
def test_a_stranger_verifies_and_replays_with_nothing_but_the_bundle(tmp_path: Path, key: Key) -> None:
    config = config_of(generator="dp-hp-adaptive", label="outcome", rows=200, groups=("region",))
    bundle = seal(config, tmp_path / "owner", key).path
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "bundle.zip").write_bytes(bundle.read_bytes())
    (folder / "key.pem").write_bytes(key.public_key_pem)
    for file in (tmp_path / "owner").iterdir():
        file.unlink()
    nowhere = tmp_path / "nowhere" / "at-all"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(nowhere),
        "HERMITAGE_HOME": str(nowhere),
        "DATABASE_URL": "postgresql://nobody@localhost:1/none",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr) == {"codes": [0, 0], "loaded": []}
    assert "All checks passed. What they leave out is listed above." in done.stdout
    assert "Signer not checked" not in done.stdout
    assert not nowhere.parent.exists()
    members = members_of(folder / "bundle.zip")
    assert sorted(members) == sorted(MEMBERS)
    # The safe part is the same to the bit although the private rows and everything of the owner's are gone.
    for name in ("synthetic.csv", "synthetic.parquet", "report.json"):
        assert (folder / "again" / name).read_bytes() == members[name], name
