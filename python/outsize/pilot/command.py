"""`outsize pilot COMMAND`: each command is a module with a `main`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from outsize.cli import fail

# Name: the module, and what `outsize pilot --help` says of it.
COMMANDS = {
    "collect": ("collect", "record a run to learn from, into a folder of such runs"),
    "eval": ("evaluate", "how well the pilot, and simpler ways, foresee recorded runs"),
    "graph": ("graph", "the execution blocks of a recorded run, and what follows what"),
    "train": ("train", "learn from recorded runs and write a model that runs begin with"),
    "show": ("show", "say what a model has learnt, and from what"),
}

_OVERVIEW = """\
usage: outsize pilot COMMAND ...

Looks at the paths that networks take, where these depend on the input.

commands:
{commands}

`outsize pilot COMMAND --help` says more.
"""


def main(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        listed = "\n".join(f"    {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
        print(_OVERVIEW.format(commands=listed), end="")
        return 0 if argv else 2
    if argv[0] not in COMMANDS:
        fail(f"there is no command 'pilot {argv[0]}'; `outsize pilot --help` lists them.")
    module = importlib.import_module(f"outsize.pilot.{COMMANDS[argv[0]][0]}")
    code: int = module.main(argv[1:])
    return code
