"""Which ops run while outsize is switched on the first and the second time, and on how many numbers each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import outsize


def main() -> None:
    called: dict[str, list[list[int]]] = {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as seen:
        for _ in range(2):
            outsize.enable("64MiB")
            outsize.disable()
    for event in seen.events():
        if event.input_shapes:
            called.setdefault(event.name, []).append(event.input_shapes[0])
    Path(sys.argv[1]).write_text(json.dumps({"called": called}))


if __name__ == "__main__":
    main()
