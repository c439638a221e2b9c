"""What a program may say of its own tensors: `pin` keeps them in RAM, `hint` says what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from outsize import api

if TYPE_CHECKING:
    from outsize.compiled import HeldPin


def _tensors(thing: Any) -> Iterator[Any]:
    """A tensor, a module's parameters and buffers, or those of everything in a collection."""
    if hasattr(thing, "untyped_storage"):
        yield thing
    elif hasattr(thing, "parameters") and hasattr(thing, "buffers"):
        yield from thing.parameters()
        yield from thing.buffers()
    elif isinstance(thing, Mapping):
        yield from _tensors(list(thing.values()))
    elif isinstance(thing, Iterable) and not isinstance(thing, (str, bytes)):
        for part in thing:
            yield from _tensors(part)
    else:
        raise TypeError(f"neither a tensor, a module nor a collection of them: {type(thing).__name__}")


class pin:
    """Keeps tensors, or a module's parameters and buffers, in RAM until `release`.

    with outsize.pin(model.embedding):
        train()

    What is pinned is room that all other tensors lack: at most three quarters of the budget can be.
    Raises BudgetError where they do not fit. Without a budget in force it does nothing.
    """

    def __init__(self, *what: Any) -> None:
        self._held: list[HeldPin] = []
        tensors = list(_tensors(what))
        session = api.session()
        if session is None:
            return
        try:
            for tensor in tensors:
                self._held.append(session.core.pin(tensor, True))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Lets them leave again; what has been released stays so."""
        while self._held:
            self._held.pop().release()

    def __enter__(self) -> pin:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def hint(*what: Any, use: Literal["soon", "later"] = "soon", says: Mapping[str, Any] | None = None) -> None:
    """Says which tensors are used soon (in that order), or only later; or what the coming sample's path hangs on.

    For what depends on the input, so that no earlier step shows it. Soon: brought back now, as far as
    there is room, and among the last to leave. Later: among the first to leave. "Later" holds until
    the tensor is used, "soon" also no longer than two steps; neither changes a result.

    `says` names numbers, strings, or lists and small tensors of them that decide what the next call of the outermost
    module will run, as the experts that it will choose: for policies that look at samples (`pilot`, `auto`), beside
    what that call is given.
    """
    if use not in ("soon", "later"):
        raise ValueError(f"use={use!r}: say 'soon' or 'later'.")
    if not isinstance(says, Mapping | None):
        raise TypeError(f"says={says!r}: give names with numbers, strings, lists or small tensors: says={{'expert': 3}}.")
    tensors = list(_tensors(what))
    session = api.session()
    if session is not None:
        for tensor in tensors:
            session.core.hint(tensor, use == "soon")
        session.sample_says(says or {})
