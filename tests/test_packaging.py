"""What an installation brings: ranges and extras of pyproject.toml, beside the pins of requirements.txt."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {extra: [Requirement(line) for line in lines] for extra, lines in PROJECT["optional-dependencies"].items()}
BASE = [Requirement(line) for line in PROJECT["dependencies"]]

IN_NO_IMAGE = ("docs", "ray")
"""Extras of those who write on the site, and of the machines of a cluster."""

SCREENS = ("app.py", "pages", ".streamlit")
"""What stands beside the package, and is needed to open the screens."""

CALLED = {"pyyaml": "yaml", "scikit-learn": "sklearn", "xgboost-cpu": "xgboost", "python-multipart": "python_multipart"}
"""Packages whose modules have another name."""


def modules(requirements: list[Requirement]) -> set[str]:
    names = (canonicalize_name(requirement.name) for requirement in requirements)
    return {CALLED.get(name, name).replace("-", "_") for name in names}


def foreign(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield every file and each package of others that it imports, anywhere in it."""
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found: list[str] = []
            if isinstance(node, ast.Import):
                found = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
                found = [node.module]
            for module in {name.split(".")[0] for name in found} - sys.stdlib_module_names - {"synth", "pages"}:
                yield path, module


def pins_of(name: str) -> dict[str, Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = (Requirement(line) for line in lines if line.strip() and not line.startswith("-r "))
    return {canonicalize_name(pin.name): pin for pin in found}


def test_every_pin_lies_in_a_range_and_every_range_has_a_pin() -> None:
    pins = pins_of("requirements.txt")
    ranges = [*BASE, *(one for extra in EXTRAS.keys() - {"all", *IN_NO_IMAGE} for one in EXTRAS[extra])]
    assert {canonicalize_name(one.name) for one in ranges} == pins.keys()
    beside = [one for extra in IN_NO_IMAGE for one in EXTRAS[extra]]
    pins |= {canonicalize_name(one.name): pins_of("requirements-dev.txt")[one.name] for one in beside}
    for one in [*ranges, *beside]:
        (pin,) = pins[canonicalize_name(one.name)].specifier
        assert one.specifier.contains(pin.version), f"{one} does not hold what requirements.txt pins, {pin.version}"


def test_all_is_every_extra() -> None:
    (everything,) = EXTRAS["all"]
    assert canonicalize_name(everything.name) == PROJECT["name"]
    assert everything.extras == EXTRAS.keys() - {"all", *IN_NO_IMAGE}


@pytest.mark.thorough
def test_nothing_is_imported_that_no_extra_brings() -> None:
    package = modules(BASE).union(*(modules(EXTRAS[extra]) for extra in EXTRAS.keys() - {"all", "app"}))
    missing = {(path, module) for path, module in foreign(ROOT / "synth") if module not in package}
    screens = [*foreign(ROOT / "pages"), *foreign(ROOT / "app.py")]
    missing |= {(path, module) for path, module in screens if module not in package | modules(EXTRAS["app"])}
    assert missing == set()


def test_who_only_verifies_gets_neither_torch_nor_screens() -> None:
    heavy = {"torch", "streamlit", "starlette", "uvicorn", "plotly", "xgboost", "sdmetrics"}
    assert not modules(BASE) & heavy


def test_a_wheel_carries_the_screens_and_what_a_database_is_made_of(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in ("synth", "pages", ".streamlit"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    build = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path / "built")]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    screens = tmp_path / "built" / "synth" / "screens"
    beside = [copy / "app.py", *(copy / "pages").rglob("*"), *(copy / ".streamlit").rglob("*")]
    wanted = {path.relative_to(copy): path.read_bytes() for path in beside if path.is_file()}
    found = {path.relative_to(screens): path.read_bytes() for path in screens.rglob("*") if path.is_file()}
    assert found == wanted
    assert Path("pages/ui/pictures/logo.svg") in found
    _opens_an_installation(tmp_path / "built", tmp_path)
    # The image is built from what its first stage copies.
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8").partition("FROM ${PYTHON_IMAGE}\n")[0]
    for name in (*SCREENS, "setup.py"):
        assert re.search(rf"^COPY .*(?<![\w/]){re.escape(name)}\b", image, re.M), name


def _opens_an_installation(package: Path, folder: Path) -> None:
    """Let a process that has nothing but what was built create a database, which needs the layouts."""
    program = "import sys, synth.store as s; from synth.system.settings import Settings as t; print(s.__file__)\n"
    program += "s.Store(t(home=__import__('pathlib').Path('home'), database_url='sqlite:///home/h.sqlite')).close()"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(package)!r}); {program}"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert Path(run.stdout.strip()).is_relative_to(package)
    assert (folder / "home" / "h.sqlite").stat().st_size > 0


def test_the_public_workflow_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert workflow["permissions"] == {"contents": "read"}
    # On every Python that the project says it is tested on.
    said = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"]]
    assert job["strategy"]["matrix"] == {"python-version": said}
    (setup,) = (step for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    assert setup["with"] == {"python-version": "${{ matrix.python-version }}"}
    assert job["steps"][-1]["env"] == {"PYTHON": "python${{ matrix.python-version }}"}
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"Python {', '.join(said[:-1])} or {said[-1]}" in (ROOT / page).read_text(encoding="utf-8"), page


@pytest.mark.parametrize("text", [r'"\d"', "1 is 1"])
def test_what_a_compiler_says_of_autodp_fails_no_test(text: str) -> None:
    found = importlib.util.find_spec("autodp")
    assert found is not None
    assert found.origin is not None
    # Whichever test imports it first compiles it where nobody has, as these lines do under this test's filters.
    for path in Path(found.origin).parent.glob("*.py"):
        compile(path.read_text(encoding="utf-8"), path, "exec")
        compile(text, path, "exec")
    with pytest.raises(SyntaxError):
        compile(text, ROOT / "synth" / "errors.py", "exec")
