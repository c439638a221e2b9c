"""Saved models of the pilot: `outsize pilot train` and `show`, and runs that begin with one, simulated and live."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.launch import clean_environment
from support.recorded import SLOW, outsize

# Twelve layers, of which each step takes five, in an order of its own that its sample says.
TRAIN = """\
import random, sys, torch
torch.manual_seed(0)
random.seed(int(sys.argv[1]))
steps, width = int(sys.argv[2]), int(sys.argv[3])

class Paths(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(12))

    def forward(self, x, path):
        for layer in path:
            x = torch.relu(self.layers[layer](x))
        return x

model = Paths()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for _ in range(steps):
    optimizer.zero_grad()
    model(torch.randn(64, width), random.sample(range(12), 5)).square().mean().backward()
    optimizer.step()
"""
# Of another shape and another make.
OTHER = """\
import torch
embedding = torch.nn.Embedding(2000, 256)
cell = torch.nn.LSTM(256, 256)
optimizer = torch.optim.Adam([*embedding.parameters(), *cell.parameters()])
for _ in range(12):
    optimizer.zero_grad()
    cell(embedding(torch.randint(0, 2000, (16, 8))))[0].abs().sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """learnt.trace and fresh.trace of one program, other.trace, slow.json, and model.pilot of the first trace."""
    folder = tmp_path_factory.mktemp("pilot")
    (folder / "train.py").write_text(TRAIN)
    (folder / "other.py").write_text(OTHER)
    (folder / "slow.json").write_text(json.dumps({"disk": SLOW}))
    record = ("record", "--budget", "2GiB", "--quiet", "-o")
    outsize(folder, *record, "learnt.trace", "train.py", "1", "40", "512")
    outsize(folder, *record, "fresh.trace", "train.py", "2", "8", "512")
    outsize(folder, *record, "other.trace", "other.py")
    outsize(folder, "pilot", "train", "learnt.trace", "-o", "model.pilot")
    return folder


def said(folder: Path, *words: str) -> dict[str, Any]:
    return json.loads(outsize(folder, *words, "--json").stdout)


def simulated(folder: Path, trace: str, *words: str) -> dict[str, Any]:
    found = said(folder, "simulate", trace, "--device", "slow.json", "--budget", "60%", "--policy", "pilot", *words)
    (run,) = found["runs"]
    assert run["problems"] == []
    return run


def test_the_card_says_where_it_comes_from(folder: Path) -> None:
    card = said(folder, "pilot", "show", "model.pilot")
    (trace,) = card["traces"]
    assert (trace["trace"], trace["steps"], trace["held_out_steps"]) == ("learnt.trace", 32, 8)
    assert 0 < trace["right"] <= trace["choices"]
    assert trace["right"] / trace["choices"] > trace["right_before"] / trace["choices_before"]
    assert card["nodes"] > 50 and card["contexts"] > 0 and card["features"] > 0
    assert card["base_type"] == "plain" and card["idioms"][3] > 0 and card["idioms"][4] > card["idioms"][3]
    assert card["file_bytes"] == (folder / "model.pilot").stat().st_size
    text = outsize(folder, "pilot", "show", "model.pilot").stdout
    assert "plain by its ops; " in text and "reduction" in text
    assert "held out" in text and card["model"] in text and "learnt.trace" in text


def test_the_same_learning_gives_the_same_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    for name in ("a.pilot", "b.pilot"):
        outsize(folder, "pilot", "train", "learnt.trace", "fresh.trace", "-o", name, "--held-out", "0%")
    assert (folder / "a.pilot").read_bytes() == (folder / "b.pilot").read_bytes()
    card = said(folder, "pilot", "show", "a.pilot")
    assert card["made"] == "1970-01-02T00:00:00Z"
    assert [trace["steps"] for trace in card["traces"]] == [40, 8]
    outsize(folder, "pilot", "train", "other.trace", "-o", "c.pilot", "--from", "a.pilot")
    more = said(folder, "pilot", "show", "c.pilot")
    assert [trace["trace"] for trace in more["traces"]] == ["learnt.trace", "fresh.trace", "other.trace"]
    assert more["nodes"] > card["nodes"]


def test_collected_runs_are_learnt_from_together(folder: Path) -> None:
    for seed in ("3", "4"):
        outsize(folder, "pilot", "collect", "--budget", "2GiB", "--quiet", "-o", "runs", "train.py", seed, "6", "64")
    (folder / "runs" / "train-3.trace").touch()  # of a run that recorded nothing
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [f"train-{number}.trace" for number in (1, 2, 3)]
    outsize(folder, "pilot", "collect", "--budget", "2GiB", "--quiet", "-o", "runs", "other.py")
    outsize(folder, "pilot", "train", "runs", "-o", "runs.pilot")
    card = said(folder, "pilot", "show", "runs.pilot")
    assert [trace["trace"] for trace in card["traces"]] == ["other-1.trace", "train-1.trace", "train-2.trace"]
    (folder / "none").mkdir()
    words = ("pilot", "train", "none", "-o", "none.pilot")
    done = subprocess.run([sys.executable, "-m", "outsize", *words], cwd=folder, env=clean_environment(),
                          text=True, capture_output=True, timeout=300)  # fmt: skip
    assert done.returncode == 2
    assert "there is no trace in none: `outsize pilot collect -o none script.py` puts one there." in done.stderr


def test_what_it_foresees_from_the_first_steps_is_told_step_by_step(folder: Path) -> None:
    def judged(*words: str) -> dict[str, Any]:
        common = ("pilot", "eval", "fresh.trace", "--predictors", "pilot,last", "--from-step", "1")
        return said(folder, *common, *words)["traces"][0]["predictors"][0]["scored"]

    without, with_model = judged(), judged("--pilot", "model.pilot")
    for scored in (without, with_model):
        for name in ("choices", "right", "used_bytes", "foreseen_bytes", "both_bytes"):
            assert sum(step[name] for step in scored["steps"]) == scored[name], name
    assert with_model["steps"][1]["right"] > without["steps"][1]["right"]
    assert with_model["model_known_ops"] > with_model["model_ops"] / 2 and not with_model["model_given_up"]
    assert without["model_ops"] == 0


def test_a_simulation_that_begins_with_it_foresees_from_the_first_steps(folder: Path) -> None:
    without, with_model = simulated(folder, "fresh.trace"), simulated(folder, "fresh.trace", "--pilot", "model.pilot")
    assert not with_model["pilot_given_up"]
    assert with_model["pilot_known_ops"] > with_model["pilot_ops"] / 2
    at = slice(1, 6)
    assert sum(with_model["at_step"][-1][name] for name in ("stall_ns",)) < without["at_step"][-1]["stall_ns"]
    early = [run["at_step"][at][-1]["demand_bytes"] - run["at_step"][0]["demand_bytes"] for run in (with_model, without)]
    assert early[0] < early[1]


def test_one_of_another_network_is_given_up_and_told(folder: Path) -> None:
    done = outsize(folder, "simulate", "other.trace", "--device", "slow.json", "--budget", "60%", "--policy", "pilot",
                   "--pilot", "model.pilot")  # fmt: skip
    assert "the pilot's model model.pilot knows" in done.stderr
    assert "it starts from nothing but how advisers are weighed" in done.stderr
    with_model, without = simulated(folder, "other.trace", "--pilot", "model.pilot"), simulated(folder, "other.trace")
    assert with_model["pilot_given_up"]
    assert with_model["time_ns"] < 1.05 * without["time_ns"]


def test_compare_takes_it_for_policy_pilot_alone(folder: Path) -> None:
    found = said(folder, "compare", "fresh.trace", "--device", "slow.json", "--budget", "60%", "--policy",
                 "lookahead,pilot", "--pilot", "model.pilot")  # fmt: skip
    assert [("pilot_ops" in run) for run in found["runs"]] == [False, True]


def damaged(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "cut":
        del content[len(content) // 2 :]
    elif how == "flipped":
        content[-10] ^= 1
    elif how == "text":
        content[:] = b"no model at all"
    path.write_bytes(content)


@pytest.mark.parametrize("how, message", [
    ("cut", "the pilot's model is damaged: it ends too early"),
    ("flipped", "the pilot's model is damaged: its checksum does not fit"),
    ("text", "is no model of the pilot"),
])  # fmt: skip
def test_a_damaged_file_is_told(folder: Path, tmp_path: Path, how: str, message: str) -> None:
    shutil.copy(folder / "model.pilot", tmp_path / "bad.pilot")
    damaged(tmp_path / "bad.pilot", how)
    assert message in outsize(tmp_path, "pilot", "show", "bad.pilot", code=2).stderr
    for command in (("simulate", "fresh.trace", "--device", "slow.json"), ("pilot", "train", "fresh.trace", "-o", "x")):
        option = "--from" if command[0] == "pilot" else "--pilot"
        policy = () if command[0] == "pilot" else ("--policy", "pilot")
        done = outsize(folder, *command, *policy, option, str(tmp_path / "bad.pilot"), code=2)
        assert message in done.stderr


@pytest.mark.parametrize("words, message", [
    (("pilot", "show", "none.pilot"), "cannot be read: No such file or directory"),
    (("pilot", "train", "learnt.trace", "-o", "-"), "a model goes to a file: name one."),
    (("pilot", "train", "learnt.trace", "-o", "x", "--held-out", "95%"), "is not a share from 0% to 90%"),
    (("pilot", "teach"), "there is no command 'pilot teach'"),
    (("simulate", "fresh.trace", "--device", "slow.json", "--pilot", "model.pilot"), "--pilot is for policy pilot"),
    (("pilot", "eval", "fresh.trace", "--predictors", "last", "--pilot", "model.pilot"), "name that among --predictors"),
])  # fmt: skip
def test_what_is_wrong_is_told(folder: Path, words: tuple[str, ...], message: str) -> None:
    assert message in outsize(folder, *words, code=2).stderr


def test_a_live_run_begins_with_it_and_is_replayed(folder: Path) -> None:
    run = ("run", "--budget", "12MiB", "--policy", "pilot", "--pilot", "model.pilot", "--decision-log", "run.log",
           "--json", "run.json", "train.py", "3", "8", "512")  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "outsize", *run], cwd=folder, env=clean_environment(), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pilot's model" in done.stderr
    name = said(folder, "pilot", "show", "model.pilot")["model"]
    assert (folder / "run.log").read_text().partition("\n")[0].endswith(f" model {name}")
    assert said(folder, "replay", "run.log", "--pilot", "model.pilot")["same"]
    assert f"began with the pilot's model {name}" in outsize(folder, "replay", "run.log", code=2).stderr
    outsize(folder, "pilot", "train", "fresh.trace", "-o", "another.pilot")
    done = outsize(folder, "replay", "run.log", "--pilot", "another.pilot", code=2)
    assert "and the one given is" in done.stderr


def test_policies_that_have_no_use_for_it_refuse_it(folder: Path) -> None:
    done = outsize(folder, "run", "--budget", "64MiB", "--pilot", "model.pilot", "train.py", "3", "1", "64", code=2)
    assert "policy lookahead has no use for a model of the pilot" in done.stderr
