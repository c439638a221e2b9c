"""`outsize pilot collect`: records a run for `outsize pilot train` to learn from, beside those that were there before."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from outsize.cli import Parser, add_run_options, behind_the_script, fail, run_target, split_target

SUFFIX = ".trace"


def parser() -> Parser:
    result = Parser(
        prog="outsize pilot collect",
        usage="outsize pilot collect [options] -o FOLDER {SCRIPT | -m MODULE | -c CODE} [args...]",
        description="Runs a script as `outsize run` does and keeps its trace in a folder, beside those of earlier runs:"
        " `outsize pilot train FOLDER -o FILE` learns from all of them.",
    )
    result.add_argument(
        "-o", "--output", required=True, type=folder, metavar="FOLDER", help="where traces are kept; it is made if need be"
    )
    add_run_options(result)
    result.set_defaults(report="")
    return result


def folder(text: str) -> Path:
    path = Path(text).absolute()  # a script may change its folder
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} is no folder and cannot be made one: {error.strerror}") from None
    return path


def name_of(target: Sequence[str], kind: str) -> str:
    """What runs, as a file may be called."""
    word = "code" if kind == "-c" else target[0]
    stem = word if kind else Path(word).stem
    return re.sub(r"[^\w.-]+", "_", stem) or "run"


def next_trace(where: Path, name: str) -> Path:
    """NAME-1.trace, or behind the last that is there. It is made at once: of two runs none takes the other's."""
    taken = [
        int(found[1])
        for path in where.iterdir()
        if (found := re.fullmatch(re.escape(name) + r"-([0-9]+)" + re.escape(SUFFIX), path.name))
    ]
    number = max(taken, default=0) + 1
    while True:
        path = where / f"{name}-{number}{SUFFIX}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            number += 1
        except OSError as error:
            fail(f"{path} cannot be written: {error.strerror}.")
        else:
            return path


def traces_in(where: Path) -> list[str]:
    """In the order in which they were collected, name by name. Runs that recorded nothing left empty files."""

    def order(path: Path) -> tuple[str, int, str]:
        found = re.fullmatch(r"(.*)-([0-9]+)", path.stem)
        return (found[1], int(found[2]), "") if found else (path.stem, 0, path.stem)

    found = [path for path in where.iterdir() if path.suffix == SUFFIX and path.stat().st_size > 0]
    return [str(path) for path in sorted(found, key=order)]


def main(argv: Sequence[str]) -> int:
    ours, target, kind = split_target(parser(), argv)
    made = parser()
    args = made.parse_args(ours)
    if not target and not kind:
        fail("collect what? Write `outsize pilot collect -o FOLDER script.py`.")
    args.behind, args.budget_behind = behind_the_script(made, ours, target)
    args.record = str(next_trace(args.output, name_of(target or [kind], kind)))
    return run_target("pilot collect", args, target, kind)
