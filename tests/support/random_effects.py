"""The instructions of the random programs that do more than compute: they write in place, keep and
drop tensors, resize and share storages, raise, read values, start threads and call autograd."""

from __future__ import annotations

import copy
import io
import threading
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from random_ops import BINARY, OPS, UNARY, few, index, like, mat, op
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def leaf(a: Tensor) -> Tensor:
    return a.detach().clone().requires_grad_()


class Bent(torch.autograd.Function):
    """Saves an input and its result, and writes to the gradient it passes on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        result = x.tanh() * y
        ctx.save_for_backward(x, result, y)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, result, y = ctx.saved_tensors
        out = torch.empty_like(gradient)
        torch.mul(gradient, y, out=out)
        return out.mul_(1 - x.tanh().square()), (gradient * result).clamp_(-1, 1)


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(0.5)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 0.5


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise ValueError("on purpose, in the middle of backward")


@op
def function(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    return Dirty.apply(a * 1.0) if k % 3 == 0 else Bent.apply(a, like(b, a.shape))


@op
def keep(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """A tensor that later steps use, sometimes an alias of one of this step."""
    kinds = [lambda: a.detach().clone(), lambda: copy.deepcopy(a.detach()), lambda: a.detach()[...]]
    m.kept.append(kinds[k % len(kinds)]())
    if len(m.kept) > 6:
        del m.kept[k % 6]


@op
def drop(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    if len(m.pool) > 6:
        del m.pool[k % len(m.pool)]
    if k % 3 == 0:
        m.others.clear()


@op
def detached(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = a * 0.5
    if k % 3 == 0:
        return x.detach_()
    if k % 3 == 1:
        return leaf(a)
    x = leaf(a).requires_grad_(False)
    x.add_(1).requires_grad_(True)
    return x * 0.9


@op
def resized(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    grown = torch.zeros(4 + k)
    grown.resize_(a.numel()).copy_(a.detach().reshape(-1))
    if k % 3 == 0:
        grown.resize_(max(1, a.numel() // 3))
    if k % 3 == 1:  # as sharded training does
        saved, storage = grown.clone(), grown.untyped_storage()
        size = storage.nbytes()
        storage.resize_(0)
        b.detach().cos()
        storage.resize_(size)
        grown.copy_(saved)
    return grown


@op
def shared(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """Two tensors on one storage, and tensors whose bytes are swapped under them."""
    source = mat(a).detach().clone()
    x = torch.empty(0)
    if k % 4 == 0:
        x.set_(source)
    elif k % 4 == 1:
        half = source.numel() // 2
        x.set_(source.untyped_storage(), half, (source.numel() - half,))
    elif k % 4 == 2:
        x = torch.zeros(3)
        x.data = source
    else:
        x = torch.from_dlpack(source)
    x.mul_(0.5)
    source.view(-1)[::3].sub_(0.1)
    return x


@op
def out(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x, y = mat(a).detach(), mat(b).detach()
    y = like(y, x.shape)
    result = torch.empty(0) if k % 2 else torch.empty_like(x)
    kinds = [
        lambda: torch.sub(x, y, out=result), lambda: torch.mul(x, y, out=result),
        lambda: torch.tanh(x, out=result), lambda: torch.cat([x, y], out=torch.empty(0)),
        lambda: torch.sort(x, out=(torch.empty(0), torch.empty(0, dtype=torch.long)))[0],
        lambda: torch.mm(x, few(b.detach(), x.shape[1], 40), out=torch.empty(x.shape[0], 40)).tanh(),
        lambda: torch.sum(x, 0, out=torch.empty(0)).tanh(), lambda: torch.clamp(x, -1, 1, out=x.clone().t_().t_()),
        lambda: torch.index_select(x, 0, index(k, len(x), 9), out=torch.empty(9, x.shape[1])),
        lambda: torch.add(x, y, out=x.clone()[:]),
    ]  # fmt: skip
    return kinds[(k // 2) % len(kinds)]().clamp_(-4, 4)


@op
def quietly(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """In place on what outlives the step, and on what autograd may have saved."""
    with torch.no_grad() if k % 2 else torch.inference_mode():
        for x in m.kept[k % 2 :: 2]:
            if not x.is_inference() or torch.is_inference_mode_enabled():
                x.mul_(0.9).add_(like(b.detach(), x.shape), alpha=0.1)
        if k % 11 == 0 and not a.is_inference() and not a.requires_grad:
            a.mul_(0.9)
        return (a.detach() * 0.7).clone() if k % 2 else None


@op
def lists(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    with torch.no_grad():
        xs = [x.clone() for x in [*m.kept, *m.small_ones(), a.detach()]]
        torch._foreach_mul_(xs, 0.5)
        torch._foreach_add_(xs, [like(b.detach(), x.shape) for x in xs], alpha=0.1)
        norms = torch.stack(torch._foreach_norm(xs)).tanh()
        ys = torch._foreach_lerp(torch._foreach_sin(xs), xs, 0.25)
        torch._foreach_copy_(xs, ys)
        return [norms, torch._foreach_maximum(xs, ys)[k % len(xs)]]


@op
def sparse(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = mat(a)
    if k % 4 == 0:
        rows = index(k, 200, 900)
        grid = torch.stack([rows, index(k + 1, len(x), 900)])
        matrix = torch.sparse_coo_tensor(grid, like(b, (900,)), (200, len(x)))
        return [torch.sparse.mm(matrix, x).tanh(), matrix.detach().coalesce().values()]
    if k % 4 == 1:
        table = leaf(x)
        loss = F.embedding(index(k, len(x), 300), table, sparse=True).square().mean()
        (gradient,) = torch.autograd.grad(loss, table)
        return [gradient.to_dense(), gradient.coalesce().values() * 9]
    thin = F.threshold(x.detach(), 1.2, 0.0)
    matrix = thin.to_sparse() if k % 4 == 2 else thin.to_sparse_csr()
    return (matrix @ few(b.detach(), x.shape[1], 30)).tanh()


@op
def recomputed(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    def block(x: Tensor, y: Tensor) -> Tensor:
        hidden = UNARY[k % len(UNARY)](x * 1.1)
        return BINARY[k % len(BINARY)](F.dropout(hidden, 0.2), y).clamp(-4, 4)

    return checkpoint(block, a, like(b, a.shape), use_reentrant=bool(k % 2))


@op
def packed(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    kinds = [
        (lambda x: x.double(), lambda x: x.float()), (lambda x: x.clone(), lambda x: x.mul_(1)),
        (lambda x: x.numpy(force=True), lambda x: torch.from_numpy(x)),
    ]
    with torch.autograd.graph.saved_tensors_hooks(*kinds[k % 3]):
        return (a.sin() * like(b, a.shape).cos()).tanh() if a.dim() else a * 2


@op
def gradients(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = leaf(a)
    y = x.sin() * like(b, a.shape)
    if k % 4 == 0:
        (g,) = torch.autograd.grad(y.square().mean(), x, create_graph=True)
        return (g * 1000).tanh()
    if k % 4 == 1 and y.requires_grad:
        y.mean().backward(retain_graph=True)
        y.square().mean().backward()
        return x.grad * 100
    if k % 4 == 2:
        return torch.func.jvp(torch.tanh, (a.detach(),), (like(b.detach(), a.shape),))[1]
    rows = mat(a).detach()
    return torch.func.vmap(torch.func.grad(lambda r: r.sin().sum()))(rows)


@op
def hooked(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = a * 1.0
    if x.requires_grad:
        x.register_hook(lambda g: g * 0.5 if k % 2 else g.clamp_(-1e-3, 1e-3))
        x.retain_grad()
    return x


@op
def fails(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """An exception in the middle, caught, with tensors in its frames."""
    try:
        hidden = a.sin() * like(b, a.shape)
        if k % 3 == 0 and hidden.requires_grad:
            Fails.apply(hidden).mean().backward(retain_graph=True)
        elif k % 3 == 1:
            torch.mm(hidden.view(-1, 1), torch.ones(2, 7))
        raise ValueError("on purpose")
    except (ValueError, RuntimeError) as error:
        m.failed(error)
        m.errors = [error] if k % 2 else []  # the frames live on, or do not


@op
def branch(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """What comes next depends on a value."""
    names = sorted(OPS)
    if float(a.detach().double().sum()) > 0:
        return OPS["matmul"](m, a, b, k)
    name = names[int(abs(b.detach().reshape(-1)[0].item()) * 1000) % len(names)]
    return OPS["joined" if name == "branch" else name](m, b, a, k)


@op
def threads(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    sources = [mat(a).detach(), mat(b).detach()]
    results: list[Any] = [None, None]

    def work(number: int) -> None:
        try:
            x = leaf(sources[number])
            y = x
            for turn in range(2 + k % 3):
                y = y * 0.9 + x.roll(turn, 0).cos()
            y.square().mean().backward()
            results[number] = (y.detach().tanh(), x.grad * 100)
        except BaseException as error:
            results[number] = error

    both = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [*results[0], *results[1]]


@op
def arrays(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """Bytes that numpy holds too; it writes to them now, or between two steps."""
    if k % 3 == 0:
        x = torch.from_numpy(np.linspace(-1, 1, max(1, a.numel()), dtype=np.float32).reshape(a.shape))
    elif k % 3 == 1:
        x = torch.frombuffer(bytearray(a.detach().numpy().tobytes()), dtype=torch.float32)
    else:
        x = mat(a).detach().clone()
    array = x.numpy()
    array.reshape(-1)[:: 1 + k] *= np.float32(0.5)
    m.arrays = [*m.arrays[-3:], array]
    if k % 2:
        m.kept.append(x)
        del m.kept[:-6]
    return x * 1.0


@op
def saved(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    if k % 3 == 0:
        file = io.BytesIO()
        torch.save({"a": a.detach(), "rest": [b.detach()[...]]}, file)
        file.seek(0)
        return torch.load(file)["a"]
    if k % 3 == 1:
        state = copy.deepcopy(m.lstm.state_dict())
        m.lstm.load_state_dict({name: value * 0.99 for name, value in state.items()})
        return None
    return a.detach().clone().share_memory_().mul_(0.5)


@op
def mixed(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = F.linear(mat(a), few(b, 50 + k, mat(a).shape[1]))
        return F.layer_norm(hidden, hidden.shape[1:]).float() if k % 2 else hidden


@op
def parameters(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """A parameter is frozen for a while, or written to behind the optimizer's back."""
    p = m.weights[k % len(m.weights)]
    if k % 3 == 0:
        p.requires_grad_(not p.requires_grad)
    elif k % 3 == 1:
        p.data = p.data.clone() * 0.99
    elif p.grad is not None:
        p.grad.mul_(0.5)
    m.generator.manual_seed(k)
