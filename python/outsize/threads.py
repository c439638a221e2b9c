"""Brings threads that the user starts under the budget.

Interception is a property of a thread. The thread that enables outsize gets it there, autograd's
threads inherit it from the backward call, and this module gives it to every thread that Python
starts, and to pool workers that were started before (at their next work item). A forked child
turns it off by itself (adapter/).
"""

from __future__ import annotations

import _thread
import concurrent.futures.thread
import functools
import threading
from collections.abc import Callable
from typing import Any

from outsize.compiled import Core
from outsize.patching import Patches


def cover_threads(core: Core, patches: Patches) -> None:
    def included(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not core.running():  # a leftover from a budget that has ended
                return function(*args, **kwargs)
            before = core.include_thread(True)
            try:
                return function(*args, **kwargs)
            finally:
                core.include_thread(before)

        return run

    # Thread.run is often overridden; what calls it in the new thread is not.
    inner = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    patches.replace(threading.Thread, "_bootstrap_inner", included(inner))

    work_item = concurrent.futures.thread._WorkItem
    patches.replace(work_item, "run", included(work_item.run))

    start = _thread.start_new_thread

    @functools.wraps(start)
    def start_new_thread(function: Callable[..., Any], *rest: Any) -> int:
        return start(included(function), *rest)

    patches.replace(_thread, "start_new_thread", start_new_thread)
