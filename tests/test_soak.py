"""A long job in little: many steps of ever new programs leave nothing behind (support/soak.py).

The same steps without outsize say what is right, and by how much Python and PyTorch grow by themselves.
OUTSIZE_TEST_FULL=1: a hundred thousand steps. OUTSIZE_TEST_SEED chooses other programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.launch import MIB, SUPPORT, clean_environment, mechanism_options, mechanisms

FULL = os.environ.get("OUTSIZE_TEST_FULL", "") not in ("", "0")
SEED = os.environ.get("OUTSIZE_TEST_SEED", "1")
STEPS = 100_000 if FULL else 600
HOURS = 3600
# On top of what Python and PyTorch themselves grow by: names of op sites, tables, malloc's own waste.
GROWTH = 96 * MIB


def soak(folder: Path, *args: str) -> dict[str, Any]:
    folder.chmod(0o777)
    output = folder / f"soak{len(list(folder.iterdir()))}.json"
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "soak.py"), str(output), "--steps", str(STEPS), "--seed", SEED, *args],
        env=clean_environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=8 * HOURS if FULL else 600,
    )  # fmt: skip
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-4000:]}"
    report: dict[str, Any] = json.loads(output.read_text())
    return report


def figures(name: str, report: dict[str, Any]) -> None:
    """First tenth and last; the times are for the reader, this machine being busy."""
    first, last = report["looks"][0], report["looks"][-1]
    words = [f"{key} {first[key]:.0f} -> {last[key]:.0f}"
             for key in ("op_ns", "birth_ns", "large_ns", "model_ns", "rss", "small_held")]  # fmt: skip
    print(f"{name}: {report['seconds']:.0f} s, {'; '.join(words)}")


@pytest.mark.timeout(20 * HOURS if FULL else 900)
def test_nothing_grows_and_all_bits_are_right(tmp_path: Path) -> None:
    print("seed", SEED)
    plain = soak(tmp_path, "--plain")
    figures("plain", plain)
    for mechanism in mechanisms():
        if not isinstance(mechanism, str):
            if mechanism.marks[0].args[0]:
                continue  # no userfaultfd here
            mechanism = mechanism.values[0]
        args = mechanism_options(mechanism)
        ours = soak(tmp_path, *args)
        figures(mechanism, ours)
        check(plain, ours, mechanism)


def check(plain: dict[str, Any], ours: dict[str, Any], mechanism: str) -> None:
    assert ours["stats"]["mechanism"].startswith(mechanism)
    pairs = list(zip(plain["digests"], ours["digests"], strict=True))
    assert len(pairs) == STEPS // 20
    assert [number for number, (a, b) in enumerate(pairs) if a != b] == []
    assert ours["job"] == plain["job"]
    first, last = ours["looks"][0], ours["looks"][-1]
    assert len(ours["looks"]) == 10 and last["evictions"] > 2 * first["evictions"] > 0
    assert last["resident_peak"] <= ours["budget"]
    assert last["pinned"] == 0
    grown = {name: last[name] - first[name] for name in last}
    # Tensors that the programs left in cycles, and what plain PyTorch leaks with them.
    assert grown["tensor_bytes"] <= STEPS * 256 + 4 * MIB
    assert last["small_held"] <= 2 * last["small_live"] + 12 * MIB
    assert grown["spill_file"] <= STEPS * 1024 + 80 * MIB
    assert grown["descriptors"] == 0 and grown["threads"] == 0
    # By signals every page move may leave a mapping, until its range is given back: it comes and goes.
    assert last["mappings"] <= (30_000 if mechanism == "signal" else first["mappings"] + 100)
    own = grown["rss"] - (plain["looks"][-1]["rss"] - plain["looks"][0]["rss"])
    assert own <= GROWTH, f"{own >> 20} MiB more than plain grows by"


NEVER_RECUR = """
import os, sys, torch, outsize
torch.set_num_threads(1)
def rss():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with outsize.budget(16 << 20, faults=sys.argv[1]):
    kept = [torch.ones(1 << 20) for _ in range(6)]  # 24 MiB: it watches and plans
    x = torch.ones(500)
    for number in range(240_000):
        torch.cat([x[: number % 500 + 1], x[: number // 500 + 1]])
        if number == 40_000:
            before = rss()
    print(rss() - before)
"""


@pytest.mark.parametrize("mechanism", mechanisms())
def test_shapes_that_never_recur_are_forgotten(mechanism: str) -> None:
    """Of each op site there is a name for messages, a hundred bytes or two."""
    done = subprocess.run(
        [sys.executable, "-c", NEVER_RECUR, mechanism], env=clean_environment(), text=True,
        capture_output=True, stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) <= 12 * MIB
