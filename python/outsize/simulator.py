"""The compiled simulator, `outsize._sim`: loaded by the commands that need it, without torch."""

from __future__ import annotations

import importlib
from typing import Any

from outsize.cli import fail


def load_simulator() -> Any:
    try:
        return importlib.import_module("outsize._sim")
    except ImportError as error:
        fail(f"the compiled simulator cannot be loaded: {error}. Build it with: make setup")
