"""Spilled tensors under NumPy, memoryview, ctypes, files and fork: the bytes are always right.

Each case is a fresh process (support/raw_worker.py, support/fork_cases.py), on both mechanisms; the
signal path as an ordinary user in whose process userfaultfd and io_uring are forbidden. Before a
case looks at a tensor, the kernel has confirmed that no page of it is in RAM.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.launch import mechanism_options, mechanisms, run_json

CASES = [
    "sockets", "born_before", "messages", "libraries_loaded_meanwhile",
    "views_read", "views_of_views", "writes_survive", "views_written_for_long",
    "writes_while_it_comes_and_goes", "files", "child_reads", "child_writes", "parent_goes_on",
    "multiprocessing_reads",
]  # fmt: skip


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("case", CASES)
def test_right_bytes(case: str, mechanism: str, tmp_path: Path) -> None:
    args = mechanism_options(mechanism)
    os.chmod(tmp_path, 0o777)  # the case may run as an ordinary user
    stats = run_json("raw_worker.py", case, str(tmp_path), *args)
    assert stats["mechanism"].startswith(mechanism)
    assert stats["evictions"] > 0 and stats["read_bytes"] > 0
    assert stats["resident_peak"] <= stats["budget"]
