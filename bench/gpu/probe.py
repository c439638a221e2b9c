"""What a GPU gives outsize: prints one table a section. Run by hand on a machine with an NVIDIA card:

    python bench/gpu/probe.py [SECTION ...] [--json FILE] [--library FILE] [--list]

Every section runs in a process of its own, as some lose the device's context on purpose. Needs PyTorch with
CUDA, its compiler's headers, Triton and transformers. Only plain allocations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "PROBE-RESULT "
READERS = [f"{reader}, {guard}, {key}" for reader in ("triton", "compiled", "compiled with a product", "compiled with the weight away")
           for guard, key in (("guard", "no key"), ("no guard", "no key"), ("guard", "key"))]
# name -> (function, [arguments of each run]); runs of `fragmentation` and `raw_reader` go side by side
SECTIONS: dict = {
    "equality": ("swap", "equality", [{}]),
    "threads": ("hooks", "threads", [{}]),
    "callback": ("hooks", "callback", [{}]),
    "out_of_memory": ("hooks", "out_of_memory", [{}]),
    "half_way": ("hooks", "half_way", [{}]),
    "bandwidth": ("transfers", "bandwidth", [{"slab": False}, {"slab": True}]),
    "registration": ("transfers", "registration", [{}]),
    "host_time": ("swap", "host_time", [{}]),
    "overlap": ("swap", "overlap", [{}]),
    "virtual_memory": ("virtual_memory", "costs", [{}]),
    "reference": ("reference", "step_times", [{}]),
    "raw_reader": ("hooks", "raw_reader", [{"case": case} for case in READERS]),
    "fragmentation": ("swap", "fragmentation", [
        {"chance": chance, "way": way, "expandable": expandable}
        for expandable in (False, True)
        for chance, way in ((0, "hold, compute's pool"), (50, "hold, compute's pool"),
                            (50, "record, compute's pool"), (50, "record, copy's pool"))] + [
        {"chance": 0, "way": "hold, compute's pool", "expandable": expandable, "limit": limit}
        for expandable in (False, True) for limit in (1700, 1300)]),
}
SIDE_BY_SIDE = {"raw_reader", "fragmentation"}


def _child(section: str, arguments: dict, library: str) -> None:
    import importlib

    from library import load

    load(library)
    module, function, _ = SECTIONS[section]
    result = getattr(importlib.import_module(module), function)(**arguments)
    print(MARK + json.dumps(result), flush=True)


def _start(section: str, arguments: dict, library: str) -> subprocess.Popen:
    arguments = dict(arguments)
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    if "expandable" in arguments:
        environment["PYTORCH_ALLOC_CONF"] = f"expandable_segments:{arguments.pop('expandable')}"
    return subprocess.Popen(
        [sys.executable, str(HERE / "probe.py"), "--child", section, json.dumps(arguments), "--library", library],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _finish(process: subprocess.Popen, seconds: float) -> dict:
    try:
        out, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        error += f"\nno end within {seconds:.0f} s"
    for line in out.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK):])
    return {"rows": [], "code": process.returncode, "error": f"{' '.join(process.args[3:5])} ended with {process.returncode}: {error[-1500:]}"}


def _table(rows: list[dict]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names] + [[str(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in cells)


def run(section: str, library: str, seconds: float) -> dict:
    runs = SECTIONS[section][2]
    begin = time.monotonic()
    at_once = len(runs) if section in SIDE_BY_SIDE else 1
    results: list[dict] = []
    for first in range(0, len(runs), at_once):
        started = [_start(section, arguments, library) for arguments in runs[first:first + at_once]]
        results += [_finish(process, seconds) for process in started]
    for arguments, result in zip(runs, results, strict=True):
        if section == "raw_reader" and not result["rows"]:  # an answer, too
            result["rows"] = [{"reader": arguments["case"], "evicted": f"the process ended with {result['code']}"}]
            del result["error"]
    merged = {key: value for result in results for key, value in result.items() if key not in ("rows", "error", "code")}
    merged["rows"] = [row for result in results for row in result["rows"]]
    merged["errors"] = [result["error"] for result in results if "error" in result]
    merged["seconds"] = round(time.monotonic() - begin, 1)
    return merged


def _machine() -> dict:
    import torch

    properties = torch.cuda.get_device_properties(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,pcie.link.gen.current,pcie.link.width.current",
                             "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return {"device": properties.name, "MiB": properties.total_memory >> 20, "torch": torch.__version__,
            "driver, PCIe generation and width": driver.stdout.strip(), "cores": os.cpu_count()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what a GPU gives outsize.")
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all of them by default")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--library", help="a library built before, by --build")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build the library into this folder, and end")
    parser.add_argument("--seconds", type=float, default=120, help="that one process may take")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child[0], json.loads(options.child[1]), options.library)
        return
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section is called {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    from library import build

    if options.build:
        print(build(options.build))
        return
    import torch

    if not torch.cuda.is_available():
        parser.exit(2, "This PyTorch sees no NVIDIA card. --build works without one.\n")
    library = options.library or str(build(Path(tempfile.gettempdir()) / "outsize_probe_build"))
    figures = {"machine": _machine()}
    print(figures["machine"], flush=True)
    for section in options.sections or SECTIONS:
        result = figures[section] = run(section, library, options.seconds)
        print(f"\n{section} ({result['seconds']} s)")
        print(_table(result["rows"]))
        for key, value in result.items():
            if key not in ("rows", "seconds", "errors"):
                print(f"{key}: {value}")
        for error in result["errors"]:
            print(f"FAILED: {error}")
        sys.stdout.flush()
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
