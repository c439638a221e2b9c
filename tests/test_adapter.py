"""The adapter: PyTorch under a tight budget computes the same bits, and everything in it still works.

Each training program runs plain and then under a budget of a fraction of what it needs, in the same
process; losses, gradients and weights must agree to the last bit.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
core = pytest.importorskip("outsize._core")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from support.adapter_rig import MIB, Outcome, assert_same, managed, run, run_script, train  # noqa: E402


def mlp(outcome: Outcome) -> None:
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(768, 768), nn.ReLU())))
    batches = [(torch.randn(512, 768), torch.randn(512, 768)) for _ in range(3)]
    train(model, batches, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
          lambda m, x, y: F.mse_loss(m(x), y), outcome)


def conv(outcome: Outcome) -> None:
    def block(i: int, o: int) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]

    model = nn.Sequential(*block(3, 24), *block(24, 24), nn.MaxPool2d(2), *block(24, 48),
                          nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(768, 10))
    batches = [(torch.randn(16, 3, 48, 48), torch.randint(10, (16,))) for _ in range(3)]
    train(model, batches, torch.optim.SGD(model.parameters(), 0.05),
          lambda m, x, y: F.cross_entropy(m(x), y), outcome)
    model.eval()
    with torch.no_grad():
        outcome.add(model(batches[0][0]))


class LastHidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(128, 384, num_layers=2, batch_first=True)
        self.out = nn.Linear(384, 20)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


def lstm(outcome: Outcome) -> None:
    model = LastHidden()
    batches = [(torch.randn(24, 20 + 5 * i, 128), torch.randint(20, (24,))) for i in range(3)]
    train(model, batches, torch.optim.Adam(model.parameters(), 1e-3),
          lambda m, x, y: F.cross_entropy(m(x), y), outcome)
    model.eval()
    with torch.no_grad():  # inference takes oneDNN's fused path
        outcome.add(model(batches[0][0]))


def transformer(outcome: Outcome, **adam: bool) -> None:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 3),
                          nn.Linear(256, 1000))
    batches = [(torch.randint(1000, (8, 64)), torch.randint(1000, (8, 64))) for _ in range(3)]
    train(model, batches, torch.optim.AdamW(model.parameters(), 1e-3, **adam),
          lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), outcome)


def transformer_foreach(outcome: Outcome) -> None:
    transformer(outcome, foreach=True)


def transformer_fused(outcome: Outcome) -> None:
    transformer(outcome, fused=True, amsgrad=True)


def clipped_sgd_fused(outcome: Outcome) -> None:
    model = nn.Sequential(*(nn.Linear(700, 700) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(256, 700)).square().mean()
        loss.backward()
        outcome.add(loss, nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True))
        optimizer.step()
        core.step()
    outcome.add(*model.parameters())


def double_backward(outcome: Outcome) -> None:
    a = torch.randn(700, 700, requires_grad=True)
    b = torch.randn(700, 700, requires_grad=True)
    for _ in range(2):
        y = (a @ b).tanh() @ a
        (grad,) = torch.autograd.grad(y.square().mean(), a, create_graph=True)
        penalty = (grad.norm() - 1).square() + (grad * b).sum().sigmoid()
        penalty.backward()
        outcome.add(y, grad, penalty, a.grad, b.grad)


def views(outcome: Outcome) -> None:
    base = torch.randn(1200, 800)
    leaf = torch.randn(1200, 800, requires_grad=True)
    for _ in range(3):
        work = leaf * base
        work[::2].mul_(2)
        work.t()[3:700:7].add_(base.t()[3:700:7])
        work.view(600, 2, 800).select(1, 1).copy_(base[:600])
        work[:, 5:9].index_put_((torch.arange(0, 1200, 3),), torch.ones(4))
        strided = torch.as_strided(work, (600, 400), (1600, 2), 1)
        total = strided.square().sum() + work.diagonal().exp().mean() + work.flip(0)[7].sum()
        parts = torch.cat([p.relu() for p in work.chunk(7)] + [work.unsqueeze(0)[0]])
        (total + parts.logsumexp(1).mean()).backward()
        base.sub_(0.1).clamp_(-2, 2)
        base.resize_(1200, 800).unsqueeze_(0).squeeze_(0)
        outcome.add(total, work, leaf.grad, base)


def sparse_embedding(outcome: Outcome) -> None:
    embedding = nn.Embedding(6000, 256, sparse=True)
    head = nn.Linear(256, 8)
    sparse = torch.optim.SparseAdam(embedding.parameters(), 0.01)
    dense = torch.optim.SGD(head.parameters(), 0.1)
    for _ in range(3):
        words, labels = torch.randint(6000, (64, 40)), torch.randint(8, (64,))
        loss = F.cross_entropy(head(embedding(words).mean(1)), labels)
        sparse.zero_grad(), dense.zero_grad()
        loss.backward()
        outcome.add(loss, embedding.weight.grad)
        sparse.step(), dense.step()
    outcome.add(embedding.weight, head.weight)


def odd_types(outcome: Outcome) -> None:
    """Half precision, complex with lazy conjugation, quantized, nested, sparse CSR, mkldnn."""
    x = torch.randn(600, 700)
    with torch.autocast("cpu", torch.bfloat16):
        outcome.add(nn.Linear(700, 700)(x).float())
    z = torch.complex(x, x.flip(0))
    outcome.add((z.conj() @ z.mT.resolve_conj()).abs(), torch.fft.rfft(x).real)
    q = torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)
    outcome.add(q.dequantize(), q.int_repr())
    nested = torch.nested.nested_tensor([x, x[:300]])
    outcome.add(torch.nested.to_padded_tensor(nested * 2, 0.0))
    csr = (x * (x > 1)).to_sparse_csr()
    outcome.add(csr @ x.t(), csr.to_dense(), (x * (x > 2)).to_sparse().coalesce().values())
    outcome.add((x.to_mkldnn()).to_dense(), x.double().half().to(torch.float32))
    outcome.add(*x.sort(1), *x.topk(50, 0), x.unique()[:1000], x.nonzero()[:5000].float())


def checkpointed(outcome: Outcome) -> None:
    from torch.utils.checkpoint import checkpoint

    blocks = nn.ModuleList(nn.Sequential(nn.Linear(600, 600), nn.Dropout(0.2), nn.GELU())
                           for _ in range(6))
    for reentrant in (False, True):
        x = torch.randn(512, 600, requires_grad=True)
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=reentrant)
        y.square().mean().backward()
        outcome.add(y, x.grad, *(p.grad for p in blocks.parameters()))


PROGRAMS = {
    f.__name__: (f, budget)
    for f, budget in [
        (mlp, 24), (conv, 25), (lstm, 56), (transformer, 24), (transformer_foreach, 24),
        (transformer_fused, 40), (clipped_sgd_fused, 24), (double_backward, 24), (views, 32),
        (sparse_embedding, 34), (odd_types, 24), (checkpointed, 16),
    ]
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits_as_plain(name: str) -> None:
    program, budget = PROGRAMS[name]
    plain = run(program)
    with managed(4 << 30):
        ample = run(program)
        stats = core.stats()
    assert stats["evictions"] == 0 and stats["write_bytes"] == 0, "nothing moves when all fits"
    assert_same(plain, ample)
    del ample  # its bytes would count from the start
    with managed(budget * MIB):
        tight = run(program)
        stats = core.stats()
        assert stats["resident_peak"] <= budget * MIB
    assert stats["evictions"] > 0, f"a budget of {budget} MiB was no test: {stats}"
    assert_same(plain, tight)


@pytest.mark.parametrize("name", ["mlp", "lstm", "views"])
def test_same_bits_on_the_signal_path(name: str) -> None:
    script = f"""
import test_adapter as t
program, budget = t.PROGRAMS[{name!r}]
plain = t.run(program)
with t.managed(budget * t.MIB, faults="signal"):
    ours = t.run(program)
    assert t.core.stats()["mechanism"] == "signal" and t.core.stats()["evictions"] > 0
t.assert_same(plain, ours)
"""
    run_script(script)
