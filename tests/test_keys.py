from __future__ import annotations

import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from synth.errors import ConfigError
from synth.vault.keys import load_keys


def test_keys_are_made_once_and_stay(tmp_path: Path) -> None:
    first, second = load_keys(tmp_path / "home"), load_keys(tmp_path / "home")
    assert first == second
    assert len({first.master, first.fingerprint_key, first.signing_seed}) == 3
    assert load_keys(tmp_path / "other").master != first.master


def test_key_files_are_private(tmp_path: Path) -> None:
    load_keys(tmp_path)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys"]  # no draft is left behind


def test_a_key_file_that_others_can_read_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_keys(tmp_path)
    path = tmp_path / "keys" / "master.key"
    path.chmod(0o644)
    load_keys(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "Others could read the key file" in caplog.text


@pytest.mark.parametrize("name", ["master.key", "fingerprint.key", "signing.key"])
def test_a_missing_key_is_named_and_not_replaced(tmp_path: Path, name: str) -> None:
    load_keys(tmp_path)
    (tmp_path / "keys" / name).unlink()
    with pytest.raises(ConfigError, match=f"{name} is missing"):
        load_keys(tmp_path)
    assert not (tmp_path / "keys" / name).exists()


def test_a_damaged_key_is_named(tmp_path: Path) -> None:
    load_keys(tmp_path)
    (tmp_path / "keys" / "master.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match=r"master\.key .* is damaged"):
        load_keys(tmp_path)


@pytest.mark.parametrize("name", ["x.table", "x.mark", "x.header"])
def test_new_keys_are_refused_where_a_table_or_a_ledger_needs_the_old_ones(tmp_path: Path, name: str) -> None:
    load_keys(tmp_path)
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / name).write_bytes(b"ciphertext")
    shutil.rmtree(tmp_path / "keys")
    with pytest.raises(ConfigError, match="only they can open the tables and the ledger"):
        load_keys(tmp_path)


def test_a_signature_is_checked_with_the_public_key_alone(tmp_path: Path) -> None:
    keys = load_keys(tmp_path)
    public = load_pem_public_key((tmp_path / "keys" / "public-key.pem").read_bytes())
    public.verify(keys.sign(b"certificate"), b"certificate")  # type: ignore[call-arg, union-attr]
    assert (tmp_path / "keys" / "public-key.pem").read_bytes() == keys.public_key_pem


def test_keyed_hashes_of_different_purposes_are_unrelated(tmp_path: Path) -> None:
    keys = load_keys(tmp_path)
    assert keys.hmac(b"x", purpose="table") == keys.hmac(b"x", purpose="table")
    assert keys.hmac(b"x", purpose="table") != keys.hmac(b"x", purpose="unit")


def test_keys_are_not_printed_or_pickled(tmp_path: Path) -> None:
    keys = load_keys(tmp_path)
    assert repr(keys) == str(keys) == "Keys(secret)"
    with pytest.raises(TypeError):
        pickle.dumps(keys)


def test_processes_that_start_together_get_the_same_keys(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from synth.vault.keys import load_keys\n"
        "print(load_keys(pathlib.Path(sys.argv[1])).master.hex())\n"
    )
    home = str(tmp_path / "home")
    processes = [
        subprocess.Popen([sys.executable, "-c", script, home], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    answers = {process.communicate()[0] for process in processes}
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 64


def test_the_key_of_the_ledger_is_one_of_its_own_and_stays(tmp_path: Path) -> None:
    keys = load_keys(tmp_path / "one")
    assert keys.ledger_key == load_keys(tmp_path / "one").ledger_key
    others = {keys.master, keys.fingerprint_key, keys.signing_seed, load_keys(tmp_path / "two").ledger_key}
    assert len(keys.ledger_key) == 32
    assert keys.ledger_key not in others
