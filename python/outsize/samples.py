"""What a sample says of the work that is to come: shapes, lengths and numbers of what the outermost module
is given, for traces (docs/TRACE.md) and for predictors.

The compiled part sees ops and storages. It does not know where a sample begins: a hook looks at the
inputs of the outermost module, and at nothing else. Of a tensor that is one of these inputs its shape is told, and
if it is small and in RAM what its values look like: how many of a row differ, and of whole numbers the first. It is
read past PyTorch, which knows nothing of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import itertools
import sys
import types
import warnings
import zlib
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

FEATURES_MAX = 64  # of a sample
VALUES_MAX = 4096  # of a feature
ALL_VALUES_MAX = 65536  # of a sample: it must fit into an event of a trace
LOOKS_MAX = 1024  # at objects inside objects, which may have no end; nor need their depth
DEPTH_MAX = 32
STRING_MAX = 256  # characters; a longer string is text to work on, and no name of anything
TUPLE_MAX = 8  # fields of a plain tuple that is a row of a table

Features = list[tuple[str, list[float]]]
# Of a tensor: the first whole numbers; by row, how many values differ and how often the commonest comes.
Look = Callable[[Any], tuple[list[float], list[float], list[float]]]

_NUMBERS = (bool, int, float)
_NAMES = (str, enum.Enum)
_ROWS = (list, tuple, Mapping)
_DICTS = (dict, UserDict)


def wanted_by(policy: str) -> bool:
    """Whether a policy makes something of samples; the others need not pay for them."""
    return policy.partition(":")[0] in ("auto", "pilot")


def features_of(
    arguments: Sequence[Any], named: Mapping[str, Any], look_at: Look | None = None, hints: Mapping[str, Any] | None = None
) -> Features:
    """What arguments say, in their order, after what the program says itself; where it is too much, the first of it."""
    look = _Look(look_at)
    hinted = [(f"hint {name}", value) for name, value in (hints or {}).items()]
    for name, argument in [*hinted, *enumerate(arguments), *named.items()]:
        look.at(argument, str(name))
    return look.found


@functools.lru_cache(maxsize=1024)
def _fields_of(kind: type) -> tuple[str, ...]:
    """Fields of what is put together of named parts: dataclasses, named tuples, and what has `__slots__`."""
    if dataclasses.is_dataclass(kind):
        names: Iterable[str] = (field.name for field in dataclasses.fields(kind))
    elif issubclass(kind, tuple):
        names = getattr(kind, "_fields", ())
    else:
        slots = [vars(base).get("__slots__", ()) for base in reversed(kind.__mro__)]
        names = (name for part in slots for name in ((part,) if isinstance(part, str) else part))
    return tuple(name for name in names if not name.startswith("_"))


def _number_of(name: str | enum.Enum | None) -> float:
    """The same in every process, which Python's hash is not."""
    if name is None:
        return -1.0
    text = name if isinstance(name, str) else name.name
    return float(zlib.crc32(text.encode("utf-8", "surrogatepass")))


def _all(kinds: set[type], of: type | tuple[type, ...]) -> bool:
    return all(issubclass(kind, of) for kind in kinds)


def _is_long(name: object) -> bool:
    return isinstance(name, str) and len(name) > STRING_MAX


class _Look:
    """Collects features until there are enough."""

    def __init__(self, look_at: Look | None) -> None:
        import torch

        self.found: Features = []
        self._look_at_values = look_at
        self._tensor = torch.Tensor
        self._values_left = ALL_VALUES_MAX
        self._looks_left = LOOKS_MAX
        self._depth = 0

    def _tell(self, name: str, numbers: Iterable[float]) -> None:
        if len(self.found) < FEATURES_MAX:
            most = min(VALUES_MAX, self._values_left)
            told = list(map(float, itertools.islice(numbers, most)))
            self._values_left -= len(told)
            self.found.append((name, told))

    def at(self, value: Any, name: str) -> None:
        """One odd part, as a property that raises, is no reason to say nothing of the others."""
        with contextlib.suppress(Exception):
            self._look_at(value, name)

    def _look_at(self, value: Any, name: str) -> None:
        self._looks_left -= 1
        if isinstance(value, self._tensor):
            self._tensor_values(value, f"{name} {_dtype_of(value)}")
        elif isinstance(value, _NUMBERS):
            self._tell(name, [value])
        elif isinstance(value, _NAMES):
            self._names([value], name, "length")
        elif isinstance(value, Mapping):
            self._tell(f"{name} length", [len(value)])
            if isinstance(value, _DICTS):  # others may have to read or compute what they hold
                self._parts(value.items(), name)
        elif fields := _fields_of(type(value)):
            self._parts(((field, getattr(value, field, None)) for field in fields), name)
        elif isinstance(value, (list, tuple)):
            self._sequence(value, name)

    def _tensor_values(self, tensor: Any, name: str) -> None:
        self._tell(name, tensor.shape)
        if self._look_at_values is None or self._looks_left <= 0 or len(self.found) >= FEATURES_MAX:
            return
        told = self._look_at_values(tensor)
        for what, numbers in zip(("values", "distinct", "commonest"), told, strict=True):
            if numbers:
                self._tell(f"{name} {what}", numbers)

    def _parts(self, parts: Iterable[tuple[Any, Any]], name: str) -> None:
        if self._depth == DEPTH_MAX:
            return
        self._depth += 1
        try:
            for key, part in parts:
                if len(self.found) >= FEATURES_MAX or self._looks_left <= 0:
                    break
                self.at(part, f"{name}.{str(key)[:STRING_MAX]}")
        finally:
            self._depth -= 1

    def _sequence(self, value: Sequence[Any], name: str) -> None:
        items = value[:VALUES_MAX]
        kinds = set(map(type, items))
        if kinds and _all(kinds, _NUMBERS):
            self._tell(f"{name} numbers", items)
        elif kinds and _all(kinds, _NAMES):
            self._names(items, f"{name} strings", "lengths")
        else:
            self._tell(f"{name} length", [len(value)])
            columns = self._columns_of(items, kinds)
            if columns is None:
                self._parts(enumerate(value), name)
                return
            for key, column in columns:
                if len(self.found) < FEATURES_MAX:
                    self._column(column, f"{name}.*.{str(key)[:STRING_MAX]}")

    def _columns_of(
        self, items: Sequence[Any], kinds: set[type]
    ) -> Iterator[tuple[Any, Sequence[Any]]] | None:
        """A row of things that are made alike is a table, however many they are. None where it is not."""
        kind = next(iter(kinds), object)
        if len(kinds) != 1 or issubclass(kind, self._tensor):
            return None
        if issubclass(kind, _DICTS):
            keys = items[0].keys()
            alike = all(item.keys() == keys for item in items)
            return ((key, [item[key] for item in items]) for key in keys) if alike else None
        if fields := _fields_of(kind):
            return ((field, [getattr(item, field, None) for item in items]) for field in fields)
        if issubclass(kind, tuple) and 0 < len(items[0]) <= TUPLE_MAX and len(set(map(len, items))) == 1:
            return enumerate(zip(*items, strict=True))
        return None

    def _column(self, column: Sequence[Any], name: str) -> None:
        kinds = set(map(type, column)) - {types.NoneType}
        if not kinds:
            return
        if _all(kinds, _NUMBERS):
            self._tell(name, (-1 if value is None else value for value in column))
        elif _all(kinds, _NAMES):
            self._names(column, name, "length")
        elif _all(kinds, _ROWS):
            self._tell(f"{name} length", (-1 if value is None else len(value) for value in column))
        elif _all(kinds, self._tensor):
            tensors = [value for value in column if value is not None]
            dtypes = set(map(_dtype_of, tensors))
            dtype = dtypes.pop() if len(dtypes) == 1 else "tensors"
            self._tell(f"{name} {dtype}", (size for tensor in tensors for size in tensor.shape))

    def _names(self, values: Sequence[Any], name: str, of_long_ones: str) -> None:
        """A number for each; their lengths where one of them is long."""
        if any(map(_is_long, values)):
            lengths = (len(value) if isinstance(value, str) else -1 for value in values)
            self._tell(f"{name} {of_long_ones}", lengths)
            return
        numbers = {value: _number_of(value) for value in set(values)}
        self._tell(name, (numbers[value] for value in values))


def _dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _within_another(caller: types.FrameType) -> bool:
    """Whether a module's call stands within another's. The stack says so, where a count of calls begun and
    ended would be wrong from the first that Ctrl-C ends: torch calls no hook then."""
    code, frame = caller.f_code, caller.f_back
    while frame is not None:
        outer = frame.f_code
        if outer is code or (outer.co_name == code.co_name and outer.co_filename == code.co_filename):
            return True
        frame = frame.f_back
    return False


def _keywords_of(caller: types.FrameType) -> Mapping[str, Any]:
    """Keyword arguments of a module's call: global hooks are not given them, whoever calls them has them."""
    keywords = caller.f_locals.get("kwargs")
    return keywords if isinstance(keywords, dict) else {}


class SampleWatch:
    """Tells of the inputs of each outermost call of a module with parameters (a loss has none), but
    not within a backward pass, where checkpointing calls modules again. Each thread has its own."""

    def __init__(self, tell: Callable[[Features], None], look_at: Look | None = None) -> None:
        self._tell = tell
        self._look_at = look_at
        self._hook: Any = None
        self._hints: dict[str, Any] = {}

    def hint(self, what: Mapping[str, Any]) -> None:
        """What the program says itself of the call that comes next."""
        self._hints |= what

    def attach(self) -> None:
        from torch.nn.modules import module

        # torch warns of global hooks that fire once more for a compiled module. To ours it is one call.
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
        self._hook = module.register_module_forward_pre_hook(self._before)

    def detach(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = None

    def _before(self, module: Any, arguments: tuple[Any, ...]) -> None:
        import torch

        if torch.compiler.is_compiling():  # what is compiled is the model without us
            return
        caller = sys._getframe(1)
        if _within_another(caller) or torch._C._current_graph_task_id() != -1:
            return
        with contextlib.suppress(Exception):  # an odd input is no reason to stop the program
            if next(module.parameters(), None) is not None:
                hints, self._hints = self._hints, {}
                self._tell(features_of(arguments, _keywords_of(caller), self._look_at, hints))
