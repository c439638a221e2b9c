"""Programs of trouble_worker.py that fork in the middle of a step: in forward, in backward, in the
optimizer, beside another thread's ops. Children read what is spilled; the parent trains on.

Cases in which a child touches bytes behind PyTorch's back are in fork_cases.py.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import torch
from record import digest
from registry import Registry
from torch import Tensor, nn

HANGING = 120  # seconds
PROGRAMS: Registry[Callable[[Any, Any], None]] = Registry()
program = PROGRAMS.add


def told_by_child(tell: Callable[[], str]) -> str:
    """What a forked child finds out."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(HANGING)
            os.write(writing, tell().encode())
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(1)
    os.close(writing)
    said = b""
    while part := os.read(reading, 4096):
        said += part
    os.close(reading)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"{said.decode()}, exit {code}"


def digests(tensors: list[Tensor]) -> str:
    return " ".join(digest(tensor) for tensor in tensors)


def trains_in_child(model: nn.Module, x: Tensor) -> str:
    """A child may train too, by itself and with no budget."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return digests(list(model.parameters()))


@program
def forks_in_mid_step(record: Any, watch: Any) -> None:
    layers = [m for _ in range(10) for m in (nn.Linear(512, 512), nn.Tanh())]
    model = nn.Sequential(*layers)  # 10 MiB, and as much for gradients and for momentum
    weights = list(model.parameters())
    optimizer = torch.optim.SGD(weights, 0.01, momentum=0.9)
    told: list[str] = []

    def in_forward(module: Any, inputs: Any, result: Tensor) -> None:
        told.append(told_by_child(lambda: digests([*weights, result])))

    def in_backward(gradient: Tensor) -> None:
        told.append(told_by_child(lambda: digests([gradient, *weights])))
        done = subprocess.run(["sh", "-c", "exit 3"], check=False)  # another way to fork
        told.append(str(done.returncode))

    def in_optimizer(optimizer: Any, args: Any, kwargs: Any) -> None:
        told.append(told_by_child(lambda: trains_in_child(model, torch.ones(4, 512))))

    layers[9].register_forward_hook(in_forward)
    weights[8].register_hook(in_backward)
    optimizer.register_step_pre_hook(in_optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 512)).square().mean()
        told.append(told_by_child(lambda: digests([*weights, loss])))
        loss.backward()
        optimizer.step()
        record.add("loss", loss)
        watch.look()
    record.entries += [("child", text) for text in told]
    record.model(weights)
    record.optimizer(optimizer)


def square_sum(index: int) -> float:
    return POOLED[index].double().square().sum().item()


POOLED: list[Tensor] = []


@program
def forks_beside_a_thread(record: Any, watch: Any) -> None:
    """Another thread is in the middle of its ops when the process forks; a pool of forked workers
    lives while the parent trains, and reads what it was born with."""
    POOLED[:] = [torch.randn(1 << 18) for _ in range(24)]
    expected = [square_sum(index) for index in range(24)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        stop = threading.Event()
        results: list[Tensor] = []

        def compute() -> None:
            generator = torch.Generator().manual_seed(3)
            x = torch.randn(1 << 19, generator=generator)
            while not stop.is_set() or len(results) < 40:
                if len(results) < 40:
                    x = x.sin().add_(1).sqrt_()
                    results.append(x.sum())

        thread = threading.Thread(target=compute)
        thread.start()
        asked = pool.map_async(square_sum, range(24))
        for _ in range(6):
            record.entries.append(("child", told_by_child(lambda: digests(POOLED[::5]))))
            for tensor in POOLED:
                tensor.mul_(0.5).add_(1)
        late = pool.map_async(square_sum, range(24))
        stop.set()
        thread.join()
        assert asked.get(HANGING) == expected
        record.entries.append(("late", str(late.get(HANGING) == expected)))
    record.add("pooled", *POOLED)
    record.add("thread", *results)
    POOLED.clear()
