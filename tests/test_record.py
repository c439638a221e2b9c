"""Recording: what a training script did is in the trace, it computes the same, and however it ends
the trace is whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.launch import clean_environment

pytest.importorskip("outsize._core")

# Trains for three steps, prints every loss, then ends as its argument says. Under outsize its counters
# of that moment go into a file.
TRAIN = """
import json, sys
import torch
from torch import nn

torch.manual_seed(5)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Dropout(0.5), *(nn.Linear(1024, 1024) for _ in range(6)),
                      nn.Linear(1024, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
loss_of = nn.CrossEntropyLoss()
for step in range(3):
    out = model(input=torch.randn(64, 512))
    loss = loss_of(out, torch.zeros(64, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
outsize = sys.modules.get("outsize")
if outsize is not None and outsize.enabled():
    from pathlib import Path
    Path("stats.json").write_text(json.dumps(outsize.stats().as_dict()))
end = sys.argv[1] if len(sys.argv) > 1 else ""
if end == "raises":
    raise ValueError("the program's own")
if end == "exits":
    sys.exit(3)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def plain(script: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *args], env=clean_environment(), cwd=script.parent, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300)


@pytest.fixture
def traces():
    from outsize.trace import load

    return load()


def info(traces: Any, trace: Path) -> dict[str, Any]:
    """What it says; it makes sense."""
    checked = traces.trace_validate(str(trace))
    assert (checked["found"], checked["problems"]) == (0, [])
    said: dict[str, Any] = traces.trace_info(str(trace))
    return said | {"meta": json.loads(said["meta"])}


def exported(traces: Any, trace: Path) -> list[dict[str, Any]]:
    out = trace.with_suffix(".json")
    traces.trace_export(str(trace), "chrome", str(out))
    events: list[dict[str, Any]] = json.loads(out.read_text())["traceEvents"]
    return events


def test_what_training_did_is_in_the_trace(script: Path, run_outsize, traces):
    trace = script.with_name("run.trace")
    done = run_outsize("run", "--quiet", "--record", trace, "train.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == plain(script).stdout
    stats = json.loads(script.with_name("stats.json").read_text())
    said = info(traces, trace)
    assert (said["steps"], said["samples"]) == (stats["steps"], 3) == (3, 3)
    # The engine counts what outsize begins itself as well, for births outside any op; those of the
    # program are what is in the trace, but for the last few after the script asked.
    assert 0 <= stats["ops"] - said["ops"] <= 0.1 * stats["ops"]
    assert said["peak_bytes"] == pytest.approx(stats["tensor_bytes_peak"], rel=0.01)
    assert said["alive_bytes"] <= stats["tensor_bytes"]
    meta = said["meta"]
    assert (meta["script"], meta["policy"], meta["budget"]) == ("train.py", "lookahead", "auto")
    assert meta["torch"] and meta["cores"] and meta["ram_bytes"] and meta["budget_bytes"] and meta["time"]
    assert str(script.parent) not in json.dumps(meta)

    events = exported(traces, trace)
    ops = [event for event in events if event["ph"] == "B"]
    flags = {event["args"].get("flags") for event in ops if "dropout" in event["name"] or "bernoulli" in event["name"]}
    assert "random" in flags
    assert {event["args"].get("flags") for event in ops if event["name"].startswith("aten::addmm")} == {None}
    fused = [event["args"].get("flags") for event in ops if event["name"].startswith("aten::_fused_adamw_")]
    assert None in fused and "piece" in fused
    assert {"forward", "backward"} == {event["cat"] for event in ops}
    samples = [event["args"] for event in events if event.get("name") == "sample"]
    assert [sample["input float32"] for sample in samples] == [[64, 512]] * 3
    assert all(sample["input float32 distinct"] == [512] * 32 for sample in samples), "of the first rows"


def test_the_same_program_under_a_small_budget(script: Path, run_outsize, traces):
    ample, small = script.with_name("ample.trace"), script.with_name("small.trace")
    first = run_outsize("record", "train.py", "-o", ample)
    assert first.returncode == 0, first.stderr
    said = info(traces, ample)
    budget = int(said["peak_bytes"] * 0.4)
    done = run_outsize("record", "--budget", budget, "-o", small, "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == first.stdout == plain(script).stdout
    assert json.loads(script.with_name("stats.json").read_text())["read_bytes"] > 0
    under = info(traces, small)
    same = ("ops", "sites", "steps", "samples", "births", "deaths", "adoptions", "born_bytes", "peak_bytes")
    assert {name: under[name] for name in same} == {name: said[name] for name in same}
    assert under["waited_ns"]["operands"] + under["waited_ns"]["room"] > 0
    assert said["waited_ns"]["fresh pages"] > 0 == said["waited_ns"]["operands"]
    names = [[(event["name"], event["args"]) for event in exported(traces, trace) if event["ph"] == "B"]
             for trace in (ample, small)]
    assert names[0] == names[1]
    last = done.stderr.splitlines()
    assert any(line.startswith(f"outsize: trace of {under['ops']:,} ops and 3 steps in {small} (") for line in last)


@pytest.mark.parametrize("end", ["raises", "exits"])
def test_a_program_that_ends_early_leaves_a_whole_trace(end: str, script: Path, run_outsize, traces):
    trace = script.with_name("run.trace")
    done = run_outsize("record", "--quiet", "--budget", "48MiB", "train.py", end, "-o", trace)
    as_plain = plain(script, end)
    assert (done.returncode, done.stdout) == (as_plain.returncode, as_plain.stdout)
    assert done.stderr == as_plain.stderr
    assert info(traces, trace)["steps"] == 3


def test_a_file_that_cannot_be_made_is_told_before_training(script: Path, run_outsize):
    for words in (["run", "--record", "/proc/none/x", "train.py"], ["record", "train.py", "-o", "/proc/none/x"]):
        done = run_outsize(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1 and "/proc/none/x cannot be written: No such file" in done.stderr
    done = run_outsize("record", "train.py")
    assert done.returncode == 2 and "-o run.trace" in done.stderr
    done = run_outsize("run", "--record", "/dev/full", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "the trace /dev/full cannot be written: No space left" in done.stderr


# In one process each: a session by the program itself, and what only it can do.
ITSELF = """
import sys, resource, signal, os, logging
import torch, outsize
from torch import nn

how = sys.argv[1]
def train(model, steps=2):
    for step in range(steps):
        model(torch.randn(4, 8)).sum().backward()
        outsize.step()

if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    outsize.enable("256MiB", record="run.trace")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    train(nn.Linear(8, 8), 300)
elif how == "block":
    with outsize.budget("256MiB", record="run.trace"):
        train(nn.Linear(8, 8))
    train(nn.Linear(8, 8))
elif how == "fork":
    outsize.enable("256MiB", record="run.trace")
    train(nn.Linear(8, 8))
    if os.fork() == 0:
        train(nn.Linear(8, 8))
        sys.exit(0)
    os.wait()
elif how == "nested":
    class Tree(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
        def forward(self, x, tree, odd):
            return self.inner(x) if not tree else self(x, tree[0], odd) + self(x, tree[1], odd)
    outsize.enable("256MiB", record="run.trace")
    tree = [[[], []], [[], [[], []]]]
    Tree()(torch.ones(2, 8, dtype=torch.float64).float(), tree, {"n": 3, "ids": [5, 6], "x": object()}).sum().backward()
    nn.MSELoss()(torch.ones(2), torch.ones(2))
elif how == "compiled":
    outsize.enable("256MiB", record="run.trace")
    train(torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), backend="eager", fullgraph=True))
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    model.compile(backend="eager", fullgraph=True)
    train(model)
elif how == "collective":
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting", rank=0, world_size=1)
    outsize.enable("256MiB", record="run.trace")
    dist.all_reduce(torch.ones(1000))
    outsize.disable()
    dist.destroy_process_group()
"""


@pytest.fixture
def itself(tmp_path: Path):
    def run(how: str) -> tuple[Path, str]:
        path = tmp_path / "itself.py"
        path.write_text(ITSELF)
        done = plain(path, how)
        assert done.returncode == 0, done.stderr
        return tmp_path / "run.trace", done.stderr

    return run


def test_a_full_disk_stops_nothing_and_is_told_once(itself):
    _, said = itself("full")
    assert said.count("the trace run.trace cannot be written: File too large") == said.count("\n") == 1


@pytest.mark.parametrize("how", ["block", "fork"])
def test_only_what_the_session_sees(how: str, itself, traces):
    trace, _ = itself(how)
    assert info(traces, trace)["steps"] == 2


def test_features_of_nested_inputs_come_once_a_root(itself, traces):
    trace, _ = itself("nested")
    info(traces, trace)
    samples = [event["args"] for event in exported(traces, trace) if event.get("name") == "sample"]
    assert len(samples) == 1, "not of inner calls, nor of the loss"
    sample = samples[0]
    assert sample.items() >= {
        "0 float32": [2, 8], "1 length": [2], "1.0 length": [2], "1.1.1 length": [2], "1.1.1.0 length": [0],
        "2 length": [3], "2.n": [3], "2.ids numbers": [5, 6]}.items()
    assert "2.x" not in sample


def test_a_compiled_model_is_compiled_whole(itself, traces):
    trace, said = itself("compiled")
    assert said == "", "nor is torch's warning of global hooks for the user"
    assert info(traces, trace)["steps"] == 4


def test_collectives_are_marked(itself, traces):
    trace, _ = itself("collective")
    info(traces, trace)
    ops = [event for event in exported(traces, trace) if event["ph"] == "B"]
    assert [event["args"].get("flags") for event in ops if "c10d" in event["name"]] == ["collective"]
