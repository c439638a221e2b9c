"""Starts workers and gives them turns.

The workers stand side by side, each holding its memory. One step is one turn; whoever is not on
turn is frozen (SIGSTOP), all its threads with it, so that nobody prefetches or writes ahead on
another's time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outsize.bench.workloads import Workload, parse_losses
from outsize.units import GIB, format_count


class WorkerError(RuntimeError):
    """A worker died or said that it cannot go on; the message holds its last words."""


class LeastWait(NamedTuple):
    """Seconds of a counted step."""

    compute: float  # as recorded
    wait: float  # that no planner does without, for this disk (sim/window_limit.h)


@dataclass
class Run:
    """One contestant and what was measured of it."""

    label: str
    mode: str  # plain, outsize, count
    workload: Workload
    warmup: int = 3  # steps that do not count
    budget: int = 0  # bytes; 0: none
    enable: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()  # a command that becomes the worker (enters a cgroup first)
    step_seconds: list[float | None] = field(default_factory=list)  # None: it built the model too
    predicted_steps: list[float] = field(default_factory=list)  # seconds of the counted ones, before it ran
    predicted_seconds: float | None = None  # their median
    least_wait: LeastWait | None = None
    losses: list[str] = field(default_factory=list)
    imports_rss: int = 0
    peak_rss: int = 0
    stats: list[dict[str, Any]] = field(default_factory=list)  # after each step
    peaks: list[int] = field(default_factory=list)  # mode count
    failure: str = ""


def ample(peak: int) -> int:
    """A budget in which all fits."""
    return max(2 * peak, GIB)


class Worker:
    """One process. After every call it is frozen, waiting for its next turn."""

    def __init__(self, run: Run, count_steps: int = 3) -> None:
        self.run = run
        self.ended = False
        self._lines: list[str] = []
        read_orders, self._orders_fd = os.pipe()
        self._events_fd, write_events = os.pipe()
        orders = {
            "mode": run.mode,
            "read": read_orders,
            "write": write_events,
            "enable": run.enable,
            "count_steps": count_steps,
        }
        command = [*run.prefix, sys.executable, "-m", "outsize.bench.worker", json.dumps(orders)]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self._process = subprocess.Popen(
            [*command, str(run.workload.script), *run.workload.args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            pass_fds=(read_orders, write_events),
            env=os.environ | {"OUTSIZE": "1", "PYTHONUNBUFFERED": "1"} | run.environment,
            text=True,
            start_new_session=True,  # Ctrl-C is ours to hand on
        )
        os.close(read_orders)
        os.close(write_events)
        self._events = os.fdopen(self._events_fd, "r")
        self._reader = threading.Thread(target=self._collect_output, daemon=True)
        self._reader.start()

    def _collect_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))

    def first_step(self) -> None:
        """Imports, builds the model and runs the first step."""
        self._until_step()

    def step(self) -> None:
        self._order("go")
        self._until_step()

    def finish(self) -> None:
        """Lets an example come to its end, so that it prints its last loss; stops other scripts."""
        if self.run.workload.is_example and not self.ended:
            self._order("finish")
            while not self.ended:
                self._take_event()
        self.close()

    def count(self, told: Callable[[Run, int], None]) -> None:
        """Mode count: runs all steps; `run.peaks` is what was found."""
        seen = 0
        while not self.run.peaks:
            self._take_event()
            if len(self.run.step_seconds) > seen:
                seen = len(self.run.step_seconds)
                told(self.run, seen)

    def close(self) -> None:
        """Ends the process whatever it does, and keeps what it printed."""
        if self._orders_fd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)
            if not self.ended:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=10)
        self.run.losses = parse_losses(self._lines)
        for stream in (self._events, self._stderr):
            stream.close()
        os.close(self._orders_fd)
        self._orders_fd = -1

    def _order(self, word: str) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)
        try:
            os.write(self._orders_fd, f"{word}\n".encode())
        except BrokenPipeError:
            raise self._death() from None

    def _until_step(self) -> None:
        before = len(self.run.step_seconds)
        while len(self.run.step_seconds) == before and not self.ended:
            self._take_event()
        if self.ended:
            raise WorkerError(
                f"{self.run.label}: the script ended after {format_count(before, 'step')}; give it more of them."
            )
        os.killpg(self._process.pid, signal.SIGSTOP)

    def _take_event(self) -> None:
        line = self._events.readline()
        if not line:
            raise self._death()
        event = json.loads(line)
        kind = event["event"]
        self.run.peak_rss = event["peak_rss"]
        if kind == "imports":
            self.run.imports_rss = event["rss"]
        elif kind == "step":
            self.run.step_seconds.append(event["seconds"])
            self.run.stats.append(event["stats"])
        elif kind == "peaks":
            self.run.peaks = event["peaks"]
        elif kind == "end":
            self.ended = True
            self.run.stats.append(event["stats"])
        elif kind == "error":
            raise WorkerError(f"{self.run.label}: {event['message']}")

    def _death(self) -> WorkerError:
        code = self._process.wait()
        if code == -signal.SIGKILL:
            how = "was killed (SIGKILL: most likely the system ran out of memory)"
        elif code < 0:
            how = f"died of {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        return WorkerError(f"{self.run.label}: the process {how}.{self._last_words()}")

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()[-8:]
        return "\n    " + "\n    ".join(lines) if lines else ""


def take_turns(runs: list[Run], steps: int, told: Callable[[Run, int], None]) -> None:
    """All runs side by side, `steps` steps each, one step a turn. `told` hears of every step.

    A run that fails is marked (`run.failure`) and left out of further turns; the others go on.
    """
    workers: list[Worker] = []
    try:
        for turn in range(steps):
            for run in runs:
                if run.failure:
                    continue
                try:
                    if turn == 0:
                        workers.append(Worker(run))
                        workers[-1].first_step()
                    else:
                        next(w for w in workers if w.run is run).step()
                except WorkerError as error:
                    run.failure = str(error)
                told(run, turn + 1)
        for worker in workers:
            if not worker.run.failure:
                try:
                    worker.finish()
                except WorkerError as error:
                    worker.run.failure = str(error)
    finally:
        for worker in workers:
            worker.close()


def count_peaks(workload: Workload, steps: int, told: Callable[[Run, int], None]) -> int:
    """Plain's peak tensor bytes over its second and later steps.

    Freshly mapped blocks (MALLOC_MMAP_THRESHOLD_) keep the resident size near what is counted.
    """
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536"}
    run = Run("counting", "count", workload.for_steps(steps), environment=environment)
    worker = Worker(run, count_steps=steps)
    try:
        worker.count(told)
    finally:
        worker.close()
    return max(run.peaks[1:])
