"""The process that runs a workload for the benchmark, one step at a time.

    python -m outsize.bench.worker '{"mode": "plain", "read": 5, "write": 6, ...}' script.py args...

The script is any training script: a hook at the end of its optimizer's step is where it waits.
Over two pipes the parent says `go` (run one step), `finish` (run on, to the end) or `stop`, and
hears one JSON object a line: `imports` (before the first module is built), `step`, `peaks`, `end`,
`error`.

Modes: `plain` (outsize is not loaded), `outsize` (a budget is in force), `count` (the profiler
counts tensor bytes; nothing is timed).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

from outsize import launcher, vector_math
from outsize.bench.counter import PeakCounter
from outsize.steps import StepTracker


def memory_of_process() -> dict[str, int]:
    """Resident size now and at its highest, in bytes."""
    found = {}
    with open("/proc/self/status") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                found[name] = int(value.split()[0]) * 1024
    return {"rss": found["VmRSS"], "peak_rss": found["VmHWM"]}


class Gate:
    """Where the workload waits between steps."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._mode: str = orders["mode"]
        self._enable: dict[str, Any] = orders.get("enable", {})
        self._count_steps: int = orders.get("count_steps", 3)
        self._in = os.fdopen(orders["read"], "r")
        self._out = os.fdopen(orders["write"], "w", buffering=1)
        self._steps = 0
        self._began: float | None = None  # None: the first step includes building the model
        self._free = False
        self._counter: PeakCounter | None = None

    def after_torch(self) -> None:
        self._report_imports()
        vector_math.settle()  # or losses of the same mode differ from run to run
        if self._mode == "count":
            self._counter = PeakCounter()
            self._counter.start()
        if self._mode == "outsize":
            from outsize import api

            try:
                api.enable(**self._enable)
            except (RuntimeError, ImportError, ValueError) as error:
                self.fail(str(error))
        StepTracker(self._step_done).attach()  # after outsize's own hook: its work is timed too

    def _report_imports(self) -> None:
        from torch import nn

        init = nn.Module.__init__

        def first_init(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            nn.Module.__init__ = init  # type: ignore[method-assign]
            self.say(event="imports")
            init(module, *args, **kwargs)

        nn.Module.__init__ = first_init  # type: ignore[method-assign,assignment]

    def _step_done(self) -> None:
        now = time.perf_counter()
        seconds = None if self._began is None else now - self._began
        self._steps += 1
        if self._counter is not None:
            self._count()
            return
        self.say(event="step", index=self._steps, seconds=seconds, stats=self._stats())
        if not self._free:
            self._wait()
        self._began = time.perf_counter()

    def _count(self) -> None:
        assert self._counter is not None
        self._counter.mark()
        if self._steps == self._count_steps:
            self.say(event="peaks", peaks=self._counter.finish())
            self.leave(0)
        self.say(event="step", index=self._steps, seconds=None, stats={})

    def _wait(self) -> None:
        order = self._in.readline().strip()
        if order == "finish":
            self._free = True
        elif order != "go":  # stop, or the parent is gone
            self.leave(0)

    def _stats(self) -> dict[str, Any]:
        if self._mode != "outsize":
            return {}
        from outsize import api

        return api.stats().as_dict()

    def end_recording(self) -> None:
        from outsize import api

        session = api.session()
        if session is not None and session.recording is not None:
            session.recording.end()  # we leave at once, and a trace has an end record

    def say(self, **event: Any) -> None:
        try:
            self._out.write(json.dumps(event | memory_of_process()) + "\n")
        except BrokenPipeError:
            self.leave(1)  # the parent is gone

    def fail(self, message: str) -> NoReturn:
        self.say(event="error", message=message)
        self.leave(2)

    def leave(self, code: int) -> NoReturn:
        """At once: taking a large program down in order takes long and shows nothing."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def die_with_parent() -> None:
    """A benchmark that is killed must not leave frozen processes that hold gigabytes."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    gate = Gate(json.loads(sys.argv[1]))
    launcher.AfterTorch(gate.after_torch).install()
    try:
        launcher.run_script(sys.argv[2], sys.argv[3:])
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    except Exception as error:
        gate.say(event="error", message=f"{type(error).__name__}: {error}")
        raise
    sys.stdout.flush()
    gate.end_recording()
    gate.say(event="end", stats=gate._stats())
    gate.leave(0)


if __name__ == "__main__":
    main()
