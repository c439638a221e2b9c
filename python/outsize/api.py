"""The Python front door: `enable`, `disable`, `budget`, `step`, `stats`, `doctor`.

One budget is in force at a time, for the whole process. All functions may be called from any
thread; the thread that enables, and every thread started afterwards, is managed.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from outsize.signals import HeldBack

if TYPE_CHECKING:
    from outsize.counters import Stats
    from outsize.session import Session

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_session: Session | None = None
_last: Stats | None = None


def _forget_in_child() -> None:
    """A forked child (a DataLoader worker) goes on as if outsize were not there."""
    global _session, _lock
    _lock = threading.RLock()  # another thread of the parent may have held it
    if _session is not None:
        _session.forget_in_child()
        _session = None


os.register_at_fork(after_in_child=_forget_in_child)


def turned_off() -> bool:
    """`OUTSIZE=0` turns everything off: scripts run as if outsize were not there."""
    return os.environ.get("OUTSIZE", "1").strip().lower() in ("0", "off", "false", "no")


def enable(
    budget: str | int | None = "auto",
    policy: str | None = "lookahead",
    *,
    budget_rss: str | int | None = None,
    device: str | None = "cpu",
    spill_dir: str | os.PathLike[str] | None = "",
    spill_limit: str | int | None = 0,
    disk_write_limit: str | int | None = 0,
    faults: str | None = "auto",
    io_threads: int | None = 4,
    verify: bool | None = False,
    decision_log: str | os.PathLike[str] | None = "",
    record: str | os.PathLike[str] | None = "",
    pilot: str | os.PathLike[str] | None = "",
    foresee: str | os.PathLike[str] | None = "",
) -> None:
    """Keeps the bytes of tensors in RAM within `budget` from here on. None means an option's default.

    budget: "2GiB", "60%" of the memory limit, "auto" (a share of what is free), or bytes.
    budget_rss: the same for all that the process holds in RAM, scratch of kernels and Python objects
        included; `budget` then follows from what the rest of the process leaves.
    policy: "lookahead" (repeats what earlier steps did), "pilot" (foresees a path that depends on the sample),
        "auto" (whichever of these foresees better), "ondemand" (least recently used), "deepum" (DeepUM's tables;
        "deepum:chaining=off" and the like set sizes and switches), "weights" (a plan over a step that repeats) or
        "oracle" (knows from `foresee` what comes).
    spill_dir: where bytes go that do not fit; default $TMPDIR, else /var/tmp. Not a tmpfs.
    spill_limit: the most bytes the spill file may take; 0: what is free there.
    disk_write_limit: "2TB/day", or bytes a second: a pace for writes to the disk, kept by waiting.
    faults: "auto", "userfaultfd" or "signal".
    verify: checksum every byte that leaves and check it when it returns.
    decision_log: a file for every decision of the policy, a line each.
    record: a file for a trace of the run, which `outsize trace` reads; a few percent of the time.
    pilot: what the policy "pilot" begins with: a file that `outsize pilot train` wrote.
    foresee: what the policy "oracle" foresees from: the trace of an earlier, identical run, recorded with room for all.
    """
    global _session
    if turned_off():
        return
    if device not in ("cpu", None):
        raise ValueError(f"device={device!r} is not supported: this outsize manages 'cpu' only.")
    if budget_rss is not None and budget not in ("auto", None):
        raise ValueError("Give budget (for tensors) or budget_rss (for the whole process), not both.")
    from outsize import compiled
    from outsize.options import Options
    from outsize.session import Session

    options = Options.checked(
        {
            "budget": budget,
            "budget_rss": budget_rss,
            "policy": policy,
            "spill_dir": spill_dir, "spill_limit": spill_limit, "disk_write_limit": disk_write_limit,
            "faults": faults, "io_threads": io_threads, "verify": verify,
            "decision_log": decision_log, "record": record, "pilot": pilot, "foresee": foresee,
        }
    )
    core = compiled.load()
    with _lock:
        if _session is not None:
            raise core.OutsizeError(
                f"A budget is in force already ({_session.options.budget_text}): leave its `with` block"
                " or call outsize.disable() first. Budgets do not nest."
            )
        try:
            with HeldBack():
                _session = Session(core, options)
        except BaseException:  # Ctrl-C as well
            disable()
            raise


def disable() -> None:
    """Brings every byte back and stops managing; without a budget in force it does nothing.

    Raises OutsizeError, and changes nothing, if RAM cannot hold what has been spilled.
    """
    global _session, _last
    with _lock, HeldBack():
        if _session is not None:
            _last = _session.close()
            _session = None


def enabled() -> bool:
    """Whether a budget is in force."""
    return _session is not None


def step() -> None:
    """Says that a training step ends here. From the first call on, optimizers no longer count."""
    session = _session
    if session is not None:
        session.steps.user_step()


def stats() -> Stats:
    """What outsize has done: so far, or until the last budget ended."""
    from outsize.counters import Stats

    session = _session
    if session is not None:
        return session.stats()
    return _last if _last is not None else Stats()


def doctor(
    spill_dir: str | os.PathLike[str] | None = "", sample: str | int | None = "1GiB"
) -> dict[str, Any]:
    """What this machine offers: memory, disk bandwidth, fault mechanism, torch. Takes seconds.

    Bytes, and bytes a second for the disk's `read`, `write`, `mixed_read` and `mixed_write`, `single_read` and
    `single_write`; nanoseconds under `moves`, which a process of its own measures.
    """
    from outsize.checkup import examine
    from outsize.options import Options

    options = Options.checked({"spill_dir": spill_dir})
    return examine(options.spill_dir, "1GiB" if sample is None else sample)


def session() -> Session | None:
    """The budget in force, for the launcher."""
    return _session


class budget:
    """A budget for a block or a function.

    with outsize.budget("2GiB"):
        train()

    @outsize.budget("60%", policy="ondemand")
    def main(): ...

    Takes what `outsize.enable` takes: spill_dir, spill_limit, disk_write_limit, verify and the others.
    """

    def __init__(
        self, budget: str | int | None = "auto", policy: str | None = "lookahead", **options: Any
    ) -> None:
        self._enable = functools.partial(enable, budget, policy, **options)

    def __enter__(self) -> budget:
        before = _session
        try:
            with HeldBack():
                self._enable()
                return self
        except BaseException:  # nobody would end what was not begun
            if _session is not before:
                disable()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            disable()
        except RuntimeError as trouble:
            if error is None:
                raise
            error.add_note(f"outsize could not end the budget: {trouble}")  # keep the first cause
        except BaseException:  # a signal that came before signals were held back
            disable()
            raise

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return run

    def stats(self) -> Stats:
        """As `outsize.stats()`."""
        return stats()
