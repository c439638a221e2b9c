"""Makes memory scarce for another process, from outside, until it is told to stop.

    python pressure.py eat CGROUP LIMIT FILE | page-out PID

`eat`: in a memory cgroup, takes what it leaves free, gives half back, reads a file through the page cache,
and so on; the kernel reclaims what it can from everybody in the group. `page-out`: asks the kernel to
reclaim every page of the other's arena, which goes to the swap. Both end with their standard input,
and print what they did as JSON.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import select
import sys
from pathlib import Path

MIB = 1 << 20
PIECE = 4 * MIB
LEFT = 6 * MIB  # more would be taken from whom it hurts
PIDFD_OPEN, PROCESS_MADVISE, MADV_PAGEOUT = 434, 440, 21
ARENA = 1 << 32  # nothing else is mapped that large


def told_to_stop(seconds: float) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def used(group: Path) -> int:
    for name in ("memory.current", "memory.usage_in_bytes"):
        if (group / name).exists():
            return int((group / name).read_text())
    raise AssertionError(f"{group} does not tell what it holds")


def eat(group: Path, limit: int, file: str) -> dict[str, int]:
    Path("/proc/self/oom_score_adj").write_text("1000")  # before anybody else
    held: list[mmap.mmap] = []
    rounds = most = 0
    while not told_to_stop(0.02):
        while used(group) < limit - LEFT - PIECE and len(held) < limit // PIECE:
            block = mmap.mmap(-1, PIECE)
            for page in range(0, PIECE, mmap.PAGESIZE):
                block[page] = 1
            held.append(block)
        most = max(most, used(group))
        with open(file, "rb") as stream:
            while stream.read(PIECE):
                pass
        for block in held[: len(held) // 2]:
            block.close()
        del held[: len(held) // 2]
        rounds += 1
    return {"rounds": rounds, "most": most}


class Piece(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def arena_of(pid: int) -> list[Piece]:
    """Its parts: with protection they are many mappings."""
    maps, found = Path(f"/proc/{pid}/maps").read_text().splitlines(), []
    for line in maps:
        begin, end = (int(word, 16) for word in re.match(r"(\w+)-(\w+)", line).groups())  # type: ignore[union-attr]
        found.append((begin, end, line.split()[-1]))
    at = next(i for i, (begin, end, _) in enumerate(found) if end - begin >= ARENA)
    first = last = at
    while first > 0 and found[first - 1][1] == found[first][0]:
        first -= 1
    while last + 1 < len(found) and found[last][1] == found[last + 1][0]:
        last += 1
    return [Piece(b, min(e - b, MIB * 512)) for b, e, _ in found[first : last + 1]]


def page_out(pid: int) -> dict[str, int]:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(PIDFD_OPEN, pid, 0)
    rounds = refused = swapped = 0
    while not told_to_stop(0.3):  # what is swapped out has to come back meanwhile
        try:
            for piece in arena_of(pid):
                done = libc.syscall(PROCESS_MADVISE, descriptor, ctypes.byref(piece), ctypes.c_size_t(1),
                                    MADV_PAGEOUT, 0)
                refused += done < 0
            status = Path(f"/proc/{pid}/status").read_text()
        except (OSError, StopIteration):
            break
        swapped = max(swapped, int(re.search(r"VmSwap:\s+(\d+)", status)[1]) * 1024)  # type: ignore[index]
        rounds += 1
    return {"rounds": rounds, "refused": refused, "swapped": swapped}


def main() -> None:
    if sys.argv[1] == "eat":
        report = eat(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        report = page_out(int(sys.argv[2]))
    print(json.dumps(report), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
