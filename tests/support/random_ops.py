"""The instructions of the random programs: each takes two tensors of the pool and a number.

Every one works on any two dense float32 tensors: it cuts, repeats and reshapes them as it needs, and
picks its variant by the number. Results stay within a few units of zero, for an infinity or a NaN
would hide what went wrong before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Op = Callable[[Any, Tensor, Tensor, int], Any]
OPS: dict[str, Op] = {}

UNARY: list[Callable[[Tensor], Tensor]] = [
    torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.relu, F.gelu, F.silu, F.softplus, F.elu,
    torch.abs, torch.neg, torch.erf, F.hardswish, torch.frac, F.mish, F.selu, torch.sinc, torch.round,
    lambda x: x.clamp(-1, 1).exp(), lambda x: (x.abs() + 1).log(), lambda x: (x.abs() + 1).rsqrt(),
    lambda x: F.logsigmoid(x).tanh(), lambda x: x.clamp(-0.9, 0.9).asin(), F.leaky_relu, torch.sign,
    lambda x: F.threshold(x, 0.1, 0.0), F.hardtanh, torch.atan, lambda x: x.remainder(1.5),
    lambda x: torch.special.expit(x) - torch.special.ndtr(x), lambda x: F.rrelu(x), torch.nan_to_num,
]  # fmt: skip
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.atan2, torch.hypot,
    lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: torch.addcmul(x, x, y, value=0.5),
    lambda x, y: torch.addcdiv(x, y, y.abs() + 1), lambda x, y: torch.where(x > y, x.sin(), y),
    lambda x, y: x / (1 + y.abs()), lambda x, y: torch.copysign(x, y), torch.fmod,
    lambda x, y: torch.logaddexp(x, y), lambda x, y: x * (y > 0), lambda x, y: torch.heaviside(x, y),
]  # fmt: skip


def op(function: Op) -> Op:
    OPS[function.__name__.rstrip("_")] = function
    return function


def like(b: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
    """`b` cut or repeated to another shape; where it is larger, a view into it."""
    count = 1
    for size in shape:
        count *= size
    flat = b.reshape(-1)
    if flat.numel() < count:
        flat = flat.repeat(-(-count // flat.numel()))
    start = (flat.numel() - count) // 2
    return flat[start : start + count].view(shape)


def mat(a: Tensor, columns: int = 0) -> Tensor:
    """`a` as a matrix."""
    if a.dim() == 2 and not columns:
        return a
    columns = columns or max(1, min(512, int(a.numel() ** 0.5)))
    rows = max(1, a.numel() // columns)
    return like(a, (rows, columns))


def few(a: Tensor, rows: int, columns: int) -> Tensor:
    return like(a, (rows, columns))


def index(k: int, bound: int, count: int) -> Tensor:
    """Positions below `bound`, some twice, in no order."""
    return (torch.arange(count) * (2 * k + 7)) % bound


@op
def unary(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    return UNARY[k % len(UNARY)](a)


@op
def binary(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    return BINARY[k % len(BINARY)](a, like(b, a.shape)).clamp(-4, 4)


@op
def inplace(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    """A fresh tensor, written to whole and through views, autograd looking on."""
    x = mat(a * 1.0)
    y = like(b, x.shape)
    if k % 2:
        x.mul_(0.5).add_(y, alpha=0.25)
    x[::2].mul_(0.7)
    x.t()[: 1 + k % 5].add_(y.t()[: 1 + k % 5])
    if k % 3 == 0:
        x.view(-1)[k :: 3 + k % 7].copy_(y.view(-1)[k :: 3 + k % 7])
    if k % 5 == 0:
        x.unsqueeze_(0).squeeze_(0).transpose_(0, 1).t_()
    return x.clamp_(-4, 4) if k % 7 else x.sigmoid_()


@op
def strided(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = mat(a)
    kinds = [
        lambda: x.t(), lambda: x.flip(0), lambda: x[1 + k % 3 :: 2], lambda: x[:, k % 2 :: 3],
        lambda: x.roll(k + 1, 0), lambda: x.expand(2, *x.shape)[1] + 0, lambda: x.narrow(0, 0, 1),
        lambda: torch.as_strided(x.contiguous(), (max(1, x.numel() // 4),), (3,), 1 % x.numel()),
        lambda: x.unfold(0, min(3, len(x)), 2), lambda: x.diagonal(), lambda: torch.rot90(x),
        lambda: x.contiguous().view(-1).view(x.t().shape), lambda: x.movedim(0, 1), lambda: x.tril(k % 9),
        lambda: torch.view_as_real(torch.complex(x, -x)).flatten(1), lambda: x.T.reshape(-1),
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def matmul(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = mat(a)
    kinds = [
        lambda: x @ few(b, x.shape[1], 1 + k % 300),
        lambda: F.linear(x, few(b, 64 + k, x.shape[1]), like(b, (64 + k,))),
        lambda: torch.bmm(like(a, (4, 65, 70)), like(b, (4, 70, 33 + k))),
        lambda: torch.einsum("ij,kj->ki", x, few(b, 1 + k % 129, x.shape[1])),
        lambda: torch.addmm(like(b, (len(x), 96)), x, few(b, x.shape[1], 96)),
        lambda: torch.mv(x, like(b, (x.shape[1],))), lambda: few(a, 64, 256) @ few(b, 256, 257),
        lambda: F.bilinear(few(a, 64, 40), few(b, 64, 30), like(b, (20, 40, 30))),
    ]  # fmt: skip
    return kinds[k % len(kinds)]().mul(0.2).tanh()


@op
def conv(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    side = 12 + 13 * (k % 4)
    x, w = like(a, (2, 8, side, side)), like(b, (12, 8, 3, 3))
    kinds = [
        lambda: F.conv2d(x, w, like(b, (12,)), padding=1),
        lambda: F.conv2d(x, w, stride=2), lambda: F.conv1d(x.flatten(2), w.flatten(2), padding=k % 5),
        lambda: F.conv_transpose2d(x, w.transpose(0, 1), stride=2),
        lambda: F.conv2d(x.contiguous(memory_format=torch.channels_last), w, dilation=2),
        lambda: F.conv2d(x, like(b, (8, 1, 3, 3)), groups=8),
        lambda: F.conv3d(like(a, (1, 4, 9, 17, 20)), like(b, (6, 4, 2, 2, 2))),
        lambda: F.fold(F.unfold(x, 3), (side, side), 3),
    ]  # fmt: skip
    return kinds[k % len(kinds)]().mul(0.3).tanh()


@op
def pool(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = like(a, (2, 9, 40, 41 + k))
    kinds = [
        lambda: F.max_pool2d(x, 2), lambda: F.avg_pool2d(x, 3, 2), lambda: F.adaptive_avg_pool2d(x, 5),
        lambda: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: F.pad(x, (1, 2, 3, 4)),
        lambda: F.pad(x, (1, 2, 3, 4), mode="reflect"), lambda: F.pixel_shuffle(x[:, :4], 2),
        lambda: F.max_unpool2d(*F.max_pool2d(x[..., :40], 2, return_indices=True), 2),
        lambda: F.grid_sample(x, like(b, (2, 30, 31, 2)).tanh(), align_corners=False),
        lambda: F.lp_pool2d(x.abs() + 0.1, 2, 2), lambda: F.adaptive_max_pool2d(x, 7),
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def normalized(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = mat(a)
    if k % 6 == 0:
        m.bn.train(k % 4 != 2)
        return m.bn(like(a, (4, 24, 30, 31 + k)))
    kinds = [
        lambda: F.layer_norm(x, x.shape[1:]), lambda: x.softmax(k % 2), lambda: F.normalize(x, dim=1),
        lambda: F.group_norm(like(a, (3, 12, 50, 51)), 4), lambda: F.rms_norm(x, x.shape[1:]),
        lambda: F.log_softmax(x, 1).clamp(-4), lambda: F.instance_norm(like(a, (3, 7, 40, 41))),
        lambda: (x - x.mean(0)) / (x.std(0, correction=0) + 1), lambda: x.renorm(2, 0, 1.0),
        lambda: F.local_response_norm(like(a, (2, 9, 30, 31)), 3), lambda: F.softmin(x, 0),
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def dropped(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    kinds = [
        lambda: F.dropout(a, 0.3), lambda: a + 0.1 * torch.randn_like(a), lambda: F.alpha_dropout(a, 0.2),
        lambda: a * torch.bernoulli(torch.full_like(a, 0.6), generator=m.generator),
        lambda: F.dropout(a * 1, 0.5, inplace=True), lambda: a + torch.rand(a.shape, generator=m.generator),
        lambda: a + torch.empty_like(a).exponential_().clamp_(max=2), lambda: F.dropout1d(mat(a)[None], 0.2)[0],
        lambda: like(a, (k + 9, 77))[torch.randperm(k + 9)], lambda: F.gumbel_softmax(mat(a), tau=0.9),
        lambda: mat(a)[torch.multinomial(torch.ones(len(mat(a))), 1 + k % 3, replacement=True)],
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def joined(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x, y = mat(a), like(b, mat(a).shape)
    kinds = [
        lambda: torch.cat([x, y]), lambda: torch.stack([x, y], 1), lambda: torch.cat([x, x[:1], y[2:]]),
        lambda: torch.cat(list(reversed(x.split(3 + len(x) // 7)))), lambda: torch.block_diag(x[:9], y[:5]),
        lambda: torch.cat([p.relu() for p in x.chunk(5)], 0), lambda: [p * 0.5 for p in x.chunk(3)],
        lambda: torch.cat([t.reshape(-1)[:70] for t in m.pool]), lambda: torch.hstack([x, y[:, ::2]]),
        lambda: torch.stack(torch.unbind(x)[::2]), lambda: list(x.tensor_split((1, 5))),
        lambda: torch.nn.utils.parameters_to_vector([p[:3] for p in m.small_ones()]),
        lambda: torch.cat([t.reshape(-1) for t in m.small_ones()]),
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def indexed(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = mat(a)
    rows, y = index(k, len(x), 1 + len(x) // 2), like(b, mat(a).shape)
    distinct = torch.arange(0, len(x), 2 + k % 3)
    kinds = [
        lambda: x.index_select(0, rows), lambda: x[rows, index(k, x.shape[1], len(rows))],
        lambda: x.gather(1, index(k, x.shape[1], x.numel()).view(x.shape)), lambda: x[rows],
        lambda: x.index_add(0, rows, y[: len(rows)] * 0.1), lambda: x.take(rows),
        lambda: x.index_put((rows,), y[: len(rows)] * 0.1, accumulate=True), lambda: x[x > 0.2],
        lambda: x.scatter(0, distinct[:, None].expand(-1, x.shape[1]), y[: len(distinct)]),
        lambda: x.scatter_add(1, index(k, x.shape[1], x.numel()).view(x.shape), y * 0.01),
        lambda: x.index_fill(0, distinct, 0.3), lambda: x.index_copy(0, distinct, y[: len(distinct)]),
        lambda: x.masked_fill(y > 0, 0.5), lambda: x.masked_scatter(y > 0, y), lambda: x.repeat_interleave(2, 1),
        lambda: F.embedding(rows, x), lambda: F.embedding_bag(rows.view(1, -1), x, mode="mean"),
        lambda: x[None, ..., :3].squeeze(0), lambda: torch.take_along_dim(x, x.argsort(1), 1),
        lambda: x.scatter_reduce(0, distinct[:, None].expand(-1, x.shape[1]), y, "amax"),
        lambda: x.slice_scatter(y[:1], 0, 0, 1), lambda: x.select_scatter(y[0], 0, len(x) - 1),
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def ordered(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x = mat(a)
    kinds = [
        lambda: x.topk(1 + min(k, x.shape[1] - 1), 1)[0], lambda: x.sort(0)[0], lambda: x.argsort(1).float() / 100,
        lambda: x.cumsum(1).tanh(), lambda: x.clamp(0.9, 1.1).cumprod(0).tanh(), lambda: x.kthvalue(1, 1)[0],
        lambda: x.cummax(1)[0], lambda: x.msort(), lambda: x.logcumsumexp(1).tanh(), lambda: x.median(1)[0],
        lambda: torch.unique(x.mul(9).round())[:999], lambda: x.mul(3).long().view(-1)[:5000].bincount(minlength=0)
        if int(x.min()) > 0 else x.diff(dim=0), lambda: torch.searchsorted(x[0].sort()[0], x).float() / 500,
        lambda: x.quantile(0.3, 1), lambda: torch.histc(x, 50).tanh(), lambda: (x > 1).nonzero().float().tanh(),
        lambda: torch.bucketize(x, torch.linspace(-1, 1, 9)).float(), lambda: x.mode(1)[0],
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def reduced(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    x, y = mat(a), like(b, mat(a).shape)
    kinds = [
        lambda: x.mean(1), lambda: x.sum().tanh(), lambda: x.amax(0), lambda: x.var(1, correction=0), lambda: x.norm(dim=0).tanh(),
        lambda: x.logsumexp(1).tanh(), lambda: x.max(0)[0], lambda: x.mean(0, keepdim=True).expand_as(x),
        lambda: torch.cdist(x[:65, :60], y[:50, :60]).tanh(), lambda: x.prod(1), lambda: torch.dist(x, y).tanh(),
        lambda: F.cross_entropy(x, index(k, x.shape[1], len(x))), lambda: F.mse_loss(x, y, reduction="none"),
        lambda: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), lambda: F.huber_loss(x, y),
        lambda: F.cosine_similarity(x, y), lambda: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        lambda: torch.aminmax(x)[1], lambda: x.trace().tanh(), lambda: (x.all() | x.isnan().any()).float(),
        lambda: F.triplet_margin_loss(x, y, y * 0.5), lambda: x.count_nonzero(1).float() / 100,
    ]  # fmt: skip
    return kinds[k % len(kinds)]().clamp(-4, 4)


@op
def attention(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    q, kv = like(a, (2, 4, 70 + k, 32)), like(b, (2, 4, 90, 32))
    kinds = [
        lambda: F.scaled_dot_product_attention(q, kv, kv, dropout_p=0.1),
        lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        lambda: (q @ kv.transpose(-1, -2)).softmax(-1) @ kv,
        lambda: m.lstm(like(a, (11 + k % 9, 5, 48)))[0], lambda: m.attend(q[0], q[0], q[0])[0],
        lambda: m.gru(like(a, (9, 5 + k % 9, 48)))[0],
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def cast(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    y = like(b, a.shape)
    kinds = [
        lambda: (a.double() * y.double()).float(), lambda: (a.bfloat16() + y.bfloat16()).float(), lambda: a.double(),
        lambda: (a * 100).long(), lambda: (a * 9).to(torch.int8).float() / 9, lambda: a.bfloat16(),
        lambda: torch.complex(a, y).abs(), lambda: torch.polar(a.abs(), y).real, lambda: a.half().float() * y,
        lambda: (a > y).float() * a, lambda: a.view(torch.int32).bitwise_and(-4096).view(torch.float32),
        lambda: torch.fft.rfft(mat(a)[:64]).abs().tanh(), lambda: torch.complex(a, y),
        lambda: torch.fft.irfft(torch.fft.rfft(few(a, 60, 514)) * 0.5), lambda: a.detach() < 0,
        lambda: torch.fake_quantize_per_tensor_affine(a, 0.1, 0, -128, 127),
    ]  # fmt: skip
    return kinds[k % len(kinds)]()


@op
def algebra(m: Any, a: Tensor, b: Tensor, k: int) -> Any:
    n = 20 + 13 * (k % 6)
    x = few(a, n, n)
    safe = x @ x.t() + (n / 2) * torch.eye(n)
    kinds = [
        lambda: torch.linalg.solve(safe, few(b, n, 5)), lambda: torch.linalg.cholesky(safe), lambda: torch.linalg.inv(safe),
        lambda: torch.linalg.slogdet(safe)[1].tanh(), lambda: torch.linalg.matrix_exp(x * 0.1).tanh(),
        lambda: torch.linalg.svdvals(x), lambda: torch.kron(x[:9], few(b, 7, 30)), lambda: torch.triu(x),
        lambda: torch.linalg.eigvalsh(safe).tanh(), lambda: torch.vander(x[0].tanh(), 5),
        lambda: torch.linalg.qr(safe)[0],  # lstsq is left out: plain PyTorch does not repeat it
    ]  # fmt: skip
    return kinds[k % len(kinds)]().tanh()
