"""The budget as others see it: the kernel, which kills what outgrows its cgroup, and a sampler.

In a memory cgroup without swap, whose limit is the resident size after imports, the budget and a
tenth of it, the example trains and plain PyTorch is killed. All the while another process reads from
/proc how many bytes of tensors are in RAM, page pool and transfers included: never more than the
budget, not by a page.

OUTSIZE_TEST_FULL=1: GPT-2 small in place of a smaller model.

And as time sees it: what is kept small stays small over ten thousand steps.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cgroup import Cgroup, memory_cgroup
from support.launch import MIB, SUPPORT, clean_environment, mechanism_options, mechanisms, run_json

from outsize.bench.memory import limits
from outsize.bench.swap import SwapUnavailable
from outsize.checkup import default_spill_dir

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FULL = os.environ.get("OUTSIZE_TEST_FULL", "") not in ("", "0")
TIMEOUT = 850  # seconds; on an idle machine no run takes 100


@dataclass(frozen=True)
class Model:
    """A size of examples/gpt_bytes.py and its peak of tensor bytes, as PyTorch's profiler counts."""

    name: str
    options: tuple[str, ...]
    peak: int
    steps: int

    def budget(self, percent: int) -> int:
        return self.peak * percent // 100 // MIB * MIB


GPT2_SMALL = Model("GPT-2 small", (), 4078 * MIB, 8)
FOUR_LAYERS = Model("four layers", ("--layers", "4", "--width", "512"), 863 * MIB, 2)

# Says what is resident once the example has imported all it imports.
IMPORTS = """
import common, gpt_bytes, os
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
"""


@functools.cache
def bytes_after_imports() -> int:
    said = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=EXAMPLES, env=clean_environment(PYTHONPATH=""),
        capture_output=True, text=True, timeout=TIMEOUT, check=True,
    )  # fmt: skip
    return int(said.stdout)


@contextmanager
def limited(budget: int) -> Iterator[Cgroup]:
    limit = bytes_after_imports() + budget + budget // 10
    if limits().free < limit:
        pytest.skip(f"of {limit >> 20} MiB that this takes, {limits().free >> 20} MiB are free")
    try:
        with memory_cgroup(limit) as group:
            yield group
    except SwapUnavailable as reason:
        pytest.skip(str(reason))


def example(model: Model) -> list[str]:
    steps = ("--steps", str(model.steps))
    return [str(EXAMPLES / "gpt_bytes.py"), *steps, "--threads", "2", *model.options]


def losses(output: str, model: Model) -> list[str]:
    found = [line.split()[3] for line in output.splitlines() if line.startswith("step ")]
    assert len(found) == model.steps, output
    return found


def test_auto_sees_the_cgroup() -> None:
    """Whichever version of cgroups this machine has; machine_test.cpp lays out trees of both."""
    program = (
        "import outsize\nwith outsize.budget('auto'):\n  print(outsize.stats().budget)\n"
        "from outsize.bench.memory import limits\nprint(limits().cgroup)"
    )
    limit = 1 << 30
    try:
        with memory_cgroup(limit) as group:
            said = subprocess.run(
                [*group.prefix, sys.executable, "-c", program], env=clean_environment(),
                capture_output=True, text=True, timeout=TIMEOUT, check=True,
            ).stdout.split()  # fmt: skip
    except SwapUnavailable as reason:
        pytest.skip(str(reason))
    assert int(said[1]) == limit
    assert limit // 4 < int(said[0]) < limit


def run_plain(model: Model, *prefix: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, *example(model)], env=clean_environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip


def run_watched(command: list[str], report: Path) -> tuple[str, dict[str, Any]]:
    """What a command printed, and what a sampler saw of it, which must be something."""
    with (
        subprocess.Popen(
            command, env=clean_environment(), stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process,
        subprocess.Popen(
            [sys.executable, str(SUPPORT / "sampler.py"), str(report), str(process.pid)]
        ) as sampler,
    ):  # fmt: skip
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        except BaseException:
            process.kill()  # the sampler ends with it
            raise
        assert sampler.wait(timeout=60) == 0
    assert process.returncode == 0, f"{process.returncode}\n{errors[-4000:]}"
    seen: dict[str, Any] = json.loads(report.read_text())
    assert seen["arenas"] == 1 and seen["samples"] >= 10, seen
    assert seen["unstopped"] <= seen["samples"] // 10, seen
    return output, seen


def run_outsize(model: Model, budget: int, mechanism: str, folder: Path,
                *prefix: str) -> list[str]:
    """The losses, after a run whose tensor bytes were never above the budget, whoever counts."""
    free = shutil.disk_usage(default_spill_dir()).free
    if free < 2 * model.peak:
        pytest.skip(f"{free >> 20} MiB are free in {default_spill_dir()}, too few to spill to")
    report = folder / "report.json"
    command = [
        *prefix, sys.executable, "-m", "outsize", "run", "--budget", str(budget), "--quiet",
        "--faults", mechanism, "--json", str(report), *example(model),
    ]  # fmt: skip
    output, seen = run_watched(command, folder / "seen.json")
    stats = json.loads(report.read_text())["stats"]
    print(f"{model.name}, {mechanism}, budget {budget}: {stats['seconds']:.0f} s, seen {seen}")
    assert stats["mechanism"].startswith(mechanism) and stats["budget"] == budget
    assert stats["evictions"] > 0 and stats["read_bytes"] > 0
    assert seen["peak"] <= budget, "the sampler saw more than the budget"
    assert stats["resident_peak"] <= budget
    # A sampler that saw only part of the arena would not notice anything either.
    assert seen["peak"] >= budget * 8 // 10
    return losses(output, model)


@pytest.mark.cgroup
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", mechanisms())
def test_trains_in_a_cgroup_in_which_plain_is_killed(mechanism: str, tmp_path: Path) -> None:
    """GPT-2 small takes minutes on a slow disk: the suite has a smaller one."""
    model = GPT2_SMALL if FULL else FOUR_LAYERS
    seen = []
    for percent in (40, 20):
        budget = model.budget(percent)
        with limited(budget) as group:
            plain = run_plain(model, *group.prefix)
            assert plain.returncode == -signal.SIGKILL, plain.stderr[-4000:]
            assert group.killed() == 1
            seen.append(run_outsize(model, budget, mechanism, tmp_path, *group.prefix))
            assert group.killed() == 1, "something of outsize's was killed"
    assert seen[0] == seen[1]


@pytest.mark.parametrize("mechanism", mechanisms())
def test_a_sampler_sees_no_more_than_the_budget(mechanism: str, tmp_path: Path) -> None:
    """Needs no cgroup and no root."""
    run_outsize(FOUR_LAYERS, FOUR_LAYERS.budget(20), mechanism, tmp_path)


# A reservation like outsize's, used like outsize's, by a program without outsize.
TOUCHES = """
import ctypes, os, time
MIB, TIB = 1 << 20, 1 << 40
libc, pointer, size = ctypes.CDLL(None), ctypes.c_void_p, ctypes.c_size_t
libc.mmap.restype = pointer
private, anonymous, unreserved = 2, 32, 0x4000
base = libc.mmap(None, size(TIB + 2 * MIB), 3, private | anonymous | unreserved, -1, size(0))
first = -(-base // (2 * MIB)) * 2 * MIB
end = first + TIB
for begin, length in ((base, first - base), (end, base + 2 * MIB - first)):
    if length:
        assert libc.munmap(pointer(begin), size(length)) == 0
ctypes.memset(first, 1, 40 * MIB)
assert libc.mprotect(pointer(first + 30 * MIB), size(10 * MIB), 1) == 0  # now in three pieces
time.sleep(1)
os._exit(0)
"""


def test_the_sampler_counts_every_page_of_an_arena_in_pieces(tmp_path: Path) -> None:
    _, seen = run_watched([sys.executable, "-c", TOUCHES], tmp_path / "seen.json")
    assert seen["arena_peak"] == seen["peak"] == 40 * MIB


# Ten thousand numbers, 64 bytes apart, are 640 KB: one extent of small storages or two, by the size
# that ADR 0006 gives them; never more than a chunk of address space each.
LOSSES = 10_000 * 64
EXTENT = 2 * MIB
# The interpreter's own: each step keeps a tensor object, half a KiB with what hangs on it.
OBJECTS = 10_000 * 1024


@pytest.mark.parametrize("mechanism", mechanisms())
def test_ten_thousand_kept_losses_leave_everything_flat(mechanism: str) -> None:
    args = mechanism_options(mechanism)
    report = run_json("flat.py", *args, timeout=TIMEOUT)
    assert report["mechanism"].startswith(mechanism)
    assert len(report["losses"]) == 10_000 and len(set(report["losses"])) > 9_000
    early, middle, late = (report["looks"][step] for step in ("1000", "5000", "10000"))
    print(early, middle, late, sep="\n")
    assert early["evictions"] < middle["evictions"] < late["evictions"], "nothing was spilled"
    assert early["read_bytes"] < middle["read_bytes"] < late["read_bytes"]
    for look in (middle, late):
        grown = {name: look[name] - early[name] for name in look}
        assert look["resident_peak"] <= report["budget"]
        assert look["small_live"] <= LOSSES + MIB // 2, "kept: losses, weights, a batch"
        assert grown["small_live"] == grown["tensor_bytes"] <= LOSSES
        assert grown["small_held"] <= EXTENT
        assert grown["arena_bytes"] <= 2 * EXTENT
        for name in ("spill_file", "file_length", "file_allocated"):
            assert grown[name] <= 2 * EXTENT, name
        assert grown["mappings"] <= 16
        assert grown["rss"] <= OBJECTS + 2 * EXTENT
    assert late["file_allocated"] >= 8 * MIB, "of 24 MiB at most 16 fit: the rest is in the file"
