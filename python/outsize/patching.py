"""Replaces functions of other modules while outsize is enabled, and puts every one back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """A stack of attribute replacements; `undo` restores them in reverse order."""

    def __init__(self) -> None:
        self._stack: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        # What the owner itself holds, not what it inherits: a method that a class inherits is
        # restored by deleting our override, never by copying the parent's.
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._stack.append((owner, name, before, value))

    def undo(self) -> None:
        while self._stack:
            owner, name, before, ours = self._stack.pop()
            if vars(owner).get(name, _ABSENT) is not ours:
                continue  # somebody has wrapped us since; taking theirs away would be worse
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
