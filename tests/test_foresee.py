"""Policy `oracle` live: told the trace of an earlier, identical run; and told another one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.launch import clean_environment
from support.recorded import outsize

# Sizes and budgets at which bytes have to move all the time.
RUNS = {
    "moe": ("12MiB", ["--layers", "3", "--experts", "6", "--width", "192", "--steps", "6"]),
    "tree_lstm": ("18MiB", ["--hidden", "96", "--steps", "4"]),
}


@pytest.fixture(scope="module", params=RUNS)
def recorded(request, root: Path, tmp_path_factory) -> tuple[Path, str, list[str]]:
    """A folder with run.trace and plain's last line in plain.json, the budget, and the script with its arguments."""
    folder = tmp_path_factory.mktemp(request.param)
    budget, options = RUNS[request.param]
    script = [str(root / "examples" / f"{request.param}.py"), "--tiny", "--digest", *options]
    done = outsize(folder, "record", "--budget", "1GiB", "--quiet", *script, "-o", "run.trace")
    (folder / "plain.json").write_text(done.stdout.splitlines()[-1])
    return folder, budget, script


def run(folder: Path, budget: str, script: list[str], *options: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What the example says at its end, the statistics, and what stands on standard error."""
    done = outsize(folder, "run", "--budget", budget, "--json", "run.json", *options, *script)
    return json.loads(done.stdout.splitlines()[-1]), json.loads((folder / "run.json").read_text())["stats"], done.stderr


def test_the_same_run_is_foreseen_and_replayed(recorded) -> None:
    folder, budget, script = recorded
    oracle = ("--policy", "oracle", "--foresee", "run.trace")
    said, stats, told = run(folder, budget, script, *oracle, "--decision-log", "run.log")
    plain = json.loads((folder / "plain.json").read_text())
    assert (said["losses"], said["weights_sha256"]) == (plain["losses"], plain["weights_sha256"])
    assert stats["foresee_known_ops"] > 0.98 * stats["foresee_ops"], told
    assert stats["prefetch_hit_bytes"] > 10 << 20
    assert not stats["foresee_given_up"]
    assert re.search(r"recorded run +(every one|\d+) of [\d,]+ ops", told)
    assert re.search(r" run [0-9a-f]{16}\n", (folder / "run.log").read_text()[:200])
    assert json.loads(outsize(folder, "replay", "run.log", "--foresee", "run.trace", "--json").stdout)["same"]
    refused = outsize(folder, "replay", "run.log", code=2).stderr
    assert "the run that wrote the log foresaw from the trace" in refused


def test_it_demands_less_than_who_learns_while_it_runs(recorded) -> None:
    folder, budget, script = recorded
    _, oracle, _ = run(folder, budget, script, "--policy", "oracle", "--foresee", "run.trace")
    _, lookahead, _ = run(folder, budget, script)
    assert oracle["prefetch_hit_share"] > lookahead["prefetch_hit_share"]
    assert oracle["demand_bytes"] < lookahead["demand_bytes"] / 2


def test_another_run_is_told_and_computes_the_same(recorded) -> None:
    folder, budget, script = recorded
    other = [*script, "--seed", "5"]
    said, stats, told = run(folder, budget, other, "--policy", "oracle", "--foresee", "run.trace")
    plain, _, _ = run(folder, "1GiB", other)
    assert (said["losses"], said["weights_sha256"]) == (plain["losses"], plain["weights_sha256"])
    assert stats["foresee_known_ops"] < stats["foresee_ops"]
    assert re.search(r"recorded run +[\d,]+ of [\d,]+ ops did not come as recorded", told)


PROGRAM = """\
import sys, torch, outsize

def train(width):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(8)))
    for _ in range(3):
        model(torch.ones(8, width)).square().mean().backward()
        outsize.step()

with outsize.budget("1GiB", record="run.trace"):
    train(512)
for width in (512, 640):
    with outsize.budget("16MiB", "oracle", foresee="run.trace"):
        train(width)
    print(width, outsize.stats().foresee_known_ops / outsize.stats().foresee_ops)
"""


def test_in_python_a_warning_tells_of_another_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=clean_environment(), text=True,
                          capture_output=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (_, same), (_, other) = (line.split() for line in done.stdout.splitlines())
    assert float(same) > 0.98 and float(other) < 0.2
    told = [line for line in done.stderr.splitlines() if line.startswith("policy oracle, told run.trace: ")]
    assert told[-1].endswith(" did not come as recorded") and len(told) <= 2


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "text.trace").write_text("no trace of anything")
    for options, message in {
        ("--policy", "oracle"): "policy oracle foresees from the trace of an earlier, identical run [policy]",
        ("--foresee", "none.trace"): "none.trace: the trace cannot be read: No such file or directory",
        ("--policy", "oracle", "--foresee", "text.trace"): "text.trace: the file is no trace of outsize",
    }.items():
        assert message in outsize(tmp_path, "run", "--budget", "64MiB", *options, "train.py", code=2).stderr


def test_other_policies_have_no_use_for_it(recorded) -> None:
    folder, budget, script = recorded
    done = outsize(folder, "run", "--budget", budget, "--foresee", "run.trace", *script, code=2)
    assert "policy lookahead has no use for a recorded run" in done.stderr
