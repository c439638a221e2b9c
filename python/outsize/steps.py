"""Finds the end of a training step without being told, through torch.optim's global hooks.

A program may step several optimizers per training step (a GAN; an optimizer that wraps another).
Counting each would halve the step. So one of them leads, the first that was seen, and its hook
alone ends a step. If the leader dies, or others step MISSED_BY_LEADER times without it (a second
phase of training with a new optimizer), another one takes over.

`outsize.step()` says it outright, and wins: from then on the hooks count nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

MISSED_BY_LEADER = 8


class StepTracker:
    """Turns optimizer steps into training steps. Thread-safe: optimizers may step on any thread."""

    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step
        self._lock = threading.Lock()
        self._leader: weakref.ref[object] | None = None
        self._missed = 0
        self._found = 0
        self._explicit = False
        self._handle: Any = None

    def attach(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._handle = register_optimizer_step_post_hook(self._after_optimizer)

    def detach(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def user_step(self) -> None:
        """The user says that a step ended."""
        with self._lock:
            first = not self._explicit
            self._explicit = True
            already_counted = first and self._found > 0
        if not already_counted:  # the optimizer's hook has just ended this very step
            self._on_step()

    def _after_optimizer(self, optimizer: object, args: Any, kwargs: Any) -> None:
        with self._lock:
            ends_step = not self._explicit and self._leads(optimizer)
            self._found += ends_step
        if ends_step:
            self._on_step()

    def _leads(self, optimizer: object) -> bool:
        leader = self._leader() if self._leader is not None else None
        if leader is optimizer:
            self._missed = 0
            return True
        self._missed += 1
        if leader is None or self._missed >= MISSED_BY_LEADER:
            self._leader = weakref.ref(optimizer)
            self._missed = 0
            return True
        return False
