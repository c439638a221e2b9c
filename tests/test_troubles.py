"""Programs that get into trouble and go on (support/trouble_worker.py): errors in ops, hooks, functions and
optimizers; tracebacks, generators and cycles that hold tensors; forks in mid-step.

Each runs plain and under a budget in one process: the same bits, the same messages, and nothing of what
failed is left: neither bytes nor pins.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from support.launch import MIB, mechanism_options, mechanisms, run_json

PROGRAMS = [
    "errors_many_times_over", "generators_and_tracebacks_held_for_long", "garbage_in_cycles",
    "forks_in_mid_step", "forks_beside_a_thread",
]  # fmt: skip


@cache
def programs(mechanism: str) -> dict[str, Any]:
    args = mechanism_options(mechanism)
    return run_json("trouble_worker.py", *args, timeout=600)


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("name", PROGRAMS)
def test_goes_on_as_plain(name: str, mechanism: str) -> None:
    report = programs(mechanism)[name]
    assert "failed" not in report, report["failed"]
    assert report["plain"]
    different = [pair for pair in zip(report["plain"], report["entries"], strict=True) if pair[0] != pair[1]]
    assert different == []
    stats = report["stats"]
    assert stats["mechanism"].startswith(mechanism)
    assert stats["resident_peak"] <= stats["budget"]
    assert stats["evictions"] > 0 and stats["read_bytes"] > 0
    assert report["pinned"] == "", "something is still pinned"


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("name", PROGRAMS[:4])
def test_leaves_nothing_behind(name: str, mechanism: str) -> None:
    """The program looks at moments that are alike, but for the losses it keeps."""
    looks = programs(mechanism)[name]["looks"]
    assert len(looks) >= 2
    first, last = looks[0], looks[-1]
    print(first, last, sep="\n")
    assert last["evictions"] > first["evictions"]
    assert last["tensor_bytes"] - first["tensor_bytes"] <= 64 * 64
    assert last["small_held"] <= first["small_held"] + 2 * MIB
    assert last["pinned"] == 0
    assert last["spill_file"] <= first["spill_file"] + 8 * MIB
    # Address space between tensors and a pool; by pieces it comes and goes.
    assert last["arena_bytes"] <= first["arena_bytes"] + 24 * MIB
