"""What PyTorch's own seams do on a device: the dispatch key, the free-memory callback, out of
memory, and the guard message where something else than an op reads a storage."""

from __future__ import annotations

import time

import torch
import triton
import triton.language as tl
from library import ops

MIB = 1 << 20
NOTHING, TRY_LOCK, EVICT = range(3)


def threads() -> dict:
    """Which threads run ops that pass the key."""
    ops.configure(torch.empty(1, device="cuda"), False, False, True)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()
    x = torch.randn(8, 64, device="cuda")
    ops.set_mode(True, 0, 512, False)
    loss = net(x).sum()
    forward = ops.op_counts()
    loss.backward()
    backward = ops.op_counts()
    ops.set_mode(False, 0, 512, False)
    return {"rows": [{"of": "forward", "this thread": forward[0], "others": sum(forward[1:])},
                     {"of": "forward and backward", "this thread": backward[0], "others": sum(backward[1:])}]}


def _limit(mib: int) -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(mib * MIB / total)


def _victims(count: int, mib: int) -> list[torch.Tensor]:
    made = [torch.full((mib * MIB // 4,), float(i + 1), device="cuda") for i in range(count)]
    for tensor in made:
        ops.know(tensor)
    return made


def _right(victims: list[torch.Tensor]) -> bool:
    """One after the other, as not all fit."""
    good = True
    for i, tensor in enumerate(victims):
        ops.restore_all([tensor])
        good = good and bool((tensor == float(i + 1)).all())
        ops.evict(tensor)
        torch.cuda.synchronize()
    return good


def callback() -> dict:
    """Under the allocator's lock? And can it evict there?"""
    ops.configure(torch.empty(1, device="cuda"), False, False, True)
    before = ops.cache_misses()
    ops.on_cache_miss(TRY_LOCK)
    kept = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    got = ops.other_thread_got_memory()
    time.sleep(0.1)
    del kept
    facts = {"calls for one miss": ops.cache_misses() - before,
             "another thread got memory meanwhile": bool(got), "and after": ops.other_thread_done()}
    torch.cuda.empty_cache()
    _limit(2048)
    victims = _victims(7, 256)
    ops.on_cache_miss(EVICT)
    wanted = torch.full((128 * MIB,), 3.0, device="cuda")  # 512 MiB where 256 are left
    ops.on_cache_miss(NOTHING)
    facts["evicted by the callback"] = ops.count_away()
    facts["the allocation's bytes right"] = bool((wanted == 3).all())
    facts["reserved MiB after"] = torch.cuda.memory_reserved() // MIB
    del wanted
    facts["victims' bytes right"] = _right(victims)
    return {"rows": [{"fact": key, "value": str(value)} for key, value in facts.items()]}


def _raises(work) -> str:
    try:
        work()
    except torch.OutOfMemoryError:
        return "out of memory"
    return "ran"


def out_of_memory() -> dict:
    """Does an op that found no memory run again after room was made?"""
    ops.configure(torch.empty(1, device="cuda"), False, False, True)
    facts: dict = {}
    left, right = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    expected = torch.matmul(left, right).cpu()
    torch.cuda.empty_cache()
    _limit(2048)
    victims = _victims(4, 320)
    ops.set_mode(True, 0, 512, True)
    again = torch.matmul(left, right)
    ops.set_mode(False, 0, 512, False)
    facts["matmul: retries"] = ops.retries()
    facts["matmul: result equal"] = torch.equal(again.cpu(), expected)
    facts["matmul: away after"] = ops.count_away()
    del again
    facts["victims' bytes right"] = _right(victims)
    return {"rows": [{"fact": key, "value": str(value)} for key, value in facts.items()]}


def half_way() -> dict:
    """What an op leaves behind that runs out of memory at its first allocation, its second, and so on: with nothing
    to spare, 64 MiB to spare, and so on until it runs."""
    left, right = (torch.randn(8192, 8192, device="cuda") for _ in range(2))  # 256 MiB each
    index = torch.arange(8192, device="cuda")
    mask = left > 0
    before = left.cpu()
    generator = torch.cuda.default_generators[0]
    rows = []
    for name, work in {
        "dropout": lambda: torch.nn.functional.dropout(left, 0.5),
        "rand": lambda: torch.rand(8192, 8192, device="cuda"),
        "cross_entropy": lambda: torch.nn.functional.cross_entropy(left, index),
        "softmax of a sum": lambda: torch.nn.functional.gelu(left + right).softmax(1),
        "index_put_ accumulating": lambda: left.index_put_((index,), right, accumulate=True),
        "cumsum_": lambda: left.cumsum_(1),
        "masked_scatter_": lambda: left.masked_scatter_(mask, right),
        "sort into": lambda: torch.sort(left, out=(left, torch.empty(0, dtype=torch.int64, device="cuda"))),
        "_foreach_sqrt": lambda: torch._foreach_sqrt([left, right]),
        "addmm_": lambda: left.addmm_(right, right),
        "index_put_ by a mask": lambda: left.index_put_((mask,), torch.zeros((), device="cuda")),
    }.items():
        state = generator.get_state()
        failed, changed, moved = [], [], []
        for spare in range(0, 4096, 64):
            torch.cuda.set_per_process_memory_fraction(1.0)
            torch.cuda.empty_cache()
            _limit(torch.cuda.memory_reserved() // MIB + spare)
            if _raises(work) == "ran":
                break
            failed.append(spare)
            torch.cuda.set_per_process_memory_fraction(1.0)
            if not torch.equal(left.cpu(), before):
                changed.append(spare)
            if not torch.equal(generator.get_state(), state):
                moved.append(spare)
            left.copy_(before)
            generator.set_state(state)
        torch.cuda.set_per_process_memory_fraction(1.0)
        left.copy_(before)
        rows.append({"op": name, "out of memory with MiB to spare": failed, "operand changed at": changed or "none",
                     "generator moved at": moved or "none"})
    return {"rows": rows}


@triton.jit
def _double(source, target, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    tl.store(target + offsets, 2 * tl.load(source + offsets, mask=mask), mask=mask)


def _launch(source: torch.Tensor) -> torch.Tensor:
    target = torch.empty_like(source)
    _double[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), BLOCK=1024)
    torch.cuda.synchronize()
    return target


def _try(work, good: torch.Tensor) -> str:
    try:
        result = work()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever comes is the answer
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return "right bytes" if torch.equal(result, good) else "WRONG BYTES"


def raw_reader(case: str) -> dict:
    """What a reader that is no op meets: a Triton kernel, a compiled region."""
    x = torch.randn(4096, device="cuda")
    weight = torch.randn(4096, 64, device="cuda")
    reader, guarded, key = case.split(", ")
    ops.configure(x, False, False, guarded == "guard")
    if reader == "triton":
        work = lambda: _launch(x)  # noqa: E731
    else:
        function = (lambda a, w: (a.sin() * 2).relu()) if reader == "compiled" else (lambda a, w: (a.sin() * 2) @ w)
        compiled = torch.compile(function)
        work = lambda: compiled(x, weight)  # noqa: E731
    ops.set_mode(key == "key", 0, 512, False)
    good = work().clone()  # compiled and warm
    if "weight" not in reader:
        ops.evict(x)
    ops.evict(weight)
    torch.cuda.synchronize()
    answer = _try(work, good)
    ops.set_mode(False, 0, 512, False)
    try:
        ops.restore_all([x, weight])
        after = _try(work, good)
    except Exception as error:  # noqa: BLE001
        after = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
    return {"rows": [{"reader": reader, "guard": guarded == "guard", "key": key == "key", "evicted": answer,
                      "after restore": after}]}
