"""Recording of a run as a trace (docs/TRACE.md): what the trace says of the program and the machine, and
the line at its end. What it says of each sample is outsize/samples.py's matter, the rest the compiled part's.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import time

from outsize import machine
from outsize.compiled import Core
from outsize.units import format_bytes, format_count

_log = logging.getLogger("outsize")


def meta(policy: str, budget: str | int, budget_rss: str | int | None, bytes_of_budget: int) -> str:
    """What a trace says of its run, as JSON: nothing that names a person or a machine."""
    from outsize import __version__

    described = machine.describe()
    return json.dumps(
        {
            "outsize": __version__,
            "torch": described["torch"],
            "script": script(),
            "policy": policy,
            "budget": budget_rss or budget,
            "budget_bytes": bytes_of_budget,
            "cpu": described["cpu"],
            "cores": described["cores"],
            "threads": described["torch_threads"],
            "ram_bytes": described["ram_bytes"],
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
        default=int,  # NumPy's integers
    )


def script() -> str:
    """What runs; not where it lies."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return str(spec.name) if spec is not None else os.path.basename(sys.argv[0])


class Recording:
    """A session's trace: from its start to `end`, which is called at the latest when Python exits."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ended = ""
        self.failed = False
        atexit.register(self.end)

    def forget(self) -> None:
        """In a forked child, whose trace it is not."""
        atexit.unregister(self.end)

    def end(self) -> str:
        """Ends the trace, if nobody has, and says in one line what became of it."""
        if self._ended:
            return self._ended
        self.forget()
        done = self._core.end_recording()
        if done["error"]:
            self._ended, self.failed = str(done["error"]), True
            _log.warning("%s", self._ended)
        else:
            self._ended = (
                f"trace of {format_count(done['ops'], 'op')} and {format_count(done['steps'], 'step')}"
                f" in {done['path']}"
                f" ({format_bytes(done['bytes'])})"
            )
            _log.info("%s", self._ended)
        return self._ended
