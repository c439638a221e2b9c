"""A session ends while other threads run ops, free tensors or fork: no hang, no wrong byte."""

from __future__ import annotations

import pytest
from support.launch import mechanisms, run_script


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("meanwhile", ["running_ops", "dying_tensors", "forks"])
def test_a_session_ends_while(meanwhile: str, mechanism: str) -> None:
    run_script("session_end.py", meanwhile, mechanism, timeout=240)
