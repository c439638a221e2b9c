"""By how much transfers hold up a program that computes: `outsize.moves`, with a clock and a disk of its own."""

from __future__ import annotations

import threading

import pytest
from outsize import checkup, moves
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
