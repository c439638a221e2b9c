"""`outsize simulate TRACE`: what a recorded run would have taken under another budget, policy or disk."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from outsize.simulate import limit_seconds, load
from support.launch import MIB
from support.recorded import SLOW, outsize, record_into


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_into(tmp_path_factory.mktemp("recorded"))


def simulated(folder: Path, *words: str) -> dict[str, Any]:
    return json.loads(outsize(folder, "simulate", "run.trace", "--json", *words).stdout)


def test_with_room_for_all_nothing_moves_and_the_recorded_time_is_kept(recorded: Path) -> None:
    found = simulated(recorded, "--device", "slow.json", "--budget", "2GiB")
    (run,) = found["runs"]
    info = json.loads(outsize(recorded, "trace", "info", "--json", "run.trace").stdout)
    assert found["ops"] == info["ops"] and found["steps"] == info["steps"] == 4
    assert (run["read_bytes"], run["write_bytes"], run["stall_ns"]) == (0, 0, 0)
    assert 24 * MIB < run["peak_bytes"] == found["peak_bytes"] < info["peak_bytes"] + 8 * MIB
    waited = sum(info["waited_ns"].values())
    assert run["time_ns"] == pytest.approx(info["duration_ns"] - waited, rel=0.01)


def test_the_disk_and_the_budget_say_how_long_it_takes(recorded: Path) -> None:
    runs = {
        device: {run["budget"]: run for run in simulated(
            recorded, "--device", f"{device}.json", "--budget", "100%,50%")["runs"]}
        for device in ("fast", "slow")
    }
    for run in (*runs["fast"].values(), *runs["slow"].values()):
        assert run["problems"] == [] and run["peak_bytes"] <= run["budget_bytes"]
        assert run["refused_for_budget"] == run["refused_for_space"] == 0
    assert runs["slow"]["100%"]["time_ns"] < runs["slow"]["50%"]["time_ns"]
    assert runs["fast"]["50%"]["time_ns"] < 1.05 * runs["fast"]["100%"]["time_ns"]
    for device in ("fast", "slow"):
        assert runs[device]["100%"]["limit_seconds"] <= runs[device]["50%"]["limit_seconds"]
        for run in runs[device].values():
            assert run["limit_seconds"] <= 1.01 * run["step_seconds"]
    slow = runs["slow"]["50%"]
    at_least = (slow["read_bytes"] + slow["write_bytes"]) / 1e8  # both ways at once at half the pace
    assert slow["time_ns"] / 1e9 >= at_least / 2


def test_what_no_planner_can_do_without_is_known(recorded: Path) -> None:
    program = load().TraceProgram(str(recorded / "run.trace"))
    slow = {name: 10**8 for name in ("read", "write", "mixed_read", "mixed_write")} | {"latency_ns": 0}
    room, half = (program.window_limit(budget, slow) for budget in (program.peak, program.peak // 2))
    assert room and half and room["steps"] == half["steps"] == program.steps - 1
    assert room["least_ns"] == room["compute_ns"] == half["compute_ns"] < half["least_ns"]
    last = program.window_limit(program.peak // 2, slow, program.steps - 1)
    assert last and last["steps"] == 1 and last["compute_ns"] < half["compute_ns"]
    assert program.window_limit(program.peak // 2, slow, program.steps) is None


def test_the_limit_is_the_greatest_of_three() -> None:
    fewest = [{"read_bytes": 0, "write_bytes": 0}, {"read_bytes": 4, "write_bytes": 0}]
    device = dict.fromkeys(("read", "write", "mixed_read", "mixed_write"), 2)
    windows = {"least_ns": 6 * 10**9, "steps": 2}
    assert limit_seconds(fewest, windows, 1.0, device) == 3.0
    assert limit_seconds(fewest, None, 1.0, device) == 2.0
    assert limit_seconds(fewest, windows, 4.0, device) == 4.0
    assert limit_seconds(None, windows, 4.0, device) is None


def test_what_was_prefetched_was_used_or_not_or_waits(recorded: Path) -> None:
    found = simulated(recorded, "--device", "slow.json", "--budget", "50%", "--policy", "lookahead,ondemand,uvm")
    lookahead, ondemand, uvm = (run["at_step"] for run in found["runs"])
    closed = [step["prefetch_hit_bytes"] + step["prefetch_missed_bytes"] for step in lookahead]
    assert closed == sorted(closed) and closed[-1] > 0
    assert all(0 <= done <= step["prefetched_bytes"] for done, step in zip(closed, lookahead, strict=True))
    assert ondemand[-1]["prefetched_bytes"] == 0 < ondemand[-1]["demand_bytes"]
    assert "prefetch_hit_bytes" not in uvm[-1]


def test_policies_are_compared_in_a_table(recorded: Path) -> None:
    said = outsize(recorded, "simulate", "run.trace", "--device", "slow.json", "--budget", "50%,20MiB",
                   "--policy", "lookahead,ondemand,deepum:chaining=off,degree=4,weights:solver=greedy,moves=all").stdout  # fmt: skip
    assert said.count("ondemand") == 2 and said.count("deepum:chaining") == 2
    assert said.count("weights:solver") == 2 and "refused" not in said
    assert "4 steps" in said and "20MiB (20.0 MiB)" in said and "a step" in said


def test_another_processor_times_the_ops_and_it_is_told(recorded: Path) -> None:
    runs = {}
    for device in ("laptop-nvme", "a100-pcie4", "h200-pcie5", "gh200"):
        found = simulated(recorded, "--device", device, "--budget", "50%", "--policy", "oracle")
        (runs[device],) = found["runs"]
        assert runs[device]["problems"] == [] and runs[device]["step_seconds"] >= runs[device]["limit_seconds"] > 0
        assert ("compute" in found["device"]) == (device != "laptop-nvme")
    steps = [runs[device]["step_seconds"] for device in runs]
    assert steps[0] > steps[1] > steps[2] >= steps[3]
    said = outsize(recorded, "simulate", "run.trace", "--device", "a100-pcie4").stdout
    assert "Ops are timed by a roofline, not as recorded: 19.5 TFLOPS, 1555 GB/s of memory" in said
    said = outsize(recorded, "simulate", "run.trace", "--device", "laptop-nvme").stdout
    assert "roofline" not in said


def test_unified_memory_and_deepum_on_it_are_modelled(recorded: Path) -> None:
    policies = ("uvm", "uvm:fault-us=0", "deepum-blocks", "deepum-blocks:invalidation=off,degree=8")
    found = simulated(recorded, "--device", "slow.json", "--budget", "50%,5MiB", "--policy", ",".join(policies))
    runs = {run["policy"]: run for run in found["runs"] if run["budget"] == "50%"}
    for run in runs.values():
        assert run["problems"] == [] and run["refused_for_budget"] == 0
        assert run["budget_bytes"] >= run["peak_bytes"] > 0 == run["peak_bytes"] % (2 * MIB)
        assert run["ratio"] > 1 and run["stall_ns"] > 0 < run["evictions"]
    assert runs["uvm"]["stall_ns"] > runs["uvm:fault-us=0"]["stall_ns"]
    assert runs["uvm"]["time_ns"] - runs["uvm"]["stall_ns"] == runs["deepum-blocks"]["time_ns"] - runs[
        "deepum-blocks"]["stall_ns"]  # the ops take as long
    assert runs[policies[2]]["write_bytes"] < runs[policies[3]]["write_bytes"] <= runs["uvm"]["write_bytes"] * 1.2
    for run in found["runs"]:
        if run["budget"] == "5MiB":
            assert run["refused_for_budget"] > 0 and run["needed_bytes"] > 5 * MIB and run["step_seconds"] is None


def test_every_profile_says_where_its_numbers_are_from() -> None:
    from outsize.device import PROFILES, device_of

    assert {"laptop-nvme", "a100-pcie4", "h100-pcie5", "h200-pcie5", "gh200"} == set(PROFILES)
    for name, path in PROFILES.items():
        profile = json.loads(path.read_text())
        assert profile["name"] and all(len(source) > 20 for source in profile["sources"]), name
        assert device_of(name)["read"] >= device_of(name)["mixed_read"] > 0


def test_a_program_that_leaves_cores_idle_pays_less_for_io_threads() -> None:
    from outsize.device import at_the_programs_expense

    device = {"read": 1, "command_ns": 5, "transfer_ns": 100, "mib_ns": 40}
    for meta, transfer, mib in (
        ('{"threads": 1, "cores": 4}', 25, 10), ('{"threads": 4, "cores": 4}', 100, 40),
        ('{"threads": 9, "cores": 4}', 100, 40), ("", 100, 40), ("no JSON", 100, 40), ('{"cores": 4}', 100, 40),
    ):  # fmt: skip
        assert at_the_programs_expense(device, meta) == device | {"transfer_ns": transfer, "mib_ns": mib}, meta


def test_what_doctor_measured_of_moves_is_charged(recorded: Path) -> None:
    disk = json.loads((recorded / "fast.json").read_text())
    costs = {
        "cheap": {}, "commands": {"moves": {"command_ns": 3_000_000}},
        "transfers": {"moves": {"transfer_ns": 3_000_000}},
        "bytes": {"moves": {"held_up_mib_ns": 3_000_000}}, "older": {"moves": {"mib_ns": 3_000_000}},
        "single": {"disk": disk["disk"] | {"single_read": 1_000_000}},
        "failed": {"moves": {"error": "the disk is full"}}, "huge": {"moves": {"fresh_huge_mib_ns": 30_000_000}},
        "again": {"moves": {"fresh_huge_mib_ns": 30_000_000, "warm_huge_mib_ns": 1, "cold_bytes": 1}},
    }  # fmt: skip
    step = {}
    for name, more in costs.items():
        (recorded / f"{name}.json").write_text(json.dumps(disk | more))
        (run,) = simulated(recorded, "--device", f"{name}.json", "--budget", "50%", "--policy", "ondemand")["runs"]
        step[name] = run["step_seconds"]
    assert step["failed"] == step["cheap"]
    assert step["huge"] > step["again"] > 0, step
    assert all(step[name] > 1.05 * step["cheap"] for name in ("commands", "transfers", "single")), step
    assert step["bytes"] == step["older"] == step["cheap"], "what moves while its op waits holds up nobody"
    for name in ("cheap", "bytes", "older"):
        (run,) = simulated(recorded, "--device", f"{name}.json", "--budget", "50%", "--policy", "lookahead")["runs"]
        step[name] = run["step_seconds"]
    assert step["bytes"] == step["older"] > 1.05 * step["cheap"], step


def test_an_op_that_does_not_fit_is_told(recorded: Path) -> None:
    words = ("run.trace", "--device", "slow.json", "--budget", "100%,5MiB")
    said = outsize(recorded, "simulate", *words).stdout
    assert "Where ops are refused the program would not have come to its end" in said
    (row,) = (line for line in said.splitlines() if "refused, one op needs at least" in line)
    columns = row.partition("(5.00 MiB)")[2].split()
    assert columns[:2] == ["-", "-"] and columns.count("-") >= 5  # step, x, stall, up, down
    fits, refused = simulated(recorded, *words[1:])["runs"]
    assert fits["ratio"] > 0.8 and fits["step_seconds"] > 0  # how much more depends on how fast the recording was
    assert refused["ratio"] is None and refused["step_seconds"] is None
    assert "were raised" not in said
    said = outsize(recorded, "simulate", "run.trace", "--device", "slow.json", "--budget", "1%").stdout
    assert "Shares below 8.00 MiB were raised to it." in said


MANY_OPS = """\
import torch
torch.set_num_threads(1)
tensors = [torch.ones(1 << 16) for _ in range(20)]
for _ in range(1000):
    for tensor in tensors:
        tensor.add_(tensor)
"""


def test_ctrl_c_ends_a_run_that_takes_long(tmp_path: Path) -> None:
    sim = pytest.importorskip("outsize._sim")
    (tmp_path / "many.py").write_text(MANY_OPS)
    outsize(tmp_path, "record", "--budget", "1GiB", "--quiet", "many.py", "-o", "many.trace")
    program = sim.TraceProgram(str(tmp_path / "many.trace"))

    def run() -> float:
        began = time.monotonic()
        try:
            program.run("deepum", program.peak // 2, SLOW | {"latency_ns": 0}, judge=True)
        except InterruptedError:
            pass
        return time.monotonic() - began

    def stop(*_: object) -> None:
        raise InterruptedError

    whole = min(run() for _ in range(3))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        stopped = []
        for _ in range(5):  # others use the machine too
            signal.setitimer(signal.ITIMER_REAL, whole / 10)
            stopped.append(run())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert min(stopped) < whole / 2, (stopped, whole)


@pytest.mark.parametrize(("words", "told"), [
    (["run.trace"], "give the disk with --device FILE"),
    ([], "give a trace that outsize recorded, or --simrd"),
    (["run.trace", "--simrd", "x"], "give a trace that outsize recorded, or --simrd"),
    (["run.trace", "--device", "no.json"], "no.json cannot be read: No such file"),
    (["run.trace", "--device", "train.py"], "train.py holds no disk's bandwidths: make one with: outsize doctor"),
    (["train.py", "--device", "slow.json"], "train.py: the file is no trace of outsize"),
    (["run.trace", "--device", "slow.json", "--policy", "best"],
     "no policy 'best' [policy] Known: lookahead, ondemand, deepum, weights, pilot, auto, oracle. In simulation also: uvm, deepum-"),
    (["run.trace", "--device", "slow.json", "--policy", "uvm:chaining=off"], "is no setting of policy uvm"),
    (["run.trace", "--device", "slow.json", "--budget", "much"], "'much' is not a size"),
])  # fmt: skip
def test_what_cannot_be_is_told_in_one_line(recorded: Path, words: list[str], told: str) -> None:
    said = outsize(recorded, "simulate", *words, code=2).stderr
    assert told in said and len(said.splitlines()) == 1, said
