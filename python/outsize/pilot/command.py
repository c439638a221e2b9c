"""`outsize pilot`: dispatches to its commands."""

from __future__ import annotations

from collections.abc import Sequence

from outsize.cli import Parser, fail

# Each: what it does, and the module of this package whose `main` does it.
COMMANDS = {
    "train": ("learn from recorded runs and write a model that runs begin with", "train"),
    "show": ("say what a model has learnt, and from what", "show"),
}


def parser() -> Parser:
    result = Parser(
        prog="outsize pilot",
        description="Trains the policy pilot on recorded runs and looks into what it learnt.",
    )
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, _) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    return result


def main(argv: Sequence[str]) -> int:
    if not argv or argv[0].startswith("-"):
        parser().parse_args(argv)
    if argv[0] not in COMMANDS:
        fail(f"there is no command 'pilot {argv[0]}'; `outsize pilot --help` lists them.")
    from importlib import import_module

    module = import_module(f"outsize.pilot.{COMMANDS[argv[0]][1]}")
    return int(module.main(argv[1:]))
