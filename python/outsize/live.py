"""What a person sees while the job runs: one line, at most twice a second.

On a terminal it stands in the bottom row, which is taken out of the scrolling region (as apt does):
whatever the script, its libraries and its children print scrolls above it, untouched, progress bars
included. Elsewhere (a log file) a plain line appears now and then.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from outsize.counters import Stats

INTERVAL_SECONDS = 0.5
LOG_EVERY_SECONDS = 60.0

_log = logging.getLogger("outsize")


class LiveLine:
    """A daemon thread that shows how the job stands; `stop` leaves the terminal as it was."""

    def __init__(self, read: Callable[[], Stats], stream: TextIO | None = None) -> None:
        self._read = read
        self._stream = stream if stream is not None else sys.stderr
        self._stop = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="outsize-live", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if os.getpid() != self._pid or self._stop.is_set():  # a forked child has no such thread
            return
        self._stop.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        try:
            if self._stream.isatty():
                self._run_on_terminal()
            else:
                self._run_in_log()
        except (OSError, ValueError):
            pass  # the stream is gone (closed terminal, broken pipe): the job goes on without us

    def _run_in_log(self) -> None:
        shown, next_time, next_step = 0, time.monotonic() + LOG_EVERY_SECONDS, 1
        while not self._stop.wait(INTERVAL_SECONDS):
            stats = self._read()
            now = time.monotonic()
            if stats.steps > shown and (stats.steps >= next_step or now >= next_time):
                self._stream.write(f"outsize: {stats.brief()}\n")
                self._stream.flush()
                shown, next_time = stats.steps, now + LOG_EVERY_SECONDS
                next_step = max(next_step * 4, stats.steps * 4)

    def _run_on_terminal(self) -> None:
        bottom = BottomRow(self._stream)
        try:
            while not self._stop.wait(INTERVAL_SECONDS):
                stats = self._read()
                bottom.show(f"outsize: {stats.brief()}" if stats.ops else "outsize: starting")
        finally:
            bottom.close()


class BottomRow:
    """The last row of a terminal, kept out of the scrolling region while in use."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._size: os.terminal_size | None = None

    def show(self, text: str) -> None:
        size = os.get_terminal_size(self._stream.fileno())
        if size.lines < 4:
            return
        codes = ""
        if size != self._size:
            # Scroll one line up so that what stood in the last row is not lost, then keep it apart.
            codes = f"\n\x1b7\x1b[1;{size.lines - 1}r\x1b8\x1b[1A"
            self._size = size
        codes += f"\x1b7\x1b[{size.lines};1H\x1b[2m{text[: size.columns - 1]}\x1b[0m\x1b[K\x1b8"
        self._write(codes)

    def close(self) -> None:
        if self._size is not None:
            self._write(f"\x1b7\x1b[{self._size.lines};1H\x1b[K\x1b[r\x1b8")
            self._size = None

    def _write(self, codes: str) -> None:
        self._stream.write(codes)
        self._stream.flush()
