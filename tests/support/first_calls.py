"""Which ops run while outsize is switched on the first and the second time, and on what."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import outsize


class Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(op))
        return op(*args, **(kwargs or {}))


def main() -> None:
    called: dict[str, list[Any]] = {}
    watch = Watch()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for _ in range(2):
            with watch:  # of the program: it is no op of its
                outsize.enable("64MiB")
            outsize.disable()
    for event in profile.profiler.kineto_results.events():
        if event.shapes():
            called.setdefault(event.name(), []).append([event.shapes()[0], event.dtypes()[0]])
    Path(sys.argv[1]).write_text(json.dumps({"called": called, "seen_by_modes": watch.seen}))


if __name__ == "__main__":
    main()
