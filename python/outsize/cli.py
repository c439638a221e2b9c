"""`outsize`: the command line. argparse, because `outsize --help` should be there at once."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from outsize.units import SizeError, parse_budget, parse_rate, parse_size

COMMANDS = {
    "run": "run a training script under a memory budget",
    "demo": "train GPT-2 small plainly and in two fifths and one fifth of its memory, and compare",
    "bench": "time a script plainly, under several budgets, and under the kernel's swap",
    "simulate": "say what a recorded run would have taken under another budget, policy or disk",
    "compare": "simulate recorded runs under many policies, budgets and disks, as a table or a page",
    "record": "run a training script and record it as a trace",
    "report": "run a training script and draw its last steps as a page",
    "trace": "look into a recorded run: a table, a check, or a form that other tools draw",
    "replay": "check that a run's decision log is what the engine decides, and that it may",
    "pilot": "train the policy pilot on recorded runs, say how well it foresees them, draw their blocks",
    "doctor": "show what this machine offers: memory, disk, page faults, torch",
}

RUNS = ("run", "record", "report")  # commands that run a script

_OVERVIEW = """\
usage: outsize COMMAND ...

Train networks that are larger than memory.

{commands}

  outsize run --budget 2GiB train.py --epochs 3
  outsize run --budget 60% -m my.module

OUTSIZE=0 in the environment makes `outsize run` run the script plainly.
`outsize COMMAND --help` says more.
"""


class Parser(argparse.ArgumentParser):
    """One line for a mistake, not a screen of usage."""

    otherwise = ""  # what to say of an unknown option that looks like none of ours

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        # "-5MiB" is a value, which is refused for what it is (as newer argparse has it for "-5").
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        fail(f"{message}{self._meant(message)} (`{self.prog} --help` shows the options)")

    def _meant(self, message: str) -> str:
        what, _, rest = message.partition(": ")
        if not what.startswith("unrecognized"):
            return ""
        known = [option for action in self._actions for option in action.option_strings]
        return _close(rest.split()[0], known) or self.otherwise


def fail(message: str) -> NoReturn:
    print(f"outsize: {message}", file=sys.stderr)
    raise SystemExit(2)


def budget(text: str) -> str:
    try:
        parse_budget(text)
    except SizeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def size(text: str) -> str:
    try:
        parse_size(text)
    except SizeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def rate(text: str) -> str:
    try:
        parse_rate(text)
    except SizeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero.")
    return int(text)


def output_file(text: str) -> str:
    """A file that can be written, found out before hours of work rather than after them."""
    if text == "-":
        return text
    path = Path(text).absolute()  # a script may change its folder
    existed = path.exists()
    try:
        path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {error.strerror}") from None
    return str(path)


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """The options that `run`, `bench` and `demo` pass to the engine."""
    parser.add_argument(
        "--spill-dir", default="", metavar="DIR", help="default: $TMPDIR or /var/tmp"
    )
    parser.add_argument(
        "--spill-limit", default="0", type=size, metavar="SIZE", help="largest spill file"
    )
    parser.add_argument(
        "--disk-write-limit",
        default="0",
        type=rate,
        metavar="PACE",
        help="2TB/day, 50MB/s: how fast the disk may be written, on average (default: no limit)",
    )
    parser.add_argument(
        "--faults",
        default="auto",
        choices=["auto", "userfaultfd", "signal"],
        help="how touches of absent pages are caught (default: auto)",
    )
    parser.add_argument(
        "--io-threads", default=4, type=positive, metavar="N", help="default: %(default)s"
    )


def run_parser() -> Parser:
    parser = Parser(
        prog="outsize run",
        usage="outsize run [options] {SCRIPT | -m MODULE | -c CODE} [args...]",
        description="Runs a script as python would, with the bytes of its tensors within a budget.",
    )
    add_run_options(parser)
    add_record_option(parser)
    add_report_option(parser)
    return parser


def record_parser() -> Parser:
    parser = output_parser(
        "record", "FILE", "the trace", description="Runs a script as `outsize run` does and records it as a trace."
    )
    add_report_option(parser)
    return parser


def report_parser() -> Parser:
    parser = output_parser(
        "report", "PAGE", "the page", description="Runs a script as `outsize run` does and draws its last steps as a page."
    )
    add_record_option(parser)
    return parser


def output_parser(command: str, metavar: str, what: str, description: str) -> Parser:
    """Of a command that is `outsize run` with one more file."""
    parser = Parser(
        prog=f"outsize {command}",
        usage=f"outsize {command} [options] {{SCRIPT | -m MODULE | -c CODE}} [args...] -o {metavar}",
        description=description,
    )
    parser.add_argument(
        "-o",
        "--output",
        dest=command,
        type=output_file,
        metavar=metavar,
        help=f"{what}; stands before the script, or as the last two words",
    )
    add_run_options(parser)
    return parser


def add_record_option(parser: Parser) -> None:
    parser.add_argument(
        "--record", type=output_file, metavar="FILE", help="record a trace of the run there"
    )


def add_report_option(parser: Parser) -> None:
    parser.add_argument(
        "--report", type=output_file, metavar="PAGE", help="write a page that shows the last steps there"
    )


def add_run_options(parser: Parser) -> None:
    parser.add_argument(
        "--budget",
        default="auto",
        type=budget,
        metavar="SIZE",
        help="512MiB, 2GiB, 60%% (of the memory limit) or auto (three quarters of what is free)",
    )
    parser.add_argument(
        "--budget-rss",
        default=None,
        type=budget,
        metavar="SIZE",
        help="instead of --budget: for all that the process holds in RAM, not only its tensors",
    )
    parser.add_argument(
        "--policy",
        default="lookahead",
        metavar="NAME",
        help="lookahead (default), auto, pilot, ondemand, deepum, weights or oracle",
    )
    parser.add_argument(
        "--pilot", default="", metavar="FILE", help="what policy pilot begins with (`outsize pilot train`)"
    )
    parser.add_argument(
        "--foresee", default="", metavar="TRACE",
        help="what policy oracle foresees from: `outsize record` of the same run, with room for all",
    )
    add_engine_options(parser)
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="write the end report there (- for stdout)"
    )
    parser.add_argument("--decision-log", default="", metavar="FILE", help="log every decision")
    parser.add_argument(
        "--verify", action="store_true", help="checksum what leaves, check it when it returns"
    )
    parser.add_argument("--quiet", action="store_true", help="no live line, no table")
    parser.otherwise = "; options of the script stand after its name"


def split_target(
    parser: argparse.ArgumentParser, argv: Sequence[str]
) -> tuple[list[str], list[str], str]:
    """Our options, the target with its arguments (which may look like ours), and its kind: "-m" for
    a module, "-c" for code, "" for a script or nothing at all."""
    takes_value = {
        name for action in parser._actions for name in action.option_strings if action.nargs is None
    }
    index = 0
    while index < len(argv):
        word = argv[index]
        if word == "--":
            return list(argv[:index]), list(argv[index + 1 :]), ""
        if word[:2] in ("-m", "-c"):
            joined = [word[2:]] if word[2:] else []
            return list(argv[:index]), [*joined, *argv[index + 1 :]], word[:2]
        if not word.startswith("-"):
            return list(argv[:index]), list(argv[index:]), ""
        index += 2 if word in takes_value else 1
    return list(argv), [], ""


BUDGETS = {"--budget", "--budget-rss"}


def behind_the_script(
    parser: argparse.ArgumentParser, ours: Sequence[str], target: Sequence[str]
) -> tuple[str, bool]:
    """What of the script's own options is called as one of ours (empty: nothing), and whether a budget
    is where we were given none. The script gets it in any case: it may well have one of that name."""
    known = {name for action in parser._actions for name in action.option_strings} - {"-h", "--help"}
    found = [name for word in target[1:] if (name := word.partition("=")[0]) in known]
    given = any(word.partition("=")[0] in BUDGETS for word in ours)
    return ", ".join(dict.fromkeys(found)), not given and not BUDGETS.isdisjoint(found)


def command_run(argv: Sequence[str]) -> int:
    parser = run_parser()
    ours, target, kind = split_target(parser, argv)
    args = parser.parse_args(ours)
    if not target and not kind:
        fail("what should run? Write `outsize run [options] script.py` or `... -m module`.")
    args.behind, args.budget_behind = behind_the_script(parser, ours, target)
    return run_target("run", args, target, kind)


def command_record(argv: Sequence[str]) -> int:
    return run_with_output("record", record_parser(), argv, "run.trace")


def command_report(argv: Sequence[str]) -> int:
    return run_with_output("report", report_parser(), argv, "page.html")


def run_with_output(command: str, parser: Parser, argv: Sequence[str], example: str) -> int:
    ours, target, kind = split_target(parser, argv)
    args = parser.parse_args(ours)
    if getattr(args, command) is None and len(target) > 2 and target[-2] in ("-o", "--output"):
        args = parser.parse_args([*ours, *target[-2:]])
        target = target[:-2]
    if getattr(args, command) is None or not (target or kind):
        fail(f"{command} what, and where to? Write `outsize {command} [options] script.py -o {example}`.")
    args.behind, args.budget_behind = behind_the_script(parser, ours, target)
    return run_target(command, args, target, kind)


def run_target(command: str, args: argparse.Namespace, target: list[str], kind: str) -> int:
    if not target:
        what = {"-m": "the name of a module", "-c": "the code to run"}[kind]
        fail(f"{kind} lacks {what}: write it right behind, `outsize {command} [options] {kind} ...`.")
    if args.record == "-":
        fail("a trace goes to a file: name one.")
    if args.report == "-":
        fail("a page goes to a file: name one.")
    args.record = args.record or ""
    if args.budget_rss and args.budget != "auto":
        fail("give --budget (for tensors) or --budget-rss (for the whole process), not both.")
    from outsize.run import run

    run(args, target, kind)
    return 0


def command_doctor(argv: Sequence[str]) -> int:
    parser = Parser(
        prog="outsize doctor",
        description="Shows what this machine offers: memory, disk, page faults, torch. The disk is measured:"
        " do it while the machine is quiet.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--spill-dir", default="", metavar="DIR", help="measure the disk there")
    parser.add_argument(
        "--sample", default="1GiB", type=size, metavar="SIZE", help="bytes each way (%(default)s)"
    )
    args = parser.parse_args(argv)
    from outsize import checkup

    return checkup.main(args.spill_dir, args.sample, args.json)


def command_bench(argv: Sequence[str]) -> int:
    from outsize.bench.command import main as bench

    return bench(argv)


def command_demo(argv: Sequence[str]) -> int:
    from outsize.demo import main as demo

    return demo(argv)


def command_simulate(argv: Sequence[str]) -> int:
    from outsize.simulate import main as simulate

    return simulate(argv)


def command_compare(argv: Sequence[str]) -> int:
    from outsize.compare import main as compare

    return compare(argv)


def command_trace(argv: Sequence[str]) -> int:
    from outsize.trace import main as trace

    return trace(argv)


def command_pilot(argv: Sequence[str]) -> int:
    from outsize.pilot.command import main as pilot

    return pilot(argv)


def command_replay(argv: Sequence[str]) -> int:
    from outsize.replay import main as replay

    return replay(argv)


def main(argv: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
        print(_OVERVIEW.format(commands=listed), end="")
        raise SystemExit(0 if words else 2)
    if words[0] in ("-V", "--version"):
        import outsize

        print(f"outsize {outsize.__version__}")
        raise SystemExit(0)
    if words[0] not in COMMANDS:
        fail(f"there is no command '{words[0]}'{_suggest(words[0])}; `outsize --help` lists them.")
    handler = {
        "run": command_run,
        "doctor": command_doctor,
        "bench": command_bench,
        "demo": command_demo,
        "simulate": command_simulate,
        "compare": command_compare,
        "record": command_record,
        "report": command_report,
        "trace": command_trace,
        "replay": command_replay,
        "pilot": command_pilot,
    }[words[0]]
    runs_script = words[0] in RUNS or words[:2] == ["pilot", "collect"]
    try:
        code = handler(words[1:])
    except KeyboardInterrupt:
        if runs_script:  # the script's own
            raise
        print(f"outsize {words[0]}: interrupted.", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # whoever read what we print has read enough
        if runs_script:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    if code:  # a script that ran to its end leaves the exit to the interpreter
        raise SystemExit(code)


def _suggest(word: str) -> str:
    if word.startswith("--"):
        return f" (did you mean `outsize run {word} ...`?)"
    if word.endswith(".py"):
        return f" (did you mean `outsize run {word}`?)"
    return _close(word, COMMANDS)


def _close(word: str, known: Iterable[str]) -> str:
    import difflib

    names = {name.lstrip("-"): name for name in known}  # dashes alone make nothing alike
    close = difflib.get_close_matches(word.lstrip("-"), names, n=1)
    return f" (did you mean '{names[close[0]]}'?)" if close else ""
