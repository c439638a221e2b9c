"""Shared by every Python test: where the repository is, and how to run outsize as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


# Long files whose tests share nothing and run in processes of their own: several workers share each.
# All other files are one worker's, for what their tests share. (Marks of xdist_group, which xdist turns
# into names of tests, did not do it: files were split all the same.)
SPLIT = {"test_training_equal.py", "test_io_faults.py", "test_raw_access.py", "test_random_programs.py"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if Path(file).name in SPLIT else file

    return ByFile(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def run_outsize(tmp_path: Path):
    """Runs `python -m outsize ARGS…` in a fresh process and folder, and returns what it did.

    The environment is the test's own, less what would steer outsize from outside.
    """

    def run(*args: str, env: dict[str, str] | None = None, timeout: float = 600,
            **kwargs) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("OUTSIZE")}
        return subprocess.run(
            [sys.executable, "-m", "outsize", *map(str, args)],
            env=clean | (env or {}), cwd=kwargs.pop("cwd", tmp_path), text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout, **kwargs)

    return run
