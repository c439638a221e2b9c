"""Decision logs of live runs: a fresh engine decides the same byte for byte, the checker accepts it, and what is
not so is found (docs/INVARIANTS.md, 10)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

# Sizes and budgets at which each run moves extents at least 1 000 times.
RUNS = {
    "gpt_bytes": ("20MiB,24MiB", ["--layers", "3", "--width", "192", "--seq", "128", "--batch", "8", "--steps", "4"]),
    "moe": ("10MiB,12MiB", ["--layers", "3", "--experts", "6", "--width", "192", "--steps", "5"]),
    "tree_lstm": ("14MiB,18MiB", ["--hidden", "96", "--steps", "3"]),
}
POLICIES = ["lookahead", "ondemand", "deepum", "weights", "pilot", "auto"]


@pytest.fixture(scope="module", params=RUNS)
def runs(request, root: Path, tmp_path_factory) -> list[dict]:
    """Plain's first, then one for each policy and budget."""
    folder = tmp_path_factory.mktemp(request.param)
    budgets, options = RUNS[request.param]
    done = subprocess.run(
        [sys.executable, root / "tests" / "support" / "logged_runs.py", folder, ",".join(POLICIES), budgets,
         root / "examples" / f"{request.param}.py", "--tiny", "--digest", *options],
        text=True, capture_output=True, timeout=900)  # fmt: skip
    assert done.returncode == 0, done.stderr
    logged = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(logged) == 1 + 2 * len(POLICIES)
    return logged


@pytest.fixture(scope="module")
def replays():
    from outsize.replay import load

    return load()


def test_every_policy_exists_here():
    from outsize._sim import policy_names

    assert sorted(POLICIES) == sorted(policy_names())


def test_live_runs_replay_byte_for_byte(runs, replays):
    plain, *logged = runs
    for run in logged:
        assert (run["losses"], run["digest"]) == (plain["losses"], plain["digest"]), run["log"]
        said = replays.replay(run["log"])
        assert said["violations"] == [], run["log"]
        assert said["same"], f"{run['log']}: {said}"
        assert said["moves"] >= 1000, f"{run['log']}: {said['moves']} moves"


def reads_under_way(lines: list[str]) -> list[tuple[int, set[str]]]:
    """Where each read ended, and the extents whose reads were under way then, its own among them."""
    ended, under_way = [], set()
    for at, line in enumerate(lines):
        if line.startswith("< fetch "):
            under_way.add(line.split()[2])
        elif line.startswith("> read "):  # each is installed at once
            ended.append((at, set(under_way)))
            under_way.discard(line.split()[2])
    return ended


def test_two_completions_in_another_order_are_noticed(runs, replays, tmp_path):
    lines = Path(runs[1]["log"]).read_text().splitlines(keepends=True)
    ended = reads_under_way(lines)
    extent_of = {at: lines[at].split()[2] for at, _ in ended}
    later = ended[len(ended) // 2 :]
    a, b = next((a, b) for (a, under_way), (b, _) in pairwise(later)
                if extent_of[a] != extent_of[b] and extent_of[b] in under_way)  # fmt: skip
    lines[a], lines[b] = lines[b], lines[a]
    swapped = tmp_path / "swapped.log"
    swapped.write_text("".join(lines))
    said = replays.replay(str(swapped))
    assert not said["same"] and said["first_difference"] >= a + 1


def test_the_command_says_what_it_found(runs, tmp_path, run_outsize):
    log = Path(runs[1]["log"])
    done = run_outsize("replay", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the same byte for byte" in done.stdout and "accepts every decision" in done.stdout
    said = json.loads(run_outsize("replay", log, "--json").stdout)
    assert said["status"] == "ok" and said["policy"] == POLICIES[0] and said["moves"] >= 1000

    text = log.read_text()
    changed = tmp_path / "changed.log"
    changed.write_text(text.replace("< evict e", "< evict e1", 1))  # another extent than the engine's
    done = run_outsize("replay", changed)
    assert done.returncode == 1 and re.search(r"line [\d,]+ differs: recorded '< evict e1", done.stdout)
    said = json.loads(run_outsize("replay", changed, "--json").stdout)
    assert said["status"] == "differs" and said["violations"]

    for broken, message in {
        text[: len(text) // 2].rsplit(" ", 1)[0]: "the log ends in the middle of a line",
        text + "> dance e1\n": "a line of the decision log cannot be read: > dance e1",
        text + "> death e99999999\n": "does not fit to what stands before it: > death e99999999",
        text + "> end t77\n": "does not fit to what stands before it: > end t77",
        "# nothing\n": "this is no decision log of this version",
        text.replace("lookahead", "sleepwalk", 1): "the log names an unknown policy: sleepwalk",
    }.items():
        changed.write_text(broken)
        done = run_outsize("replay", changed)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1
    for path in (tmp_path / "missing.log", tmp_path):
        done = run_outsize("replay", path)
        assert done.returncode == 2 and "the decision log cannot be read" in done.stderr
