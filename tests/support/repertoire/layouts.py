"""Tensors that are not plain rows of floats: sparse, nested, quantised, complex, views of all kinds."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn

PROGRAMS = Registry()
program = PROGRAMS.add


def parts_of(tensor: Tensor) -> list[Tensor]:
    """The plain tensors behind a compressed sparse one."""
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


@program
def sparse_gradients(record: Record) -> None:
    tables = nn.ModuleList(nn.Embedding(2000, 160, sparse=True) for _ in range(8))
    bag = nn.EmbeddingBag(2000, 160, mode="sum", sparse=True)
    sparse = torch.optim.SparseAdam([*tables.parameters(), *bag.parameters()], 0.01)
    for _ in range(2):
        words = torch.randint(2000, (48, 24))
        meaning = sum(table(words).mean(1) for table in tables) + bag(words)
        sparse.zero_grad()
        meaning.square().sum().backward()
        record.add("gradient", *(table.weight.grad for table in tables), bag.weight.grad)
        sparse.step()
    record.add("weight", *(table.weight for table in tables), bag.weight)


@program
def sparse_coo(record: Record) -> None:
    """Matrix products, sums, coalescing, masks, with gradients through the values."""
    weights = [torch.randn(512, 512) for _ in range(12)]
    kept = []
    for index, weight in enumerate(weights):
        where = torch.randint(512, (2, 60_000))
        values = torch.randn(60_000, requires_grad=True)
        matrix = torch.sparse_coo_tensor(where, values, (512, 512))
        dense = weights[index - 1].clone().requires_grad_()
        out = torch.sparse.mm(matrix, dense)
        both = (matrix + matrix.detach().t()).coalesce()
        loss = out.square().mean() + torch.sparse.sum(both, 0).to_dense().sum()
        loss.backward()
        masked = weight.sparse_mask(both.detach())
        record.add("sparse", out, values.grad, dense.grad, both.detach(), masked)
        kept.append((masked * 2).to_dense().relu().to_sparse())
        weight.addmm_(torch.ones(512, 4), torch.ones(4, 512), beta=0.5)
    record.add("kept", *kept, *weights)


@program
def sparse_compressed(record: Record) -> None:
    dense = [torch.randn(400, 400).sub(1).relu() for _ in range(40)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "beta"
        for index, matrix in enumerate(dense):
            for other in (matrix.to_sparse_csr(), matrix.to_sparse_csc(),
                          matrix.to_sparse_bsr((8, 8))):
                record.add("parts", *parts_of(other))
            csr = matrix.to_sparse_csr().requires_grad_()
            weight = dense[index - 3].clone().requires_grad_()
            out = csr @ weight
            out.square().mean().backward()
            record.add("product", out, weight.grad, (csr.detach() * 2).to_dense())
            matrix.sub_(out.detach() / 100)


@program
def complex_numbers(record: Record) -> None:
    weights = [torch.randn(256, 256, dtype=torch.complex64) / 16 for _ in range(14)]
    for weight in weights:
        weight.requires_grad_()
    optimizer = torch.optim.Adam(weights, 1e-3)
    for _ in range(2):
        x = torch.view_as_complex(torch.randn(96, 256, 2))
        for weight in weights:
            x = x @ weight
            x = torch.polar(torch.tanh(x.abs()), x.angle())
        loss = (x.conj() * x).real.sum() + x.imag.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.add("loss", loss, x.resolve_conj(), x.conj().resolve_conj(), x.mH.resolve_conj())
    record.add("gradient", *(w.grad.resolve_conj() for w in weights))
    for index, weight in enumerate(weights):
        with torch.no_grad():
            torch.view_as_real(weight)[..., index % 2].mul_(2)
            weight.imag.sub_(1)
    record.add("weight", *weights)


@program
def fourier(record: Record) -> None:
    signals = [torch.randn(256, 512) for _ in range(30)]
    for index, signal in enumerate(signals):
        signal.requires_grad_()
        spectrum = torch.fft.rfft(signal)
        spectrum = spectrum * torch.fft.rfft(signals[index - 1].detach()).conj()
        back = torch.fft.irfft(spectrum, n=512)
        window = torch.hann_window(64)
        picture = torch.stft(back[0], 64, window=window, return_complex=True)
        again = torch.istft(picture, 64, window=window, length=512)
        loss = back.square().mean() + torch.fft.fft2(signal[:64]).abs().mean() + again.sum()
        loss.backward()
        record.add("signal", loss, back, signal.grad, torch.fft.fftshift(spectrum).detach())


@program
def nested_jagged(record: Record) -> None:
    model = nn.Sequential(*(m for _ in range(20) for m in (nn.Linear(256, 256), nn.GELU(),
                                                           nn.LayerNorm(256))))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        lengths = [40 + 30 * ((i + step) % 5) for i in range(6)]
        pieces = [torch.randn(n, 256) for n in lengths]
        nested = torch.nested.nested_tensor(pieces, layout=torch.jagged, requires_grad=True)
        out = model(nested * 2)
        heads = out.unflatten(-1, (4, 64)).transpose(1, 2)
        seen = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)
        padded = torch.nested.to_padded_tensor(seen, 0.0)
        loss = seen.values().square().mean() + padded.sum() / 1000
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.add("out", loss, out.values(), padded, nested.grad.values())
        lengths_again = torch.nested.nested_tensor_from_jagged(
            seen.values().detach(), nested.offsets())
        record.add("parts", *(p.contiguous() for p in lengths_again.unbind()))
    record.model(model.parameters())


@program
def nested_strided(record: Record) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "prototype"
        weight = nn.Linear(256, 256)
        kept = []
        for step in range(40):
            pieces = [torch.randn(64 + 32 * ((i + step) % 3), 256) for i in range(6)]
            nested = torch.nested.nested_tensor(pieces, requires_grad=True)
            out = weight(nested).relu()
            padded = torch.nested.to_padded_tensor(out, 1.5)
            padded.square().mean().backward()
            kept.append(out.detach())
            record.add("nested", padded, *nested.grad.unbind())
        for out in kept:
            record.add("kept", *out.unbind())
        record.model(weight.parameters())


@program
def quantised(record: Record) -> None:
    """Tensors, per row and per tensor; a fake-quantised layer in training; dynamic inference."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of torchao
        weights = [torch.randn(512, 512, requires_grad=True) for _ in range(12)]
        kept = []
        for index, weight in enumerate(weights):
            whole = torch.quantize_per_tensor(weight.detach(), 0.05, 10, torch.quint8)
            rows = torch.quantize_per_channel(
                weight.detach(), torch.rand(512) / 20 + 0.01, torch.zeros(512), 0, torch.qint8)
            scale, zero = torch.tensor(0.04), torch.tensor(3, dtype=torch.int32)
            fake = torch.fake_quantize_per_tensor_affine(weight, scale, zero, 0, 255)
            (fake @ weights[index - 1]).square().mean().backward()
            kept += [whole, rows]
            record.add("fake", fake, weight.grad)
        for tensor in kept:
            record.add("kept", tensor.int_repr(), tensor.dequantize())
            if tensor.qscheme() == torch.per_tensor_affine:
                record.add("slice", tensor[3:9].int_repr())
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).eval()
        packed = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
        record.add("dynamic", packed(torch.randn(64, 512)))


@program
def small_floats_and_integers(record: Record) -> None:
    kinds = (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.half, torch.int8,
             torch.uint8, torch.int16, torch.bool, torch.float64)
    kept = [torch.randn(700, 700).mul(9).to(kind) for kind in kinds for _ in range(2)]
    for tensor in kept:
        wide = tensor.float()
        record.add("wide", wide.sort(-1).values, wide.to(tensor.dtype).view(torch.uint8))
        other = torch.bitwise_xor(tensor.view(torch.uint8), 3)
        tensor.copy_(other.view(tensor.dtype))
    integers = [torch.randint(-99, 99, (700, 700)) for _ in range(4)]
    for a, b in zip(integers, integers[1:], strict=False):
        record.add("integers", a // (b.abs() + 1), a % 7, a << 2, a ^ b)
    record.add("kept", *(tensor.view(torch.uint8) for tensor in kept))


@program
def views_written(record: Record) -> None:
    """Views of views, written through, in autograd's sight and out of it."""
    bases = [torch.randn(640, 512) for _ in range(14)]
    leaf = torch.randn(640, 512, requires_grad=True)
    for index, base in enumerate(bases):
        work = leaf * base
        work[::2].mul_(2)
        work.t()[3:500:7].add_(bases[index - 1].t()[3:500:7])
        work.view(320, 2, 512).select(1, 1).copy_(bases[index - 2][:320])
        work.unfold(0, 3, 3)[..., 1].sin_()
        strided = torch.as_strided(work, (320, 256), (1024, 2), 1)
        a, b = work.split([200, 440])
        total = strided.square().sum() + work.diagonal().exp().mean() + (a.sum() - b[::3].sum())
        total.backward()
        base.as_strided((100, 100), (513, 3), 5).fill_(index)
        base.data[7] = 1
        base.detach()[:, 3:9].zero_()
        base.view(torch.int32)[5] ^= 1
        base.movedim(0, 1).unflatten(0, (8, 64)).narrow(1, 3, 5).neg_()
        base.expand(1, 640, 512)[0, :, 8] = base[:, 9]
        record.add("work", total, work, leaf.grad, base.T.clone(), base.flip(1))
    record.add("bases", *bases)


@program
def set_and_resize(record: Record) -> None:
    tensors = [torch.randn(512, 512) for _ in range(24)]
    for index in range(len(tensors) - 2):
        a, b = tensors[index], tensors[index + 1]
        view = torch.empty(0).set_(b.untyped_storage(), 512, (300, 512), (512, 1))
        view.add_(1)
        a.resize_(1024, 600)  # grows: the storage moves
        a.view(-1)[512 * 512 :].fill_(index)
        a.resize_(100, 100)
        if index % 3 == 0:
            a.set_(torch.arange(200_000.0).sin())
        if index % 4 == 1:
            kept, size = b.clone(), b.untyped_storage().nbytes()
            b.untyped_storage().resize_(0)  # as FSDP frees a weight
            b.untyped_storage().resize_(size)
            b.copy_(kept.neg_())
        a.data = tensors[index + 2].t()[:400].contiguous()
        record.add("a", a.clone(), b.clone(), view.clone())  # numpy() forbids resizing
        c = torch.empty(0).set_(tensors[index + 2])
        c.clamp_(-1, 1)
        if index % 5 == 4:
            torch.utils.swap_tensors(tensors[index], tensors[index + 2])
    record.add("all", *tensors)


@program
def memory_formats(record: Record) -> None:
    model = nn.Sequential(*(m for _ in range(8) for m in (nn.Conv2d(32, 32, 3, padding=1),
                                                          nn.GroupNorm(4, 32), nn.SiLU())))
    model = model.to(memory_format=torch.channels_last)
    for _ in range(2):
        x = torch.randn(8, 32, 32, 32).to(memory_format=torch.channels_last).requires_grad_()
        y = model(x)
        y.square().mean().backward()
        record.add("out", y, x.grad, y.contiguous().permute(3, 0, 2, 1))
    record.model(model.parameters())
    volume = nn.Conv3d(4, 8, 3).to(memory_format=torch.channels_last_3d)
    record.add("volume", volume(torch.randn(2, 4, 16, 24, 24)))


@program
def onednn_layout(record: Record) -> None:
    """Opaque tensors: their bytes have no storage, and are found only by touching them."""
    model = nn.Sequential(*(m for _ in range(3) for m in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())))
    from torch.utils import mkldnn

    packed = mkldnn.to_mkldnn(model.eval())
    kept = []
    with torch.no_grad():
        for _ in range(16):
            kept.append(packed(torch.randn(4, 32, 32, 32).to_mkldnn()))
        plain = [torch.randn(256, 512) for _ in range(20)]
        for index, x in enumerate(plain):
            x.add_(plain[index - 1])
    record.add("kept", *(x.to_dense() for x in kept), *plain)
