"""Memory that others make scarce while a program trains under a budget: it goes on, with plain's bits.

Another process in the same memory cgroup eats what there is, so that the kernel reclaims pages of files,
also of a model that was mapped and adopted; or the kernel swaps our pages out, which it does where
there is swap and nobody asked. Both need root and a memory cgroup.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.cgroup import memory_cgroup
from support.launch import MIB, SUPPORT, clean_environment, mechanism_options, mechanisms

from outsize.bench.swap import SwapUnavailable, kernel_swap
from outsize.checkup import default_spill_dir

LIMIT = 640 * MIB  # what plain training takes in there, and a little
NEEDED = 768 * MIB


@pytest.fixture
def folder() -> Iterator[Path]:
    """On a disk, and open to a worker that becomes an ordinary user."""
    with TemporaryDirectory(prefix="outsize-test-", dir=default_spill_dir()) as name:
        os.chmod(name, 0o777)
        yield Path(name)


def write_weights(folder: Path) -> Path:
    import torch

    generator = torch.Generator().manual_seed(9)
    weights = torch.randn(12, 1024, 1024, generator=generator) * 0.03
    path = folder / "weights.bin"
    weights.numpy().tofile(path)
    path.chmod(0o644)
    return path


@contextmanager
def script(*words: str, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*prefix, sys.executable, *words], env=clean_environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def said(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == f"{words}\n", f"{line!r} instead of {words!r}, exit {process.poll()}"


def pressed(mechanism: str, folder: Path, prefix: tuple[str, ...], *pressure: str,
            inside: tuple[str, ...] = ()) -> dict[str, int] | None:  # fmt: skip
    """What was done to a program meanwhile, which came through it; None where the kernel killed the doer."""
    output, weights = folder / "report.json", write_weights(folder)
    args = mechanism_options(mechanism)
    with script(str(SUPPORT / "pressed.py"), str(output), str(weights), *args, prefix=prefix) as program:
        said(program, "under a budget")
        words = [word.format(pid=program.pid, file=weights) for word in pressure]
        with script(str(SUPPORT / "pressure.py"), *words, prefix=inside) as other:
            said(program, "done")
            done, _ = other.communicate("stop\n", timeout=300)
            assert other.returncode in (0, -signal.SIGKILL)
        program.communicate("end\n", timeout=300)
        assert program.returncode == 0
    report: dict[str, Any] = json.loads(output.read_text())
    stats = report["stats"]
    assert stats["mechanism"].startswith(mechanism)
    assert stats["resident_peak"] <= stats["budget"]
    assert stats["evictions"] > 0 and stats["read_bytes"] > 0
    assert report["plain"] and report["ours"] == report["plain"]
    if other.returncode != 0:
        return None
    pressure_report: dict[str, int] = json.loads(done)
    print(pressure_report)
    assert pressure_report["rounds"] >= 2
    return pressure_report


@pytest.mark.cgroup
@pytest.mark.parametrize("mechanism", mechanisms())
def test_another_process_eats_the_memory_of_the_cgroup(mechanism: str, folder: Path) -> None:
    try:
        with memory_cgroup(LIMIT) as group:
            words = ("eat", str(group.folder), str(LIMIT), "{file}")
            eaten = pressed(mechanism, folder, group.prefix, *words, inside=group.prefix)
            if eaten is None:  # there was too little for both, and the kernel chose the eater, as it should
                assert group.killed() == 1
            else:
                assert eaten["most"] >= LIMIT - 16 * MIB, "there was no pressure"
                assert group.killed() == 0
    except SwapUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.cgroup
@pytest.mark.parametrize("mechanism", mechanisms())
def test_the_kernel_swaps_our_pages_out(mechanism: str, folder: Path) -> None:
    try:
        with kernel_swap(default_spill_dir(), NEEDED, 4 * NEEDED) as prefix:
            done = pressed(mechanism, folder, prefix, "page-out", "{pid}")
            assert done is not None and done["swapped"] >= 4 * MIB, "nothing was swapped out"
    except SwapUnavailable as reason:
        pytest.skip(str(reason))
