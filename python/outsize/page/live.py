"""The page of a live run: what happened when in its last steps."""

from __future__ import annotations

import json
from typing import Any

from outsize.compiled import Core
from outsize.counters import Stats
from outsize.page import write_page
from outsize.page.drawn import drawn

STEPS_KEPT = 3


class LiveReport:
    """Has the runtime keep a timeline from here on; `write` ends it."""

    def __init__(self, core: Core, path: str) -> None:
        self._core = core
        self.path = path
        core.keep_timeline(STEPS_KEPT)

    def facts(self, name: str, stats: Stats, table: list[tuple[str, str]]) -> dict[str, Any]:
        text, names = self._core.timeline()
        run = {
            "trace": name,
            "device": "",
            "policy": stats.policy,
            "budget": "",
            "budget_bytes": stats.budget,
            "peak_bytes": stats.resident_peak,
            "time_ns": round(stats.seconds * 1e9),
            "stall_ns": stats.stall,
            "reason": "",
            "view": drawn(json.loads(text), names) if text else None,
        }
        return {"table": table, "runs": [run]}

    def write(self, name: str, stats: Stats, table: list[tuple[str, str]]) -> None:
        """An OSError where it cannot be."""
        write_page(self.path, "report", self.facts(name, stats, table))
