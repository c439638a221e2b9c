"""Random training programs: data that hypothesis makes up, prints and shrinks, and the function that
runs it. The same function runs with and without outsize and knows nothing of it.

To run one again: `python random_worker.py --replay 'Program(...)'`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import random_effects  # noqa: F401  (its instructions register themselves)
import torch
from hypothesis import strategies as st
from random_ops import OPS
from record import Record
from torch import Tensor, nn

# From a scalar to 6 MiB; below and above what gets an extent of its own; not multiples of a page.
SHAPES: list[tuple[int, ...]] = [
    (), (3,), (33, 29), (64, 64), (257, 131), (199, 257), (256, 256), (259, 259), (300, 301),
    (515, 511), (515, 1031), (640, 1024), (1031, 771), (1031, 1031), (1201, 1300), (2, 8, 129, 127),
]  # fmt: skip
POOL_MAX = 30

Parameters = list[Tensor]
OPTIMIZERS: list[Callable[[Parameters], torch.optim.Optimizer]] = [
    lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, foreach=False),
    lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, foreach=True),
    lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, fused=True),
    lambda p: torch.optim.Adam(p, 1e-2, foreach=False),
    lambda p: torch.optim.Adam(p, 1e-2, foreach=True, amsgrad=True),
    lambda p: torch.optim.Adam(p, 1e-2, fused=True),
    lambda p: torch.optim.AdamW(p, 1e-2, fused=True, amsgrad=True),
    lambda p: torch.optim.AdamW(p, 1e-2, foreach=True, maximize=True),
    lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.5, centered=True),
    lambda p: torch.optim.Adagrad(p, 1e-2, fused=True),
    lambda p: torch.optim.NAdam(p, 1e-3), lambda p: torch.optim.Adafactor(p, 1e-3),
]  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    name: str
    a: int
    b: int
    k: int


@dataclass(frozen=True)
class Program:
    """`weights` and `inputs` are indices of SHAPES; an instruction's `a` and `b` choose tensors of
    the pool, `k` a variant."""

    seed: int
    steps: int
    weights: tuple[int, ...]
    inputs: tuple[int, ...]
    optimizer: int
    options: int
    body: tuple[Instruction, ...]

    def __call__(self, record: Record) -> None:
        Machine(self, record).run()


def programs(max_instructions: int = 18) -> st.SearchStrategy[Program]:
    number = st.integers(0, 59)
    shape = st.integers(0, len(SHAPES) - 1)
    # Half of the tensors are large: the rest is there to be small between them.
    large = st.one_of(st.integers(9, len(SHAPES) - 1), shape)
    instruction = st.builds(Instruction, st.sampled_from(sorted(OPS)), number, number, number)
    return st.builds(
        Program,
        seed=st.integers(0, 999),
        steps=st.integers(2, 3),
        weights=st.lists(large, min_size=2, max_size=7).map(tuple),
        inputs=st.lists(large, min_size=3, max_size=5).map(tuple),
        optimizer=st.integers(0, len(OPTIMIZERS) - 1),
        options=st.integers(0, 63),
        body=st.lists(instruction, min_size=10, max_size=max_instructions).map(tuple),
    )


class Machine:
    """What the instructions of one run work on."""

    def __init__(self, program: Program, record: Record) -> None:
        torch.manual_seed(program.seed)
        self.program, self.record = program, record
        self.pool: list[Tensor] = []
        self.kept: list[Tensor] = []  # from step to step
        self.others: list[Tensor] = []  # of other types
        self.arrays: list[Any] = []
        self.errors: list[BaseException] = []
        self.largest = 1 << 40  # bytes of a tensor that later instructions may take
        self.generator = torch.Generator().manual_seed(program.seed)
        self.bn, self.lstm = nn.BatchNorm2d(24), nn.LSTM(48, 32)
        self.gru, self.attend = nn.GRU(48, 40, bidirectional=True), nn.MultiheadAttention(32, 4)
        self.weights = [nn.Parameter(torch.randn(SHAPES[i]) * 0.5) for i in program.weights]
        modules = (self.bn, self.lstm, self.gru, self.attend)
        self.all_weights = [*self.weights, *(p for module in modules for p in module.parameters())]
        self.average = [w.detach().clone() for w in self.weights]
        self.optimizer = OPTIMIZERS[program.optimizer](self.all_weights)

    def small_ones(self) -> list[Tensor]:
        """At least two tensors."""
        return [self.pool[0].reshape(-1)[:9], *(t for t in self.pool if 0 < t.numel() < 20_000), torch.ones(3)]

    def failed(self, error: BaseException) -> None:
        """What plain PyTorch refuses is refused here in the same words; want of memory is not among it."""
        if isinstance(error, torch.OutOfMemoryError):
            raise error
        self.record.entries.append((type(error).__name__, str(error).splitlines()[0]))

    def put(self, result: Any) -> None:
        results = result if isinstance(result, (list, tuple)) else [result]
        for t in results:
            if t is None or t.numel() == 0 or t.numel() * t.element_size() > self.largest:
                continue
            if t.dtype is torch.float32 and not t.is_inference():
                self.pool.append(t)
            else:
                self.others = [*self.others[-3:], t]
        while len(self.pool) > POOL_MAX:
            del self.pool[len(self.all_weights) % len(self.pool)]

    def one(self, instruction: Instruction, step: int) -> None:
        if (instruction.k + step) % 6 == 5:
            return  # no two steps need be alike
        a = self.pool[instruction.a % len(self.pool)]
        b = self.pool[-1 - instruction.b % len(self.pool)]
        try:
            self.put(OPS[instruction.name](self, a, b, instruction.k))
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            self.failed(error)

    def loss(self) -> Tensor:
        terms = [t.square().mean() for t in self.pool if t.requires_grad]
        terms += [t.detach().abs().double().mean().float() for t in self.others]
        return torch.stack([*terms, torch.zeros(())]).clamp(max=1e3).sum()

    def learn(self, step: int) -> None:
        options = self.program.options
        try:
            loss = self.loss()
            if options & 32 and step:
                (loss * 0.25).backward(retain_graph=True)
            loss.backward()
            self.record.add("loss", loss)
        except RuntimeError as error:
            self.failed(error)
        if options & 1:
            norm = nn.utils.clip_grad_norm_(self.all_weights, 0.5, foreach=bool(options & 16))
            self.record.add("norm", norm)
        if options & 2:
            self.pool.clear()  # activations may die before the optimizer runs, or after
        self.optimizer.step()
        if options & 4:
            with torch.no_grad():
                for slow, fast in zip(self.average, self.weights, strict=True):
                    slow.lerp_(fast, 0.1)

    def run(self) -> None:
        options = self.program.options
        for step in range(self.program.steps):
            self.optimizer.zero_grad(set_to_none=bool(options & 8))
            for i in self.program.inputs:
                shape = SHAPES[i]
                x = torch.randn(shape[0] + 5 * step, *shape[1:]) if shape else torch.randn(())
                self.pool.append(x)
            self.pool += [*self.weights, *self.kept]
            for instruction in self.program.body:
                self.one(instruction, step)
            self.learn(step)
            for array in self.arrays:
                array.reshape(-1)[::7] *= array.dtype.type(0.5)
            # Copies: what numpy has seen once is treated as if it might look again.
            self.record.add("pool", *(t.detach().clone() for t in self.pool[-3:]))
            self.record.add("other", *(t.detach().clone() for t in self.others))
            self.pool.clear()
            self.errors.clear()
        self.finish()

    def finish(self) -> None:
        add = self.record.add
        for w in self.all_weights:
            add("gradient", w.grad if w.grad is None else w.grad.clone())
            add("weight", w.detach().clone())
        add("average", *self.average)
        add("kept", *(t.clone() for t in self.kept))
        add("buffer", *(b.clone() for b in self.bn.buffers()))
        self.record.optimizer(self.optimizer)


def example(text: str) -> Program:
    """The program that `repr` printed."""
    return eval(text, {"Program": Program, "Instruction": Instruction})
