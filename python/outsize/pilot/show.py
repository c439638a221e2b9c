"""`outsize pilot show`: what a model has learnt, and from what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from outsize.cli import Parser, fail
from outsize.pilot.idioms import told_idioms
from outsize.pilot.model import PilotModel, card_of
from outsize.simulator import load_simulator
from outsize.units import format_bytes, format_count


def parser() -> Parser:
    result = Parser(prog="outsize pilot show", description="Says what a model of the pilot has learnt, and from what.")
    result.add_argument("file", metavar="FILE", help="what `outsize pilot train` wrote")
    result.add_argument("--json", action="store_true", help="print JSON")
    return result


def all_of(model: PilotModel) -> dict[str, Any]:
    """All that is known of it."""
    card = card_of(model)
    return card | model.facts | {"model": model.name, "file_bytes": model.file_bytes}


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def learnt(trace: dict[str, Any]) -> str:
    text = (
        f"{format_count(trace.get('steps', 0), 'step')}, {format_count(trace.get('ops', 0), 'op')},"
        f" {format_count(trace.get('samples', 0), 'sample')}"
    )
    if not trace.get("choices"):
        return text
    before = percent(trace.get("right_before", 0), trace.get("choices_before", 0))
    after = percent(trace.get("right", 0), trace["choices"])
    held = format_count(trace.get("held_out_steps", 0), "step")
    return f"{text}; of {trace['choices']:,} choices in {held} held out {after} right ({before} without it)"


def table(path: str, said: dict[str, Any]) -> str:
    traces = [trace for trace in said.get("traces", []) if isinstance(trace, dict)]
    rows = [
        ("model", f"{path}, {format_bytes(said['file_bytes'])}, {said['model']}"),
        *(("made", f"{said['made']} by outsize {said.get('outsize', '?')}") for _ in range("made" in said)),
        ("network", f"{said['base_type']} by its ops; {told_idioms(said['idioms'])}"),
        *((str(trace.get("trace", "?")), learnt(trace)) for trace in traces),
        (
            "knows",
            f"{format_count(said['nodes'], 'op')} by name, {said['classes']:,} kinds of choices,"
            f" {format_count(said['contexts'], 'context')}, {format_count(said['features'], 'feature')} of samples",
        ),
        ("anywhere", f"{format_count(said['kinds'], 'context')} of kinds of work, which other networks have too"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    sim = load_simulator()
    try:
        model = sim.PilotModel(args.file)
    except ValueError as error:
        fail(str(error))
    print(json.dumps(all_of(model)) if args.json else table(args.file, all_of(model)))
    return 0
