"""One HTML file that shows runs: data, style and script in it, and no address of anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def page(kind: str, facts: dict[str, Any]) -> str:
    """`kind`: "compare" for simulated runs, "report" for a live one."""
    data = json.dumps(facts | {"kind": kind}, separators=(",", ":"))
    parts = {
        "/*style*/": (HERE / "page.css").read_text(),
        "/*script*/": (HERE / "page.js").read_text(),
        "/*data*/": data.replace("<", "\\u003c"),  # so that no name ends the script
    }
    text = (HERE / "page.html").read_text()
    for mark, part in parts.items():
        before, _, after = text.partition(mark)
        text = before + part + after
    return text


def write_page(path: str, kind: str, facts: dict[str, Any]) -> None:
    Path(path).write_text(page(kind, facts))
