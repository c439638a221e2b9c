"""The examples: runnable without outsize, the same numbers every time, the same numbers with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Sizes at which a budget of a few chunks is well below what the example holds at its peak.
EXAMPLES = {
    "gpt_bytes": ["--layers", "3", "--width", "192", "--seq", "128", "--batch", "8"],
    "mlp_stream": ["--layers", "6", "--width", "768"],
    "moe": ["--layers", "3", "--experts", "6", "--width", "192"],
    "tree_lstm": ["--hidden", "96"],
    "early_exit": ["--stages", "6", "--width", "192", "--branches", "4"],
    "varlen_encoder": ["--layers", "3", "--width", "192"],
    "unrolled_gan": ["--width", "384", "--depth", "3"],
    "evoformer": ["--blocks", "3", "--msa-width", "32", "--pair-width", "16", "--longest", "48", "--deepest", "12"],
}
BUDGET = {
    "gpt_bytes": "24MiB", "mlp_stream": "16MiB", "moe": "12MiB", "tree_lstm": "32MiB",
    "early_exit": "12MiB", "varlen_encoder": "12MiB", "unrolled_gan": "12MiB", "evoformer": "12MiB",
}  # fmt: skip


def run(root: Path, name: str, *args: str, under: tuple[str, ...] = ()) -> dict[str, Any]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OUTSIZE")}
    done = subprocess.run(
        [sys.executable, *under, str(root / "examples" / f"{name}.py"), *args],
        env=clean, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *steps, last = done.stdout.splitlines()
    result = json.loads(last)
    lines = [re.fullmatch(r"step (\d+) loss (\S+) time \d+\.\d{3} s", line) for line in steps]
    assert all(lines), done.stdout
    assert [int(line[1]) for line in lines] == list(range(1, len(lines) + 1))
    assert [line[2] for line in lines] == result["losses"]
    assert len(result["step_seconds"]) == len(result["losses"])
    assert done.stderr == "" or under, "an example must not warn"
    return result


@pytest.mark.parametrize("name", EXAMPLES)
def test_tiny_runs_repeat_themselves(root: Path, name: str) -> None:
    first = run(root, name, "--tiny", "--digest")
    assert first["example"] == name and len(first["losses"]) == 4
    again = run(root, name, "--tiny", "--digest")
    assert again["losses"] == first["losses"]
    assert again["weights_sha256"] == first["weights_sha256"]
    other = run(root, name, "--tiny", "--digest", "--seed", "1", "--steps", "3")
    assert other["losses"] != first["losses"][:3] and len(other["losses"]) == 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_bits_under_a_budget(root: Path, name: str, tmp_path: Path) -> None:
    options = ["--tiny", "--digest", *EXAMPLES[name]]
    plain = run(root, name, *options)
    report = tmp_path / "report.json"
    under = ("-m", "outsize", "run", "--budget", BUDGET[name], "--json", str(report))
    ours = run(root, name, *options, under=under)
    assert ours["losses"] == plain["losses"]
    assert ours["weights_sha256"] == plain["weights_sha256"]
    stats = json.loads(report.read_text())["stats"]
    assert stats["tensor_bytes_peak"] > stats["budget"] >= stats["resident_peak"]
    assert stats["write_bytes"] > 0 and stats["steps"] == 4


@pytest.mark.parametrize("optimizer", ["foreach", "fused"])
def test_gpt_with_multi_tensor_optimizers(root: Path, optimizer: str) -> None:
    options = ["--tiny", "--digest", *EXAMPLES["gpt_bytes"], "--optimizer-impl", optimizer]
    plain = run(root, "gpt_bytes", *options)
    ours = run(root, "gpt_bytes", *options, under=("-m", "outsize", "run", "--budget", "48MiB"))
    assert (ours["losses"], ours["weights_sha256"]) == (plain["losses"], plain["weights_sha256"])


def test_learned_routing_and_other_optimizers_run(root: Path) -> None:
    assert len(run(root, "moe", "--tiny", "--routing", "learned")["losses"]) == 4
    for routing in ("balanced", "learned"):
        assert len(run(root, "moe", "--tiny", "--routing", routing, "--route-by", "token")["losses"]) == 4
    assert len(run(root, "early_exit", "--tiny", "--exits", "learned", "--sure", "0.005")["losses"]) == 4
    assert run(root, "early_exit", "--tiny", "--hint")["losses"] == run(root, "early_exit", "--tiny")["losses"]
    assert len(run(root, "unrolled_gan", "--tiny", "--unroll", "learned")["losses"]) == 4
    assert len(run(root, "evoformer", "--tiny", "--recycles", "learned")["losses"]) == 4
    assert len(run(root, "tree_lstm", "--tiny", "--optimizer", "sgd")["losses"]) == 4
    assert len(run(root, "gpt_bytes", "--tiny", "--dropout", "0")["losses"]) == 4


@pytest.mark.slow
def test_the_demo_ends_with_equal_losses(run_outsize, tmp_path: Path) -> None:
    done = run_outsize("demo", "--tiny", "--steps", "2", "--json", "demo.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 4 losses equal plain PyTorch's to the last bit." in done.stdout
    outcome = json.loads((tmp_path / "demo.json").read_text())
    assert [run["losses_equal"] for run in outcome["runs"]] == [None, True, True]


@pytest.mark.slow
def test_a_quick_bench_of_an_example(run_outsize, tmp_path: Path) -> None:
    done = run_outsize("bench", "mlp_stream", "--quick", "--ample", "--json", "b.json")
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads((tmp_path / "b.json").read_text())
    labels = [run["label"] for run in outcome["runs"]]
    assert labels == ["plain", "outsize 40%", "outsize 20%", "outsize ample"]
    assert all(run["losses_equal"] is not False for run in outcome["runs"])
    assert outcome["runs"][3]["moved_up_per_step"] == 0  # with an ample budget nothing moves
