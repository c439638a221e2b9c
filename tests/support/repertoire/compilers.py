"""What stands between a program and PyTorch's kernels: compilers, tracers, profilers, custom ops."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn

PROGRAMS = Registry()
program = PROGRAMS.add
WIDTH = 384


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.sigmoid(self.layer(x)) * self.scale
        return torch.where(y > 0.5, y, x * 0.5)


def fit(record: Record, model: Any, parameters: list[Tensor], steps: int = 2) -> None:
    optimizer = torch.optim.Adam(parameters, 1e-3)
    for _ in range(steps):
        x, y = torch.randn(128, WIDTH), torch.randn(128, WIDTH)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        record.add("loss", loss)
    record.model(parameters)


def blocks(count: int = 12) -> nn.Sequential:
    return nn.Sequential(*(Block() for _ in range(count)))


@program
def scripted(record: Record) -> None:
    model = blocks()
    fit(record, torch.jit.script(model), list(model.parameters()), 3)


@program
def traced(record: Record) -> None:
    model = blocks()
    compiled = torch.jit.trace(model, torch.randn(128, WIDTH))
    fit(record, compiled, list(model.parameters()), 3)
    with torch.no_grad():
        record.add("inference", compiled(torch.randn(128, WIDTH)))


@program
def exported(record: Record) -> None:
    model = blocks(16)
    kept = [torch.randn(512, 512) for _ in range(8)]
    graph = torch.export.export(model, (torch.randn(128, WIDTH),))
    inner = graph.module()
    fit(record, inner, list(inner.parameters()))
    symbolic = torch.fx.symbolic_trace(model)
    fit(record, symbolic, list(symbolic.parameters()))
    record.add("kept", *kept)


@functools.cache
def shared_layer(backend: str) -> Any:
    """Compiled once, for plain and for every budget: weights are arguments."""

    def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = torch.sigmoid(x @ weight.t() + bias)
        return torch.where(y > 0.5, y * 1.5, x.sin() * 0.5) + (x - x.mean(-1, keepdim=True)).square()

    return torch.compile(layer, backend=backend, dynamic=False)


def compiled(record: Record, backend: str) -> None:
    layer = shared_layer(backend)
    weights = [(torch.randn(WIDTH, WIDTH) / 20).requires_grad_() for _ in range(14)]
    biases = [torch.zeros(WIDTH, requires_grad=True) for _ in range(14)]

    def model(x: Tensor) -> Tensor:
        for weight, bias in zip(weights, biases, strict=True):
            x = layer(x, weight, bias).tanh()
        return x

    fit(record, model, [*weights, *biases])
    with torch.no_grad():
        record.add("inference", model(torch.randn(128, WIDTH)))


@program
def compiled_by_inductor(record: Record) -> None:
    compiled(record, "inductor")


@program
def compiled_by_aot_eager(record: Record) -> None:
    compiled(record, "aot_eager")


@program
def custom_operators(record: Record) -> None:
    """Operators made with torch.library, with autograd formulas, one of which writes its input."""
    for_numpy, overwrite = library_operators()
    weights = [torch.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(20)]
    for weight in weights:
        y = for_numpy(weight)
        z = y * weight
        y.square().mean().backward(retain_graph=True)
        z.sum().backward()
        with torch.no_grad():
            overwrite(weight, 0.9)
        record.add("y", y, z)
    record.model(weights)


@functools.cache
def library_operators() -> tuple[Any, Any]:
    @torch.library.custom_op("outsize_repertoire::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        import numpy as np

        return torch.from_numpy(np.sin(x.numpy(force=True)))

    @torch.library.custom_op("outsize_repertoire::shrink", mutates_args={"x"})
    def shrink(x: Tensor, by: float) -> None:
        x.numpy(force=True)[...] *= by

    sine.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return sine, shrink


SOURCE = r"""
#include <stdint.h>
/* As an extension does: raw pointers in, no word to PyTorch. */
void smooth(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float left = from[i > 0 ? i - 1 : 0], right = from[i + 1 < count ? i + 1 : i];
    to[i] = 0.25f * left + 0.5f * from[i] + 0.25f * right;
  }
}
void halve(float* at, int64_t count) { for (int64_t i = 0; i < count; ++i) at[i] *= 0.5f; }
"""


@functools.cache
def extension() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="outsize-test-") as folder:
        source, library = Path(folder) / "smooth.c", Path(folder) / "smooth.so"
        source.write_text(SOURCE)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(library),
                        str(source)], check=True)
        loaded = ctypes.CDLL(str(library))
    for function, pointers in ((loaded.smooth, 2), (loaded.halve, 1)):
        function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64]
    return loaded


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        extension().smooth(x.data_ptr(), out.data_ptr(), x.numel())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return Smooth.apply(grad.contiguous())


@program
def compiled_c_functions(record: Record) -> None:
    weights = [torch.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(20)]
    for step in range(2):
        x = torch.randn(64, WIDTH)
        for weight in weights:
            x = torch.tanh(Smooth.apply(x @ Smooth.apply(weight)))
        x.square().mean().backward()
        for weight in weights[step::3]:
            extension().halve(weight.data_ptr(), weight.numel())
        record.add("x", x)
    record.model(weights)


@functools.cache
def pointer_operators() -> Any:
    """Built against PyTorch's stable interface: two seconds where ATen's headers take a minute."""
    torch_folder = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(prefix="outsize-test-") as folder:
        library = Path(folder) / "smooth_op.so"
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-shared", "-fPIC",
                        f"-I{torch_folder / 'include'}", "-o", str(library),
                        str(Path(__file__).with_name("smooth_op.cpp")), f"-L{torch_folder / 'lib'}",
                        "-ltorch_cpu"], check=True)  # fmt: skip
        torch.ops.load_library(str(library))
    return torch.ops.outsize_pointers


@program
def compiled_cpp_operators(record: Record) -> None:
    """C++ operators that take raw pointers inside: their operands are known from the schema."""
    operators = pointer_operators()
    weights = [torch.randn(WIDTH, WIDTH) for _ in range(24)]
    for _ in range(2):
        smoothed = [operators.smooth(weight) for weight in weights]
        for weight, smooth in zip(weights[::2], smoothed, strict=False):
            operators.halve(weight)
            weight.add_(smooth)
        record.add("smoothed", *smoothed)
    record.add("weights", *weights)


@program
def profiled(record: Record) -> None:
    """PyTorch's profiler beside us, with shapes, memory, stacks and a schedule."""
    model, seen = blocks(), []
    profile: Any = contextlib.nullcontext()
    already = torch.autograd.profiler._is_profiler_enabled  # the worker takes the peak that way
    if not already:
        profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
            profile_memory=True, with_stack=True, with_flops=True,
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda profile: seen.extend(profile.key_averages()))
    with profile:
        for _ in range(3):
            with torch.profiler.record_function("step"):
                fit(record, model, list(model.parameters()), 1)
            if not already:
                profile.step()
    if not already:
        names = {event.key for event in seen}
        assert {"aten::addmm", "step", "aten::sigmoid"} <= names, names
        assert any(event.cpu_memory_usage > 0 for event in seen)
