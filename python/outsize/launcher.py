"""Runs a user's script, module or code as `python` would, under a budget.

The script must not be able to tell: sys.argv, sys.path[0], `__main__`, exit codes, tracebacks and
death by Ctrl-C are those of plain Python (docs: `python script.py`, `python -m module`,
`python -c code`). outsize itself starts when the script has imported torch, so a script may still set
environment variables that torch reads, and one that never imports torch pays nothing.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import runpy
import signal
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def check_script(path: str) -> None:
    """Exits as python does where there is no such script. It is not opened: it may be a pipe."""
    try:
        os.stat(path)
    except OSError as error:
        _cannot_open(path, error)


def _cannot_open(path: str, error: OSError) -> NoReturn:
    why = f"[Errno {error.errno}] {error.strerror}"
    print(f"outsize: can't open file {os.path.abspath(path)!r}: {why}", file=sys.stderr)
    raise SystemExit(2) from None


def run_script(path: str, args: Sequence[str]) -> None:
    """`python path args...`; returns when the script has run to its end."""
    sys.argv = [path, *args]
    if os.path.isdir(path) or _is_zip(path):
        _set_first_path(os.path.abspath(path), replace=True)
        _run_as_user(lambda: _run_module_in(_fresh_main(), "__main__", alter_argv=False))
        return
    try:
        code_bytes = _read(path)
    except OSError as error:
        _cannot_open(path, error)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main()
    main.__file__ = os.path.abspath(path)
    main.__cached__ = None  # type: ignore[attr-defined]
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)

    def execute() -> None:
        exec(_compile(code_bytes, path, main), main.__dict__)

    _run_as_user(execute)


def run_module(name: str, args: Sequence[str]) -> None:
    """`python -m name args...`; returns when the module has run to its end."""
    sys.argv = ["-m", *args]  # what a module sees while it is being looked for
    _set_first_path(os.getcwd())
    main = _fresh_main()
    _run_as_user(lambda: _run_module_in(main, name, alter_argv=True))


def run_code(code: str, args: Sequence[str]) -> None:
    """`python -c code args...`; returns when the code has run to its end."""
    sys.argv = ["-c", *args]
    _set_first_path("")
    main = _fresh_main()
    main.__loader__ = importlib.machinery.BuiltinImporter
    _run_as_user(lambda: exec(compile(code, "<string>", "exec", dont_inherit=True), main.__dict__))


def _run_module_in(main: types.ModuleType, name: str, alter_argv: bool) -> None:
    # What the interpreter itself calls for -m: it fills sys.modules["__main__"].
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _read(path: str) -> bytes:
    with io.open_code(os.path.abspath(path)) as file:
        return file.read()


def _compile(source: bytes, path: str, main: types.ModuleType) -> types.CodeType:
    compiled: types.CodeType | None = pkgutil.read_code(io.BytesIO(source))  # a .pyc file
    if compiled is not None:
        main.__loader__ = importlib.machinery.SourcelessFileLoader("__main__", path)
        return compiled
    code: types.CodeType = compile(source, os.path.abspath(path), "exec", dont_inherit=True)
    return code


def _is_zip(path: str) -> bool:
    import zipimport

    if not os.path.isfile(path):
        return False
    try:
        zipimport.zipimporter(path)
    except zipimport.ZipImportError:
        return False
    return True


def _set_first_path(entry: str, replace: bool = False) -> None:
    """Plain Python puts the script's folder first; under -P it puts nothing."""
    if sys.flags.safe_path and not replace:
        return
    if sys.flags.safe_path:
        sys.path.insert(0, entry)
    else:
        sys.path[0] = entry  # ours: the folder of `outsize`, or the working directory


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __package__=None, __spec__=None)
    _keep.append(sys.modules["__main__"])  # a module's globals die with it
    sys.modules["__main__"] = main
    return main


_keep: list[types.ModuleType] = []


# Told of the KeyboardInterrupt that the process is about to die of; it reaches no caller of ours.
at_interrupt: list[Callable[[KeyboardInterrupt], None]] = []


def _run_as_user(execute: Callable[[], None]) -> None:
    """Lets every exception through to the interpreter, which knows best how to die of it, but with
    the frames that lie outside the user's program taken out of the traceback."""
    try:
        execute()
    except SystemExit:
        raise
    except KeyboardInterrupt as error:
        clean_chain(error)
        theirs = without_our_frames(error.__traceback__)
        sys.excepthook(KeyboardInterrupt, error.with_traceback(theirs), theirs)
        for tell in at_interrupt:
            tell(error)
        _die_of_ctrl_c()
    except BaseException as error:
        hook = sys.excepthook
        theirs = without_our_frames(error.__traceback__)

        def show(kind: Any, value: Any, traceback: Any) -> None:
            clean_chain(value)
            hook(kind, value.with_traceback(theirs), theirs)

        sys.excepthook = show
        raise


def _die_of_ctrl_c() -> NoReturn:
    """What the interpreter does after a script's KeyboardInterrupt, so that a shell sees 130 and
    stops the loop we run in. (Under `python -m outsize` the interpreter would exit with 1.)"""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(130)  # only where SIGINT is blocked


def without_our_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The same traceback without the frames of this package."""
    frames = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            frames.append(traceback)
        traceback = traceback.tb_next
    following = None
    for frame in reversed(frames):
        frame.tb_next = following
        following = frame
    return following


def clean_chain(error: BaseException) -> None:
    """Takes our frames out of the exceptions that led to this one."""
    seen = {id(error)}
    pending = [error.__cause__, error.__context__]
    while pending:
        earlier = pending.pop()
        if earlier is None or id(earlier) in seen:
            continue
        seen.add(id(earlier))
        earlier.__traceback__ = without_our_frames(earlier.__traceback__)
        pending += [earlier.__cause__, earlier.__context__]


class AfterTorch:
    """Calls `action` once, right after torch has been imported for the first time."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def install(self) -> None:
        if "torch" in sys.modules:
            self._action()
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            del loader.exec_module  # the loader is as it was before us
            execute(module)
            self._action()

        loader.exec_module = exec_module
        return spec
