"""What a person is shown: the live line, the table at the end, and the same facts as JSON."""

from __future__ import annotations

import io
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from outsize import live, report
from outsize.counters import Stats
from outsize.units import GIB, MIB

# --- reports --------------------------------------------------------------------------------------

BUSY = Stats(
    budget=1631 * MIB, resident=1600 * MIB, resident_peak=1630 * MIB, tensor_bytes_peak=4078 * MIB,
    spill_file=3 * GIB, read_bytes=26 * GIB, write_bytes=30 * GIB, prefetch_hit_bytes=90,
    demand_bytes=10, stall=8 * 10**9, steps=10, ops=1000, min_budget=152 * MIB,
    min_budget_op="aten::mm", mechanism="userfaultfd+move", policy="lookahead",
    spill_dir="/var/tmp", seconds=100.0, process_peak=2150 * MIB,
)  # fmt: skip


def test_derived_figures() -> None:
    assert BUSY.stall_share == pytest.approx(0.08)
    assert BUSY.prefetch_hit_share == pytest.approx(0.9)
    assert BUSY.written_bytes_per_day == pytest.approx(30 * GIB * 864)
    assert Stats().prefetch_hit_share is None and Stats().stall_share == 0


def test_the_table_says_what_design_promises() -> None:
    out = io.StringIO()
    report.print_report(BUSY, out)
    text = out.getvalue()
    for part in (
        "1.59 GiB of a budget of 1.59 GiB (100%)", "peak of all tensors", "2.10 GiB in RAM at its peak",
        "26.0 GiB, 2.60 GiB a step",
        "30.0 GiB, 3.00 GiB a step", "8.0 s (8.0% of the time)", "recompute", "90.0% of the bytes",
        "27.8 TB a day", "3.00 GiB in /var/tmp", "152 MiB, needed by aten::mm", "10 steps",
    ):  # fmt: skip
        assert part in text, part


def test_what_wears_the_disk_out_is_told() -> None:
    """A drive of 500 GB is taken to be rated for 300 TB: at 100 TB a day it lasts three days."""
    worn = Stats(budget=GIB, write_bytes=100 * 10**12, seconds=86400.0, disk_size=500 * 10**9, ops=1)
    assert worn.rated_life_days == pytest.approx(3.0)
    text = str(worn)
    assert "3.0 days at this pace" in text and "500 GB, rated for 300 TB" in text
    assert "disk write limit" not in text and "verified" not in text
    assert Stats(budget=GIB, seconds=1.0, disk_size=1).rated_life_days is None
    toy = Stats(budget=GIB, write_bytes=10**12, seconds=60.0, disk_size=10**9, ops=1)
    assert "36.0 s at this pace" in str(toy) and "1.44 PB a day" in str(toy)


def test_the_write_limit_says_who_waited() -> None:
    limited = Stats(budget=GIB, ops=1, write_bytes=GIB, seconds=10.0, stall=4 * 10**9,
                    disk_write_limit=10**8, held_back=3 * 10**9)  # fmt: skip
    told = "100 MB a second (8.64 TB a day): writes that were needed waited 3.0 s for it"
    assert told in str(limited)
    crawl = Stats(budget=GIB, disk_write_limit=5)
    assert "5 B a second (432 kB a day)" in str(crawl)
    assert "3.0 s of it for the disk write limit" in limited.brief()
    assert "--disk-write-limit" in str(report.advice(limited))
    idle = Stats(budget=GIB, ops=1, write_bytes=GIB, seconds=10.0, disk_write_limit=10**8)
    assert "nobody had to wait for it" in str(idle) and "limit" not in idle.brief()


def test_who_foresees_is_told_where_the_policy_chooses() -> None:
    said = "pilot since step 34 (foresees 91 %, the usual way 62 %)"
    automatic = replace(BUSY, policy="auto", foresight=said)
    assert automatic.brief().endswith(f" · foresight: {said}")
    assert said in str(automatic) and automatic.as_dict()["foresight"] == said
    assert "foresight" not in BUSY.brief() and "foresight" not in str(BUSY)


def test_checksums_are_told_with_their_cost() -> None:
    checked = Stats(budget=GIB, ops=1, seconds=1.0, verified_bytes=2 * GIB, verify=150 * 10**6)
    assert "2.00 GiB checksummed in 150 ms" in str(checked)


def test_what_is_no_tensor_is_told_when_it_is_much() -> None:
    some = Stats.of({"budget": GIB, "ops": 1, "untracked": [("aten::topk [9]", 500 * MIB), ("", GIB)]}, 1)
    assert some.untracked[1] == ("Python, between ops", GIB)
    assert "500 MiB in aten::topk [9]; 1.00 GiB in Python, between ops (RAM that" in str(some)
    little = Stats(budget=GIB, ops=1, untracked=(("aten::topk [9]", 5 * MIB),))
    assert "untracked" not in str(little)


def test_a_budget_for_the_process_is_told_as_one() -> None:
    whole = Stats(budget=300 * MIB, resident_peak=500 * MIB, process_budget=GIB,
                  process_peak=768 * MIB, min_budget=400 * MIB, ops=1)  # fmt: skip
    assert "peak in RAM: 500 MiB of tensors\n" in str(whole)
    assert "whole process: 768 MiB of a budget of 1.00 GiB (75%)" in str(whole)
    assert "refused" not in (report.advice(whole) or "")
    assert "An op was refused: its error says" in report.advice(replace(whole, refused_ops=1))
    assert "too small for this program" in str(replace(whole, process_peak=GIB + 20 * MIB))
    assert "too small" not in str(whole)


def test_the_table_is_framed_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    report.print_report(BUSY, out)
    assert "╭" in out.getvalue() and "smallest budget" in out.getvalue()


def test_json_is_complete_and_plain(tmp_path: Path) -> None:
    report.write_json(str(tmp_path / "r.json"), report.as_json(BUSY, {"budget": "40%"}))
    read = json.loads((tmp_path / "r.json").read_text())
    assert read["stats"]["read_bytes"] == 26 * GIB
    assert read["stats"]["stall_share"] == pytest.approx(0.08)
    assert {"cpu", "cores", "ram_bytes", "kernel", "python", "torch"} <= set(read["machine"])


def test_every_field_of_the_json_has_its_unit_in_the_guide(root: Path) -> None:
    chapter = (root / "docs/GUIDE.md").read_text().split("### The numbers for programs\n")[1]
    rows = re.findall(r"^\| (`.*?) \| (.+?) \| .+ \|$", re.split(r"^##", chapter, flags=re.M)[0], re.M)
    told = [name for names, unit in rows for name in re.findall(r"`(\w+)`", names)]
    assert sorted(told) == sorted(Stats().as_dict())


def test_a_report_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    report.write_json("/no/such/folder/r.json", {})
    assert "could not be written" in capsys.readouterr().err


def test_advice_fits() -> None:
    assert "Everything fitted" in report.advice(Stats(budget=1, ops=1))
    refused = Stats(budget=MIB, min_budget=2 * MIB, refused_ops=1, ops=1, policy="lookahead")
    assert "at least 2.00 MiB" in report.advice(refused)
    full = replace(refused, min_budget=MIB, min_spill_file=52 * MIB)
    assert "takes 52.0 MiB or more" in report.advice(full) and "spill file: 52.0 MiB or more" in str(full)
    assert str(Stats()) == "budget: none has been in force"
    slow = Stats(budget=1, read_bytes=1, stall=50 * 10**9, seconds=100.0, steps=1, policy="lookahead")
    assert "waited 50% of the time" in report.advice(slow)
    assert "call outsize.step()" in report.advice(replace(slow, steps=0))
    assert "waited 50%" in report.advice(replace(slow, steps=0, policy="ondemand")), "knows no steps"
    assert report.advice(BUSY) is None


# --- the live line --------------------------------------------------------------------------------


def test_the_live_line_in_a_log_is_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "INTERVAL_SECONDS", 0.001)
    current = [Stats(budget=1, steps=0)]
    out = io.StringIO()
    line = live.LiveLine(lambda: current[0], out)
    line.start()
    for step in range(1, 60):
        current[0] = Stats(budget=1, steps=step, ops=1)
        time.sleep(0.004)
    line.stop()
    shown = out.getvalue().splitlines()
    # Which steps it catches is up to the scheduler; that it stays rare is not.
    assert 1 <= len(shown) <= 5 and all(row.startswith("outsize: step ") for row in shown)


def test_the_terminal_is_left_as_it_was() -> None:
    import pty

    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        bottom = live.BottomRow(terminal)
        bottom.show("outsize: step 1 " + "x" * 200)
        bottom.show("outsize: step 2")
        bottom.close()
        bottom.close()
        terminal.write("the end")
        terminal.flush()
        text = ""
        while "the end" not in text:  # a terminal hands on what was written piece by piece
            text += os.read(master, 65536).decode()
    os.close(master)
    assert text.count("\x1b[1;23r") == 1  # the region is set once
    assert text.count("\x1b[r") == 1 and text.index("\x1b[r") > text.index("step 2")
    assert "x" * 64 not in text  # cut to the width


def test_a_broken_stream_does_not_hurt_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(live, "INTERVAL_SECONDS", 0.001)
    line = live.LiveLine(lambda: Stats(budget=1, steps=1), Broken())
    line.start()
    line._thread.join(5)
    assert not line._thread.is_alive()
    line.stop()
