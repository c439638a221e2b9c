"""By how much transfers hold up a program that computes: `outsize.moves`, with a clock and a disk of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from outsize import checkup, moves
from outsize.device import least_transfer_seconds
from outsize.moves import delays, held_up
from outsize.units import MIB


class Machine:
    """A piece of work takes a second, and while bytes move, for four pieces at a time, longer by what this turn's is."""

    bytes = 2 * MIB

    def __init__(self, *slower: float) -> None:
        self.slower, self.turn, self.now, self.left = slower or (0.5,), -1, 0.0, 0
        self.moving, self.moved = threading.Event(), threading.Event()
        self.writes: list[bool] = []

    def move(self, write: bool) -> None:
        self.writes.append(write)
        self.turn += 1
        self.left = 4
        self.moved.clear()
        self.moving.set()
        assert self.moved.wait(60)

    def compute(self) -> None:
        self.now += 1.0
        if not self.moving.is_set():
            return
        self.now += self.slower[self.turn % len(self.slower)]
        self.left -= 1
        if self.left == 0:
            self.moving.clear()
            self.moved.set()

    def clock(self) -> float:
        return self.now


def test_what_transfers_take_is_the_difference() -> None:
    machine = Machine()
    assert held_up(delays(machine, machine.compute, machine.clock)) == pytest.approx(1e9)
    assert machine.writes.count(True) == machine.writes.count(False) > 0
    faster = Machine(-0.5)  # by chance
    assert held_up(delays(faster, faster.compute, faster.clock)) < 0


def test_a_host_in_a_mood_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "LONGEST_S", 1e9)
    machine = Machine(0.5, 0.5, 90.0, 0.5, 0.5, 0.25)
    assert held_up(delays(machine, machine.compute, machine.clock)) == pytest.approx(1e9)
    assert len(machine.writes) == 2 * moves.ROUNDS


def test_a_slow_disk_is_not_waited_for_long() -> None:
    machine = Machine()  # a turn takes twelve seconds and more
    delays(machine, machine.compute, machine.clock)
    assert len(machine.writes) == 4


def test_a_disk_that_fails_is_told() -> None:
    class Broken(Machine):
        def move(self, write: bool) -> None:
            raise RuntimeError("the disk is gone")

    machine = Broken()
    with pytest.raises(RuntimeError, match="the disk is gone"):
        delays(machine, machine.compute, machine.clock)


def test_two_moods_of_the_host_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {("held-up",): {"delays": [100] * 4}, (): {"delays": [900] * 12, "page_ns": 7}}
    monkeypatch.setattr(checkup, "run_moves", lambda _directory, _sample, *only: dict(told[only]))
    before = checkup.run_moves("", 1, "held-up")
    assert checkup.measure_moves("", 1, before) == {"page_ns": 7, "held_up_mib_ns": 500}
    assert checkup.measure_moves("", 1, {"error": "no end"})["held_up_mib_ns"] == 900
    told[()] = {"delays": [-700] * 4}
    assert checkup.measure_moves("", 1, before) == {"held_up_mib_ns": 0}
    told[()] = {"held_up_error": "the disk is gone"}
    assert checkup.measure_moves("", 1, before) == {"held_up_mib_ns": 100}
    assert checkup.measure_moves("", 1, {"error": "no end"}) == {"held_up_error": "the disk is gone"}


def test_it_is_measured_before_the_disk_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Core:
        def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
            return lambda *_words: {}

        def measure_disk(self, _directory: str, _sample: int) -> dict[str, int]:
            order.append("disk")
            return {"read": 1}

    def run_moves(_directory: str, _sample: int, *only: str) -> dict[str, Any]:
        order.append(" ".join(only) or "all")
        return {"delays": [len(order)] * 4}

    monkeypatch.setattr(checkup.compiled, "load", Core)
    monkeypatch.setattr(checkup, "_auto_budget", lambda _limits: 0)
    monkeypatch.setattr(checkup, "run_moves", run_moves)
    assert checkup.examine("", "65MiB")["moves"] == {"held_up_mib_ns": 2}
    assert order == ["held-up", "disk", "all"]
    order.clear()
    checkup.examine("", "64MiB")
    assert order == ["disk", "all"], "a smoke test is short"


def test_only_what_was_asked_for_is_measured() -> None:
    found = checkup.run_moves("/var/tmp", 8 * MIB, "held-up")
    assert list(found) == ["delays"] and len(found["delays"]) >= 4


@pytest.mark.parametrize("device, read, written, seconds", [
    ((1.0, 0.5, 0.5, 0.25), 1.0, 0.0, 1.0),
    ((1.0, 0.5, 0.5, 0.25), 1.0, 0.5, 2.0),
    ((1.0, 0.5, 1.0, 0.5), 4.0, 0.5, 4.0),  # neither way disturbs the other
    ((1.0, 0.5, 0.1, 0.05), 1.0, 0.5, 2.0),  # together they are slower than in turns
    ((1.0, 0.5, 2.0, 0.25), 1.0, 0.0, 0.5),  # faster beside writes, by a measurement's chance
    ((1.0, 1.0, 0.8, 0.8), 16.0, 8.0, 18.0),  # apart 24, always both 20
])  # fmt: skip
def test_the_least_time_for_bytes_both_ways(
    device: tuple[float, ...], read: float, written: float, seconds: float
) -> None:
    rates = dict(zip(("read", "write", "mixed_read", "mixed_write"), device, strict=True))
    assert least_transfer_seconds(read, written, rates) == pytest.approx(seconds)
