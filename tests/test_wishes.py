"""`outsize.pin` and `outsize.hint`: a program's own word on its tensors."""

from __future__ import annotations

import pytest

from support.launch import MIB, mechanism_options, mechanisms, run_json


@pytest.mark.parametrize("mechanism", mechanisms())
def test_pins_hold_and_hints_bring_bytes_before_they_are_needed(mechanism: str) -> None:
    args = mechanism_options(mechanism)
    report = run_json("wishes_worker.py", *args)
    for policy in ("lookahead", "ondemand"):
        hints, pins = report[policy]["hints"], report[policy]["pins"]
        without, with_hints = hints["without"], hints["with"]
        assert without["total"] == with_hints["total"] == report["plain"]
        assert without["demand"] > 100 * MIB, "each use had to wait for its bytes"
        assert with_hints["demand"] <= without["demand"] // 2
        assert with_hints["hits"] > 100 * MIB
        # An expert and a layer with its bias, in whole pages.
        assert 12 * MIB - 4 * 4096 <= pins["pinned"] <= 13 * MIB and pins["stayed"]
        assert len(pins["said"]) == 1 and "three quarters" in pins["said"][0]
        assert pins["kept"] == pins["pinned"] and pins["after"] == 0
