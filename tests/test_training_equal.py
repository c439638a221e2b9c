"""Training under a budget gives the same losses, gradients, weights and optimizer state, bit for bit.

Each case is one program in one fresh process: plain; with an ample budget, which names the smallest
one; at 50 % and 25 % of plain's peak and at that smallest budget, under each policy; and
1 MiB below it, where it must be refused. The signal path is tested as an ordinary user in whose
process userfaultfd and io_uring are forbidden.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.launch import MIB, mechanisms, run_worker

PROGRAMS = [
    "mlp", "conv", "lstm", "transformer_forloop", "transformer_foreach", "transformer_fused",
    "tree_lstm", "mixture_of_experts", "loader_workers", "many_small", "accumulated_and_clipped",
    "checkpointed", "double_backward", "views", "sparse_embedding",
]  # fmt: skip
# What outsize may ask for beyond the largest single op.
ABOVE_LARGEST_OP = 64 * MIB


def differences(plain: list[Any], ours: list[Any]) -> list[str]:
    if len(plain) != len(ours):
        return [f"{len(ours)} values where plain PyTorch has {len(plain)}"]
    return [a[0] for a, b in zip(plain, ours, strict=True) if a != b]


def check(report: dict[str, Any], mechanism: str) -> None:
    """Every run of one program against plain, and the budget in each."""
    runs = dict(report["runs"])
    refused = runs.pop("too small")
    assert report["plain"], "a program that reports nothing proves nothing"
    for name, run in runs.items():
        stats = run["stats"]
        assert run["refused"] == "", name
        assert differences(report["plain"], run["entries"]) == [], name
        assert stats["mechanism"].startswith(mechanism), name
        assert stats["resident_peak"] <= run["budget"], name
        if name == "ample":
            assert stats["evictions"] == stats["write_bytes"] == stats["read_bytes"] == 0, name
        else:
            assert stats["evictions"] > 0 and stats["read_bytes"] > 0, name
    assert "BudgetError" in refused["refused"] or "OutOfMemoryError" in refused["refused"]
    assert "needs" in refused["refused"] and "the budget is" in refused["refused"]
    assert refused["stats"]["min_budget_op"] in refused["refused"]


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits(name: str, mechanism: str) -> None:
    # Policies decide alike with one mechanism and with the other: all of them run on one.
    policies = ["lookahead", "ondemand", "deepum"] if mechanism == "userfaultfd" else ["lookahead"]
    report = run_worker(name, mechanism, policies=policies)
    check(report, mechanism)
    runs = report["runs"]
    for run in ("lookahead 50%", *(f"{policy} 25%" for policy in policies)):
        assert run in runs, f"{name} cannot run at {run}: its smallest budget is larger"
    smallest = runs["ample"]["stats"]["min_budget"]
    assert smallest - report["largest_op"] <= ABOVE_LARGEST_OP


@pytest.mark.parametrize("mechanism", mechanisms())
def test_two_threads_whose_ops_need_most_of_the_budget(mechanism: str) -> None:
    """An op of either thread needs 18 MiB, 60 % of the budget: they take turns, and both end."""
    report = run_worker("two_threads", mechanism, budgets=[str(30 * MIB)])
    check(report, mechanism)
    assert {"lookahead 31457280", "ondemand 31457280", "deepum 31457280"} <= set(report["runs"])
    assert report["runs"]["ample"]["stats"]["min_budget"] >= 18 * MIB
