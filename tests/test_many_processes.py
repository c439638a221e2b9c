"""Several ranks, each under a budget of its own, with one spill directory: the bits of plain PyTorch.

DDP and FSDP2 on gloo, started by torchrun in the ways in which people start things by torchrun, and
started again by it after one rank was killed. The same launch without outsize is what they are
compared with.

OUTSIZE_TEST_FULL=1: DDP is started again as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.launch import MIB, SUPPORT, clean_environment, mechanisms

FULL = os.environ.get("OUTSIZE_TEST_FULL", "") not in ("", "0")
SCRIPT = str(SUPPORT / "ranks.py")
PEAK = {"ddp": 87 * MIB, "fsdp": 62 * MIB}  # of a rank's tensors, at least
OUTSIZE = str(Path(sys.executable).parent / "outsize")


def launch(folder: Path, *command: str, restarts: int = 0) -> list[dict[str, Any]]:
    """What the two ranks report."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                "--max-restarts", str(restarts)]  # fmt: skip
    done = subprocess.run(
        [*torchrun, *command], env=clean_environment(OMP_NUM_THREADS="1"), text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]


@cache
def plain(kind: str, *more: str) -> list[list[Any]]:
    with TemporaryDirectory(prefix="outsize-test-") as folder:
        restarts = int(bool(more))
        ranks = launch(Path(folder), SCRIPT, kind, folder, *more, restarts=restarts)
    assert [rank["stats"]["budget"] for rank in ranks] == [0, 0]
    assert [rank["restarts"] for rank in ranks] == [restarts] * 2
    return [rank["entries"] for rank in ranks]


def check(
    ranks: list[dict[str, Any]], expected: list[list[Any]], budget: int, mechanism: str
) -> None:
    for rank, entries in zip(ranks, expected, strict=True):
        assert entries and rank["entries"] == entries
        stats = rank["stats"]
        assert stats["mechanism"].startswith(mechanism)
        assert stats["budget"] == budget >= stats["resident_peak"]
        assert stats["read_bytes"] >= 64 * MIB and stats["write_bytes"] >= 64 * MIB


def options(budget: int, spill: Path, mechanism: str) -> list[str]:
    return ["run", "--quiet", "--budget", str(budget), "--spill-dir", str(spill), "--faults", mechanism]


@pytest.fixture
def spill() -> Any:
    """On a disk: pytest's own folder may be in RAM, which outsize refuses."""
    from outsize.checkup import default_spill_dir

    with TemporaryDirectory(prefix="outsize-test-", dir=default_spill_dir()) as folder:
        yield Path(folder)
        assert list(Path(folder).iterdir()) == [], "something is left of the spill files"


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("share", [50, 25])
@pytest.mark.parametrize("kind", PEAK)
def test_two_ranks_compute_the_same(
    kind: str, share: int, mechanism: str, tmp_path: Path, spill: Path
) -> None:
    budget = PEAK[kind] * share // 100
    # Both ways of starting it: torchrun runs a module, or torchrun runs a program.
    program = ["-m", "outsize"] if share == 50 else ["--no-python", OUTSIZE]
    command = [*program, *options(budget, spill, mechanism), SCRIPT, kind, str(tmp_path)]
    ranks = launch(tmp_path, *command)
    check(ranks, plain(kind), budget, mechanism)
    assert all(rank["stats"]["tensor_bytes_peak"] >= PEAK[kind] for rank in ranks)


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("kind", PEAK if FULL else ["fsdp"])
def test_a_killed_rank_is_started_again(
    kind: str, mechanism: str, tmp_path: Path, spill: Path
) -> None:
    """Rank 1 kills itself after the first step; the next start resumes from the ranks' checkpoints."""
    budget = PEAK[kind] * 30 // 100
    dying = ("--die-at", "1")
    command = ["-m", "outsize", *options(budget, spill, mechanism), SCRIPT, kind, str(tmp_path), *dying]
    ranks = launch(tmp_path, *command, restarts=1)
    assert [rank["restarts"] for rank in ranks] == [1, 1]
    check(ranks, plain(kind, *dying), budget, mechanism)
    # ... and as if nobody had been killed.
    undisturbed = [[entry for entry in rank if entry[0] != "step 0"] for rank in plain(kind)]
    assert plain(kind, *dying) == undisturbed
