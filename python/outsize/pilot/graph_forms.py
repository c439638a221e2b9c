"""A block graph as other tools read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from outsize.units import format_bytes


def label(block: dict[str, Any]) -> list[str]:
    time = f"{block['time_ns'] / 1e6:.2f} ms"
    return [f"{block['block']}: {block['name']}", f"{block['runs']:,}x, {time}, {format_bytes(block['bytes'])}"]


def as_json(blocks: list[dict[str, Any]], base_type: str) -> str:
    return json.dumps({"base_type": base_type, "blocks": blocks}, indent=1) + "\n"


def as_dot(blocks: list[dict[str, Any]], base_type: str) -> str:
    lines = ["digraph blocks {", f"  // {base_type} by its ops", "  node [shape=box];", "  end [label=\"step ends\", shape=ellipse];"]
    for block in blocks:
        text = "\\n".join(label(block)).replace('"', "'")
        lines.append(f"  b{block['block']} [label=\"{text}\"];")
        lines += [f"  b{block['block']} -> {to} [label=\"{share:.0%}\"];" for to, share in ways_of(block)]
    return "\n".join([*lines, "}", ""])


def as_mermaid(blocks: list[dict[str, Any]], base_type: str) -> str:
    lines = ["flowchart TD", f"  %% {base_type} by its ops", "  end_([step ends])"]
    for block in blocks:
        text = "<br>".join(label(block)).replace('"', "'")
        lines.append(f"  b{block['block']}[\"{text}\"]")
        lines += [
            f"  b{block['block']} -->|{share:.0%}| {'end_' if to == 'end' else to}" for to, share in ways_of(block)
        ]
    return "\n".join([*lines, ""])


def ways_of(block: dict[str, Any]) -> list[tuple[str, float]]:
    ways = [(f"b{way['block']}", way["share"]) for way in block["next"]]
    return ways + ([("end", block["end_share"])] if block["ends"] else [])


FORMS: dict[str, Callable[[list[dict[str, Any]], str], str]] = {
    ".json": as_json, ".dot": as_dot, ".mmd": as_mermaid,
}
