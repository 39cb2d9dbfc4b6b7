"""What pyproject.toml cannot say: a wheel carries the screens, which stand beside the package in the repository."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SCREENS = ("app.py", "pages", ".streamlit")


class WithScreens(build_py):
    """Copy the screens into the package ``synth`` of a wheel; an editable installation finds them where they are."""

    def run(self) -> None:
        """Build the package, and put the screens into it."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "synth" / "screens"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in SCREENS:
            if Path(name).is_dir():
                shutil.copytree(name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(name, target / name)


setup(cmdclass={"build_py": WithScreens})
