"""Makes this process an ordinary user without userfaultfd and io_uring, for good.

Containers forbid both with a seccomp filter; here the same filter is written by hand: a classic BPF
program that answers EPERM to the forbidden system calls and lets all others pass.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import platform
import struct
import sys

NOBODY = 65534
CAP_DAC_READ_SEARCH = 2
_PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 8, 38, 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
# io_uring_setup, io_uring_enter, io_uring_register have one number on every machine.
_IO_URING = (425, 426, 427)
_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


class JailUnavailable(RuntimeError):
    """This machine's system call numbers are not known here."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """How every worker is told its fault mechanism; with `--jail`, `auto` has to find it in here."""
    parser.add_argument("--faults", default="auto")
    parser.add_argument("--jail", action="store_true", help="become an ordinary user first")


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _filter(machine: str) -> bytes:
    forbidden = (_USERFAULTFD[machine], *_IO_URING)
    program = [
        _instruction(_LOAD, 4),  # struct seccomp_data: the architecture
        _instruction(_JUMP_IF_EQUAL, _ARCHITECTURE[machine], 1, 0),
        _instruction(_RETURN, _ALLOW),
        _instruction(_LOAD, 0),  # the number of the system call
    ]
    for index, number in enumerate(forbidden):
        program.append(_instruction(_JUMP_IF_EQUAL, number, len(forbidden) - index, 0))
    program.append(_instruction(_RETURN, _ALLOW))
    program.append(_instruction(_RETURN, _ERRNO | errno.EPERM))
    return b"".join(program)


def forbid_system_calls() -> None:
    machine = platform.machine()
    if machine not in _USERFAULTFD:
        raise JailUnavailable(f"system call numbers of {machine} are not known to this test")
    code = _filter(machine)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(code) // 8, code)
    calls = (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    )
    for call in calls:
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl", str(call[0]))


def _nobody_can_read(path: str) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os._exit(0 if os.access(path, os.R_OK) else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _keep_only(capability: int) -> None:
    """Of all the rights of root, this one stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=II", 0x20080522, 0)  # version 3, this thread
    mask = 1 << capability
    data = struct.pack("=6I", mask, mask, 0, 0, 0, 0)  # effective, permitted, inheritable; twice
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def become_nobody() -> bool:
    """Root turns into an ordinary user; anyone else is one already. Says whether it was root.

    Where Python lies in root's own folder, the right to read any file is kept, for its modules.
    """
    if os.getuid() != 0:
        return False
    readable = _nobody_can_read(os.__file__) and _nobody_can_read(sys.prefix)
    libc = ctypes.CDLL(None, use_errno=True)
    if not readable and libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl", "PR_SET_KEEPCAPS")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    if not readable:
        _keep_only(CAP_DAC_READ_SEARCH)
    return True


def system_call_error(number: int) -> int:
    """The errno that a bare system call answers with arguments that do no harm."""
    libc = ctypes.CDLL(None, use_errno=True)
    # UFFD_USER_MODE_ONLY, which an ordinary user may ask for
    return 0 if libc.syscall(number, 1, 0, 0) >= 0 else ctypes.get_errno()


def forbidden_calls_answer() -> dict[str, int]:
    numbers = {"userfaultfd": _USERFAULTFD[platform.machine()]}
    numbers |= {f"io_uring {number}": number for number in _IO_URING}
    return {name: system_call_error(number) for name, number in numbers.items()}


def enter() -> None:
    become_nobody()
    forbid_system_calls()
