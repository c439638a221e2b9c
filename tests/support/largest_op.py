"""The largest op of a program, measured by PyTorch's dispatch mode: no code of outsize is involved.

An op's size is the bytes of the distinct storages that it reads and writes. Ops over lists of
tensors count their largest single entry, because an optimizer over all parameters can be run one
parameter at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def _storages(value: Any) -> dict[int, int]:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return {}
    storage = value.untyped_storage()
    return {storage._cdata: storage.nbytes()}


def _op_bytes(name: str, arguments: list[Any]) -> int:
    together: dict[int, int] = {}
    lists: list[list[Any]] = []
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            lists.append(list(argument))
        else:
            together |= _storages(argument)
    if not name.startswith(("aten::_foreach_", "aten::_fused_")):
        for values in lists:
            for value in values:
                together |= _storages(value)
        return sum(together.values())
    alone = sum(together.values())
    entries = max((len(values) for values in lists), default=0)
    each = []
    for index in range(entries):
        one: dict[int, int] = {}
        for values in lists:
            if index < len(values):
                one |= _storages(values[index])
        each.append(sum(one.values()))
    return alone + max(each, default=0)


class LargestOp(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        name = function.name()
        own = [*args, *kwargs.values()]
        own += [results] if name.startswith(("aten::_foreach_", "aten::_fused_")) else results
        self.bytes = max(self.bytes, _op_bytes(name, own))
        return result


def largest_op_bytes(run: Callable[[], Any]) -> int:
    with LargestOp() as found:
        run()
    return found.bytes
