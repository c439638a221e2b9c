"""Everything that differentiates in another way than one backward from one loss."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

PROGRAMS = Registry()
program = PROGRAMS.add
WIDTH = 384


def stack(layers: int = 12, width: int = WIDTH) -> nn.Sequential:
    return nn.Sequential(
        *(m for _ in range(layers) for m in (nn.Linear(width, width), nn.Tanh()))
    )


def checkpointed(record: Record, use_reentrant: bool) -> None:
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.2), nn.BatchNorm1d(WIDTH), nn.GELU())
        for _ in range(12)
    )
    optimizer = torch.optim.Adam(blocks.parameters(), 1e-3)
    for _ in range(2):
        x = torch.randn(384, WIDTH, requires_grad=True)
        y = x
        for block in blocks[:6]:
            y = checkpoint(block, y, use_reentrant=use_reentrant)
        y = checkpoint_sequential(blocks[6:], 2, y, use_reentrant=use_reentrant)
        loss = y.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.add("loss", loss, x.grad)
    record.model(blocks.parameters(), blocks.buffers())


@program
def checkpoint_reentrant(record: Record) -> None:
    checkpointed(record, True)


@program
def checkpoint_not_reentrant(record: Record) -> None:
    checkpointed(record, False)


@program
def selective_checkpoint(record: Record) -> None:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        keep = op == torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    model = stack(16)
    for _ in range(2):
        x = torch.randn(384, WIDTH, requires_grad=True)
        y = checkpoint(model, x, use_reentrant=False,
                       context_fn=lambda: create_selective_checkpoint_contexts(policy))
        y.square().mean().backward()
        record.add("x", y, x.grad)
    record.model(model.parameters())


@program
def saved_tensor_hooks(record: Record) -> None:
    """Activations kept in half precision, as NumPy arrays, and by save_on_cpu."""
    hooks = torch.autograd.graph.saved_tensors_hooks
    kinds = {
        "half": lambda: hooks(lambda t: (t.dtype, t.half()), lambda kept: kept[1].to(kept[0])),
        "numpy": lambda: hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy),
        "moved": lambda: torch.autograd.graph.save_on_cpu(pin_memory=False),
        "versions": torch.autograd.graph.allow_mutation_on_saved_tensors,
    }
    model = stack(10)
    for name, context in kinds.items():
        model.zero_grad()
        x = torch.randn(384, WIDTH, requires_grad=True)
        with context():
            y = model(x).sin()
            if name == "versions":
                y.mul_(2)
            y.square().sum().backward()
        record.add(name, y, x.grad)
        record.model(model.parameters())


@program
def double_backward(record: Record) -> None:
    model = stack(10)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(2):
        x = torch.randn(256, WIDTH, requires_grad=True)
        score = model(x).square().mean()
        (slope,) = torch.autograd.grad(score, x, create_graph=True)
        loss = score + (slope.norm() - 1).square()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.add("loss", loss, slope, x.grad)
    record.model(model.parameters())


@program
def meta_learning(record: Record) -> None:
    """A gradient through three inner steps, the graph kept for a second outer loss."""
    slow = [(torch.randn(256, 256) / 16).requires_grad_() for _ in range(10)]

    def net(weights: list[Tensor], x: Tensor) -> Tensor:
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    fast = slow
    for _ in range(3):
        loss = net(fast, torch.randn(64, 256)).square().mean()
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [w - 0.5 * g for w, g in zip(fast, grads, strict=True)]
    outer = net(fast, torch.randn(64, 256))
    outer.mean().backward(retain_graph=True)
    outer.square().mean().backward(inputs=slow[2:])
    record.add("outer", outer, *(w.grad for w in slow))


@program
def functional_transforms(record: Record) -> None:
    func = torch.func
    model = stack(8, 320)
    weights = {k: v.detach() for k, v in model.named_parameters()}

    def loss(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return func.functional_call(model, weights, (x,)).square().mean()

    x = torch.randn(64, 320)
    for _ in range(2):
        grads, value = func.grad_and_value(loss)(weights, x)
        weights = {k: w - 0.1 * grads[k] for k, w in weights.items()}
        record.add("loss", value, *grads.values())
    tangents = {k: torch.randn_like(v) for k, v in weights.items()}
    record.add("jvp", *func.jvp(lambda w: loss(w, x), (weights,), (tangents,)))
    _, pull = func.vjp(lambda w: func.functional_call(model, w, (x,)), weights)
    record.add("vjp", *pull(torch.randn(64, 320))[0].values())
    one = func.vmap(func.grad(loss), in_dims=(None, 0))(weights, x[:6, None])
    record.add("a gradient for each sample", *one.values())


@program
def ensembles(record: Record) -> None:
    """vmap over stacked models, with randomness that differs, and chunked."""
    func = torch.func
    models = [nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1), nn.Linear(256, 256))
              for _ in range(16)]
    weights, buffers = func.stack_module_state(models)
    base = models[0].to("meta")

    def call(weights: Any, buffers: Any, x: Tensor) -> Tensor:
        return func.functional_call(base, (weights, buffers), (x,))

    for chunk in (None, 4):
        x = torch.randn(16, 96, 256)
        out = func.vmap(call, randomness="different", chunk_size=chunk)(weights, buffers, x)
        out.square().mean().backward()
        record.add("out", out, *(w.grad for w in weights.values()))


@program
def jacobians(record: Record) -> None:
    func = torch.func
    weights = [torch.randn(256, 256) / 16 for _ in range(80)]

    def f(x: Tensor) -> Tensor:
        for weight in weights[::8]:
            x = torch.tanh(weight @ x)
        return x

    for start in range(2):
        x = torch.randn(256)
        weights = weights[1:] + weights[:1]
        record.add("forward", func.jacfwd(f)(x))
        record.add("reverse", func.jacrev(f, chunk_size=50)(x))
        if start == 0:
            record.add("hessian", func.hessian(lambda v: f(v)[:2].sum())(x)[:32])
    old = torch.autograd.functional
    record.add("old", old.jacobian(f, x), old.vhp(lambda v: f(v).sum(), x, x)[1])


@program
def forward_mode(record: Record) -> None:
    model = stack(12)
    tangents = [torch.randn_like(p) for p in model.parameters()]
    names = [n for n, _ in model.named_parameters()]
    for _ in range(2):
        x = torch.randn(128, WIDTH)
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(p.detach(), t)
                     for p, t in zip(model.parameters(), tangents, strict=True)]
            out = torch.func.functional_call(model, dict(zip(names, duals, strict=True)), (x,))
            loss = F.mse_loss(out, torch.zeros_like(out))
            record.add("dual", *forward_ad.unpack_dual(loss), *forward_ad.unpack_dual(out))
        slope = forward_ad.unpack_dual(loss)
        assert slope.tangent is None
    record.model(model.parameters())


class Swish(torch.autograd.Function):
    """Saves, recomputes, and can itself be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        ctx.scale = scale
        ctx.mark_non_differentiable(gate)
        return x * gate * scale, gate

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        x, gate = ctx.saved_tensors
        return grad * ctx.scale * (gate + x * gate * (1 - gate)), None


class AddOnto(torch.autograd.Function):
    """Writes to its input and says so."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, other: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.add_(other)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad


class InNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        import numpy as np

        ctx.kept = x.numpy()  # a view that no dispatcher sees
        return torch.from_numpy(np.sin(ctx.kept))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        import numpy as np

        return grad * torch.from_numpy(np.cos(ctx.kept))


@program
def custom_functions(record: Record) -> None:
    model = stack(6)
    for _ in range(2):
        model.zero_grad()
        x = torch.randn(384, WIDTH, requires_grad=True)
        y, kept = x, []
        for layer in model:
            y, gate = Swish.apply(layer(y), 1.5)
            y = AddOnto.apply(y.clone(), gate)
            y = InNumpy.apply(y)
            kept.append(gate)
        y.square().mean().backward()
        record.add("gates", y, x.grad, *kept)
    record.model(model.parameters())
    slope = torch.randn(384, WIDTH, requires_grad=True)
    (first,) = torch.autograd.grad(Swish.apply(slope, 2.0)[0].sum(), slope, create_graph=True)
    first.square().sum().backward()
    record.add("twice", first, slope.grad)


@program
def hooks_that_keep(record: Record) -> None:
    """Activations and gradients kept by hooks of every kind, and gradients changed on the way."""
    model = stack(8)
    kept: list[Tensor] = []
    handles = []
    for layer in model:
        handles += [
            layer.register_forward_hook(lambda _m, _i, out: kept.append(out.detach())),
            layer.register_full_backward_hook(lambda _m, grads, _o: kept.append(grads[0])),
            layer.register_forward_pre_hook(lambda _m, inputs: (inputs[0] * 1.01,)),
        ]
    handles += [p.register_hook(lambda grad: grad.clamp(-0.01, 0.01)) for p in model.parameters()]
    for _ in range(2):
        x = torch.randn(256, WIDTH, requires_grad=True)
        out = model(x)
        out.retain_grad()
        out.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        out.square().mean().backward()
        record.add("grad", out.grad, x.grad)
    record.add("kept", *kept)
    record.model(model.parameters())
    for handle in handles:
        handle.remove()


@program
def modes(record: Record) -> None:
    """no_grad, inference_mode, anomaly detection, detach, requires_grad flipped, leaves written."""
    model = stack(12)
    for name, mode in (("none", torch.no_grad), ("inference", torch.inference_mode),
                       ("grad", contextlib.nullcontext)):
        with mode():
            record.add(name, model(torch.randn(256, WIDTH)).detach().clone())
    with torch.autograd.detect_anomaly(check_nan=True):
        model(torch.randn(256, WIDTH)).square().mean().backward()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.sub_(parameter.grad, alpha=0.1)
            parameter[..., ::3] *= 0.5
            parameter.requires_grad_(index % 4 < 2)
            parameter.data.mul_(0.9)
            if index % 3 == 0:
                parameter.data = parameter.data.clone() + 1
            parameter.grad = None if index % 2 else parameter.grad.neg()
    model(torch.randn(256, WIDTH)).square().mean().backward()
    record.model(model.parameters())


class Logged(torch.Tensor):
    """A tensor subclass with storage of its own, as users write them."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


@program
def subclasses_and_modes(record: Record) -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.tanh else out

    class Counting(TorchDispatchMode):
        ops = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            Counting.ops += 1
            return func(*args, **(kwargs or {}))

    weights = [torch.randn(WIDTH, WIDTH).as_subclass(Logged).requires_grad_() for _ in range(16)]
    x = torch.randn(256, WIDTH)
    for mode in (contextlib.nullcontext, Doubling, Counting):
        with mode():
            y = x
            for weight in weights:
                y = torch.tanh(y @ weight / 20)
            y.square().mean().backward()
        assert type(y) is Logged
        record.add("y", y.as_subclass(Tensor), *(w.grad for w in weights))
    assert Counting.ops > 64
