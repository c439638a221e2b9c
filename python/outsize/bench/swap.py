"""The kernel's own way to run a program larger than memory: a memory cgroup and a swap file.

Needs root. Everything made here (swap file, swapon, cgroup) is undone when the `with` block ends,
by whatever way: return, exception, Ctrl-C, SIGTERM. After `kill -9` of the benchmark,
`swapoff DIR/outsize-bench-*.swap` and `rm` remain to be typed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from outsize.units import GIB, format_bytes

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


class SwapUnavailable(RuntimeError):
    """The comparison with the kernel's swap cannot be made here; the message says why."""


@contextlib.contextmanager
def kernel_swap(directory: str, swap_bytes: int, limit: int) -> Iterator[tuple[str, ...]]:
    """A command prefix that puts a process under `limit` bytes of RAM with `swap_bytes` of swap."""
    if os.geteuid() != 0:
        raise SwapUnavailable("a memory cgroup and swapon need root")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_die_in_order())
        _make_swap(stack, directory, swap_bytes)
        yield enter_cgroup(make_cgroup(stack, limit))


@contextlib.contextmanager
def _die_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP become exceptions while there is something to undo."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {
        number: signal.signal(number, terminate) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _make_swap(stack: contextlib.ExitStack, directory: str, swap_bytes: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < swap_bytes + GIB:
        raise SwapUnavailable(
            f"a swap file of {format_bytes(swap_bytes)} does not fit in {directory}"
            f" ({format_bytes(free)} free)"
        )
    path = Path(directory) / f"outsize-bench-{os.getpid()}.swap"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    stack.callback(path.unlink, missing_ok=True)
    try:
        os.posix_fallocate(descriptor, 0, swap_bytes)
    finally:
        os.close(descriptor)
    _command("mkswap", str(path))
    stack.callback(subprocess.run, ["swapoff", str(path)], capture_output=True, check=False)
    _command("swapon", str(path))


def _command(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SwapUnavailable(f"{words[0]} is not installed") from None
    if done.returncode:
        raise SwapUnavailable(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")


def enter_cgroup(group: Path) -> tuple[str, ...]:
    """A command prefix: what follows runs in the cgroup, in one process."""
    return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group))


def make_cgroup(stack: contextlib.ExitStack, limit: int) -> Path:
    """A memory cgroup (v1 or v2) of `limit` bytes, removed when `stack` ends."""
    name = f"outsize-bench-{os.getpid()}"
    try:
        if (_V1 / "memory.limit_in_bytes").exists():
            group = _V1 / name
            group.mkdir()
            stack.callback(_remove_cgroup, group)
            (group / "memory.limit_in_bytes").write_text(str(limit))
        elif "memory" in (_V2 / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):  # it may be on already, or not ours to switch
                (_V2 / "cgroup.subtree_control").write_text("+memory")
            group = _V2 / name
            group.mkdir()
            stack.callback(_remove_cgroup, group)
            (group / "memory.max").write_text(str(limit))
        else:
            raise SwapUnavailable("there is no memory cgroup controller (v1 or v2) here")
    except OSError as error:
        raise SwapUnavailable(f"a memory cgroup could not be made: {error}") from error
    return group


def _remove_cgroup(group: Path) -> None:
    """The kernel refuses while a process that has just died is still being taken down."""
    for _ in range(50):
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
