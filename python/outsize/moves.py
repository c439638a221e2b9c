"""Measures what moving takes the processors, for `outsize doctor`: `python -m outsize.moves DIRECTORY BYTES`.

A process of its own, for that takes a session: tensors of an earlier one would be moved too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from outsize import compiled


def main(directory: str, sample: str) -> None:
    found: dict[str, Any]
    try:
        found = dict(compiled.load().measure_moves(directory, int(sample)))
    except Exception as error:  # whatever it is: whoever asked has a disk and pages to tell of
        found = {"error": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
