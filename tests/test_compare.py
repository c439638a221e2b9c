"""`outsize compare`, its page in a real browser, and the page of a live run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import browser
from support.launch import MIB, clean_environment
from support.recorded import outsize, record_into

from outsize.page.drawn import BARS_MAX, POINTS_MAX, STALLS_MAX, drawn

needs_browser = pytest.mark.skipif(browser.found() is None, reason="no Chromium here: " + ", ".join(browser.NAMES))
ASKED = ("--policy", "lookahead,ondemand", "--budget", "100%,50%,5MiB", "--device", "fast.json", "slow.json")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = record_into(tmp_path_factory.mktemp("recorded"))
    outsize(folder, "compare", "run.trace", *ASKED, "-o", "page.html")
    return folder


def compared(folder: Path, *words: str) -> dict[str, Any]:
    return json.loads(outsize(folder, "compare", "run.trace", "--json", *words).stdout)


def test_every_policy_budget_and_disk_has_a_run_as_simulate_has_it(recorded: Path) -> None:
    found = compared(recorded, *ASKED)
    assert len(found["runs"]) == found["runs_asked_for"] == 12 and not found["interrupted"]
    for device in ("fast", "slow"):
        told = json.loads(outsize(recorded, "simulate", "run.trace", "--device", f"{device}.json", "--policy",
                                  "lookahead,ondemand", "--budget", "100%,50%", "--json").stdout)  # fmt: skip
        ours = {(run["policy"], run["budget"]): run for run in found["runs"] if run["device"] == f"{device}.json"}
        for run in told["runs"]:
            same = ours[run["policy"], run["budget"]]
            for name in ("step_seconds", "limit_seconds", "time_ns", "stall_ns", "peak_bytes"):
                assert same[name] == run[name], name
        for policy in ("lookahead", "ondemand"):
            refused = ours[policy, "5MiB"]
            assert refused["step_seconds"] is None and "one op needs" in refused["reason"]


def test_models_of_other_systems_are_drawn_as_well(recorded: Path) -> None:
    found = compared(recorded, "--policy", "uvm,deepum-blocks", "--budget", "50%", "--device", "slow.json",
                     "-o", "uvm.html")  # fmt: skip
    assert [run["policy"] for run in found["runs"]] == ["uvm", "deepum-blocks"]
    assert all(run["stall_seconds"] > 0 and not run["reason"] for run in found["runs"])
    assert "deepum-blocks" in (recorded / "uvm.html").read_text()


def test_weights_stands_beside_the_others(recorded: Path) -> None:
    policies = ["lookahead", "weights", "weights:solver=greedy,moves=weights"]
    found = compared(recorded, "--policy", ",".join(policies), "--budget", "50%", "--device", "slow.json")
    runs = {run["policy"]: run for run in found["runs"]}
    assert list(runs) == policies and not any(run["reason"] for run in runs.values())
    assert runs["weights"]["time_ns"] != runs["lookahead"]["time_ns"], "the plan changed nothing"


def test_the_table_has_a_dash_and_a_reason_where_a_budget_is_too_small(recorded: Path) -> None:
    lines = outsize(recorded, "compare", "run.trace", *ASKED).stdout.splitlines()
    rows = [line.split() for line in lines if " ondemand " in line or " lookahead " in line]
    assert len(rows) == 12
    for row in rows:
        assert (row[4] == "-") == ("refused," in row) == row[0].startswith("5MiB"), row


def test_ctrl_c_tells_what_is_done(recorded: Path) -> None:
    budgets = ",".join(f"{share / 10}%" for share in range(300, 1000))
    with subprocess.Popen(
        [sys.executable, "-m", "outsize", "compare", "run.trace", "--device", "slow.json", "--budget", budgets,
         "-o", "broken-off.html"], cwd=recorded, env=clean_environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        for _ in range(3):
            assert running.stderr.readline().startswith("[")
        running.send_signal(signal.SIGINT)
        said, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    last = told.splitlines()[-1]
    done = re.fullmatch(r"outsize compare: interrupted; (\d+) of 1400 runs were done\.", last)
    assert done and 3 <= int(done[1]) < 1400, told
    assert said.count("lookahead") + said.count("ondemand") == int(done[1])
    assert "it was interrupted" in (recorded / "broken-off.html").read_text()


def damaged(whole: bytes, how: str) -> bytes:
    if how == "cut off":
        return whole[: len(whole) // 2]
    if how == "changed":
        middle = len(whole) // 2
        return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    return whole


@pytest.mark.parametrize(("words", "told"), [
    (["cut off.trace", "--device", "slow.json"], "the trace is cut off"),
    (["changed.trace", "--device", "slow.json"], "the trace is damaged"),
    (["train.py", "--device", "slow.json"], "train.py: the file is no trace of outsize"),
    (["run.trace", "none.trace", "--device", "slow.json"], "none.trace: the trace cannot be read: No such file"),
    (["run.trace", "--device", "slow.json", "train.py"], "train.py holds no disk's bandwidths"),
    (["run.trace", "--device", "slow.json", "--policy", "ondemand,best"], "best"),
    (["run.trace", "--device", "slow.json", "--budget", "50%,much"], "'much' is not a size"),
    (["run.trace", "--device", "slow.json", "--steps", "3-2", "-o", "x.html"], "'3-2' names no steps"),
    (["run.trace", "--device", "slow.json", "--steps", "2"], "--steps says what a page draws"),
    (["run.trace", "--device", "slow.json", "--steps", "9", "-o", "x.html"], "run.trace has 4 steps, and --steps"),
    (["run.trace", "--device", "slow.json", "-o", "-"], "a page goes to a file"),
    (["run.trace"], "--device"),
])  # fmt: skip
def test_what_cannot_be_is_told_in_one_line_before_anything_runs(recorded: Path, words: list[str], told: str) -> None:
    for how in ("cut off", "changed"):
        (recorded / f"{how}.trace").write_bytes(damaged((recorded / "run.trace").read_bytes(), how))
    done = outsize(recorded, "compare", *words, code=2)
    assert told in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


# --- the page ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(recorded: Path) -> Iterator[browser.Page]:
    with browser.opened() as opened:
        opened.open(recorded / "page.html")
        yield opened


def tip(page: browser.Page) -> str:
    return "" if page.value("document.getElementById('tip').hidden") else page.value(
        "document.getElementById('tip').textContent")  # fmt: skip


def point_at_the_longest_stall(page: browser.Page) -> None:
    """In the middle of what is shown, once it was clicked, but where it is near the beginning or the end."""
    x, y = page.middle("#lane-stalls")
    off = page.value("""(() => {
        const longest = view.stalls.map((row) => stallOf(view, row)).sort((a, b) => b.nanos - a.nanos)[0];
        const share = ((longest.begin + longest.nanos / 2) / view.unit - from) / (to - from);
        return (share - 0.5) * document.getElementById('lane-stalls').getBoundingClientRect().width; })()""")
    page.point(x + off, y)


def show_run(page: browser.Page, name: str) -> None:
    page.value(f"""(() => {{ const s = document.getElementById('run');
        s.value = [...s.options].find((o) => o.textContent === {json.dumps(name)}).value;
        s.dispatchEvent(new Event('change')); }})()""")


@needs_browser
def test_the_page_opens_without_network_and_without_errors(page: browser.Page, recorded: Path) -> None:
    assert page.asked == [(recorded / "page.html").resolve().as_uri()]
    assert page.value("document.querySelectorAll('#runs tbody tr').length") == 12
    assert page.value("document.querySelectorAll('.chart svg').length") == 2
    assert page.value("document.querySelectorAll('#run option').length") == 8, "refused runs are not drawn"
    assert page.value("document.getElementById('left-out').textContent").startswith("Drawn are steps 3 to 4.")
    assert page.errors == []


@needs_browser
def test_pointing_at_a_stall_names_its_cause_its_op_and_its_bytes(page: browser.Page) -> None:
    show_run(page, "run.trace, slow.json, ondemand, 50%")
    page.click("#longest tbody tr")
    length, why, who = page.value(
        "[...document.querySelectorAll('#longest tbody tr:first-child td')].slice(1).map((d) => d.textContent)"
    )
    point_at_the_longest_stall(page)
    told = tip(page)
    assert told == f"stall of {length}: {why}\n{who}"
    assert re.search(r"waits for (the read of|a write to make room:) extent \d+, [\d.]+ [KM]iB", told), told
    assert re.search(r"\nop: aten::\w+.*; [\d.]+ [KM]iB is ", told), told
    view = page.value("run.view")
    row = max(view["stalls"], key=lambda row: row[7])  # as drawn.py orders its numbers
    assert f"extent {row[8]}," in told and view["names"][row[3]] in told
    assert ("the read of" in told) == (row[2] == 0) and ("a write to make room" in told) == (row[2] == 1)
    lanes = {"#lane-memory": "in RAM of a budget of", "#lane-up": "read: extent"}
    for lane, words in lanes.items():
        x, y = page.middle(lane)
        width = page.value(f"document.querySelector('{lane}').clientWidth")
        seen = []
        for share in range(-40, 41, 4):  # a read is somewhere around a long stall
            page.point(x + share / 100 * width, y)
            seen.append(tip(page))
        assert any(words in text for text in seen), (lane, seen)
    page.point(5, 5)
    assert tip(page) == ""
    assert page.errors == []


@needs_browser
def test_a_run_is_chosen_zoomed_and_shown_whole_again(page: browser.Page) -> None:
    page.click("#runs tbody tr:nth-child(3)")
    assert page.value("document.querySelector('#run').selectedOptions[0].textContent") == (
        "run.trace, fast.json, lookahead, 50%")  # fmt: skip
    whole = page.value("to - from")
    x, y = page.middle("#lane-work")
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-100)
    assert page.value("to - from") < 0.9 * whole
    page.value("document.getElementById('lane-work').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    assert page.value("from") == 0 and page.value("to") == whole
    assert page.errors == []


@needs_browser
def test_a_live_run_has_its_page(recorded: Path) -> None:
    told = outsize(recorded, "report", "--budget", "20MiB", "--policy", "ondemand", "--json", "live.json",
                   "train.py", "-o", "live.html").stderr  # fmt: skip
    assert f"page of the last steps in {recorded / 'live.html'}" in told
    stats = json.loads((recorded / "live.json").read_text())["stats"]
    with browser.opened() as page:
        page.open(recorded / "live.html")
        view = page.value("data.runs[0].view")
        assert 0 < sum(view["stall_by_cause"]) <= stats["stall"]
        assert max(view["resident"][1::2]) <= stats["resident_peak"] <= 20 * MIB
        assert (view["first_step"], view["last_step"]) == (2, 4)
        page.click("#longest tbody tr")
        point_at_the_longest_stall(page)
        assert re.search(r"waits for .*\n(op|raw).*: .*aten::", tip(page)), tip(page)
        assert page.errors == [] and len(page.asked) == 1


# --- what is drawn of a long run -----------------------------------------------------------------------


def long_timeline(events: int) -> dict[str, Any]:
    """Of each op a read that it waited for: 100 ns of reading, then 100 ns of work."""
    flat: dict[str, list[int]] = {"work": [], "moves": [], "stalls": [], "resident": []}
    for i in range(events):
        at = 200 * i
        flat["moves"] += [0, i % 7, 1000, at, at, at + 100, 0, 0]
        flat["stalls"] += [0, 0, 0, 1, 1000, at, at, at + 100 - i % 3, i % 7, 1000, at, at, 0, 0]
        flat["work"] += [0, at + 100, at + 200, 1]
        flat["resident"] += [at, 1000 + i % 5]
    return flat | {"begin": 0, "end": 200 * events, "last_step": 1, "steps": 1, "cut": 0, "step_ends": [200 * events],
                   "sites": [0, 42], "stall_by_cause": [0, 0, 0], "stalls_by_cause": [0, 0, 0]}  # fmt: skip


def test_of_a_long_run_little_is_drawn_and_what_is_left_out_is_said() -> None:
    events = 30_000
    view = drawn(long_timeline(events), {42: "aten::add"})
    assert len(view["work"]) <= BARS_MAX and len(view["up"]) <= BARS_MAX and view["down"] == []
    assert len(view["stalls"]) == STALLS_MAX and len(view["resident"]) / 2 <= 1.1 * POINTS_MAX
    assert sum(bar[4] for bar in view["work"]) == events == len(view["work"]) + view["ops_put_together"]
    assert sum(bar[2] for bar in view["up"]) == 1000 * events
    stalled = sum(100 - i % 3 for i in range(events))
    assert sum(row[7] for row in view["stalls"]) + view["stalls_left_out_ns"] == stalled
    assert view["stalls_left_out"] == events - STALLS_MAX
    assert {row[7] for row in view["stalls"]} == {100}, "the longest are kept"
    assert max(view["resident"][1::2]) == 1004 and view["names"] == ["aten::add"]
    assert len(json.dumps(view)) < 200_000
    tenth = drawn(long_timeline(events), {42: "aten::add"}, 0.1)
    assert len(json.dumps(tenth)) < 0.2 * len(json.dumps(view)) and sum(bar[4] for bar in tenth["work"]) == events


def test_of_a_short_run_everything_is_drawn() -> None:
    view = drawn(long_timeline(50), {})
    assert len(view["work"]) == len(view["up"]) == len(view["stalls"]) == 50
    assert view["ops_put_together"] == view["transfers_put_together"] == view["stalls_left_out"] == 0
    assert view["work"][1][1:3] == [300, 100] and view["names"] == [""]
