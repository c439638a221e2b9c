"""Watches another process from outside: how many bytes of tensors the kernel says it holds.

    python sampler.py OUTPUT.json PID

Knows nothing of outsize but how its memory looks in /proc/PID/smaps: the arena, one reservation of a
power of two bytes, and the page mover's staging area. No counter of outsize is read. Pages move about
while smaps is read, and one that moved could be counted twice, so the process is stopped for as
long as each reading takes. Ends when the process does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 0.03  # seconds between readings, at least; and three times what the last one took
STOPPING = 2.0  # seconds; a thread that waits for a slow disk stops after that
CHUNK = 2 << 20
ARENA_LEAST = 1 << 33  # no tensor of these tests is as large, nor does outsize reserve less


@dataclass
class Mapping:
    start: int
    end: int
    resident: int
    anonymous: bool
    flags: frozenset[str]

    @property
    def size(self) -> int:
        return self.end - self.start


MAPPING = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ *(\S*).*?^Rss: +(\d+) kB.*?^VmFlags: ([^\n]*)",
    re.MULTILINE | re.DOTALL,
)


def parse(smaps: bytes) -> list[Mapping]:
    return [
        Mapping(int(start, 16), int(end, 16), int(resident) << 10, not name,
                frozenset(flags.decode().split()))
        for start, end, name, resident, flags in MAPPING.findall(smaps)
    ]  # fmt: skip


def arena_of(mappings: list[Mapping]) -> range | None:
    """The addresses of the arena, however many mappings it is in by now.

    It is used from its low end, so the largest mapping is what has never been used, and ends with it;
    and its whole size is the next power of two.
    """
    rest = max((m for m in mappings if m.anonymous), key=lambda m: m.size, default=None)
    if rest is None or rest.size < ARENA_LEAST or rest.end % CHUNK:
        return None
    start = rest.end - (1 << (rest.size - 1).bit_length())
    inside = [m for m in mappings if start <= m.start < rest.end]
    whole = sum(m.size for m in inside) == rest.end - start and all(m.anonymous for m in inside)
    return range(start, rest.end) if whole else None


def staging_bytes(mappings: list[Mapping]) -> int:
    """What userfaultfd's mover has prepared and not yet moved in: 8 MiB that may have huge pages
    and 2 MiB that may not, side by side, both kept from children."""
    for one, other in zip(mappings, mappings[1:], strict=False):
        beside = one.end == other.start and one.size == 4 * CHUNK and other.size == CHUNK
        if beside and {"hg", "dc"} <= one.flags and {"nh", "dc"} <= other.flags:
            return one.resident + other.resident
    return 0


def _states(pid: int) -> set[str]:
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found.add((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:  # it has just ended
            continue
    return found


def smaps_while_stopped(pid: int) -> bytes | None:
    """Read while no thread runs; None where one would not stop in time."""
    os.kill(pid, signal.SIGSTOP)
    try:
        late = time.monotonic() + STOPPING
        while not _states(pid) <= {"T"}:
            if time.monotonic() > late:
                return None
            time.sleep(0.0005)
        return Path(f"/proc/{pid}/smaps").read_bytes()
    finally:
        os.kill(pid, signal.SIGCONT)


def ended(pid: int) -> bool:
    try:
        return bool(_states(pid) & {"Z", "X"})
    except OSError:
        return True


def watch(pid: int) -> dict[str, float]:
    report = {"samples": 0, "unstopped": 0, "arena_peak": 0, "staging_peak": 0, "peak": 0,
              "arenas": 0, "stopped_seconds": 0.0, "seconds": 0.0}  # fmt: skip
    arenas: set[range] = set()
    began, took = time.monotonic(), 0.0
    while not ended(pid):
        time.sleep(max(INTERVAL, 3 * took))
        before = time.monotonic()
        try:
            smaps = smaps_while_stopped(pid)
        except OSError:  # it ended
            break
        took = time.monotonic() - before
        report["stopped_seconds"] += took
        if smaps is None:
            report["unstopped"] += 1
            continue
        mappings = parse(smaps)
        arena = arena_of(mappings)
        if arena is None:
            continue
        arenas.add(arena)
        resident = sum(m.resident for m in mappings if m.start in arena)
        staging = staging_bytes(mappings)
        report["samples"] += 1
        report["arena_peak"] = max(report["arena_peak"], resident)
        report["staging_peak"] = max(report["staging_peak"], staging)
        report["peak"] = max(report["peak"], resident + staging)
    report["arenas"] = len(arenas)
    report["seconds"] = time.monotonic() - began
    return report


if __name__ == "__main__":
    result = watch(int(sys.argv[2]))
    Path(sys.argv[1]).write_text(json.dumps(result))
