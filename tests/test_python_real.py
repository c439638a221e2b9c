"""The Python front door with the real engine: the same numbers, and the budget kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import outsize
import pytest
import torch
import torch.utils.dlpack
from outsize import api, vector_math
from outsize.units import MIB
from support.launch import run_json


def train(steps: int = 4) -> tuple[list[float], torch.Tensor]:
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(256, 1024)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model[0].weight.detach().clone()


@pytest.mark.parametrize("policy", ["lookahead", "ondemand", "deepum:degree=16"])
def test_training_in_a_block_gives_the_same_bits(policy: str) -> None:
    expected_losses, expected_weight = train()
    with outsize.budget("40MiB", policy=policy):  # needs about 90 MiB
        losses, weight = train()
        inside = outsize.stats()
        assert weight.numpy().shape == (1024, 1024)
    assert losses == expected_losses
    assert torch.equal(weight, expected_weight)
    assert inside.steps == 4 and inside.write_bytes > 0
    assert 0 < inside.resident_peak <= inside.budget == 40 * MIB
    assert not outsize.enabled()


def test_threads_train_under_one_budget() -> None:
    expected, _ = train()

    def work() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(1024, 1024)
        kept = [model(torch.randn(256, 1024)).detach() for _ in range(20)]
        return [float(k.double().sum()) for k in kept]

    torch.manual_seed(0)
    alone = work()
    with outsize.budget("24MiB"):
        results_: list[list[float]] = []
        thread = threading.Thread(target=lambda: results_.append(work()))
        thread.start()
        thread.join()
        stats = outsize.stats()
    assert results_ == [alone] and expected
    assert stats.tensor_bytes_peak > 20 * MIB  # the thread's tensors were seen


def test_a_thread_that_waits_lets_go_of_the_gil() -> None:
    found = run_json("gil_wait.py", timeout=60)
    assert found["traces"] == [5] and found["waited"]
    assert found["peak"] <= 96 * MIB


def test_vector_functions_are_first_called_by_one_thread() -> None:
    found = run_json("first_calls.py", timeout=60)
    for name in vector_math.FUNCTIONS:
        assert found["called"].get(f"aten::{name}") == [[[4], "float"], [[4], "double"]], name  # threads do not share so few
    assert not {f"aten.{name}.default" for name in vector_math.FUNCTIONS} & set(found["seen_by_modes"])


def test_an_op_that_cannot_fit_is_a_budget_error() -> None:
    assert issubclass(outsize.BudgetError, torch.OutOfMemoryError)
    with outsize.budget("16MiB"):
        refused = outsize.BudgetError
        with pytest.raises(refused, match=r"the budget is 16\.0 MiB"):
            torch.ones(64 << 20).add(1)
        assert torch.ones(4).sum().item() == 4  # and the program goes on
    assert issubclass(outsize.BudgetError, outsize.OutsizeError)


def test_what_is_refused_outside_the_ops_that_are_watched_is_named_too() -> None:
    with outsize.budget("16MiB", spill_dir="/var/tmp", spill_limit="8MiB"):
        with pytest.raises(outsize.BudgetError, match=r"^aten::full needs 128\.0 MiB"):
            torch.full((32 << 20,), 1.0)
        with pytest.raises(outsize.BudgetError, match=r"^aten::new_zeros needs 128\.0 MiB"):  # not aten::empty
            torch.ones(1).new_zeros(32 << 20)
        kept = []
        for size in ((1 << 20,), (1000,), ()):  # and no small one has room left in an extent that is there
            with pytest.raises(outsize.SpillError, match="^aten::full: another"):
                for _ in range(1 << 16):
                    kept.append(torch.full(size, 1.0))
        with pytest.raises(outsize.SpillError, match="^a number that becomes a tensor: another"):
            kept[0].add_(1)
        with pytest.raises(outsize.SpillError, match=r"^aten::add\.Tensor \[1048576\], \[1048576\]: another"):
            kept[0] + kept[0]


def test_api_session_is_gone_after_disable() -> None:
    outsize.enable("64MiB")
    assert api.session() is not None
    outsize.disable()
    outsize.disable()
    assert api.session() is None


def test_doctor_as_a_function() -> None:
    found = outsize.doctor(spill_dir="/var/tmp", sample="4MiB")
    assert found["torch"]["supported"] and found["disk"]["read"] > 0
    assert callable(outsize.doctor) and callable(outsize.stats)  # not shadowed by modules


CHECKPOINTS = """
import sys, torch, outsize
from safetensors.torch import load_file, save_file

def make(index):
    return torch.full((1 << 20,), float(index))  # 4 MiB

with outsize.budget("24MiB", faults=sys.argv[1]):
    tensors = {str(index): make(index) for index in range(16)}
    torch.save(tensors, "a.pt")
    with open("b.pt", "wb") as file:
        torch.save(tensors, file)
    torch.save(tensors, "c.pt", _use_new_zipfile_serialization=False)
    save_file(tensors, "d.safetensors")
    inside = outsize.stats()
assert inside.write_bytes > 0 and inside.resident_peak <= 24 << 20, inside
del tensors
for read in (*(torch.load(f"{name}.pt") for name in "abc"), load_file("d.safetensors")):
    assert all(torch.equal(read[str(index)], make(index)) for index in range(16))
print(inside.mechanism)
"""


@pytest.mark.parametrize("faults", ["auto", "signal"])
def test_checkpoints_of_spilled_tensors_are_right(tmp_path: Path, faults: str) -> None:
    done = subprocess.run(  # the mechanism is chosen once in a process
        [sys.executable, "-c", CHECKPOINTS, faults], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert faults == "auto" or done.stdout == "signal\n"


def test_numpy_views_of_spilled_tensors_read_and_write() -> None:
    with outsize.budget("24MiB"):
        tensors = [torch.full((1 << 20,), float(index)) for index in range(16)]
        views = [tensor.numpy() for tensor in tensors]
        for view in views:
            view[7] = -1.0  # no dispatcher sees this
        for _ in range(2):  # every tensor leaves and comes back
            assert [float(t.double().sum()) for t in tensors] == [
                ((1 << 20) - 1) * index - 1.0 for index in range(16)
            ]
        assert [view[7] for view in views] == [-1.0] * 16
        assert [view[8] for view in views] == [float(index) for index in range(16)]


COMPILED = """
import sys, torch, outsize

def curve(x):
    return x.sin() * x.cos() + x.exp()

x = torch.linspace(-2, 2, 1 << 20)  # 4 MiB
expected = torch.compile(curve, dynamic=False)(x)
torch._dynamo.reset()
torch._inductor.codecache.PyCodeCache.cache_clear()

torch.manual_seed(0)
with outsize.budget("24MiB", faults=sys.argv[1]):
    curve = torch.compile(curve, dynamic=False)  # once more, now known to outsize
    inputs = [x.clone() for _ in range(12)]
    for _ in range(2):
        outputs = [curve(one) for one in inputs]
    assert all(torch.equal(output, expected) for output in outputs)
    roomy = outsize.stats()
print(roomy.mechanism, roomy.min_budget_op)
del inputs, outputs
with outsize.budget("5MiB", faults=sys.argv[1]):  # less than the kernel's operands
    try:
        curve(x)
    except outsize.BudgetError as error:
        print(error)
"""


@pytest.mark.parametrize("faults", ["auto", "signal"])
def test_kernels_of_the_compiler_are_ops(tmp_path: Path, faults: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, faults], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "inductor::kernel [1048576], [1048576]\n" in done.stdout
    assert "inductor::kernel [1048576], [1048576] needs 8.0 MiB of tensors" in done.stdout
