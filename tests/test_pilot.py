"""`outsize pilot eval` and `outsize pilot graph`: the paths of recorded runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.recorded import outsize

# One of three ways, which the sample tells: a number that the module is called with.
TRAIN = """\
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(2)))
        self.ways = torch.nn.ModuleList(torch.nn.Linear(512, 512) for _ in range(3))
    def forward(self, x, way):
        return self.ways[way](self.first(x).relu())
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
order = [0, 2, 1, 1, 0, 2, 2, 1, 0, 1, 2, 0, 0, 1, 2, 1] * 3
for way in order:
    optimizer.zero_grad()
    net(torch.ones(64, 512), way).square().mean().backward()
    optimizer.step()
"""
CONTROLS = ["last", "frequent", "markov1", "markov2", "markov3", "deepum", "repeat", "oracle"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(TRAIN)
    outsize(folder, "record", "--budget", "1GiB", "--quiet", "train.py", "-o", "run.trace")
    (folder / "short.py").write_text(TRAIN.replace("* 3", "[:1]"))
    outsize(folder, "record", "--budget", "1GiB", "--quiet", "short.py", "-o", "short.trace")
    return folder


def evaluated(folder: Path, *words: str) -> dict[str, Any]:
    (found,) = json.loads(outsize(folder, "pilot", "eval", "run.trace", "--json", *words).stdout)["traces"]
    return found


def test_the_pilot_is_judged_beside_its_controls(recorded: Path) -> None:
    found = evaluated(recorded)
    rows = {row["predictor"]: row for row in found["predictors"]}
    assert list(rows) == ["pilot", *CONTROLS]
    assert found["steps"] == found["samples"] == 48 and found["from_step"] == 25 and found["blocks"] > 3
    # Of three weights of a way one is used; gradients come and go.
    assert found["path_dependent"]["bytes"] >= 3 * 2**20
    shares = ("next_block", "whole_path", "precision", "recall")
    assert [rows["oracle"][name] for name in shares] == [1, 1, 1, 1]
    assert {row["scored"]["windows"] for row in rows.values()} == {24}
    assert len({(row["scored"]["choices"], row["scored"]["used_bytes"]) for row in rows.values()}) == 1
    assert all(row["query_ns"] > 0 and row["learn_ns"] > 0 for row in rows.values())
    # The sample tells, and what was last tells nothing.
    assert rows["pilot"]["recall"] > 0.9 > 0.6 > rows["last"]["recall"]


def test_steps_and_predictors_can_be_chosen(recorded: Path) -> None:
    found = evaluated(recorded, "--from-step", "41", "--predictors", "pilot:sample=off,markov=off,oracle")
    assert [row["predictor"] for row in found["predictors"]] == ["pilot:sample=off,markov=off", "oracle"]
    assert {row["scored"]["windows"] for row in found["predictors"]} == {8}


def test_a_table_tells_it(recorded: Path) -> None:
    said = outsize(recorded, "pilot", "eval", "run.trace").stdout
    for name in ("pilot", *CONTROLS):
        assert re.search(rf"^ +{name} +[\d.-]+", said, re.M), name
    assert "48 steps, 48 samples" in said and "Scored from step 25 on" in said and "24 paths" in said
    assert re.search(r"oracle +100.0 % +100.0 % +100.0 % +100.0 %", said)


def test_blocks_are_listed_and_drawn(recorded: Path) -> None:
    said = outsize(recorded, "pilot", "graph", "run.trace").stdout
    assert re.search(r"\d+ blocks, \d+ with several ways on", said) and "addmm" in said
    for form in ("json", "dot", "mmd"):
        outsize(recorded, "pilot", "graph", "run.trace", "-o", f"graph.{form}")
    graph = json.loads((recorded / "graph.json").read_text())
    blocks = graph["blocks"]
    assert graph["base_type"] == "plain" and "plain by its ops" in said and "idioms: loops that transpose" in said
    # A linear layer is a product with bias: a reduction and three streams (core/base/idioms.cpp).
    linear = [block for block in blocks if any("addmm" in op for op in block["ops"])]
    assert linear and all(block["idioms"][3] >= 1 and block["idioms"][4] >= 3 for block in linear)
    assert [block["block"] for block in blocks] == list(range(len(blocks)))
    for block in blocks:
        assert sum(way["share"] for way in block["next"]) + block["end_share"] == pytest.approx(1)
    # After what comes always there are three ways.
    assert any(len(block["next"]) == 3 and block["runs"] > 40 for block in blocks)
    dot, mermaid = ((recorded / f"graph.{form}").read_text() for form in ("dot", "mmd"))
    assert dot.startswith("digraph") and dot.count("[label=\"") > 2 * len(blocks) - 1
    assert mermaid.startswith("flowchart") and mermaid.count("-->") == dot.count("->")


def test_blocks_can_be_cut(recorded: Path) -> None:
    outsize(recorded, "pilot", "graph", "run.trace", "-o", "whole.json")
    outsize(recorded, "pilot", "graph", "run.trace", "--block-bytes", "1MiB", "-o", "cut.json")
    whole, cut = (json.loads((recorded / f"{name}.json").read_text())["blocks"] for name in ("whole", "cut"))
    assert len(cut) > len(whole)
    assert sum(len(block["ops"]) for block in cut) == sum(len(block["ops"]) for block in whole)


def test_what_ran_seldom_can_be_left_out(recorded: Path) -> None:
    outsize(recorded, "pilot", "graph", "run.trace", "-o", "all.json")
    outsize(recorded, "pilot", "graph", "run.trace", "--min-runs", "5", "-o", "often.json")
    whole, often = (json.loads((recorded / f"{name}.json").read_text())["blocks"] for name in ("all", "often"))
    kept = {block["block"] for block in whole if block["runs"] >= 5}
    assert 0 < len(kept) < len(whole) and {block["block"] for block in often} == kept
    for block in often:
        before = whole[block["block"]]
        assert block == before | {"next": [way for way in before["next"] if way["block"] in kept]}
    said = outsize(recorded, "pilot", "graph", "run.trace", "--min-runs", "5").stdout
    assert f"{len(often)} blocks" in said and f"left out what ran less often: {len(whole) - len(often)}" in said


@pytest.mark.parametrize("words, message", [
    (("eval", "missing.trace"), "missing.trace: the trace cannot be read"),
    (("eval", "run.trace", "--predictors", "nobody"), "Nothing that foresees paths is called 'nobody'"),
    (("eval", "run.trace", "--predictors", "pilot:x=1"), "'x=1' is no setting of policy pilot"),
    (("eval", "run.trace", "--from-step", "49"), "run.trace has 48 steps, and --from-step begins behind them."),
    (("eval", "short.trace"), "There are fewer than two whole steps"),
    (("graph", "run.trace", "-o", "graph.png"), "is written as .json, .dot or .mmd"),
    (("graph", "run.trace", "--min-runs", "0"), "argument --min-runs: '0' is not a number above zero"),
    (("graph", "run.trace", "-o", "-"), "a block graph goes to a file"),
    (("draw",), "there is no command 'pilot draw'"),
])
def test_what_makes_no_sense_is_told(recorded: Path, words: tuple[str, ...], message: str) -> None:
    done = outsize(recorded, "pilot", *words, code=2)
    assert message in done.stderr and done.stdout == ""
