"""`outsize doctor`: what this machine offers, measured, and what that means for outsize."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from outsize import compiled, machine
from outsize.errors import Unavailable
from outsize.moves import held_up
from outsize.progress import progress
from outsize.units import MIB, MemoryLimits, format_bytes, parse_budget, parse_size


PAGE = 4096
SMOKE = 64 * MIB  # a sample of no more is not for figures
MOVES_TIMEOUT_S = 120  # on a slow disk; seconds are usual


def default_spill_dir() -> str:
    """Where the engine spills when nobody says: $TMPDIR, else /var/tmp."""
    return os.environ.get("TMPDIR") or "/var/tmp"


def examine(spill_dir: str, sample: str | int) -> dict[str, Any]:
    """Everything as plain data. Findings that failed carry an "error" instead of figures."""
    core = compiled.load()
    directory = spill_dir or default_spill_dir()
    limits = core.memory_limits()
    bytes_ = parse_size(sample)
    before = run_moves(directory, bytes_, "held-up") if bytes_ > SMOKE else {}
    try:
        disk: dict[str, Any] = dict(core.measure_disk(directory, bytes_))
    except RuntimeError as error:
        disk = {"error": str(error)}
    return {
        "machine": machine.describe(),
        "memory": dict(limits),
        "auto_budget": _auto_budget(limits),
        "disk": {
            "directory": directory,
            "file_system": file_system(directory),
            **free_space(directory),
            **disk,
        },
        "faults": dict(core.fault_support()),
        "moves": measure_moves(directory, bytes_, before) if "error" not in disk else {},
        "torch": {"built_for": core.built_for_torch(), "supported": True},
    }


def measure_moves(directory: str, sample: int, before: dict[str, Any]) -> dict[str, Any]:
    """What moving takes the processors, in nanoseconds, or an "error". `before`: what run_moves() found ahead of the
    disk's measurement; how much a program is held up changes within a minute, so it is measured twice, and both count alike."""
    found = run_moves(directory, sample)
    measured = [held_up(delays) for delays in (before.get("delays"), found.pop("delays", None)) if delays]
    if measured:
        found.pop("held_up_error", "")
        found["held_up_mib_ns"] = max(sum(measured) // len(measured), 0)
    return found


def run_moves(directory: str, sample: int, *only: str) -> dict[str, Any]:
    """What `outsize.moves` says."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "outsize.moves", directory, str(sample), *only],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=MOVES_TIMEOUT_S,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"error": f"the measurement came to no end: {error}"}
    return found


def _auto_budget(limits: dict[str, int]) -> int:
    try:
        return parse_budget("auto").resolve(MemoryLimits(**limits))
    except ValueError:
        return 0


def free_space(directory: str) -> dict[str, int]:
    """Bytes free, for us, and in all on the file system a directory lives on; empty: unknown."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return {}
    return {"free": usage.free, "size": usage.total}


def file_system(directory: str) -> str:
    """The type of the file system a directory lives on, from the mount table."""
    path = os.path.realpath(directory)
    if not os.path.exists(path):
        return "missing"
    best, kind = "", "unknown"
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return kind
    for line in lines:
        fields = line.split()
        point = fields[1].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    limits = MemoryLimits(**found["memory"])
    disk, faults = found["disk"], found["faults"]
    auto = found["auto_budget"]
    result = [
        ("machine", machine.one_line(found["machine"])),
        ("memory", machine.describe_memory(limits)),
        (
            "--budget auto",
            f"{format_bytes(auto)} at this moment" if auto else "too little memory is free",
        ),
        ("spill directory", f"{disk['directory']} ({disk['file_system']}{_free(disk)})"),
    ]
    if "error" in disk:
        result.append(("disk", f"NOT USABLE: {disk['error']}"))
    else:
        result.append(("disk alone", f"read {_rate(disk['read'])}, write {_rate(disk['write'])}"))
        result.append(
            (
                "disk mixed",
                f"read {_rate(disk['mixed_read'])} while writing {_rate(disk['mixed_write'])}"
                f" (over {format_bytes(disk['sample'])} each, on a machine as busy as now)",
            )
        )
        result.append(
            ("one transfer", f"read {_rate(disk['single_read'])}, write {_rate(disk['single_write'])}, with no other")
        )
    result.append(("page faults", _mechanism(faults)))
    result += _moves(found["moves"])
    result.append(("torch", f"{found['machine'].get('torch', '?')}, supported"))
    return result


def _moves(moves: dict[str, Any]) -> list[tuple[str, str]]:
    """What they take beside the disk's time; nothing where there is no disk."""
    if "error" in moves:
        return [("processor time", f"not measured: {moves['error']}")]
    result = []
    if moves.get("page_ns"):
        per_mib = moves["page_ns"] * MIB // PAGE
        result.append(("page moves", f"{per_mib / 1000:.0f} us a MiB of small pages; of huge ones next to nothing"))
    if moves.get("command_ns"):
        result.append(
            (
                "processor time",
                f"{moves['command_ns'] / 1000:.0f} us of the program a read, write or eviction; of other threads"
                f" {moves['transfer_ns'] / 1000:.0f} us a transfer",
            )
        )
    if "held_up_mib_ns" in moves:
        per_mib = moves["held_up_mib_ns"] / 1000
        result.append(("held up", f"a program on all cores, {per_mib:.0f} us for each MiB that is read or written meanwhile"))
    elif "held_up_error" in moves:
        result.append(("held up", f"not measured: {moves['held_up_error']}"))
    return result


def _free(disk: dict[str, Any]) -> str:
    if "free" not in disk:
        return ""
    return f", {format_bytes(disk['free'])} free of {format_bytes(disk['size'])}"


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.2f} GB/s"


def _mechanism(faults: dict[str, Any]) -> str:
    if not faults["userfaultfd"]:
        return f"signals (userfaultfd: {faults['reason'] or 'not available'})"
    abilities = ["move" if faults["move"] else "copy (no UFFDIO_MOVE: Linux 6.8 or later has it)"]
    abilities.append("write-protect" if faults["write_protect"] else "no write-protect")
    abilities.append("kernel faults" if faults["kernel_faults"] else "user-mode faults only")
    reason = f" ({faults['reason']})" if faults["reason"] else ""
    return "userfaultfd: " + ", ".join(abilities) + reason


def main(spill_dir: str, sample: str, as_json: bool) -> int:
    """Prints the findings; exit code 1 when outsize cannot work here."""
    try:
        with progress(f"Measuring the disk under {spill_dir or default_spill_dir()}"):
            found = examine(spill_dir, sample)
    except Unavailable as error:
        print(f"outsize: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in lines(found):
            print(f"{name:<16} {value}")
    return 1 if "error" in found["disk"] else 0
