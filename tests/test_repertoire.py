"""What people do with PyTorch gives the same bits at a half and at a quarter of plain's peak.

The programs are in support/repertoire, a chapter a file. With userfaultfd all of them run, a process
for each chapter; on the signal path a cross-section of them, in one process.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from support.launch import SUPPORT, mechanisms, run_script

sys.path.insert(0, str(SUPPORT))  # as in the workers: the programs import what lies beside them
from repertoire import CHAPTERS, programs  # noqa: E402

CHAPTER_OF = {name: chapter for chapter in CHAPTERS for name in programs(chapter)}
SIGNAL_TOO = (
    "adamw_fused", "averaged_weights", "errors_half_way", "checkpoint_reentrant",
    "saved_tensor_hooks", "custom_functions", "functional_transforms", "sparse_gradients",
    "nested_jagged", "views_written", "set_and_resize", "saved_and_loaded", "safe_tensors",
    "dlpack_and_numpy", "sent_to_a_child", "shared_memory", "raw_pointers", "data_loaders",
    "indexing", "out_arguments", "custom_operators", "compiled_c_functions",
    "compiled_cpp_operators", "profiled",
)  # fmt: skip


@functools.cache
def report(chapters: tuple[str, ...], mechanism: str) -> tuple[dict[str, Any], str]:
    """What the worker reported, and how it ended."""
    args = ["--jail", "--only", *SIGNAL_TOO] if mechanism == "signal" else ["--faults", mechanism]
    with tempfile.TemporaryDirectory(prefix="outsize-test-") as folder:
        os.chmod(folder, 0o777)  # the worker may become an ordinary user
        output = Path(folder) / "report.json"
        done = run_script("repertoire_worker.py", str(output), *chapters, *args, timeout=900,
                          check=False, TORCHINDUCTOR_CACHE_DIR=folder)
        runs = json.loads(output.read_text()) if output.exists() else {}
    return runs, f"exit code {done.returncode}\n{done.stderr[-2000:]}"


def check(name: str, program: dict[str, Any], mechanism: str) -> None:
    plain = program["plain"]
    assert plain, "a program that reports nothing proves nothing"
    assert set(program["runs"]) == {"50%", "25%"}
    for share, run in program["runs"].items():
        assert run["error"] == "", f"{name} at {share}:\n{run['error']}"
        assert len(run["entries"]) == len(plain), share
        differing = [a[0] for a, b in zip(plain, run["entries"], strict=True) if a != b]
        assert differing == [], f"{name} at {share}"
        stats = run["stats"]
        assert stats["mechanism"].startswith(mechanism)
        assert stats["resident_peak"] <= run["budget"], share
        assert stats["read_bytes"] > 0 and stats["write_bytes"] > 0, f"nothing moved at {share}"


CASES = [pytest.param(mechanism.values[0] if hasattr(mechanism, "values") else mechanism, name,
                      marks=getattr(mechanism, "marks", ()))
         for mechanism in mechanisms() for name in CHAPTER_OF
         if mechanism != "signal" or name in SIGNAL_TOO]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "name"), CASES)
def test_same_bits(mechanism: str, name: str) -> None:
    chapters = CHAPTERS if mechanism == "signal" else (CHAPTER_OF[name],)
    programs_run, end = report(chapters, mechanism)
    program = programs_run.get(name)
    assert program is not None, f"the process ended before it came to {name}: {end}"
    assert program["running"] == "", f"the process ended at {program['running']}: {end}"
    check(name, program, mechanism)
