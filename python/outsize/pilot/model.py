"""Saved models of the pilot, as commands name and show them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from outsize.cli import fail
from outsize.units import format_count


class PilotModel(Protocol):
    """`outsize._sim.PilotModel` (python/bindings/pilots.cpp)."""

    card: str  # JSON
    model: bytes
    name: str  # that decision logs say
    file_bytes: int
    facts: dict[str, Any]


def is_pilot(policy: str) -> bool:
    return policy.partition(":")[0] == "pilot"


def named_model(sim: Any, path: str | None, policies: Iterable[str]) -> Any:
    """What `--pilot FILE` names; None where it was not given."""
    if not path:
        return None
    if not any(map(is_pilot, policies)):
        fail("--pilot is for policy pilot: add --policy pilot.")
    return sim.PilotModel(path)


def with_model(model: Any, policy: str) -> dict[str, Any]:
    """What a simulated run under that policy is given besides."""
    return {"pilot": model} if model is not None and is_pilot(policy) else {}


def known_share(ops: int, known: int) -> int:
    return 100 * known // max(ops, 1)


def told(path: str, ops: int, known: int, given_up: bool) -> str:
    """What became of a model; empty where all is as it should be."""
    if not given_up:
        return ""
    return (
        f"the pilot's model {path} knows {known_share(ops, known)} % of this program's first {format_count(ops, 'op')}:"
        " it starts from nothing but how advisers are weighed."
    )


def card_of(model: PilotModel) -> dict[str, Any]:
    try:
        card = json.loads(model.card or "{}")
    except ValueError:
        card = None
    return card if isinstance(card, dict) else {"unreadable": model.card}
