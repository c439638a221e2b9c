"""Starts the workers of the integration tests: a fresh process each, one fault mechanism each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parent
MIB = 1 << 20


def clean_environment(**more: str) -> dict[str, str]:
    """The test's own, less what would steer outsize from outside."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OUTSIZE")}
    return kept | {"PYTHONPATH": str(SUPPORT)} | more


def mechanisms() -> list[Any]:
    """userfaultfd where this process may use it; the signal path always."""
    from outsize import compiled
    import pytest

    support = compiled.load().fault_support()
    absent = pytest.mark.skipif(not support["userfaultfd"], reason=support["reason"])
    return [pytest.param("userfaultfd", marks=absent), "signal"]


def run_script(script: str, *args: str, timeout: float = 300, check: bool = True,
               **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), *args],
        env=clean_environment(**environment), text=True, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=timeout,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-4000:]}"
    return done


def run_json(script: str, *args: str, timeout: float = 300, **environment: str) -> dict[str, Any]:
    """A script that writes its report as JSON to the path in its first argument."""
    with tempfile.TemporaryDirectory(prefix="outsize-test-") as folder:
        os.chmod(folder, 0o777)  # the script may become an ordinary user
        output = Path(folder) / "report.json"
        run_script(script, str(output), *args, timeout=timeout, **environment)
        report: dict[str, Any] = json.loads(output.read_text())
    return report


def mechanism_options(mechanism: str) -> list[str]:
    """A worker's options (jail.add_options). The signal path runs in a jail, where `auto` has to find it."""
    return ["--jail"] if mechanism == "signal" else ["--faults", mechanism]


def run_worker(program: str, mechanism: str, budgets: list[str] | None = None,
               policies: list[str] | None = None) -> dict[str, Any]:
    args = mechanism_options(mechanism)
    if policies:
        args += ["--policies", *policies]
    if budgets:
        args += ["--budgets", *budgets]
    return run_json("worker.py", program, *args)
