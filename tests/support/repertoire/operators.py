"""Layers and operators of many kinds, as programs use them: recurrent, linear algebra, indexing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn

PROGRAMS = Registry()
program = PROGRAMS.add


def trained(record: Record, model: nn.Module, loss: Tensor) -> None:
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.01)
    record.add("loss", loss)


@program
def recurrent(record: Record) -> None:
    """LSTM with projections, both ways and packed; GRU with dropout; cells in a loop."""
    lstm = nn.LSTM(192, 192, 2, bidirectional=True, proj_size=96)
    gru = nn.GRU(192, 192, 3, dropout=0.2, batch_first=True)
    rnn = nn.RNN(192, 192, 2, nonlinearity="relu")
    cell, gru_cell = nn.LSTMCell(192, 192), nn.GRUCell(192, 192)
    model = nn.ModuleList([lstm, gru, rnn, cell, gru_cell])
    for step in range(2):
        model.zero_grad()
        lengths = [12, 9, 7, 4 + step]
        padded = nn.utils.rnn.pad_sequence([torch.randn(n, 192) for n in lengths])
        packed = nn.utils.rnn.pack_padded_sequence(padded, lengths)
        out, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
        out = gru(out.transpose(0, 1))[0].transpose(0, 1)
        hidden = (torch.zeros(4, 192), torch.zeros(4, 192))
        for x in rnn(out)[0].unbind(0):
            hidden = cell(x, hidden)
            hidden = (gru_cell(x, hidden[0]), hidden[1])
        trained(record, model, hidden[0].square().mean() + out.square().mean())
    record.model(model.parameters())
    with torch.no_grad():
        record.add("inference", lstm.eval()(padded)[0], gru.eval()(out.transpose(0, 1))[0])


@program
def attention(record: Record) -> None:
    model = nn.ModuleList(nn.MultiheadAttention(256, 4, dropout=0.1, batch_first=True)
                          for _ in range(6))
    decoder = nn.TransformerDecoderLayer(256, 4, 512, batch_first=True, norm_first=True)
    for _ in range(2):
        x = torch.randn(4, 64, 256, requires_grad=True)
        mask = nn.Transformer.generate_square_subsequent_mask(64)
        y = x
        for layer in model:
            y = y + layer(y, y, y, attn_mask=mask, need_weights=False)[0]
        y = decoder(y, x, tgt_mask=mask, tgt_is_causal=True)
        q = y.unflatten(-1, (4, 64)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        trained(record, model, y.square().mean())
        record.add("x", x.grad)
    model.eval()
    encoder = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).eval()
    with torch.no_grad():
        record.add("fast path", encoder(x), model[0](x, x, x, average_attn_weights=False)[1])
    record.model([*model.parameters(), *decoder.parameters()])


@program
def linear_algebra(record: Record) -> None:
    kept = [torch.randn(288, 288) for _ in range(60)]
    for index, a in enumerate(kept[:5]):
        b = kept[index - 1].clone().requires_grad_()
        u, s, v = torch.linalg.svd(a)
        q, r = torch.linalg.qr(b)
        spd = b @ b.t() + 300 * torch.eye(288)
        low = torch.linalg.cholesky(spd)
        solved = torch.linalg.solve(spd, a) + torch.cholesky_solve(a, low)
        values, vectors = torch.linalg.eigh(spd)
        loss = q.sum() + r.square().mean() + solved.norm() + values.sum() + torch.logdet(spd)
        loss.backward()
        pinv = torch.linalg.pinv(a[:, :64])
        lu, pivots = torch.linalg.lu_factor(a)
        record.add("factors", u, s, v, q, r, low, values, vectors.abs(), b.grad, pinv, lu, pivots)
        kept[index + 5].copy_(torch.linalg.lstsq(spd.detach(), a, driver="gels").solution)
        kept[index + 10] @= torch.linalg.inv(spd.detach())
        record.add("more", torch.einsum("ij,kj,kl->il", a, a, kept[index + 10]), torch.cdist(a, b),
                   torch.linalg.matrix_power(a / 20, 3), torch.baddbmm(a[None], a[None], a[None]))
    record.add("kept", *kept)


@program
def indexing(record: Record) -> None:
    """Reads and writes by lists, masks, slices and strides; scatter, gather and their kin."""
    tensors = [torch.randn(600, 500) for _ in range(24)]
    rows, columns = torch.randint(600, (3000,)), torch.randint(500, (3000,))
    for index, x in enumerate(tensors):
        other = tensors[index - 1]
        x[rows, columns] = other[columns, rows % 500]
        x[x > 2] = -1
        x[::3, 5:80] *= other[1::3, 5:80]
        x[[1, 5, 9], :] += 1
        x[..., -1] = other[..., 0]
        x.index_put_((rows,), other[rows], accumulate=True)
        x.index_add_(0, rows[:99], other[:99]).index_copy_(1, columns[:1], other[:, :1])
        x.index_fill_(1, columns[:5], 0.5).masked_fill_(other > 1.5, 3)
        x.scatter_(1, (rows[:1800] % 500).view(600, 3), other[:, :3])
        x.scatter_add_(0, columns[:500].view(1, 500), other[:1])
        x.scatter_reduce_(1, columns.view(600, 5), other[:, :5], "amax")
        x.put_(rows * 7, other.view(-1)[:3000], accumulate=True)
        x.masked_scatter_(x > 1, other)
        chosen = torch.where(x > 0, x, 0.0) + torch.where(other > 0, 1.0, 2.0)
        record.add("read", chosen, x.gather(1, other.argsort(1)[:, :9]), torch.take(x, rows),
                   x.index_select(0, rows[:9]), x[None, 3:, rows[:5] % 500], x.masked_select(x > 1),
                   x.take_along_dim(columns[:600, None], 1), torch.nonzero(x > 2),
                   x.diagonal_scatter(other[0, :500]), x.roll(3, 1), x.tril(), x.view(-1).unfold(0, 9, 5))
    record.add("all", *tensors)


@program
def sorting_and_reducing(record: Record) -> None:
    tensors = [torch.randn(512, 512) for _ in range(20)]
    for index, x in enumerate(tensors[::2]):
        record.add("sorted", *x.sort(stable=True, dim=1), *x.topk(9), *x.kthvalue(5), *x.median(0),
                   *x.round().mode(0), x.argmax(1), *torch.aminmax(x), x.quantile(0.3, 1), x.argsort())
        whole = (x * 9).round().long()
        record.add("counted", *whole.unique(return_counts=True, return_inverse=True),
                   torch.bincount(whole.view(-1) + 60), torch.histc(x, 50), *torch.histogram(x, 9),
                   *whole.view(-1)[:5000].unique_consecutive(return_counts=True),
                   torch.searchsorted(x[0].sort().values, x[1]), torch.bucketize(x, x[0, :9].sort().values))
        x.copy_(x.cumsum(1) / 100 + x.cumprod(0).clamp(-1, 1) + x.logcumsumexp(1) / 9)
        record.add("reduced", *torch.var_mean(x, 1), x.logsumexp(0), x.norm(3), x.nansum(), x.prod(1),
                   (x > 0).all(1), x.count_nonzero(), torch.std(x), x.cummax(1).values, x.softmax(0))
        torch.maximum(x, tensors[index - 1], out=tensors[index - 2])
    record.add("all", *tensors)


@program
def out_arguments(record: Record) -> None:
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    outs = [torch.empty(0), torch.empty(512, 512), torch.empty(512, 512).t(),
            torch.empty(1024, 512)[::2]] + [torch.empty(512, 512) for _ in range(20)]
    for step in range(3):
        for index, out in enumerate(outs):
            torch.mm(a, b, out=out)
            torch.add(out, a, alpha=0.1 * index, out=out)
            torch.tanh(out, out=out)
            torch.addmm(out, a, b, beta=0.5, alpha=0.01, out=outs[index - 1])
            torch.cat([out[:100], a[100:]], out=outs[index - 2])
            torch.where(out > 0, out, b, out=outs[index - 5])
            torch.sub(out, 0.5, out=a)
            values, order = torch.empty(0), torch.empty(0, dtype=torch.long)
            torch.sort(out[step], out=(values, order))
            torch.clamp(out, -1, 1, out=b)
            b.add_(torch.linspace(0, 1, 512))
        record.add("out", values, order, a, b)
    record.add("outs", *(out.clone() for out in outs))


@program
def randomness(record: Record) -> None:
    """Generators, forked state, distributions, dropout, in-place fills."""
    generator = torch.Generator().manual_seed(4)
    kept = [torch.zeros(400, 400) for _ in range(40)]
    fills = ("normal_", "uniform_", "exponential_", "geometric_", "cauchy_", "log_normal_",
             "bernoulli_", "random_")
    for index, x in enumerate(kept[::2]):
        name = fills[index % len(fills)]
        getattr(x, name)(*([0.3] if name == "geometric_" else []), generator=generator)
        with torch.random.fork_rng():
            torch.manual_seed(index)
            x.add_(F.dropout(kept[index - 1], 0.3)).nan_to_num_(0, 1, -1).clamp_(-9, 9)
        state = torch.get_rng_state()
        record.add("drawn", torch.multinomial(x[:9].abs() + 0.1, 5), torch.randperm(999), state)
        torch.set_rng_state(state)
        mean = torch.zeros(400).requires_grad_()
        normal = torch.distributions.Normal(mean, x.abs() + 0.1)
        sample = normal.rsample()
        loss = normal.log_prob(sample).mean() + sample.square().mean()
        loss += torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).mean()
        loss.backward()
        many = torch.distributions.MultivariateNormal(mean[:50], torch.eye(50)).rsample((20,))
        gamma = torch.distributions.Dirichlet(x[:20].abs() + 1).sample()
        record.add("sample", sample, mean.grad, many, gamma,
                   torch.distributions.Categorical(logits=x).sample(), F.gumbel_softmax(x, hard=True))
        x.copy_(sample.detach().clamp(-9, 9))
    record.add("kept", *kept)


@program
def convolutions(record: Record) -> None:
    """One, two and three dimensions, grouped, dilated, transposed; pooling, warping, resizing."""
    net = nn.Sequential(
        nn.Conv2d(8, 32, 3, padding=1, groups=2), nn.InstanceNorm2d(32), nn.PReLU(),
        nn.Conv2d(32, 32, 3, padding=2, dilation=2), nn.BatchNorm2d(32), nn.ELU(inplace=True),
        nn.ConvTranspose2d(32, 8, 4, stride=2, padding=1), nn.LocalResponseNorm(3),
        nn.PixelShuffle(2), nn.Dropout2d(0.2), nn.MaxPool2d(2), nn.ReflectionPad2d(1),
        nn.Upsample(scale_factor=0.5, mode="bilinear"), nn.AvgPool2d(3),
        nn.LazyConv2d(16, 3), nn.AdaptiveMaxPool2d(5), nn.Flatten(), nn.LazyLinear(10),
    )  # fmt: skip
    line, volume = nn.Conv1d(16, 32, 5, stride=2), nn.Conv3d(2, 8, 3, padding=1)
    kept = [torch.randn(512, 512) for _ in range(24)]
    for _ in range(2):
        x = torch.randn(4, 8, 48, 48, requires_grad=True)
        grid = F.affine_grid(torch.eye(2, 3).repeat(4, 1, 1) * 0.9, [4, 8, 48, 48], align_corners=False)
        y = net(F.grid_sample(x, grid, align_corners=False, padding_mode="border"))
        patches = F.fold(F.unfold(x, 3, padding=1), (48, 48), 3, padding=1)
        depth = F.max_pool3d(volume(torch.randn(2, 2, 12, 24, 24)), 2)
        loss = F.cross_entropy(y, torch.randint(10, (4,)), label_smoothing=0.1)
        loss = loss + patches.square().mean() + depth.mean() + line(torch.randn(4, 16, 900)).std()
        trained(record, net, loss)
        record.add("x", x.grad, y, *(torch.sin(k, out=k) for k in kept))
    record.model([*net.parameters(), *line.parameters(), *volume.parameters()], net.buffers())


@program
def losses(record: Record) -> None:
    """CTC, triplets, cosine, Poisson, multi-margin and the like, adaptive softmax, bilinear."""
    kept = [torch.randn(400, 400) for _ in range(20)]
    adaptive = nn.AdaptiveLogSoftmaxWithLoss(400, 900, [100, 300])
    bilinear = nn.Bilinear(32, 32, 32)
    for index in range(10):
        x = kept[index].clone().requires_grad_()
        y, z = kept[index - 1], kept[index - 2]
        label = torch.randint(300, (400,))
        ctc = F.ctc_loss(x.view(50, 8, 400).log_softmax(2), torch.randint(1, 400, (8, 12)),
                         [50] * 8, [12] * 8)
        total = ctc + F.triplet_margin_loss(x, y, z) + F.multi_margin_loss(x, label)
        total += F.cosine_embedding_loss(x, y, label % 2 * 2 - 1) + F.huber_loss(x, y)
        total += F.poisson_nll_loss(x, y.abs()) + F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean")
        total += F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=torch.ones(400) * 2)
        total += adaptive(x, label).loss + bilinear(x[:, :32], y[:, :32]).square().mean()
        total += F.gaussian_nll_loss(x, y, z.square() + 0.1) + F.pairwise_distance(x, y).mean()
        total.backward()
        kept[index].sub_(x.grad)
        record.add("loss", total, x.grad)
    record.model([*adaptive.parameters(), *bilinear.parameters()])
    record.add("kept", *kept)


@program
def multi_tensor_operators(record: Record) -> None:
    lists = [[torch.randn(300, 300) for _ in range(12)] for _ in range(3)]
    a, b, c = lists
    for step in range(3):
        torch._foreach_mul_(a, 0.9)
        torch._foreach_add_(a, b, alpha=0.1)
        torch._foreach_addcmul_(a, b, c, 0.5)
        torch._foreach_lerp_(b, c, 0.3)
        torch._foreach_clamp_max_(c, 2.0)
        torch._foreach_copy_(c, torch._foreach_maximum(a, b))
        norms = torch._foreach_norm(torch._foreach_sqrt(torch._foreach_abs(c)))
        torch._foreach_div_(c, norms)
        torch._foreach_zero_(b[step : step + 2])
        record.add("norms", *norms, *torch._foreach_sub(a, c))
        stacked = torch.stack(a[:4])
        record.add("block", torch.block_diag(a[0][:9], b[0][:9]), torch.cartesian_prod(a[0][0, :9], b[0][0, :9]),
                   *torch.stack([*stacked.unbind(), c[0]]).split(2), torch.hstack(a[:3]))
    record.add("all", *a, *b, *c)
