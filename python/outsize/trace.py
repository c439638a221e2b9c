"""`outsize trace`: what a recorded run says, whether it makes sense, and other forms of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from outsize.cli import Parser, fail, output_file
from outsize.simulator import load_simulator
from outsize.units import format_bytes, format_count


class Traces(Protocol):
    """`outsize._sim` (python/bindings/traces.cpp): what cannot be read is a ValueError."""

    def trace_info(self, path: str) -> dict[str, Any]: ...

    def trace_validate(self, path: str) -> dict[str, Any]: ...

    def trace_export(self, path: str, format: str, to: str) -> None: ...


def parser() -> Parser:
    result = Parser(prog="outsize trace", description="Looks into the trace of a run.")
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    info = commands.add_parser("info", help="a short table of what the trace holds")
    validate = commands.add_parser("validate", help="say what makes no sense in it (exit code 1)")
    export = commands.add_parser("export", help="write it for Perfetto, or as a memory timeline")
    for command in (info, validate, export):
        command.add_argument("file", metavar="FILE", help="a trace that outsize recorded")
    for command in (info, validate):
        command.add_argument("--json", action="store_true", help="print JSON")
    export.add_argument(
        "--to",
        required=True,
        choices=["chrome", "memory"],
        help="chrome: JSON for Perfetto; memory: CSV, a line for each change of the bytes alive",
    )
    export.add_argument(
        "-o", "--output", required=True, type=output_file, metavar="OUT", help="the file to write"
    )
    return result


def seconds(nanos: int) -> str:
    return f"{nanos / 1e9:.3f} s"


def meta_of(text: str) -> dict[str, Any]:
    """What was recorded of the run; a trace without it is still a trace."""
    try:
        meta = json.loads(text or "{}")
    except ValueError:
        meta = None
    return meta if isinstance(meta, dict) else {"unreadable": text}


def table(said: dict[str, Any]) -> str:
    born, held = format_bytes(said["born_bytes"]), format_bytes(said["file_bytes"])
    sites, threads = format_count(said["sites"], "op site"), format_count(said["threads"], "thread")
    packed = said["block_bytes"] / max(said["file_bytes"], 1)
    rows = [
        *((str(name), str(value)) for name, value in said["meta"].items()),
        ("duration", seconds(said["duration_ns"])),
        ("ops", f"{said['ops']:,} at {sites}, {threads}"),
        ("steps", f"{said['steps']:,} ({format_count(said['samples'], 'sample')})"),
        ("storages", f"{said['births']:,} of {born} ({said['adoptions']:,} adopted)"),
        ("peak", f"{format_bytes(said['peak_bytes'])} at {seconds(said['peak_ns'])}"),
        ("waited", ", ".join(f"{seconds(ns)} ({why})" for why, ns in said["waited_ns"].items())),
        ("raw accesses", f"{said['raw_accesses']:,}"),
        ("file", f"{held}, {packed:.1f}x compressed, {format_count(said['events'], 'event')}"),
        *(
            ("longest", f"{seconds(site['self_ns'])} {site['ops']:,}x {site['op'] or '?'}")
            for site in said["longest"][:5]
        ),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def command_info(traces: Traces, args: argparse.Namespace) -> int:
    said = traces.trace_info(args.file)
    said["meta"] = meta_of(said["meta"])
    print(json.dumps(said) if args.json else table(said))
    return 0


def command_validate(traces: Traces, args: argparse.Namespace) -> int:
    said = traces.trace_validate(args.file)
    found = said["found"]
    if args.json:
        print(json.dumps({"status": "ok" if found == 0 else "problems"} | said))
    elif found == 0:
        print(f"{args.file}: all {said['events']:,} events make sense.")
    else:
        for problem in said["problems"]:
            print(f"event {problem['event']}: {problem['what']}")
        problems, events = format_count(found, "problem"), format_count(said["events"], "event")
        print(f"{args.file}: {problems} in {events}.")
    return 0 if found == 0 else 1


def command_export(traces: Traces, args: argparse.Namespace) -> int:
    traces.trace_export(args.file, args.to, args.output)
    return 0


def load() -> Traces:
    return cast(Traces, load_simulator())


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    handler: Callable[[Traces, argparse.Namespace], int] = {
        "info": command_info,
        "validate": command_validate,
        "export": command_export,
    }[args.command]
    if args.command == "export" and args.output == "-":
        fail("an export goes to a file: name one with -o.")
    try:
        return handler(load(), args)
    except ValueError as error:
        fail(str(error))
