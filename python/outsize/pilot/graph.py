"""`outsize pilot graph`: the execution blocks of a recorded run, and what follows what."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outsize.cli import Parser, fail, output_file, positive, rate, size
from outsize.pilot.graph_forms import FORMS, ways_of
from outsize.pilot.idioms import LEGEND
from outsize.pilot.paths import load
from outsize.progress import progress
from outsize.units import format_bytes, format_count, parse_rate, parse_size

LISTED = 20  # blocks, the largest, that the terminal shows
NAMED = 3    # ops that stand in a block's name


def parser() -> Parser:
    result = Parser(
        prog="outsize pilot graph",
        description="Draws the execution blocks of a recorded run: runs of ops with one way in, so that once one has"
        " begun its ops are certain. Without -o a table of the largest.",
    )
    result.add_argument("trace", metavar="TRACE", help="a trace that outsize recorded")
    result.add_argument(
        "-o", "--output", type=output_file, metavar="FILE",
        help="write the graph: .json, .dot (Graphviz) or .mmd (Mermaid)",
    )
    result.add_argument(
        "--block-bytes", default="0", type=size, metavar="SIZE",
        help="cut blocks that work on more than that, as where two have to fit a buffer (default: no limit)",
    )
    result.add_argument(
        "--rate", default="0", type=rate, metavar="PACE",
        help="cut blocks that compute for longer than their bytes take to come: 2GB/s, say (default: no limit)",
    )
    result.add_argument(
        "--min-runs", default=1, type=positive, metavar="N",
        help="leave out blocks that ran fewer than N times, as those of the first step often do (default: 1)",
    )
    return result


def short(op: str) -> str:
    """`addmm` of `aten::addmm [64x1024, ...]`."""
    name = op.split(" ")[0]
    return name.rpartition("::")[2] or name


def name_of(ops: Sequence[str]) -> str:
    """The first few ops, those in a row told once: `addmm, relu, … (12 ops)`."""
    real = [op for op in map(short, ops) if not op.startswith("_record_function")] or [short(ops[0])]
    names = [name for name, _ in itertools.groupby(real)]
    told = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    return f"{told} ({format_count(len(ops), 'op')})"


def named(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With a number, a name, and of each way the share of runs that took it."""
    result = []
    for number, block in enumerate(blocks):
        runs = max(block["runs"], 1)
        ways = [way | {"share": way["count"] / runs} for way in block["next"]]
        result.append(
            {"block": number, "name": name_of(block["ops"])} | block | {"next": ways, "end_share": block["ends"] / runs}
        )
    return result


def frequent(blocks: list[dict[str, Any]], min_runs: int) -> list[dict[str, Any]]:
    """Without blocks that ran fewer than `min_runs` times and the ways to them; numbers and shares stay as they are."""
    kept = {block["block"] for block in blocks if block["runs"] >= min_runs}
    return [
        block | {"next": [way for way in block["next"] if way["block"] in kept]}
        for block in blocks if block["block"] in kept
    ]


def show(trace: str, base_type: str, blocks: list[dict[str, Any]], left_out: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("block", "ops", "runs", "time", "bytes", "idioms", "next"):
        table.add_column(name, justify="left" if name in ("block", "next") else "right")
    largest = sorted(blocks, key=lambda block: (-block["bytes"], -block["time_ns"], block["block"]))
    for block in largest[:LISTED]:
        ways = [f"{to[1:] if to != 'end' else 'step ends'} {share:.0%}" for to, share in ways_of(block)]
        table.add_row(
            f"{block['block']}: {block['name'].rpartition(' (')[0]}", f"{len(block['ops']):,}", f"{block['runs']:,}",
            f"{block['time_ns'] / 1e6:.2f} ms", format_bytes(block["bytes"]),
            " ".join(map(str, block["idioms"])), ", ".join(ways[:4]) + (", …" if len(ways) > 4 else ""),
        )
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    parted = sum(len(ways_of(block)) > 1 for block in blocks)
    console.print(
        f"{trace}: {base_type} by its ops; {format_count(len(blocks), 'block')}, {parted:,} with several ways on"
        + (f"; left out what ran less often: {left_out:,}" if left_out else "")
        + (f"; the {LISTED} largest:" if len(blocks) > LISTED else ":"),
        soft_wrap=True,
    )
    console.print(table)
    console.print(LEGEND, soft_wrap=True)


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    if args.output == "-":
        fail("a block graph goes to a file: name one.")
    suffix = Path(args.output).suffix if args.output else ""
    if args.output and suffix not in FORMS:
        fail(f"a block graph is written as .json, .dot or .mmd, by the file's name: '{args.output}' ends otherwise.")
    paths = load()
    try:
        with progress(f"Reading {args.trace}"):
            path = paths.TracePath(args.trace, parse_size(args.block_bytes), parse_rate(args.rate))
            found, base_type = named(path.blocks()), path.base_type
    except ValueError as error:
        fail(str(error))
    blocks = frequent(found, args.min_runs)
    if args.output:
        Path(args.output).write_text(FORMS[suffix](blocks, base_type), encoding="utf-8")
    else:
        show(args.trace, base_type, blocks, len(found) - len(blocks))
    return 0
