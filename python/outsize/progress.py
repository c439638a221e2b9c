"""One line that says what takes so long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable


class progress:
    """Says what takes so long, and how long it has taken, on a terminal."""

    def __init__(self, text: str, now: Callable[[], float] = time.monotonic) -> None:
        self._text = text
        self._now = now
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        if sys.stderr.isatty():
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _run(self) -> None:
        began = self._now()
        while not self._stop.wait(0.5):
            seconds = self._now() - began
            print(f"\r{self._text} … {seconds:.0f} s\x1b[K", end="", file=sys.stderr, flush=True)
