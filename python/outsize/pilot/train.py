"""`outsize pilot train`: learns from recorded runs, one after the other, into one model."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outsize.cli import Parser, fail, output_file
from outsize.pilot.collect import traces_in
from outsize.pilot.show import all_of, table
from outsize.progress import progress
from outsize.simulator import load_simulator

HELD_OUT_MOST = 90  # percent


def held_out(text: str) -> int:
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > HELD_OUT_MOST:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share from 0% to {HELD_OUT_MOST}%.")
    return int(digits)


def parser() -> Parser:
    result = Parser(
        prog="outsize pilot train",
        usage="outsize pilot train TRACE... -o FILE [--held-out 20%%] [--from FILE] [--json]",
        description="Learns from recorded runs what the policy pilot would learn while it runs, so that a run which"
        " begins with it (`outsize run --policy pilot --pilot FILE`) foresees from its first steps on. Traces of several"
        " networks can go into one model. Nothing is learnt from the last steps of each trace: they show what the"
        " model is worth on steps that it has not seen.",
    )
    result.add_argument(
        "traces", nargs="+", metavar="TRACE", help="traces that outsize recorded, or folders of `outsize pilot collect`"
    )
    result.add_argument("-o", "--output", required=True, type=output_file, metavar="FILE", help="the model")
    result.add_argument(
        "--held-out", default="20%", type=held_out, metavar="SHARE", help="of each trace's steps (default: 20%%)"
    )
    result.add_argument("--from", dest="begin_with", metavar="FILE", help="go on from this model")
    result.add_argument("--json", action="store_true", help="print JSON")
    return result


def named(paths: Sequence[str]) -> list[str]:
    """Traces, and in place of folders the traces in them."""
    traces: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            traces.append(path)
            continue
        found = traces_in(Path(path))
        if not found:
            fail(f"there is no trace in {path}: `outsize pilot collect -o {path} script.py` puts one there.")
        traces += found
    return traces


def made() -> str:
    """Now, or what SOURCE_DATE_EPOCH says, where files must be the same every time."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isascii() and epoch.isdigit() else int(time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def train(sim: Any, args: argparse.Namespace) -> tuple[bytes, dict[str, Any]]:
    """The model and its card."""
    import outsize
    from outsize.pilot.model import card_of

    began = time.monotonic()
    before = sim.PilotModel(args.begin_with) if args.begin_with else None
    training = sim.PilotTraining(before)
    learnt = list(card_of(before).get("traces", [])) if before is not None else []
    for number, path in enumerate(args.traces, 1):
        which = f"{path} ({number} of {len(args.traces)})" if len(args.traces) > 1 else path
        with progress(f"Reading {which}"):
            trace = sim.TraceProgram(path)
        if trace.steps == 0:
            fail(f"{path} has no steps to learn from: `outsize trace info` shows what it holds.")
        with progress(f"Learning from {which}"):
            learnt.append({"trace": os.path.basename(path)} | training.learn(trace, args.held_out))
    repeatable = bool(os.environ.get("SOURCE_DATE_EPOCH"))
    return training.model, {
        "outsize": outsize.__version__,
        "made": made(),
        "held_out_percent": args.held_out,
        "traces": learnt,
        "seconds": 0 if repeatable else round(time.monotonic() - began, 1),
    }


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    if args.output == "-":
        fail("a model goes to a file: name one.")
    args.traces = named(args.traces)
    sim = load_simulator()
    try:
        model, card = train(sim, args)
        sim.save_pilot(args.output, json.dumps(card), model)
        saved = sim.PilotModel(args.output)
    except ValueError as error:
        fail(str(error))
    print(json.dumps(all_of(saved)) if args.json else table(args.output, all_of(saved)))
    return 0
