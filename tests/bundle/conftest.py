from __future__ import annotations

from pathlib import Path

import pytest
from bundle_making import Key, config_of, seal


@pytest.fixture(scope="session")
def key() -> Key:
    return Key()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    return seal(config_of(), folder, key).path
