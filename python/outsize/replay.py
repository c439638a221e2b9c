"""`outsize replay`: does the engine decide again what a run's decision log says, and was it allowed to?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol, cast

from outsize.cli import Parser, fail
from outsize.progress import progress
from outsize.simulator import load_simulator
from outsize.units import format_bytes


class Replays(Protocol):
    """`outsize._sim` (python/bindings/replays.cpp): what cannot be read is a ValueError."""

    def replay(self, path: str, pilot: Any = None, foresee: str = "") -> dict[str, Any]: ...

    def PilotModel(self, path: str) -> Any: ...


def parser() -> Parser:
    result = Parser(
        prog="outsize replay",
        description="Feeds what a decision log says the engine was told to a fresh engine. Its decisions must "
        "be the same byte for byte, and a checker that shares no code with it judges each of them. "
        "Exit code 1 where either finds fault.",
    )
    result.add_argument("log", metavar="LOG", help="what `outsize run --decision-log FILE` wrote")
    result.add_argument("--pilot", metavar="FILE", help="the model that the run began with")
    result.add_argument("--foresee", default="", metavar="TRACE", help="the trace that the run foresaw from")
    result.add_argument("--json", action="store_true", help="print JSON")
    return result


def table(said: dict[str, Any]) -> str:
    budget = format_bytes(said["budget_bytes"])
    rows = [
        ("recorded", f"{said['policy']}, budget {budget}: {said['inputs']:,} inputs, {said['moves']:,} moves"),
        ("replayed", f"{said['lines']:,} lines, the same byte for byte" if said["same"] else difference(said)),
        ("checker", "accepts every decision" if not said["violations"] else said["violations"][0]),
        *(("", violation) for violation in said["violations"][1:]),
    ]
    return "\n".join(f"{name:<9} {text}" for name, text in rows)


def difference(said: dict[str, Any]) -> str:
    recorded, replayed = (said[name] or "the end" for name in ("recorded", "replayed"))
    return f"line {said['first_difference']:,} differs: recorded '{recorded}', replayed '{replayed}'"


def load() -> Replays:
    return cast(Replays, load_simulator())


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    replays = load()
    try:
        with progress("replaying"):
            model = replays.PilotModel(args.pilot) if args.pilot else None
            said = replays.replay(args.log, model, args.foresee)
    except ValueError as error:
        fail(str(error))
    sound = said["same"] and not said["violations"]
    print(json.dumps({"status": "ok" if sound else "differs" if not said["same"] else "problems"} | said)
          if args.json else table(said))
    return 0 if sound else 1
