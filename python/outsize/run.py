"""`outsize run`: a script under a budget, with a live line, a table at the end and a JSON file."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import logging
import os
import sys
from dataclasses import fields
from typing import Any

from outsize import api, launcher


def run(args: argparse.Namespace, target: list[str], kind: str) -> None:
    """Runs the target (a script, "-m" a module, "-c" code); its exit code, exceptions and signals are
    passed on untouched."""
    if not kind:
        launcher.check_script(target[0])  # before there is anybody to report that torch never came
    told = not args.behind or api.turned_off()
    if args.budget_behind and not told and not args.quiet:
        _tell_behind(args.behind)  # now: the whole training would run under another budget
        told = True
    supervisor = Supervisor(args)
    if not api.turned_off():
        supervisor.install()
    elif args.json or args.record or args.report:
        what = "trace" if args.record else "report"
        print(f"outsize: turned off (OUTSIZE=0), so there is no {what} to write.", file=sys.stderr)
    how = {"-m": launcher.run_module, "-c": launcher.run_code, "": launcher.run_script}[kind]
    launcher.at_interrupt.append(supervisor.ended)
    try:
        how(target[0], target[1:])
    except SystemExit as error:
        supervisor.ended(error)
        if error.code == WRONG_USAGE and not told:
            _tell_behind(args.behind)
        raise
    except BaseException as error:
        supervisor.ended(error)
        raise


def ended_by(error: BaseException) -> dict[str, Any]:
    """Not the exception itself: it keeps frames alive, and what they hold."""
    if not isinstance(error, SystemExit):
        code = DIED_OF_CTRL_C if isinstance(error, KeyboardInterrupt) else 1
        return {"exit_code": code, "exception": f"{type(error).__name__}: {error}".removesuffix(": ")}
    code = error.code if isinstance(error.code, int) else int(error.code is not None)
    return {"exit_code": code, "exception": None}


WRONG_USAGE = 2  # what argparse exits with
DIED_OF_CTRL_C = 130  # as a shell sees it


def _tell_behind(options: str) -> None:
    print(
        f"outsize: {options}: what stands behind the script's name is the script's; options of outsize"
        " stand before the script.",
        file=sys.stderr,
    )


class Supervisor:
    """Enables outsize once torch is there, and reports when the process ends."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._live: Any = None
        self._started = False
        self._session: Any = None
        self._page: Any = None
        self._pid = os.getpid()
        self.how_it_ended: dict[str, Any] = {"exit_code": 0, "exception": None}

    def ended(self, error: BaseException) -> None:
        self.how_it_ended = ended_by(error)

    def install(self) -> None:
        _log_to_stderr_unless_configured()
        atexit.register(self._finish)  # before anything the script registers: so it runs last
        launcher.AfterTorch(self._start).install()

    def options(self) -> dict[str, Any]:
        from outsize.options import Options

        return {field.name: getattr(self._args, field.name) for field in fields(Options)}

    def _start(self) -> None:
        self._started = True
        try:
            api.enable(**self.options())
        except (RuntimeError, ImportError, ValueError) as error:
            print(f"outsize: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        self._session = api.session()
        if self._args.report:
            from outsize.page.live import LiveReport

            self._page = LiveReport(self._session.core, self._args.report)
        if not self._args.quiet:
            from outsize.live import LiveLine

            self._live = LiveLine(api.stats)
            self._live.start()

    def _finish(self) -> None:
        if os.getpid() != self._pid:  # a forked child that ends by itself has nothing to report
            return
        if self._live is not None:
            self._live.stop()
        self._tell_trace()
        if self._session is None:
            if not self._started and not self._args.quiet:
                print("outsize: the program never imported torch.", file=sys.stderr)
            if self._args.json:
                from outsize.counters import Stats

                self._write_json(Stats())
            return
        from outsize import report

        # Of the budget that we set: the program may have ended it, and set others of its own.
        stats, last = self._session.stats(), api.stats()
        ended = self._session.ended
        # Nobody may be reading any more: the script closed its streams, or `... 2>&1 | head` did.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if not self._args.quiet:
                sys.stdout.flush()
                report.print_report(stats, ended=ended)
                if ended and last is not stats:
                    report.print_report(last, title="outsize, the program's own last budget")
        if self._args.json:
            self._write_json(stats)
        if self._page is not None:
            self._write_page(stats, report.rows(stats))

    def _write_json(self, stats: Any) -> None:
        from outsize import report

        facts = {**report.as_json(stats, self.options()), "run": self.how_it_ended}
        report.write_json(self._args.json, facts)

    def _write_page(self, stats: Any, table: list[tuple[str, str]]) -> None:
        from outsize.record import script

        try:
            self._page.write(script(), stats, table)
            line = f"page of the last steps in {self._page.path}"
        except OSError as error:
            line = f"the page could not be written to {self._page.path}: {error.strerror}."
        if not self._args.quiet or line.startswith("the"):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                print(f"outsize: {line}", file=sys.stderr)

    def _tell_trace(self) -> None:
        """Where it is; what went wrong with it has been told as it ended."""
        recording = self._session.recording if self._session is not None else None
        if recording is None:
            return
        line = recording.end()
        if not self._args.quiet and not recording.failed:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                print(f"outsize: {line}", file=sys.stderr)


def _log_to_stderr_unless_configured() -> None:
    class Handler(logging.StreamHandler):  # type: ignore[type-arg]
        def emit(self, record: logging.LogRecord) -> None:
            if not logging.getLogger().handlers:  # else the script's own logging shows it
                super().emit(record)

    handler = Handler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("outsize: %(message)s"))
    logging.getLogger("outsize").addHandler(handler)
