"""Every k-th I/O fails, for every k: the program is told what and where, and has lost nothing.

Each case is one fresh process that runs a small training program plain, and then under a budget
once for every k (support/fault_worker.py). A disk that fails at every k-th transfer also fails at
the very last one for some k; where k is larger than the number of transfers nothing may be told.
A killed process leaves no spill file.

OUTSIZE_TEST_SEED chooses other transfers of gpt_bytes; OUTSIZE_TEST_FULL=1 takes it at full size.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.launch import MIB, clean_environment, mechanism_options, mechanisms, run_json

FULL = os.environ.get("OUTSIZE_TEST_FULL") == "1"
SEED = os.environ.get("OUTSIZE_TEST_SEED", "2")
SMALL_GPT = ["--layers", "2", "--width", "192", "--batch", "4", "--seq", "64", "--steps", "2"]
# A retried action needs a few transfers; where more of them fail than succeed it may never end.
K_THAT_MAY_NEVER_END = 8
# The next op is told of a failed write-ahead; of the last ones under way no op is left to be told.
UNDER_WAY = 16


def hunt(program: str, mechanism: str, *args: str, timeout: float = 600) -> dict[str, Any]:
    place = mechanism_options(mechanism)
    return run_json("fault_worker.py", program, *place, "--mechanism", mechanism, *args,
                    timeout=timeout)  # fmt: skip


def k_of(run: dict[str, Any]) -> int:
    return int(run["injected"].removeprefix("every=").split(",")[0])


def check_nothing_wrong(report: dict[str, Any]) -> None:
    for run in report["calm"]:
        assert run["completed"] and run["told"] == [], "outsize told of a fault that there was not"
    wrong = [what for run in report["calm"] + report["runs"] for what in run["wrong"]]
    assert wrong == [], "\n".join(wrong[:10])
    for run in report["runs"]:
        if run["told"]:
            continue
        assert run["completed"], f"{run['injected']} ended with no word"
        # The end looks at every byte: what such a raw access waits for is tried again untold.
        assert run["in_program"] < k_of(run) + UNDER_WAY, f"{run['injected']}: no word"


def check_every_k(report: dict[str, Any]) -> None:
    check_nothing_wrong(report)
    fewest = min(run["in_program"] for run in report["calm"])
    assert fewest >= 24, "a step with so few transfers proves little"
    tried = {k_of(run) for run in report["runs"]}
    assert tried >= set(range(1, max(run["transfers"] for run in report["calm"]) + 1))
    assert {run["kind"] for run in report["runs"]} == {"EIO", "ENOSPC", "SHORT"}
    assert {k_of(run) for run in report["runs"] if run["told"]} >= set(range(1, fewest // 2))


@pytest.mark.parametrize("policy", ["lookahead", "ondemand"])
@pytest.mark.parametrize("mechanism", mechanisms())
def test_a_failed_action_can_be_tried_again(mechanism: str, policy: str) -> None:
    """A three-layer MLP: what failed has changed nothing, and done again it ends as plain."""
    report = hunt("retried", mechanism, "--policy", policy, "--budget", "10")
    check_every_k(report)
    for run in report["runs"]:
        assert run["completed"] or k_of(run) <= K_THAT_MAY_NEVER_END, run["injected"]


@pytest.mark.parametrize("mechanism", mechanisms())
def test_with_checksums_every_corrupted_byte_is_told(mechanism: str) -> None:
    """One bit of every k-th read differs: with --verify no op ever sees it.

    From the second on: where every read is wrong a raw access is never served, and ends the process.
    """
    report = hunt("retried", mechanism, "--budget", "10", "--verify", "--kinds", "FLIP")
    for run in report["calm"]:
        assert run["completed"] and run["told"] == []
    wrong = [what for run in report["calm"] + report["runs"] for what in run["wrong"]]
    assert wrong == [], "\n".join(wrong[:10])
    for run in report["runs"]:
        assert run["completed"] or k_of(run) <= K_THAT_MAY_NEVER_END, run["injected"]
        assert run["told"] or run["reads"] < k_of(run) + UNDER_WAY, f"{run['injected']}: no word"
    fewest = min(run["reads"] for run in report["calm"])
    assert fewest >= 12
    assert {k_of(run) for run in report["runs"] if run["told"]} >= set(range(2, fewest // 2))


@pytest.mark.parametrize("mechanism", mechanisms())
def test_checksums_do_not_hide_other_faults(mechanism: str) -> None:
    print("seed", SEED)
    report = hunt("retried", mechanism, "--budget", "10", "--verify", "--sample", "30", "--seed", SEED)
    check_nothing_wrong(report)
    assert {run["kind"] for run in report["runs"] if run["told"]} == {"EIO", "ENOSPC", "SHORT"}
    assert sum(bool(run["told"]) for run in report["runs"]) >= 15


@pytest.mark.parametrize("verify", [[], ["--verify"]], ids=["unverified", "verified"])
@pytest.mark.parametrize("mechanism", mechanisms())
def test_late_and_partial_transfers_are_no_faults(mechanism: str, verify: list[str]) -> None:
    """Others overtake every k-th, or the system does a page of it at a time: nothing to tell."""
    print("seed", SEED)
    report = hunt("retried", mechanism, "--budget", "10", "--kinds", "LATE", "PARTS", "--sample", "12",
                  "--seed", SEED, *verify)  # fmt: skip
    assert {run["kind"] for run in report["runs"]} == {"LATE", "PARTS"}
    for run in report["calm"] + report["runs"]:
        assert run["completed"] and run["told"] == [] and run["wrong"] == [], run
    assert sum(k_of(run) <= run["in_program"] for run in report["runs"]) >= 6, "hardly any came to pass"


@pytest.mark.parametrize("mechanism", mechanisms())
def test_a_failed_step_leaves_a_state_of_plain_training(mechanism: str) -> None:
    """The same with autograd's own backward pass and AdamW, which are left where they failed."""
    report = hunt("trained", mechanism)
    check_every_k(report)
    assert report["states"] > 50, "plain passes through a state for every op that changes something"


@pytest.mark.timeout(6 * 3600 if FULL else 900)
@pytest.mark.parametrize("mechanism", mechanisms())
def test_gpt_bytes_with_faults_by_chance(mechanism: str) -> None:
    print("seed", SEED)
    size = ["--budget", "10", "--arguments", *SMALL_GPT]
    if FULL:
        threads = str(os.cpu_count())
        size = ["--budget", "1631", "--threads", threads, "--arguments", "--steps", "2"]
    report = hunt("gpt", mechanism, "--sample", "50", "--seed", SEED, *size,
                  timeout=6 * 3600 if FULL else 600)  # fmt: skip
    check_nothing_wrong(report)
    assert len(report["runs"]) == 50
    assert min(run["transfers"] for run in report["calm"]) >= 50
    assert sum(bool(run["told"]) for run in report["runs"]) >= 25


# --- kill -9 --------------------------------------------------------------------------------------

ENDLESS = """\
import torch
layers = [torch.nn.Linear(1024, 1024) for _ in range(12)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
while True:
    optimizer.zero_grad()
    model(torch.randn(64, 1024)).square().mean().backward()
    optimizer.step()
"""
SPILLED = 16 * MIB


@pytest.fixture
def spill_dir() -> Iterator[Path]:
    """On a disk: pytest's own folder may be in RAM, which outsize refuses."""
    with tempfile.TemporaryDirectory(
        prefix="outsize-test-", dir=os.environ.get("TMPDIR") or "/var/tmp"
    ) as folder:
        yield Path(folder)


def files_in(folder: Path, pid: int) -> list[os.stat_result]:
    """What this process has open in the folder, with a name or without."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(link).startswith(f"{folder}/"):
                found.append(link.stat())  # of the file itself, though it has no name
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def has_open(status: os.stat_result) -> list[int]:
    """The processes that keep a file alive."""
    holders = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            for link in (process / "fd").iterdir():
                there = link.stat()
                if (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino):
                    holders.append(int(process.name))
        except OSError:
            continue  # ended meanwhile, or another user's
    return holders


def wait_for_spilling(process: subprocess.Popen[bytes], folder: Path) -> os.stat_result:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        assert process.poll() is None, f"ended by itself with {process.returncode}"
        files = files_in(folder, process.pid)
        assert len(files) <= 1
        if files and files[0].st_blocks * 512 >= SPILLED:
            return files[0]
        time.sleep(0.05)
    raise AssertionError("nothing was spilled in five minutes")


@pytest.mark.parametrize("mechanism", mechanisms())
def test_kill_9_leaves_no_file(mechanism: str, tmp_path: Path, spill_dir: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    command = [sys.executable, "-m", "outsize", "run", "--quiet", "--budget", "32MiB",
               "--faults", mechanism, "--spill-dir", str(spill_dir), str(script)]  # fmt: skip
    process = subprocess.Popen(
        command, env=clean_environment(OMP_NUM_THREADS="1"), stdin=subprocess.DEVNULL
    )
    try:
        status = wait_for_spilling(process, spill_dir)
        assert list(spill_dir.iterdir()) == [], "the spill file has a name"
        assert status.st_nlink == 0
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert has_open(status) == [process.pid]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert process.returncode == -signal.SIGKILL
    assert list(spill_dir.iterdir()) == []
    assert has_open(status) == [], "a file without name and holder is gone, and its space free"
