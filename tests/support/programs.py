"""Training programs that know nothing of outsize. Each is run plain and under budgets, and compared.

Sizes are chosen so that the whole is a few dozen MiB, the storages above 1 MiB dominate, and the
largest single op is well below a quarter of the peak.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn

PROGRAMS: Registry[Callable[[Record], None]] = Registry()
program = PROGRAMS.add


def train(
    record: Record,
    model: nn.Module,
    batches: Iterable[tuple[Tensor, ...]],
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[..., Tensor],
    set_to_none: bool = True,
) -> None:
    for batch in batches:
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = loss_of(model, *batch)
        loss.backward()
        record.add("loss", loss)
        optimizer.step()
    record.model(model.parameters(), model.buffers())
    record.optimizer(optimizer)


def squared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(model(x), y)


def classified(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def stack(layers: int, width: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), activation())))


@program
def mlp(record: Record) -> None:
    model = stack(6, 1152)
    batches = [(torch.randn(256, 1152), torch.randn(256, 1152)) for _ in range(3)]
    train(record, model, batches, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), squared)


@program
def conv(record: Record) -> None:
    """Batch norm writes its running statistics unannounced; ReLU overwrites what came before it."""

    def block(i: int, o: int) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]

    deep = [layer for _ in range(16) for layer in block(32, 32)]
    model = nn.Sequential(
        *block(3, 32), *deep, nn.MaxPool2d(2), *block(32, 64), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(inplace=True), nn.Linear(512, 10),
    )  # fmt: skip
    batches = [(torch.randn(8, 3, 40, 40), torch.randint(10, (8,))) for _ in range(3)]
    train(record, model, batches, torch.optim.SGD(model.parameters(), 0.05), classified)
    model.eval()
    with torch.no_grad():
        record.add("evaluated", model(batches[0][0]))


class LastHidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(256, 256, num_layers=6, batch_first=True, dropout=0.1)
        self.out = nn.Linear(256, 20)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0][:, -1])


@program
def lstm(record: Record) -> None:
    model = LastHidden()
    batches = [(torch.randn(8, 20 + 4 * i, 256), torch.randint(20, (8,))) for i in range(3)]
    train(record, model, batches, torch.optim.Adam(model.parameters(), 1e-3), classified)
    model.eval()
    with torch.no_grad():  # inference takes another, fused, kernel
        record.add("evaluated", model(batches[0][0]))


def transformer(record: Record, **adam: bool) -> None:
    layer = nn.TransformerEncoderLayer(320, 4, 1280, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 320), nn.TransformerEncoder(layer, 3),
                          nn.Linear(320, 1000))
    batches = [(torch.randint(1000, (4, 64)), torch.randint(1000, (4, 64))) for _ in range(3)]

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    train(record, model, batches, torch.optim.AdamW(model.parameters(), 1e-3, **adam), loss)


@program
def transformer_forloop(record: Record) -> None:
    transformer(record, foreach=False)


@program
def transformer_foreach(record: Record) -> None:
    transformer(record, foreach=True)


@program
def transformer_fused(record: Record) -> None:
    transformer(record, fused=True)


@program
def many_small(record: Record) -> None:
    """More than a thousand small storages: parameters, gradients, optimizer state, activations."""
    sizes = [16 + 8 * (i % 120) for i in range(350)]
    weights = [torch.randn(n, 8, requires_grad=True) for n in sizes]
    optimizer = torch.optim.Adam(weights, 1e-2, foreach=False)
    kept: list[Tensor] = []
    for step in range(3):
        optimizer.zero_grad()
        x = torch.randn(8)
        hidden = [torch.tanh(w @ x) for w in weights]
        loss = sum(h.square().sum() * 1e-3 for h in hidden)
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())
        kept += [h.detach() for h in hidden[step::70]]  # these outlive their step
    record.add("kept", *kept)
    record.model(weights)


@program
def accumulated_and_clipped(record: Record) -> None:
    model = stack(6, 576, nn.GELU)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        for _ in range(3):
            loss = squared(model, torch.randn(256, 576), torch.randn(256, 576)) / 3
            loss.backward()
            record.add("loss", loss)
        record.add("norm", nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=True))
        optimizer.step()
    record.model(model.parameters())


@program
def checkpointed(record: Record) -> None:
    from torch.utils.checkpoint import checkpoint

    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(512, 512), nn.Dropout(0.2), nn.GELU(), nn.Linear(512, 512))
        for _ in range(6)
    )
    optimizer = torch.optim.SGD(blocks.parameters(), 0.1)
    for reentrant in (False, True, False):
        optimizer.zero_grad()
        x = torch.randn(640, 512, requires_grad=True)
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=reentrant)
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
        record.add("loss", loss, x.grad)
    record.model(blocks.parameters())


@program
def double_backward(record: Record) -> None:
    model = stack(5, 512, nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        x = torch.randn(384, 512, requires_grad=True)
        score = model(x).square().mean()
        (slope,) = torch.autograd.grad(score, x, create_graph=True)
        loss = score + (slope.norm() - 1).square()
        loss.backward()
        optimizer.step()
        record.add("loss", loss, slope, x.grad)
    record.model(model.parameters())


@program
def views(record: Record) -> None:
    """Views, writes through views, overlapping strides, resizing."""
    base = torch.randn(1024, 640)
    leaf = torch.randn(1024, 640, requires_grad=True)
    others = [torch.randn(1024, 640) for _ in range(10)]
    for step in range(3):
        work = leaf * base
        work[::2].mul_(2)
        work.t()[3:600:7].add_(others[step].t()[3:600:7])
        work.view(512, 2, 640).select(1, 1).copy_(others[-step][:512])
        work[:, 5:9].index_put_((torch.arange(0, 1024, 3),), torch.ones(4))
        strided = torch.as_strided(work, (512, 320), (1280, 2), 1)
        total = strided.square().sum() + work.diagonal().exp().mean() + work.flip(0)[7].sum()
        parts = torch.cat([p.relu() for p in work.chunk(7)])
        (total + parts.logsumexp(1).mean()).backward()
        for other in others:
            other[1:].sub_(other[:-1].clone()).clamp_(-2, 2)
        base.t()[::3].sub_(0.1)
        base.unsqueeze_(0).squeeze_(0)
        grown = torch.ones(4)
        grown.resize_(600, 1000)
        grown.copy_(work.view(-1)[:600_000].view(600, 1000))
        record.add("step", total, work, leaf.grad, base, grown)
    record.add("others", *others)


@program
def sparse_embedding(record: Record) -> None:
    tables = nn.ModuleList(nn.Embedding(3000, 192, sparse=True) for _ in range(6))
    head = stack(3, 192)
    sparse = torch.optim.SparseAdam(tables.parameters(), 0.01)
    dense = torch.optim.SGD(head.parameters(), 0.1)
    for _ in range(3):
        words, labels = torch.randint(3000, (64, 40)), torch.randint(192, (64,))
        meaning = sum(table(words).mean(1) for table in tables)
        loss = F.cross_entropy(head(meaning), labels)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        record.add("loss", loss, *(table.weight.grad for table in tables))
        sparse.step()
        dense.step()
    record.model([*tables.parameters(), *head.parameters()])


class Rows(torch.utils.data.Dataset):
    """The rows of one large tensor in memory, as many training scripts hold their data."""

    def __init__(self, rows: int, width: int) -> None:
        self.parts = [torch.randn(rows // 8, width) for _ in range(8)]
        self.labels = torch.randint(10, (rows,))
        self.each = rows // 8

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.parts[index // self.each][index % self.each], self.labels[index]


@program
def loader_workers(record: Record) -> None:
    """Forked workers read a data set that was spilled before they were born."""
    data = Rows(4096, 1536)  # 24 MiB
    model = nn.Sequential(nn.Linear(1536, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(5)
    for _ in range(2):
        loader = torch.utils.data.DataLoader(
            data, batch_size=512, shuffle=True, num_workers=2, generator=generator)
        for x, y in loader:
            optimizer.zero_grad()
            loss = classified(model, x, y)
            loss.backward()
            optimizer.step()
            record.add("loss", loss)
    record.model(model.parameters())
    record.add("data", *data.parts)


@program
def two_threads(record: Record) -> None:
    """Two of the user's threads; an op of either needs 18 MiB."""
    results: list[list[Tensor]] = [[], []]
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            generator = torch.Generator().manual_seed(number)
            size = (1 << 20) + (1 << 19)  # 6 MiB
            a = torch.randn(size, generator=generator, requires_grad=True)
            b = torch.randn(size, generator=generator)
            for step in range(12):
                c = a * b
                (c + b).square().mean().backward()
                b = b.add(step).cos() + c.detach()
            results[number] += [b, c.detach(), a.grad]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    record.add("thread 0", *results[0])
    record.add("thread 1", *results[1])


def example(record: Record, name: str, *options: str) -> None:
    """One of the repository's examples, unchanged, in this process; its prints are swallowed."""
    import contextlib
    import io
    import runpy
    import sys
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "examples"
    sys.path.insert(0, str(folder))
    import common

    def finish(self: common.Reporter, parameters: Iterable[Tensor], digest: bool) -> None:
        record.add("losses", torch.tensor(self.losses, dtype=torch.float64))
        record.model(parameters)

    before, argv = common.Reporter.finish, sys.argv
    try:
        common.Reporter.finish = finish
        sys.argv = [f"{name}.py", "--tiny", *options]
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    finally:
        common.Reporter.finish, sys.argv = before, argv
        sys.path.remove(str(folder))


@program
def tree_lstm(record: Record) -> None:
    example(record, "tree_lstm", "--hidden", "128", "--batch", "2", "--max-nodes", "70")


@program
def mixture_of_experts(record: Record) -> None:
    example(record, "moe", "--layers", "3", "--experts", "8", "--width", "256", "--batch", "4")
