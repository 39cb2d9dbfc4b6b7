"""Warming a server up: what every screen needs is imported once, and collections of garbage pass over it."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import threading

import pages
from synth.generators import cards

__all__ = ["warm_up"]

_lock = threading.Lock()
_warm = False


def warm_up() -> None:
    """Import every screen with all it uses, and freeze what that made; once in a process, at no cost afterwards.

    Streamlit collects garbage after every run of a page. The libraries are some 350,000 objects that live as long as
    the process, and looking through them took longer than most pages do; frozen objects are not looked through. What
    a session leaves behind is collected as before.

    The first caller does the work and the others wait for it: a page that began before would be frozen too.
    """
    global _warm
    with _lock:
        if _warm:
            return
        for found in pkgutil.walk_packages(pages.__path__, "pages."):
            importlib.import_module(found.name)
        cards()  # generators are imported when they are first asked for
        gc.collect()
        gc.freeze()
        _warm = True
