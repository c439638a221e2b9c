"""The programs, or cases, of a file by name: `PROGRAMS = Registry()`, and `@PROGRAMS.add` over each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Registry(dict[str, F]):
    def add(self, function: F) -> F:
        self[function.__name__] = function
        return function
