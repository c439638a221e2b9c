"""Programs of trouble_worker.py in which ops, hooks, functions and optimizers fail, many times over.

Each goes round after round: something fails, the program catches it and trains on. Whether a failed
step has changed weights or gradients half-way is PyTorch's business; here it is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from registry import Registry
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

ROUNDS = 12
LOOK_EVERY = 4  # rounds: a whole number of turns through what can fail
WIDTH = 512  # a weight: 1 MiB
PROGRAMS: Registry[Callable[[Any, Any], None]] = Registry()
program = PROGRAMS.add
Failure = Callable[[nn.Sequential, Tensor], None]
FAILURES: list[Failure] = []


def make_model() -> nn.Sequential:
    return nn.Sequential(*(m for _ in range(8) for m in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


def failure(function: Failure) -> Failure:
    FAILURES.append(function)
    return function


class FailsForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, x * 2)
        raise ValueError("in a function's forward")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gradient = gradient * x
        raise ValueError("in a function's backward")


def raises(words: str) -> Any:
    raise ValueError(words)


@failure
def shapes_in_forward(model: nn.Sequential, x: Tensor) -> None:
    F.linear(model(x), torch.ones(3, WIDTH + 1))


@failure
def in_forward(model: nn.Sequential, x: Tensor) -> None:
    FailsForward.apply(model[:6](x))


@failure
def in_backward(model: nn.Sequential, x: Tensor) -> None:
    """Gradients of the layers above it are there, the others are not."""
    model[8:](FailsBackward.apply(model[:8](x))).square().mean().backward()


@failure
def in_a_hook_of_backward(model: nn.Sequential, x: Tensor) -> None:
    hidden = model[:9](x)
    hidden.register_hook(lambda gradient: raises("in a hook") if gradient.numel() else gradient)
    model[9:](hidden).square().mean().backward()


@failure
def when_saved_tensors_are_unpacked(model: nn.Sequential, x: Tensor) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: raises("unpacking")):
        hidden = model[:5](x)
    hidden.sum().backward()


@failure
def in_a_recomputation(model: nn.Sequential, x: Tensor) -> None:
    calls: list[int] = []

    def part(x: Tensor) -> Tensor:
        calls.append(1)
        y = model[:2](x)
        return model[2:6](y) if len(calls) == 1 else raises("in a recomputation")

    checkpoint(part, x.requires_grad_(), use_reentrant=False).sum().backward()


@failure
def in_an_op_in_python(model: nn.Sequential, x: Tensor) -> None:
    torch.ops.outsize_troubles.fails(model[:3](x).detach(), x)


@failure
def in_a_multi_tensor_op(model: nn.Sequential, x: Tensor) -> None:
    """The tensors before the one that does not fit have been changed."""
    parts = [p.grad for p in model.parameters() if p.grad is not None]
    others = [torch.ones_like(p) for p in parts]
    others[5] = torch.ones(3, 1, 7)
    with torch.no_grad():
        torch._foreach_add_(parts, others)


@failure
def in_the_optimizer(model: nn.Sequential, x: Tensor) -> None:
    """Half of the weights have taken their step."""
    model(x).square().mean().backward()
    weights = list(model.parameters())
    optimizer = torch.optim.Adam(weights, 1e-3, foreach=False)
    optimizer.step()
    optimizer.state[weights[6]]["exp_avg"] = torch.ones(3)
    optimizer.step()


@failure
def in_a_thread_of_its_own(model: nn.Sequential, x: Tensor) -> None:
    import threading

    caught: list[BaseException] = []

    def work() -> None:
        try:
            shapes_in_forward(model, x)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise caught[0]


@failure
def out_of_memory(model: nn.Sequential, x: Tensor) -> None:
    """More than any machine has, which plain PyTorch words differently."""
    try:
        torch.empty(1 << 60)
    except RuntimeError as error:
        raise ValueError("so much memory") from error


@failure
def in_a_result_that_is_given(model: nn.Sequential, x: Tensor) -> None:
    torch.mm(model(x).detach(), torch.ones(WIDTH, 9), out=torch.empty(2, 2, dtype=torch.int64))


def make_op_that_fails() -> torch.library.Library:
    library = torch.library.Library("outsize_troubles", "DEF")
    library.define("fails(Tensor a, Tensor b) -> Tensor")

    def fails(a: Tensor, b: Tensor) -> Tensor:
        inner = a * 2 + b
        return raises(f"in an op in Python, of {inner.dim()} dimensions")

    library.impl("fails", fails, "CPU")
    return library


def train_step(model: nn.Sequential, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@program
def errors_many_times_over(record: Any, watch: Any) -> None:
    library = make_op_that_fails()
    model = make_model()  # 8 MiB, and as much for gradients and for momentum
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
    losses = [train_step(model, optimizer, torch.randn(96, WIDTH))]
    for turn in range(ROUNDS):
        for fail in FAILURES[turn % 2 :: 2]:
            try:
                fail(model, torch.randn(96, WIDTH))
            except (RuntimeError, ValueError) as error:
                record.entries.append((f"{fail.__name__} {type(error).__name__}", str(error).splitlines()[0]))
            else:
                raise AssertionError(f"{fail.__name__} did not fail")
        losses.append(train_step(model, optimizer, torch.randn(96, WIDTH)))
        if turn % LOOK_EVERY == LOOK_EVERY - 1:
            watch.look()
    record.add("loss", *losses)
    record.model(model.parameters())
    record.optimizer(optimizer)
    del library
