"""Signals wait while outsize is being turned on or off.

Ctrl-C raises KeyboardInterrupt between any two instructions of the main thread. In the middle of
`enable` or `disable` it would leave outsize half on: hooks without an engine, or an engine that nobody
can turn off any more. Turning off brings every byte back, which takes long enough to be hit.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class HeldBack:
    """While in force, a signal with a handler in Python is only noted; the handler runs at the end."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._came: list[tuple[int, FrameType | None]] = []
        self._holding = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._holding:
            self._came.append((number, frame))
        else:  # an exception came between while the handlers were put back
            self._handlers[number](number, frame)

    def __enter__(self) -> HeldBack:
        if threading.current_thread() is not threading.main_thread():
            return self  # handlers run in the main thread only
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._let_go()

    def _let_go(self) -> None:
        self._holding = False
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number, frame in self._came:
            self._handlers[number](number, frame)
