"""`outsize pilot eval`: how well the paths of recorded runs are foreseen, by the pilot and by simpler ways."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from outsize.choices import named_policies
from outsize.cli import Parser, fail, positive
from outsize.pilot.model import PilotModel, is_pilot, told
from outsize.pilot.paths import Paths, load
from outsize.progress import progress
from outsize.units import format_bytes, format_count


def parser() -> Parser:
    result = Parser(
        prog="outsize pilot eval",
        description="Says how well the path of recorded runs is foreseen. Each predictor learns op by op, as in a"
        " run, and is asked before it learns: what is scored is new to it. Nothing is trained, and no device is needed.",
    )
    result.add_argument("traces", nargs="+", metavar="TRACE", help="traces that outsize recorded")
    result.add_argument(
        "--from-step", type=positive, metavar="N",
        help="score from the N-th step on (default: the second half of the steps)",
    )
    result.add_argument(
        "--predictors", metavar="P,...",
        help="default: pilot,last,frequent,markov1,markov2,markov3,deepum,repeat,oracle; also pilot:sample=off and"
        " pilot's other settings",
    )
    result.add_argument(
        "--pilot", metavar="FILE", help="what is called pilot begins with this model, which `outsize pilot train` wrote"
    )
    result.add_argument("--json", action="store_true", help="print JSON")
    return result


def share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def row_of(name: str, score: dict[str, Any]) -> dict[str, Any]:
    """Shares and times; None where there was nothing to judge."""
    return {
        "predictor": name,
        "next_block": share(score["right"], score["choices"]),
        "whole_path": share(score["whole"], score["windows"]),
        "precision": share(score["both_bytes"], score["foreseen_bytes"]),
        "recall": share(score["both_bytes"], score["used_bytes"]),
        "query_ns": share(score["foreseeing_ns"], score["windows"]),
        "learn_ns": share(score["learning_ns"], score["ops"]),
        "scored": score,
    }


def begun_with(model: PilotModel | None, name: str) -> dict[str, bytes]:
    return {"model": model.model} if model is not None and is_pilot(name) else {}


def evaluate(
    paths: Paths, trace: str, names: Sequence[str], from_step: int | None, model: PilotModel | None
) -> dict[str, Any]:
    with progress(f"Reading {trace}"):
        path = paths.TracePath(trace)
    first = from_step or path.steps // 2 + 1
    if first > path.steps:
        fail(f"{trace} has {format_count(path.steps, 'step')}, and --from-step begins behind them.")
    rows = []
    for name in names:
        with progress(f"{trace}: {name}"):
            rows.append(row_of(name, path.judge(name, first - 1, **begun_with(model, name))))
    return {
        "trace": trace,
        "ops": path.ops,
        "steps": path.steps,
        "samples": path.samples,
        "windows": path.windows,
        "blocks": len(path.blocks()),
        "path_dependent": path.dependent,
        "from_step": first,
        "predictors": rows,
    }


def tell_of_model(path: str | None, rows: Sequence[dict[str, Any]]) -> None:
    for scored in [row["scored"] for row in rows if path and is_pilot(row["predictor"])][:1]:
        said = told(path or "", scored["model_ops"], scored["model_known_ops"], scored["model_given_up"])
        if said:
            print(f"outsize: {said}", file=sys.stderr)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def micros(nanos: float | None) -> str:
    if nanos is None:
        return "-"
    return f"{nanos / 1e6:.1f} ms" if nanos >= 1e6 else f"{nanos / 1e3:.0f} us" if nanos >= 1e4 else f"{nanos / 1e3:.2f} us"


def show(found: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("predictor", "next block", "whole path", "precision", "recall", "a query", "an op learnt"):
        table.add_column(name, justify="left" if name == "predictor" else "right")
    for row in found["predictors"]:
        shares = (percent(row[name]) for name in ("next_block", "whole_path", "precision", "recall"))
        table.add_row(row["predictor"], *shares, micros(row["query_ns"]), micros(row["learn_ns"]))
    # A file or pipe has no width of its own: a row stays a row.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    dependent, scored = found["path_dependent"], found["predictors"][0]["scored"]
    console.print(
        f"{found['trace']}: {format_count(found['ops'], 'op')} of {format_count(found['blocks'], 'block')},"
        f" {format_count(found['steps'], 'step')}, {format_count(found['samples'], 'sample')};"
        f" {format_bytes(dependent['bytes'])} depend on the path ({format_count(dependent['extents'], 'extent')})",
        soft_wrap=True,
    )
    console.print(
        f"Scored from step {found['from_step']} on: {format_count(scored['choices'], 'choice')},"
        f" {format_count(scored['windows'], 'path')}, which used {format_bytes(scored['used_bytes'])} of these.",
        soft_wrap=True,
    )
    console.print(table)


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    paths = load()
    try:
        names = named_policies(args.predictors) if args.predictors else paths.forecaster_names()
        for name in names:
            paths.check_forecaster(name)
        if args.pilot and not any(map(is_pilot, names)):
            fail("--pilot is for what is called pilot: name that among --predictors.")
        model = paths.PilotModel(args.pilot) if args.pilot else None
        found = []
        for trace in args.traces:
            found.append(evaluate(paths, trace, names, args.from_step, model))
            tell_of_model(args.pilot, found[-1]["predictors"])
            if not args.json:
                show(found[-1])
    except ValueError as error:
        fail(str(error))
    if args.json:
        print(json.dumps({"traces": found}))
    return 0
