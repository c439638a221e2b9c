"""How much memory is there for a benchmark's processes, without loading torch to ask."""

from __future__ import annotations

from pathlib import Path

from outsize.units import MemoryLimits

_UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63


def limits() -> MemoryLimits:
    """RAM and the tightest memory cgroup of this process (v1 or v2)."""
    fields = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name] = int(value.split()[0]) * 1024
    total, available = fields["MemTotal"], fields["MemAvailable"]
    tightest, used = 0, 0
    for limit_file, usage_file in _cgroup_files():
        try:
            limit, usage = int(limit_file.read_text()), int(usage_file.read_text())
            usage -= _cached(usage_file.parent / "memory.stat")
        except (OSError, ValueError):  # "max", or no such file
            continue
        if limit < _UNLIMITED and (not tightest or limit - usage < tightest - used):
            tightest, used = limit, usage
    return MemoryLimits(total, available, tightest, used)


def _cached(stat_file: Path) -> int:
    """Bytes of files read earlier, which go when memory is wanted."""
    fields = dict(line.split() for line in stat_file.read_text().splitlines())
    return int(fields.get("total_inactive_file", fields.get("inactive_file", 0)))


def _cgroup_files() -> list[tuple[Path, Path]]:
    """Limit and usage files of our cgroup and all above it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        elif number == "0":
            root, names = Path("/sys/fs/cgroup"), ("memory.max", "memory.current")
        else:
            continue
        here = root / path.lstrip("/")
        while here == root or root in here.parents:
            files.append((here / names[0], here / names[1]))
            here = here.parent
    return files
