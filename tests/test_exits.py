"""A program may end in any way while it holds spilled tensors: it ends as it does without outsize.

The cases are in support/exit_cases.py. What plain PyTorch prints and exits with is what is right.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from support.launch import mechanisms, run_json

CASES = {
    "all_kinds_of_leftovers": "read at exit\ndied with right bytes\ngenerator closed\n",
    "a_thread_outlives_main": "the thread is done\n",
    "daemon_reads_raw": "ends now\n",
    "sys_exit_in_a_thread": "main went on\n",
    "sys_exit_in_the_block": "",
    "an_error_leaves_the_block": "ValueError: with 10 tensors\n",
    "os_exit": "",
    "os_exit_in_a_thread": "",
}


@cache
def ended(mechanism: str) -> dict[str, Any]:
    args = ["auto", "--jail"] if mechanism == "signal" else [mechanism]
    return run_json("exit_cases.py", *args, timeout=600)


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("case", CASES)
def test_ends_as_plain(case: str, mechanism: str) -> None:
    plain, ours = ended("plain")[case], ended(mechanism)[case]
    assert plain["said"].endswith(CASES[case])
    assert ours == plain
