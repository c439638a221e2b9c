"""Recording of a run as a trace (docs/TRACE.md): what the trace says of the program and the machine,
what it says of each sample, and the line at its end.

The compiled part records ops and storages. It does not know where a sample begins: while a run is
recorded a hook looks at the inputs of the outermost module, and at nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import sys
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outsize import machine
from outsize.compiled import Core
from outsize.units import format_bytes, format_count

_log = logging.getLogger("outsize")

FEATURES_MAX = 64  # of a sample
VALUES_MAX = 64  # of a feature

Features = list[tuple[str, list[float]]]


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


def features_of(arguments: Sequence[Any], named: Mapping[str, Any]) -> Features:
    """Shapes and dtypes of tensors, numbers, and lengths of what holds them, in the order of the
    arguments; of so many, the first. No byte of a tensor is read."""
    found: Features = []
    for name, argument in [*enumerate(arguments), *named.items()]:
        _look_at(argument, str(name), found)
    return found


def _look_at(value: Any, name: str, found: Features) -> None:
    import torch

    if len(found) >= FEATURES_MAX:
        return
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        found.append((f"{name} {dtype}", [float(size) for size in value.shape[:VALUES_MAX]]))
    elif isinstance(value, (bool, int, float)):
        found.append((name, [float(value)]))
    elif isinstance(value, Mapping):
        found.append((f"{name} length", [float(len(value))]))
        for key, item in value.items():
            if len(found) < FEATURES_MAX:
                _look_at(item, f"{name}.{key}", found)
    elif isinstance(value, (list, tuple)):
        numbers = value[:VALUES_MAX]
        if value and all(isinstance(number, (bool, int, float)) for number in numbers):
            found.append((f"{name} numbers", [float(number) for number in numbers]))
            return
        found.append((f"{name} length", [float(len(value))]))
        for index, item in enumerate(value):
            if len(found) >= FEATURES_MAX:
                return
            _look_at(item, f"{name}.{index}", found)


def _within_another(caller: types.FrameType) -> bool:
    """Whether a module's call stands within another's. The stack says so, where a count of calls begun and
    ended would be wrong from the first that Ctrl-C ends: torch calls no hook then."""
    code, frame = caller.f_code, caller.f_back
    while frame is not None:
        outer = frame.f_code
        if outer is code or (outer.co_name == code.co_name and outer.co_filename == code.co_filename):
            return True
        frame = frame.f_back
    return False


def _keywords_of(caller: types.FrameType) -> Mapping[str, Any]:
    """Keyword arguments of a module's call: global hooks are not given them, whoever calls them has them."""
    keywords = caller.f_locals.get("kwargs")
    return keywords if isinstance(keywords, dict) else {}


class SampleWatch:
    """Tells of the inputs of each outermost call of a module with parameters (a loss has none), but
    not within a backward pass, where checkpointing calls modules again. Each thread has its own."""

    def __init__(self, tell: Callable[[Features], None]) -> None:
        self._tell = tell
        self._hook: Any = None

    def attach(self) -> None:
        from torch.nn.modules import module

        # torch warns of global hooks that fire once more for a compiled module. To ours it is one call.
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
        self._hook = module.register_module_forward_pre_hook(self._before)

    def detach(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = None

    def _before(self, module: Any, arguments: tuple[Any, ...]) -> None:
        import torch

        if torch.compiler.is_compiling():  # what is compiled is the model without us
            return
        caller = sys._getframe(1)
        if _within_another(caller) or torch._C._current_graph_task_id() != -1:
            return
        with contextlib.suppress(Exception):  # an odd input is no reason to stop the program
            if next(module.parameters(), None) is not None:
                self._tell(features_of(arguments, _keywords_of(caller)))


class Recording:
    """A session's trace: from its start to `end`, which is called at the latest when Python exits."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ended = ""
        self.failed = False
        self._samples = SampleWatch(core.sample)
        self._samples.attach()
        atexit.register(self.end)

    def forget(self) -> None:
        """In a forked child, whose trace it is not."""
        atexit.unregister(self.end)
        self._samples.detach()

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
