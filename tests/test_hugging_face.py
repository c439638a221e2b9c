"""Models as Hugging Face hands them over, and the trainers people use: the same bits under a budget.

`from_pretrained` gives weights that are a private mapping of the file. Its pages are never written to
the spill file: clean, they are read from the weights file again. The models are made here, of random
weights. A budget is a share of what training keeps: weights, gradients and two moments; or, where
nearly all weights are frozen, of the weights.

OUTSIZE_TEST_FULL=1: the cgroup on both mechanisms.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.cgroup import memory_cgroup
from support.launch import MIB, SUPPORT, clean_environment, mechanisms, run_json

from outsize.bench.memory import limits
from outsize.bench.swap import SwapUnavailable
from outsize.checkup import default_spill_dir

FULL = os.environ.get("OUTSIZE_TEST_FULL", "") not in ("", "0")
LAYERS = 6
WEIGHTS = 73 * MIB  # of that many layers, at least
MEMORY_OF_A_PROCESS = 32 * MIB  # what the interpreter takes beyond its imports: code, tables, threads


# --- in one process -------------------------------------------------------------------------------

OF_THE_SIGNAL_PATH = ["loaded", "lora, built before", "trainer"]


@cache
def report_of(mechanism: str) -> dict[str, Any]:
    if mechanism == "signal":
        return run_json("hugging_face.py", "--jail", "--programs", *OF_THE_SIGNAL_PATH)
    return run_json("hugging_face.py", "--faults", mechanism)


@pytest.mark.parametrize("mechanism", mechanisms())
def test_the_same_bits(mechanism: str) -> None:
    report = report_of(mechanism)
    assert {len(report["trainer"]["runs"]), len(report["loaded"]["runs"])} == {2}
    for name, program in report.items():
        assert len(program["plain"]) > 50
        for share, run in program["runs"].items():
            where, stats = f"{name} at {share} %", run["stats"]
            assert run["budget"] == program["whole"] * int(share) // 100
            wrong = [a for a, b in zip(program["plain"], run["entries"], strict=True) if a != b]
            assert wrong == [], where
            assert stats["mechanism"].startswith(mechanism), where
            assert stats["resident_peak"] <= run["budget"], where
            assert stats["evictions"] > 0 and stats["read_bytes"] > run["budget"], where


@pytest.mark.parametrize("mechanism", mechanisms())
def test_frozen_weights_are_written_at_most_once_and_mapped_ones_never(mechanism: str) -> None:
    origins = {"lora": "mapped", "lora, loaded before": "mapped",
               "lora, built before": "adopted", "lora, built": "born"}  # fmt: skip
    seen = set()
    for name, program in report_of(mechanism).items():
        for run in program["runs"].values() if name in origins else ():
            seen.add(name)
            writes = run["writes"][origins[name]]
            assert writes["bytes"] >= program["whole"] * 9 // 10, "these are not the weights"
            assert writes["evictions"] >= 3 * writes["bytes"] // (8 * MIB), "they hardly moved"
            if origins[name] == "mapped":
                assert writes["written"] == 0, name
            else:
                assert writes["most"] == 1, name
    assert seen == set(origins) & set(report_of(mechanism))


# --- scripts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files() -> Iterator[dict[int, Path]]:
    """Weights files by number of layers; on a disk, whose cache a cgroup may drop."""
    with TemporaryDirectory(prefix="outsize-test-", dir=default_spill_dir()) as folder:
        found = {layers: Path(folder) / str(layers) for layers in (1, 3, LAYERS)}
        saving = ("import sys; from pathlib import Path; from hugging_face import save_pretrained\n"
                  "for path in sys.argv[1:]: save_pretrained(Path(path), int(Path(path).name))")  # fmt: skip
        subprocess.run([sys.executable, "-c", saving, *map(str, found.values())], check=True,
                       env=clean_environment(), capture_output=True, timeout=300)  # fmt: skip
        yield found


def script(*command: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(ACCELERATE_USE_CPU="1", ACCELERATE_LOG_LEVEL="ERROR")
    done = subprocess.run(
        command, env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
    )
    assert fails or done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-6000:]}"
    return done


def result(*command: str) -> dict[str, Any]:
    (line,) = (x for x in script(*command).stdout.splitlines() if x.startswith('{"losses"'))
    found: dict[str, Any] = json.loads(line)
    return found


def outsize(budget: int, file: Path) -> list[str]:
    return ["-m", "outsize", "run", "--quiet", "--budget", str(budget), "--json", str(file)]


def moved(file: Path) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads(file.read_text())["stats"]
    assert stats["resident_peak"] <= stats["budget"]
    assert stats["read_bytes"] > 2 * stats["budget"]
    return stats


SCRIPT = str(SUPPORT / "hf_script.py")


@pytest.mark.parametrize("kind", ["accelerate", "lightning"])
def test_trainers_run_unchanged(kind: str, files: dict[int, Path], tmp_path: Path) -> None:
    launch = [sys.executable]
    if kind == "accelerate":
        launch += ["-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1",
                   "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]  # fmt: skip
    plain = result(*launch, SCRIPT, kind, str(files[3]))
    assert len(plain["losses"]) >= 4
    for share in (50, 25):
        shutil.rmtree(files[3] / "lightning", ignore_errors=True)
        budget = 4 * 39 * MIB * share // 100
        ours = result(*launch, *outsize(budget, tmp_path / "o.json"), SCRIPT, kind, str(files[3]))
        assert ours == plain, share
        assert moved(tmp_path / "o.json")["budget"] == budget


@pytest.mark.cgroup
@pytest.mark.parametrize("mechanism", mechanisms() if FULL else mechanisms()[:1])
def test_loads_and_trains_in_a_cgroup_in_which_plain_is_killed(
    mechanism: str, files: dict[int, Path], tmp_path: Path
) -> None:
    """A quarter of what training keeps, and loading respects it as well."""
    budget = WEIGHTS  # of four times as much
    limit = resident_of_a_small_one(files[1]) + MEMORY_OF_A_PROCESS + budget + budget // 10
    if limits().free < limit:
        pytest.skip(f"of {limit >> 20} MiB that this takes, {limits().free >> 20} MiB are free")
    program = [SCRIPT, "loaded", str(files[LAYERS])]
    plain = result(sys.executable, *program)
    try:
        with memory_cgroup(limit) as group:
            killed = script(*group.prefix, sys.executable, *program, fails=True)
            assert killed.returncode == -signal.SIGKILL and group.killed() == 1
            run = outsize(budget, tmp_path / "o.json")
            ours = result(*group.prefix, sys.executable, *run, "--faults", mechanism, *program)
            assert group.killed() == 1, "something of outsize's was killed"
    except SwapUnavailable as reason:
        pytest.skip(str(reason))
    assert ours == plain
    assert moved(tmp_path / "o.json")["mechanism"].startswith(mechanism)


def resident_of_a_small_one(folder: Path) -> int:
    """What the process has in RAM once it has trained a small model: interpreter and libraries."""
    saying = ("import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')\n"
              "import os; pages = int(open('/proc/self/statm').read().split()[1])\n"
              "print('resident', pages * os.sysconf('SC_PAGE_SIZE'))")  # fmt: skip
    done = script(sys.executable, "-c", saying, SCRIPT, "loaded", str(folder))
    return int(done.stdout.split()[-1])
