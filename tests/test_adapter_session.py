"""The adapter: refusals, threads, forks, adoption and the end of a session, in real PyTorch programs."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")
core = pytest.importorskip("outsize._core")

from torch import nn  # noqa: E402
from support.adapter_rig import MIB, Outcome, assert_same, managed, run, run_script  # noqa: E402


def test_multi_tensor_optimizer_is_cut() -> None:
    """All parameters, gradients and states together are many times the budget."""
    parameters = [torch.randn(1024, 1024, requires_grad=True) for _ in range(10)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    with managed(48 * MIB):
        torch.optim.AdamW(parameters, fused=True).step()
        assert 48 * MIB >= core.stats()["min_budget"] > 8 * MIB


def test_ops_that_differ_in_sizes_alone_are_of_one_kind(tmp_path) -> None:
    """The lowest bits of a site (core/base/types.h) leave sizes and dtypes out, and nothing else."""
    log = tmp_path / "run.log"
    made = {name: [torch.ones(n, n, dtype=dtype) for n, dtype in ((300, torch.float32), (400, torch.float64))]
            for name in "ab"}
    with managed(64 * MIB, decision_log=str(log)):
        for a, b in zip(made["a"], made["b"], strict=True):
            torch.mul(a, b, out=a)
        for a, b in zip(made["a"], made["b"], strict=True):
            torch.add(a, b, out=a)
        torch.addcmul(made["a"][0], made["a"][0], made["b"][0], out=made["a"][0])
    sites = [int(part[1:]) for line in log.read_text().splitlines() if line.startswith("> op ")
             for part in line.split() if part[0] == "s"]
    assert len(set(sites)) == len(sites) == 5
    kinds = [site % 2**20 for site in sites]
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3] != kinds[4] != kinds[0]


def test_user_threads_whose_ops_do_not_fit_together() -> None:
    """Each op needs well over half of the budget: one thread at a time, and no deadlock."""

    def work(seed: int, results: list) -> None:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(1000, 1000, generator=generator, requires_grad=True)
        w = torch.randn(1000, 1000, generator=generator)
        for _ in range(5):
            y = (x @ w).tanh()
            y.square().sum().backward()
        results[seed] = (y.detach().clone(), x.grad.clone())

    def both(covered: bool) -> list:
        results: list = [None, None]

        def target(seed: int) -> None:
            if covered:
                core.include_thread(True)
            work(seed, results)

        threads = [threading.Thread(target=target, args=(seed,)) for seed in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return results

    plain = both(covered=False)
    with managed(20 * MIB):
        ours = both(covered=True)
        stats = core.stats()
        assert stats["evictions"] > 0 and stats["resident_peak"] <= 20 * MIB
        assert stats["min_budget"] > 11 * MIB, "one op alone needs more than half"
        for a, b in zip(plain, ours, strict=True):
            assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


def test_threads_that_did_not_opt_in_still_compute() -> None:
    with managed(16 * MIB):
        x = torch.randn(1000, 1000)
        kept = [x + i for i in range(8)]  # most are spilled now
        sums: list[float] = []
        thread = threading.Thread(target=lambda: sums.extend(k.sum().item() for k in kept))
        thread.start()
        thread.join()
        assert sums == [k.sum().item() for k in kept]


def test_an_op_that_cannot_fit_is_refused_and_training_goes_on() -> None:
    with managed(16 * MIB):
        x = torch.randn(1000, 1000)
        with pytest.raises(torch.OutOfMemoryError, match="budget") as refused:
            torch.cat([x] * 6)
        assert "aten::cat" in str(refused.value)
        assert torch.equal(x + 0, x)


def test_exceptions_inside_ops_leave_nothing_pinned() -> None:
    with managed(24 * MIB):
        x = torch.randn(1000, 1000)
        y = torch.randn(999, 1000)
        for _ in range(50):
            with pytest.raises(RuntimeError):
                x @ y.t() @ y.t()
        kept = [x * i for i in range(20)]  # 80 MB: would not fit if those pins had stayed
        assert core.stats()["evictions"] > 0
        assert torch.equal(kept[3], x * 3)


def test_custom_op_in_python_and_autograd_function() -> None:
    library = torch.library.Library("outsize_test", "DEF")
    library.define("twice(Tensor x, Tensor(a!) log) -> Tensor")

    def twice(x, log):
        log.add_(x.sum())
        return x * 2

    library.impl("twice", twice, "CPU")

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * x

    def program(outcome: Outcome) -> None:
        x = torch.randn(700, 700, requires_grad=True)
        log = torch.zeros(())
        for _ in range(4):
            y = torch.ops.outsize_test.twice(Cube.apply(x).detach(), log)
            Cube.apply(x * y).sum().backward()
            outcome.add(y, log, x.grad)

    plain = run(program)
    with managed(20 * MIB):
        assert_same(plain, run(program))


def test_functional_transforms_fake_tensors_and_profiler() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.randn(300, 400)

    def f(w):
        return (x @ w).tanh().square().sum()

    w = torch.randn(400, 50)
    plain = [torch.func.grad(f)(w), torch.vmap(lambda r: (r * 2).sum())(x),
             torch.func.jvp(f, (w,), (w,))[1], torch.func.hessian(lambda v: (v**3).sum())(x[0, :9])]
    with managed(64 * MIB):
        ours = [torch.func.grad(f)(w), torch.vmap(lambda r: (r * 2).sum())(x),
                torch.func.jvp(f, (w,), (w,))[1],
                torch.func.hessian(lambda v: (v**3).sum())(x[0, :9])]
        for a, b in zip(plain, ours, strict=True):
            assert torch.equal(a, b)
        with FakeTensorMode():
            fake = torch.empty(1 << 20, 1 << 10) @ torch.empty(1 << 10, 7)
            assert fake.shape == (1 << 20, 7)
        meta = torch.empty(1 << 20, 1 << 14, device="meta")
        assert (meta + meta).sum(0).shape == (1 << 14,)
        with torch.profiler.profile(profile_memory=True) as profile:
            (x @ w).sum().item()
        assert any("aten::mm" in e.key for e in profile.key_averages())
        functional = torch.func.functionalize(lambda t: t.clone().add_(1).view(-1))
        assert torch.equal(functional(x), (x + 1).view(-1))


def test_compiled_and_higher_order_ops() -> None:
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    x = torch.randn(100)
    plain = f(x), f(-x)
    with managed(64 * MIB):
        assert torch.equal(plain[0], f(x)) and torch.equal(plain[1], f(-x))
        compiled = torch.compile(lambda x: (x.sin() + 1).relu(), backend="aot_eager")
        assert torch.equal(compiled(x), (x.sin() + 1).relu())


def test_storages_born_before_are_adopted() -> None:
    before = torch.randn(1 << 20)  # 4 MiB
    bits = before.clone()
    array = torch.randn(1 << 20).numpy()
    foreign = torch.from_numpy(array)
    address = before.data_ptr()
    with managed(16 * MIB):
        held = core.stats()["tensor_bytes"]
        before.add_(0)
        assert core.stats()["tensor_bytes"] - held >= 4 * MIB - 8192
        assert core.adopt(before) and not core.adopt(foreign)
        foreign.mul_(2)
        kept = [before + i for i in range(10)]
        assert core.stats()["evictions"] > 0
        assert torch.equal(before, bits) and before.data_ptr() == address
        assert torch.equal(kept[9], bits + 9)
        del kept
        before.resize_(2 << 20)
        assert before.data_ptr() != address, "a later resize comes to the arena"
    assert torch.equal(before[: 1 << 20], bits)
    with managed(24 * MIB):  # and again, now from what the first session left behind
        kept = [before + i for i in range(4)]
        assert torch.equal(kept[0], before)
    assert torch.equal(before[: 1 << 20], bits)


def test_private_file_mappings_are_adopted(tmp_path) -> None:
    path = tmp_path / "weights.bin"
    values = torch.randn(3 << 20)
    values.numpy().tofile(path)
    mapped = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=12 * MIB)
    part = torch.tensor([], dtype=torch.float32).set_(mapped[4 * MIB : 12 * MIB])
    shared = torch.from_file(str(path), shared=True, size=3 << 20)
    with managed(24 * MIB):
        assert core.adopt(part), "a slice keeps the mapping alive: the mapping is adopted"
        assert not core.adopt(shared)
        kept = [part * 2 for _ in range(6)]
        part.add_(1)
        assert torch.equal(part, values[1 << 20 :] + 1)
        assert torch.equal(kept[0], values[1 << 20 :] * 2)
    assert torch.equal(part, values[1 << 20 :] + 1)
    del part, mapped
    assert torch.equal(shared, values), "the file itself was never written"


def test_tensors_outlive_the_session() -> None:
    with managed(16 * MIB):
        kept = [torch.full((1 << 20,), float(i)) for i in range(12)]
        packed = torch.randn(300, 300).to_mkldnn()  # freed through the allocator that is current then
        assert core.stats()["evictions"] > 0
    assert not core.running() and core.stats()["ops"] == 0
    assert [k[5].item() for k in kept] == list(range(12))
    del packed
    kept = [k + 1 for k in kept]
    assert kept[3].sum().item() == 4 * (1 << 20)


def test_wrong_uses_are_refused_in_words() -> None:
    with pytest.raises(core.OutsizeError, match="fault mechanism"):
        core.create(64 * MIB, faults="magic")
    with pytest.raises(core.OutsizeError, match="policy"):
        core.create(64 * MIB, policy="magic")
    with pytest.raises(core.OutsizeError):
        core.create(1)
    assert not core.running()
    assert issubclass(core.BudgetError, core.OutsizeError)
    assert issubclass(core.BudgetError, torch.OutOfMemoryError)
    with managed(64 * MIB):
        with pytest.raises(core.OutsizeError, match="already on"):
            core.create(64 * MIB)
        assert core.running()
    assert not core.include_thread(False), "managed() had put back what it found"


def test_data_loader_workers_read_a_spilled_data_set() -> None:
    from torch.utils.data import DataLoader, TensorDataset

    data = torch.arange(6 << 20, dtype=torch.float32).reshape(1536, 4096)
    with managed(56 * MIB):
        ours = data + 0
        pressure = [torch.ones(1 << 20) * i for i in range(12)]
        assert core.stats()["spilled"] > 0
        loader = DataLoader(TensorDataset(ours), batch_size=96, num_workers=2)
        seen = torch.cat([batch.sum(1) for (batch,) in loader])
        assert torch.equal(seen, data.sum(1))
        assert pressure[5][7] == 5


def test_a_forked_child_computes_without_us() -> None:
    run_script("""
import os, torch
from support.adapter_rig import core, managed, MIB
with managed(16 * MIB):
    kept = [torch.full((1 << 20,), float(i)) for i in range(10)]
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # libgomp's threads are not here, as in any fork
        assert not core.running() and not core.include_thread(False)
        sums = [k.sum().item() for k in kept]
        del kept
        mine = torch.ones(5 << 20) + 1  # 40 MiB: no budget here
        ok = sums == [i * float(1 << 20) for i in range(10)] and mine.sum().item() == 2 * (5 << 20)
        core.shutdown()
        os._exit(0 if ok else 3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    assert core.running() and kept[7][3].item() == 7
""")


def test_a_program_may_end_without_shutting_down() -> None:
    run_script("""
import torch
from support.adapter_rig import core, MIB
core.create(16 * MIB)
core.include_thread(True)
kept = [torch.full((1 << 20,), float(i), requires_grad=True) for i in range(10)]
graph = sum((k * k).sum() for k in kept)
""")


def test_a_taken_dispatch_key_is_refused_in_one_sentence() -> None:
    run_script("""
import torch
from support.adapter_rig import core, MIB
other = torch.library.Library("_", "IMPL", "DeferredInit")
other.fallback(torch.library.fallthrough_kernel)
try:
    core.create(64 * MIB)
except core.OutsizeError as error:
    assert "DeferredInit" in str(error) and "another library" in str(error)
else:
    raise AssertionError("accepted")
assert not core.running()
""")


def test_shutting_down_from_inside_an_op_is_refused() -> None:
    """Hooks on saved tensors are called by autograd's kernels, in the middle of an op."""
    refused: list[str] = []

    def pack(tensor):
        try:
            core.shutdown()
        except core.OutsizeError as error:
            refused.append(str(error))
        return tensor

    x = torch.randn(10, requires_grad=True)
    with managed(64 * MIB):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            y = (x * x).sum()
        assert refused and "inside an op" in refused[0] and core.running()
        y.backward()
        assert torch.equal(x.grad, 2 * x)


def test_inference_mode() -> None:
    model = nn.Sequential(nn.Linear(900, 900), nn.ReLU(), nn.Linear(900, 900))
    x = torch.randn(700, 900)
    with torch.inference_mode():
        plain = model(x)
        with managed(16 * MIB):
            assert torch.equal(plain, model(x))
            assert core.stats()["ops"] > 0
