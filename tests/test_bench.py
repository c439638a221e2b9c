"""`outsize bench` and `outsize demo`: turns, counting, verdicts, and that nothing is left behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from outsize import demo
from outsize.bench import command, counter, predict, progress, results, runner, swap, workloads
from outsize.bench.recorded import Recorded
from outsize.units import GIB, MIB, MemoryLimits


def test_the_counter_finds_each_steps_peak() -> None:
    changes = [(1, 10), (2, 20), (3, -20), (11, 5), (12, 40), (13, -40), (21, 1)]
    assert counter.peaks(changes, [10, 20, 30]) == [30, 55, 16]
    assert counter.peaks(changes, [10]) == [30]
    assert counter.peaks([], [1, 2]) == [0, 0]


def test_the_counter_counts_what_torch_allocates() -> None:
    peak = counter.PeakCounter()
    peak.start()
    kept = torch.ones(1 << 20)
    passing = kept * 2
    del passing
    peak.mark()
    more = torch.ones(1 << 18)
    peak.mark()
    first, second = peak.finish()
    assert first == pytest.approx(8 << 20, abs=4096)
    assert second == pytest.approx((4 << 20) + more.nbytes, abs=4096)


def finished(label: str, mode: str, seconds: list[float | None], **more: Any) -> runner.Run:
    workload = workloads.Workload("w", Path("w.py"))
    return runner.Run(label, mode, workload, step_seconds=seconds, **more)


def outcome_of(*runs: runner.Run) -> results.Outcome:
    disk = {"read": 1e9, "write": 1e9, "mixed_read": 5e8, "mixed_write": 5e8, "sample": 8 * GIB}
    machine = {"cores": 2, "cpu": "c", "ram_bytes": GIB, "kernel": "k", "python": "3"}
    return results.Outcome("w", [], 3, 5, machine, list(runs), 100 * MIB, disk, disk)


@pytest.mark.parametrize(("words", "steps", "warmup", "disk"), [
    ([], 5, 3, "8GiB"),
    (["--quick"], 2, 2, "none"),
    (["--quick", "--steps", "4", "--warmup", "1"], 4, 1, "none"),
    (["--quick", "--predict"], 2, 2, "64MiB"),
    (["--quick", "--disk-sample", "1GiB", "--warmup", "3"], 2, 3, "1GiB"),
    (["--no-disk", "--steps", "1"], 1, 3, "none"),
])  # fmt: skip
def test_what_was_asked_for_is_what_is_done(words: list[str], steps: int, warmup: int, disk: str) -> None:
    args = command.parser().parse_args(["gpt_bytes", *words])
    command.settle(args)
    assert (args.steps, args.warmup) == (steps, warmup)
    assert ("none" if args.no_disk else args.disk_sample) == disk


def test_a_budget_in_which_all_fitted_is_told() -> None:
    still = finished("outsize 40%", "outsize", [1.0] * 8, stats=moved(0), budget=50 * MIB)
    busy = finished("outsize 20%", "outsize", [1.0] * 8, stats=moved(1), budget=20 * MIB)
    room = finished("outsize ample", "outsize", [1.0] * 8, stats=moved(0), budget=runner.ample(100 * MIB))
    told = results.footnotes(outcome_of(still, busy, room))
    assert told[-1] == "Nothing had to move under outsize 40%: it fitted."
    assert not any("Nothing had" in line for line in results.footnotes(outcome_of(busy, room)))


def moved(gigabytes: float) -> list[dict[str, float]]:
    return [
        {"read_bytes": i * gigabytes * 1e9, "write_bytes": i * gigabytes * 1e9} for i in range(1, 9)
    ]


def test_ratios_are_of_medians_after_the_warm_up() -> None:
    plain = finished("plain", "plain", [None, 9.0, 9.0, 2.0, 2.0, 2.0, 8.0, 2.0])
    ours = finished("ours", "outsize", [None, 9.0, 9.0, 3.0, 1.0, 3.0, 3.0, 30.0], budget=5)
    outcome = outcome_of(plain, ours)
    assert outcome.median(plain) == 2.0 and outcome.ratio(ours) == 1.5
    swap = finished("swap", "plain", [None, 9.0, 9.0, 1.0], budget=5)
    assert outcome_of(plain, ours, swap).plain is plain  # swap is no reference


def test_the_limit_is_the_slowest_of_four() -> None:
    plain = finished("plain", "plain", [None, 1.0, 1.0] + [2.0] * 5)
    light = finished("light", "outsize", [None] + [3.0] * 7, budget=5, stats=moved(0.5))
    heavy = finished("heavy", "outsize", [None] + [3.0] * 7, budget=5, stats=moved(1.5))
    outcome = outcome_of(plain, light, heavy)
    assert outcome.limit(light) == (2.0, "compute")
    assert outcome.limit(heavy) == (pytest.approx(3.0), "disk, mixed")
    assert outcome.limit(plain) is None


def test_what_moves_take_of_the_processors_is_a_limit_too() -> None:
    plain = finished("plain", "plain", [None, 1.0, 1.0] + [2.0] * 5)
    light = finished("light", "outsize", [None] + [3.0] * 7, budget=5, stats=moved(0.5))
    heavy = finished("heavy", "outsize", [None] + [3.0] * 7, budget=5, stats=moved(1.5))
    outcome = outcome_of(plain, light, heavy)
    assert outcome.limit(light, held_up=True) is None
    outcome.disk_before = outcome.disk_before | {"moves": {"mib_ns": 25}}  # an older doctor's: of I/O threads alone
    assert outcome.limit(light, held_up=True) is None
    half_a_nanosecond_a_byte = {"held_up_mib_ns": MIB // 2}
    outcome.disk_before = outcome.disk_before | {"moves": half_a_nanosecond_a_byte}
    assert outcome.limit(light) == (2.0, "compute")
    assert outcome.limit(light, held_up=True) == (pytest.approx(2.5), "compute")
    assert outcome.limit(heavy, held_up=True) == (pytest.approx(3.5), "compute")
    assert any(line.startswith("†") for line in results.footnotes(outcome))


def test_what_no_planner_does_without_is_a_limit_where_a_trace_tells_it() -> None:
    plain = finished("plain", "plain", [None, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 6.0])
    light = finished("light", "outsize", [None] + [2.0] * 6 + [7.0], budget=5, stats=moved(0.5))
    heavy = finished("heavy", "outsize", [None] + [3.0] * 7, budget=5, stats=moved(1.5))
    outcome = outcome_of(plain, light, heavy)
    assert outcome.limit_with_waits(light) is None
    assert not any(line.startswith("‡") for line in results.footnotes(outcome))
    light.least_wait = heavy.least_wait = runner.LeastWait(2.5, 0.5)
    assert outcome.mean(plain) == pytest.approx(2.0)
    assert outcome.limit_with_waits(light) == pytest.approx(2.5)
    assert outcome.limit_with_waits(heavy) == pytest.approx(3.0), "the disk's time for all that moved is more"
    light.least_wait = runner.LeastWait(1.8, 0.5)
    assert outcome.limit_with_waits(light) == pytest.approx(2.3), "slower ops hide some of the wait"
    light.least_wait = runner.LeastWait(0.5, 0.5)
    assert outcome.limit_with_waits(light) == pytest.approx(2.0), "or all of it"
    light.least_wait = runner.LeastWait(2.5, 0.5)
    assert results.cells(outcome, light)[results.COLUMNS.index("÷ limit‡")] == "1.20"
    assert any(line.startswith("‡") for line in results.footnotes(outcome))


def test_what_no_planner_does_without_is_asked_of_the_counted_steps_and_the_mean_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int, int]] = []

    class Program:
        def window_limit(self, budget: int, device: dict[str, int], after_step: int) -> dict[str, int] | None:
            asked.append((budget, device["read"], after_step))
            return {"least_ns": 9 * 10**9, "compute_ns": 6 * 10**9, "steps": 2} if budget == 5 else None

    monkeypatch.setattr(predict, "load", lambda: SimpleNamespace(TraceProgram=lambda _path: Program()))
    plain, mine = finished("plain", "plain", [], budget=5), finished("mine", "outsize", [], budget=5)
    again, none = finished("again", "outsize", [], budget=5), finished("none", "outsize", [], budget=7)
    rates = dict.fromkeys(("write", "mixed_read", "mixed_write"), 100)
    disks = [{"read": 100, **rates}, {"error": "full"}, {"read": 300, **rates}]
    recorded = Recorded("run.trace", plain)
    assert predict.tell_least_waits(recorded, [plain, mine, again, none], disks) == []
    assert asked == [(5, 200, 3), (7, 200, 3)], "once for each budget"
    assert plain.least_wait is None and none.least_wait is None
    assert mine.least_wait == again.least_wait == (3.0, 1.5)
    assert predict.tell_least_waits(recorded, [mine], [{}]) == [], "no disk was measured"

    def broken() -> None:
        raise ValueError("it ends early")

    monkeypatch.setattr(predict, "load", broken)
    (said,) = predict.tell_least_waits(recorded, [mine], disks)
    assert said == "What no planner can do without is not known: it ends early"


def test_losses_are_compared_by_their_bits() -> None:
    plain = finished("plain", "plain", [None], losses=["1.5", "1.25"])
    same = finished("same", "outsize", [None], losses=["1.5", "1.25"])
    other = finished("other", "outsize", [None], losses=["1.5", "1.25000012"])
    plain.step_seconds = [None, 1.0, 1.0, 1.0]
    outcome = outcome_of(plain, same, other)
    compared = [outcome.losses_equal(run) for run in outcome.runs]
    assert compared == [None, True, False]
    assert outcome.first_difference(same) is None
    told = "Losses differ under other: first at step 2, 1.25000012 instead of 1.25."
    assert [line for line in results.footnotes(outcome) if line.startswith("Losses")] == [told]


def test_table_and_json_show_every_repetition() -> None:
    plain = finished("plain", "plain", [None, 9.0, 9.0, 2.0, 2.5, 2.0, 8.0, 2.0])
    ours = finished("ours", "outsize", [None] + [3.0] * 7, budget=MIB, stats=moved(1.5))
    died = finished("died", "outsize", [None], budget=MIB, failure="died: out of memory")
    outcome = outcome_of(plain, ours, died)
    out = io.StringIO()
    results.print_table(outcome, out)
    text = out.getvalue()
    for part in ("(built) 9 9 | 2 2.5 2 8 2", "1.500", "disk, mixed", "FAILED died: out of memory"):
        assert part in text, part
    assert "with the bytes that were in fact moved" in " ".join(text.split())
    runs = json.loads(json.dumps(outcome.as_json()))["runs"]
    assert [run["ratio_to_plain"] for run in runs] == [1.0, 1.5, None]


def test_a_prediction_stands_beside_what_was_measured() -> None:
    plain = finished("plain", "plain", [None, 9.0, 9.0] + [2.0] * 5)
    ours = finished("ours", "outsize", [None, 9.0, 9.0] + [4.0] * 5, budget=5, predicted_seconds=3.0)
    outcome = outcome_of(plain, ours)
    assert outcome.prediction_error(ours) == -0.25
    assert [results.cells(outcome, run)[-2] for run in outcome.runs] == ["-", "3 s (-25%)"]
    assert "simulated before any of these ran" in "".join(results.footnotes(outcome))


def test_a_machine_that_drifted_takes_no_part_in_the_ratio() -> None:
    room = finished("room", "outsize", [None] + [4.0] * 7, budget=runner.ample(100 * MIB), predicted_seconds=2.0)
    ours = finished("ours", "outsize", [None] + [8.0] * 7, budget=5, predicted_seconds=3.0)
    outcome = outcome_of(room, ours)
    assert [outcome.drift_free_error(run) for run in outcome.runs] == [None, -0.25]
    assert [results.cells(outcome, run)[-2] for run in outcome.runs] == ["2 s (-50%)", "3 s (-62%, ratio -25%)"]
    assert "how the machine drifted" in "".join(results.footnotes(outcome))
    assert outcome_of(ours).drift_free_error(ours) is None


def test_predictions_are_written_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[dict[str, Any]] = []
    seated: list[str] = []

    def pretend(group: list[runner.Run], steps: int, told) -> None:
        stored.append(json.loads((tmp_path / "b.json").read_text()))
        seated.extend(run.label for run in group)

    monkeypatch.setattr(command, "take_turns", pretend)
    command.main(["mlp_stream", "--quick", "--predict", "--json", str(tmp_path / "b.json"), "--budgets", "50%"])
    assert seated == ["plain", "outsize 50%"]
    plain, ours = stored[0]["runs"]
    assert plain["predicted_steps"] == [], "only what outsize does is simulated"
    assert any("Recorded with room for all: " in note for note in stored[0]["notes"])
    assert ours["step_seconds"] == [] and len(ours["predicted_steps"]) == 2
    assert min(ours["predicted_steps"]) <= ours["predicted_step_seconds"] <= max(ours["predicted_steps"])
    done = json.loads((tmp_path / "b.json").read_text())["runs"]
    assert done[0]["least_wait_seconds"] is None and done[1]["least_wait_seconds"] >= 0, "after all has run"


def test_an_oracle_is_told_a_recording_made_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["moe", "--quick", "--budgets", "50%", "--policies", "lookahead,oracle", "--no-plain", "--peak", "64MiB"]
    assert command.main([*words, "--json", str(tmp_path / "b.json")]) == 0
    found = json.loads((tmp_path / "b.json").read_text())["runs"]
    assert [run["label"] for run in found] == ["outsize 50%, lookahead", "outsize 50%, oracle"]
    assert found[0]["losses"] == found[1]["losses"]
    assert [run["stats"]["foresee_ops"] > 0 for run in found] == [False, True]
    stats = found[1]["stats"]
    assert stats["foresee_known_ops"] > 0.98 * stats["foresee_ops"]
    (tmp_path / "own.py").write_text("")
    assert command.main([str(tmp_path / "own.py"), "--quick", "--policies", "oracle", "--peak", "1GiB"]) == 2
    assert "Policy oracle is timed on the examples" in capsys.readouterr().err


def test_what_cannot_be_predicted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text("")
    assert command.main([str(tmp_path / "own.py"), "--quick", "--predict", "--peak", "1GiB"]) == 2
    assert "--predict takes the examples" in capsys.readouterr().err
    assert command.main(["mlp_stream", "--predict", "--no-disk", "--peak", "1GiB", "--", "--tiny"]) == 2
    assert "needs the disk's bandwidths: leave --no-disk out" in capsys.readouterr().err


def verdict_of(*runs: runner.Run, with_plain: bool = True) -> tuple[int, str]:
    outcome = outcome_of(*runs)
    outcome.warmup, outcome.steps = 1, 1
    return demo.verdict(outcome, with_plain)


def test_the_demo_fails_when_a_loss_differs_or_is_missing() -> None:
    plain = finished("plain", "plain", [None, 1.0, 1.0, 1.0], losses=["1", "2"])
    same = finished("same", "outsize", [None], losses=["1", "2"])
    other = finished("other", "outsize", [None], losses=["1", "2.5"])
    short = finished("short", "outsize", [None], losses=["1"])
    died = finished("died", "outsize", [None], failure="died: no memory")
    assert verdict_of(plain, same) == (0, "All 2 losses equal plain PyTorch's to the last bit.")
    assert verdict_of(plain, other) == (1, "FAILED: losses differ.")
    assert verdict_of(plain, short)[0] == 1
    assert verdict_of(plain, died) == (1, "FAILED: died did not finish.")
    # Where plain does not fit, the budgets are compared with each other.
    assert verdict_of(same, other, with_plain=False)[0] == 1
    assert verdict_of(same, replace(same), with_plain=False)[0] == 0


def test_the_demo_without_room_for_plain_says_so(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    seated: list[list[runner.Run]] = []

    def pretend(group: list[runner.Run], steps: int, told) -> None:
        seated.append(group)
        for run in group:
            run.losses, run.step_seconds = ["1"] * steps, [None] + [1.0] * (steps - 1)

    small = MemoryLimits(total=8 * GIB, available=5 * GIB)
    monkeypatch.setattr(demo.memory, "limits", lambda: small)
    monkeypatch.setattr(demo, "take_turns", pretend)
    assert demo.main(["--steps", "1"]) == 0
    said = capsys.readouterr()
    assert "5.00 GiB are free here: it would not fit" in said.err
    assert [run.label for group in seated for run in group] == ["outsize, 40 %", "outsize, 20 %"]
    assert "each other's to the last bit" in said.out


def test_the_time_that_remains_is_each_ones_own() -> None:
    bar = progress.Progress("t", {"a": 3, "b": 3}, {"a": 10.0, "b": 2.0})
    assert bar.seconds_left() == 36.0


def test_the_time_that_remains_follows_what_was_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 9.0, 14.0, 21.0])  # begun, then each step's end
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    bar = progress.Progress("t", {"a": 3, "b": 1}, {"a": 10.0, "b": 2.0})
    first = finished("a", "plain", [])
    for step in (1, 2, 3):
        bar.told(first, step)
    assert bar.seconds_left() == 6.0, "b is taken to be no faster than a, whose steps took 5 and 7 s"
    monkeypatch.setattr(progress.time, "monotonic", lambda: 22.0)
    bar.told(finished("b", "outsize", []), 1)
    assert capsys.readouterr().err.splitlines()[-1] == "[4/4] b: step 1, 1.0 s", "nothing is left"


def test_workloads_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    found = workloads.find("gpt_bytes", ["--tiny"])
    assert found.for_steps(5).args == ("--tiny", "--steps", "5")
    assert {"gpt_bytes", "mlp_stream", "moe", "tree_lstm"} <= set(workloads.example_names())
    mine = tmp_path / "train.py"
    mine.write_text("")
    assert workloads.find(str(mine), []).for_steps(5).args == ()
    with pytest.raises(workloads.WorkloadError, match="neither an example"):
        workloads.find("nothing", [])


LOOP = """\
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(1, {steps}):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 64)).square().sum()
    loss.backward()
    optimizer.step()
    print(f"step {{i}} loss {{loss.item():.9g}}", flush=True)
"""


def script(tmp_path: Path, text: str) -> workloads.Workload:
    path = tmp_path / "loop.py"
    path.write_text(text)
    return workloads.Workload("loop", path)


def test_settings_stay_with_their_policy() -> None:
    assert command.named_policies("lookahead, ondemand") == ["lookahead", "ondemand"]
    text = "deepum:degree=16, pre-eviction=off,lookahead,deepum:,deepum:rows=8,ways=4"
    settings = ["deepum:degree=16, pre-eviction=off", "lookahead", "deepum:", "deepum:rows=8,ways=4"]
    assert command.named_policies(text) == settings


def test_workers_take_turns_and_frozen_ones_stand_still(tmp_path: Path) -> None:
    endless = script(tmp_path, LOOP.format(steps=10**9))
    runs = [runner.Run(name, "plain", endless) for name in ("a", "b")]
    order: list[str] = []
    runner.take_turns(runs, 4, lambda run, step: order.append(f"{run.label}{step}"))
    assert order == ["a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"]
    for run in runs:
        assert not run.failure and len(run.step_seconds) == 4
        assert run.step_seconds[0] is None and all(s > 0 for s in run.step_seconds[1:])
        assert len(run.losses) == 3  # the last step's line comes after its hook
        assert 50 * MIB < run.imports_rss <= run.peak_rss


def test_a_worker_that_dies_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    endless = script(tmp_path, LOOP.format(steps=10**9))
    dying_path = tmp_path / "dying.py"
    dying_path.write_text(LOOP.format(steps=3) + "raise ValueError('no more data')\n")
    dying = workloads.Workload("dying", dying_path)
    runs = [runner.Run("dies", "plain", dying), runner.Run("lives", "plain", endless)]
    runner.take_turns(runs, 4, lambda run, step: None)
    assert "ValueError: no more data" in runs[0].failure
    assert not runs[1].failure and len(runs[1].step_seconds) == 4


def test_a_killed_benchmark_leaves_no_frozen_process(tmp_path: Path) -> None:
    script(tmp_path, LOOP.format(steps=10**9))
    code = (
        "import sys, time; from pathlib import Path\n"
        "from outsize.bench import runner, workloads\n"
        "run = runner.Run('a', 'plain', workloads.Workload('loop', Path('loop.py')))\n"
        "worker = runner.Worker(run); worker.first_step()\n"
        "print(worker._process.pid, flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    worker = int(parent.stdout.readline())
    assert reaches(worker, "T")  # frozen
    parent.kill()
    parent.wait()
    assert reaches(worker, "Z")


def reaches(pid: int, wanted: str) -> bool:
    """Whether a process comes to a state within ten seconds; one that is gone is dead (Z)."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            state = "Z"
        if state == wanted:
            return True
        time.sleep(0.1)
    return False


def test_a_script_that_ends_too_soon_is_told_so(tmp_path: Path) -> None:
    short = script(tmp_path, LOOP.format(steps=3))
    run = runner.Run("short", "plain", short)
    runner.take_turns([run], 4, lambda run, step: None)
    assert "ended after 2 steps" in run.failure


def test_peaks_are_counted_in_a_worker(tmp_path: Path) -> None:
    text = LOOP.format(steps=10**9).replace("torch.ones(4, 64)", "torch.ones(16384, 64)")
    peak = runner.count_peaks(script(tmp_path, text), 3, lambda run, step: None)
    assert 8 * MIB < peak < 24 * MIB  # input, output, its square and gradients, 4 MiB each


@pytest.mark.cgroup
@pytest.mark.parametrize("how", ["well", "exception", "SIGTERM"])
def test_the_kernels_swap_is_undone_whatever_happens(tmp_path: Path, how: str) -> None:
    directory = Path("/var/tmp")

    def ours() -> list[str]:
        groups = Path("/sys/fs/cgroup").glob("**/outsize-bench-*")
        files = directory.glob(f"outsize-bench-{os.getpid()}.swap")
        swaps = [
            line
            for line in Path("/proc/swaps").read_text().splitlines()
            if f"outsize-bench-{os.getpid()}." in line
        ]
        return [str(path) for path in [*groups, *files] if str(os.getpid()) in str(path)] + swaps

    try:
        with swap.kernel_swap(str(directory), 64 * MIB, 256 * MIB) as prefix:
            assert len(ours()) == 3  # the cgroup, the file, the swap
            done = subprocess.run(
                [*prefix, "cat", "/proc/self/cgroup"], capture_output=True, text=True, check=True
            )
            assert f"outsize-bench-{os.getpid()}" in done.stdout
            if how == "exception":
                raise KeyError
            if how == "SIGTERM":
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
    except swap.SwapUnavailable as reason:
        pytest.skip(f"no swap under a memory cgroup here: {reason}")
    except (KeyError, SystemExit) as error:
        assert isinstance(error, KeyError) == (how == "exception")
    assert ours() == []
