"""The Python front door: budgets as blocks and decorators, steps, threads, raw pointers.

What only hooks things up is tested against a core that records what it is told (`FakeCore`); what
must be right in the end (same numbers, budget kept) is tested with the real one.
"""

from __future__ import annotations

import _thread
import concurrent.futures
import faulthandler
import gc
import io
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import outsize
import pytest
import torch
import torch.optim.optimizer as optimizer_module
import torch.utils.dlpack
from outsize import api, compiled, launcher, patching, raw, steps
from outsize.errors import Unavailable
from outsize.units import GIB, MIB, SizeError
from support.launch import run_json


@dataclass
class FakePin:
    pins: list[str]
    bytes: int

    def release(self) -> None:
        self.pins.append(f"unpin {self.bytes}")


class FakeCore:
    """Records what the Python side tells the engine."""

    class OutsizeError(RuntimeError):
        pass

    class BudgetError(OutsizeError):
        pass

    class SpillError(OutsizeError):
        pass

    def __init__(self) -> None:
        self.created: tuple[Any, ...] | None = None
        self.on = False
        self.steps = 0
        self.included: list[tuple[int, bool]] = []
        self.exposed: list[int] = []
        self.pins: list[str] = []
        self.reinstalled = 0
        self.kernel_faults = True
        self.mechanism = "userfaultfd+move"
        self.shutdown_error: str | None = None
        self.warning = ""

    def create(self, *options: Any) -> None:
        self.created, self.on = options, True

    def shutdown(self) -> None:
        if self.shutdown_error:
            raise self.OutsizeError(self.shutdown_error)
        self.on = False

    def running(self) -> bool:
        return self.on

    def include_thread(self, on: bool) -> bool:
        self.included.append((threading.get_ident(), on))
        return False

    def step(self) -> None:
        self.steps += 1

    def stats(self) -> dict[str, Any]:
        return {
            "budget": self.created[0] if self.created else 0,
            "steps": self.steps,
            "mechanism": self.mechanism,
            "warning": self.warning,
            "unknown_to_python": 1,
        }

    def expose(self, tensor: torch.Tensor) -> None:
        self.exposed.append(tensor.numel())

    def pin(self, tensor: torch.Tensor, for_program: bool = False) -> FakePin:
        self.pins.append(f"pin {tensor.numel()}")
        return FakePin(self.pins, tensor.numel())

    def memory_limits(self) -> dict[str, int]:
        return {"total": 16 * GIB, "available": 8 * GIB, "cgroup": 0, "cgroup_used": 0}

    def fault_support(self) -> dict[str, Any]:
        return {"kernel_faults": self.kernel_faults}

    def reinstall_fault_handler(self) -> None:
        self.reinstalled += 1


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch):
    fake = FakeCore()
    monkeypatch.setattr(compiled, "_loaded", fake)
    monkeypatch.delenv("OUTSIZE", raising=False)
    yield fake
    fake.shutdown_error = None
    outsize.disable()


# --- enable, disable, budget ----------------------------------------------------------------------


def test_options_reach_the_engine(core: FakeCore, tmp_path: Path) -> None:
    outsize.enable(
        "2GiB", "ondemand", spill_dir=tmp_path, spill_limit="10GiB", disk_write_limit="50MB/s",
        faults="signal", io_threads=2, verify=True, decision_log="d.log",
    )  # fmt: skip
    expected = (2 * GIB, 0, "ondemand", str(tmp_path), 10 * GIB, 50 * 10**6, "signal", 2, True, "d.log")
    assert core.created == expected


def test_what_the_engine_warns_of_is_logged_once(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    core.warning = "the disk is on NFS"
    with outsize.budget("2GiB"):
        assert [record.getMessage() for record in caplog.records] == ["the disk is on NFS"]
        core.warning = "no space can be reserved"  # found out when it is used
    assert [record.getMessage() for record in caplog.records][1:] == ["no space can be reserved"]


def test_a_share_is_resolved_here(core: FakeCore) -> None:
    with outsize.budget("50%"):
        assert core.created[0] == 8 * GIB


def test_everything_replaced_is_put_back(core: FakeCore) -> None:
    watched = [
        (torch.Tensor, "numpy"), (torch.Tensor, "data_ptr"), (torch.Tensor, "__dlpack__"),
        (torch.UntypedStorage, "data_ptr"), (torch.UntypedStorage, "_write_file"),
        (torch, "save"), (torch.serialization, "save"), (torch._C, "PyTorchFileWriter"),
        (threading.Thread, "_bootstrap_inner"), (_thread, "start_new_thread"),
        (concurrent.futures.thread._WorkItem, "run"), (faulthandler, "enable"),
    ]  # fmt: skip
    core.kernel_faults = False
    before = [vars(owner).get(name) for owner, name in watched]
    hooks = len(optimizer_module._global_optimizer_post_hooks)
    with outsize.budget("64MiB"):
        during = [vars(owner).get(name) for owner, name in watched]
        assert all(a is not b for a, b in zip(before, during, strict=True))
    assert [vars(owner).get(name) for owner, name in watched] == before
    assert len(optimizer_module._global_optimizer_post_hooks) == hooks
    assert core.included[-1] == (threading.get_ident(), False)


def test_a_patch_that_somebody_wrapped_is_left_alone() -> None:
    class Owner:
        value = 1

    patches = patching.Patches()
    patches.replace(Owner, "value", 2)
    Owner.value = 3  # somebody else, later
    patches.undo()
    assert Owner.value == 3


def test_budgets_do_not_nest(core: FakeCore) -> None:
    with outsize.budget("64MiB"):
        with pytest.raises(core.OutsizeError, match="Budgets do not nest"):
            outsize.enable("1GiB")
        assert outsize.enabled()
    assert not outsize.enabled()


def test_budget_decorates(core: FakeCore) -> None:
    @outsize.budget("64MiB", policy="ondemand")
    def work(x: int) -> tuple[int, bool]:
        """Doc."""
        return x + 1, outsize.enabled()

    assert work(1) == (2, True) and work(2) == (3, True)  # more than once
    assert (work.__doc__, outsize.enabled()) == ("Doc.", False)


def test_the_users_exception_wins_over_ours(core: FakeCore) -> None:
    core.shutdown_error = "RAM cannot hold it"
    with pytest.raises(KeyError) as caught, outsize.budget("64MiB"):
        raise KeyError("mine")
    assert "RAM cannot hold it" in caught.value.__notes__[0]
    assert outsize.enabled()  # nothing was changed
    core.shutdown_error = None
    outsize.disable()
    assert not outsize.enabled()


def test_stats_survive_the_block(core: FakeCore) -> None:
    with outsize.budget("64MiB"):
        core.steps = 7
    assert outsize.stats().steps == 7
    assert "smallest budget" in str(outsize.stats())


@pytest.mark.parametrize("value", ["0", "off", "FALSE", "no"])
def test_outsize_0_makes_enable_do_nothing(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OUTSIZE", value)
    with outsize.budget("64MiB"):
        outsize.step()
        assert core.created is None and not outsize.enabled()


def test_mistakes_in_arguments(core: FakeCore) -> None:
    with pytest.raises(SizeError):
        outsize.enable("2")
    with pytest.raises(ValueError, match="'cpu' only"):
        outsize.enable("2GiB", device="cuda")
    assert not outsize.enabled() and core.created is None


def test_a_budget_above_what_is_free_is_warned_about(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "outsize"), outsize.budget("12GiB"):
        pass
    assert "more than the 8.00 GiB that are free" in caplog.text


def test_a_failed_hook_up_leaves_nothing_behind(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> dict[str, Any]:
        raise OSError("no /proc")

    before = threading.Thread._bootstrap_inner
    monkeypatch.setattr(core, "fault_support", broken)
    with pytest.raises(OSError):
        outsize.enable("64MiB")
    assert not core.on and not outsize.enabled()
    assert threading.Thread._bootstrap_inner is before


def test_another_torch_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older(FakeCore):
        def built_for_torch(self) -> str:
            return "2.9.1"

    modules = {"torch": torch, "outsize._core": Older()}
    monkeypatch.setattr(compiled, "_loaded", None)
    monkeypatch.setattr(compiled.importlib, "import_module", modules.__getitem__)
    with pytest.raises(Unavailable, match=r"built for torch 2\.9\.1, but torch .* is installed"):
        compiled.load()


# --- steps ----------------------------------------------------------------------------------------


class Counted:
    def __init__(self) -> None:
        self.steps = 0
        self.tracker = steps.StepTracker(self.count)

    def count(self) -> None:
        self.steps += 1

    def optimized(self, *optimizers: object) -> int:
        for optimizer in optimizers:
            self.tracker._after_optimizer(optimizer, (), {})
        return self.steps


class Optimizer:
    pass


def test_every_optimizer_step_is_a_step() -> None:
    a = Optimizer()
    assert Counted().optimized(a, a, a) == 3


def test_a_gan_does_not_count_double() -> None:
    d, g = Optimizer(), Optimizer()
    assert Counted().optimized(*[d, g] * 20) == 20


def test_several_critic_steps_each_count_and_the_generator_does_not() -> None:
    d, g = Optimizer(), Optimizer()
    assert Counted().optimized(*[d, d, d, g] * 10) == 30


def test_a_second_phase_with_another_optimizer_counts() -> None:
    a, b = Optimizer(), Optimizer()
    counted = Counted()
    counted.optimized(a, a, a)
    missed = steps.MISSED_BY_LEADER - 1
    assert counted.optimized(*[b] * 20) == 3 + 20 - missed


def test_a_leader_that_died_is_replaced_at_once() -> None:
    counted = Counted()
    counted.optimized(Optimizer())
    gc.collect()
    b = Optimizer()
    assert counted.optimized(b, b) == 3


def test_the_users_word_wins_and_the_current_step_is_not_counted_twice() -> None:
    counted, a = Counted(), Optimizer()
    counted.optimized(a)
    counted.tracker.user_step()  # the same step, said again
    assert counted.steps == 1
    counted.optimized(a, a)  # gradient tricks: no longer believed
    counted.tracker.user_step()
    assert counted.steps == 2


def test_without_an_optimizer_the_users_word_is_all() -> None:
    counted = Counted()
    counted.tracker.user_step()
    counted.tracker.user_step()
    assert counted.steps == 2


def test_real_optimizers_are_seen(core: FakeCore) -> None:
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with outsize.budget("64MiB"):
        for _ in range(3):
            weight.sum().backward()
            optimizer.step()
        assert core.steps == 3
    optimizer.step()
    assert core.steps == 3


# --- threads --------------------------------------------------------------------------------------


def test_threads_of_every_kind_are_included(core: FakeCore) -> None:
    class Overriding(threading.Thread):
        def run(self) -> None:
            seen.append(threading.get_ident())

    seen: list[int] = []
    early = concurrent.futures.ThreadPoolExecutor(1)
    early.submit(lambda: None).result()  # its worker exists before the budget
    done = threading.Event()

    def bare() -> None:
        seen.append(threading.get_ident())
        done.set()

    with outsize.budget("64MiB"):
        core.included.clear()
        thread = Overriding()
        thread.start()
        thread.join()
        early.submit(lambda: seen.append(threading.get_ident())).result()
        _thread.start_new_thread(bare, ())
        done.wait(10)
        for _ in range(1000):  # its wrapper undoes the inclusion after `bare` is done
            if (seen[-1], False) in core.included:
                break
            time.sleep(0.01)
        for ident in seen:
            assert (ident, True) in core.included
            assert (ident, False) in core.included
    early.shutdown()
    assert len(seen) == 3


def test_a_thread_that_outlives_the_budget_is_let_be(core: FakeCore) -> None:
    with outsize.budget("64MiB"):
        bootstrap = threading.Thread._bootstrap_inner
    core.included.clear()
    thread = threading.Thread(target=lambda: None)
    bootstrap_was_ours = bootstrap is not threading.Thread._bootstrap_inner
    thread.start()
    thread.join()
    assert bootstrap_was_ours and core.included == []


def test_exceptions_and_results_pass_through_the_wrapper(core: FakeCore) -> None:
    with outsize.budget("64MiB"), concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: 5).result() == 5
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 / 0).result()


def in_child(check: Callable[[], None]) -> int:
    """Exit code of a forked child that runs `check`: 0 if it passes."""
    pid = os.fork()
    if pid == 0:
        try:
            check()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_goes_on_without_us(core: FakeCore) -> None:
    def check() -> None:
        core.included.clear()
        thread = threading.Thread(target=torch.ones, args=(3,))
        thread.start()
        thread.join()
        assert not outsize.enabled() and core.included == []
        outsize.step()
        outsize.disable()
        assert core.on  # ending the parent's budget is not the child's business
        assert "numpy" not in vars(torch.Tensor)

    with outsize.budget("64MiB"):
        assert in_child(check) == 0
        assert outsize.enabled() and "numpy" in vars(torch.Tensor)


# --- raw access -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hand_out",
    [
        lambda t: t.numpy(),
        lambda t: np.asarray(t),
        lambda t: np.asarray(t, dtype=np.float64),
        lambda t: t.data_ptr(),
        lambda t: np.from_dlpack(t),
        lambda t: torch.utils.dlpack.to_dlpack(t),
        lambda t: torch.from_dlpack(t),
        lambda t: memoryview(t.numpy()),
    ],
)
def test_pointers_that_live_on_are_told(core: FakeCore, hand_out) -> None:
    tensor = torch.arange(5.0)
    with outsize.budget("64MiB"):
        hand_out(tensor)
        assert 5 in core.exposed


def test_storage_pointers_are_told(core: FakeCore) -> None:
    tensor = torch.arange(5.0)
    with outsize.budget("64MiB"):
        assert tensor.untyped_storage().data_ptr() == tensor.data_ptr()
        assert core.exposed == [20, 5]
        typed = torch.TypedStorage(
            wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True
        )
        typed._data_ptr()
        assert core.exposed == [20, 5, 20]


def test_values_are_those_of_plain_torch(core: FakeCore) -> None:
    tensor = torch.arange(5.0)
    plain = (tensor.numpy().tolist(), tensor.data_ptr())
    with outsize.budget("64MiB"):
        assert (tensor.numpy().tolist(), tensor.data_ptr()) == plain
        assert tensor.numpy(force=True).tolist() == plain[0]
        with pytest.raises(RuntimeError, match="requires grad"):
            tensor.clone().requires_grad_().numpy()
        assert torch.ones(2, device="meta").data_ptr() == 0
        sparse = torch.eye(3).to_sparse()
        with pytest.raises((RuntimeError, TypeError)):
            sparse.numpy()


def test_saving_compares_pointers_and_exposes_nothing(core: FakeCore, tmp_path: Path) -> None:
    tensor = torch.arange(5.0)
    with outsize.budget("64MiB"):
        torch.save({"a": tensor}, tmp_path / "a.pt")
        torch.save({"a": tensor}, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
        assert core.exposed == [] and core.pins == []


@pytest.mark.parametrize("how", ["path", "file", "buffer", "legacy"])
@pytest.mark.parametrize("why", ["user faults only", "signal path"])
def test_saving_holds_bytes_for_the_kernel(
    core: FakeCore, tmp_path: Path, how: str, why: str
) -> None:
    core.kernel_faults = why == "signal path"
    core.mechanism = "signal" if why == "signal path" else "userfaultfd+move"
    value = {"a": torch.arange(5.0), "b": torch.ones(3)}
    target: Any = tmp_path / "a.pt"
    with outsize.budget("64MiB"):
        if how == "path":
            torch.save(value, target)
        elif how == "legacy":
            torch.save(value, target, _use_new_zipfile_serialization=False)
        elif how == "file":
            with open(target, "wb") as file:
                torch.save(value, file)
        else:
            buffer = io.BytesIO()
            torch.save(value, buffer)
            target.write_bytes(buffer.getvalue())
    assert sorted(core.pins[0::2]) == ["pin 12", "pin 20"]
    assert [f"un{pin}" for pin in core.pins[0::2]] == core.pins[1::2]  # one at a time
    loaded = torch.load(target)
    assert loaded["a"].tolist() == value["a"].tolist() and loaded["b"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("metadata", [None, {"format": "pt", "naïve": "yes"}])
def test_safetensors_are_written_as_safetensors_would(
    core: FakeCore, tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    from safetensors.torch import load_file, save_file

    tensors = {
        "weight": torch.randn(3000, 1000),  # more than one piece
        "b16": torch.ones(3, dtype=torch.bfloat16),
        "half": torch.ones(5, dtype=torch.float16),
        "long": torch.arange(7),
        "flag": torch.tensor([True, False]),
        "byte": torch.ones(3, dtype=torch.uint8),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "wörd": torch.ones(2, dtype=torch.int32),
    }
    one = dict(list((metadata or {}).items())[:1]) or None  # safetensors shuffles several
    save_file(tensors, tmp_path / "theirs", metadata=one)
    core.kernel_faults = False
    with outsize.budget("64MiB"):
        save_file(tensors, tmp_path / "ours", metadata=one)
        save_file(tensors, str(tmp_path / "both"), metadata=metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    loaded = load_file(tmp_path / "both")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_faulthandler_comes_second(core: FakeCore) -> None:
    was_on = faulthandler.is_enabled()
    with outsize.budget("64MiB"), open(os.devnull, "w") as sink:
        before = core.reinstalled
        faulthandler.enable(file=sink)
        assert core.reinstalled == before + 1 and faulthandler.is_enabled()
        if not was_on:
            faulthandler.disable()


def test_a_storage_as_a_tensor_shares_its_bytes() -> None:
    tensor = torch.arange(4.0)
    seen = raw.as_tensor(tensor.untyped_storage())
    assert (seen.data_ptr(), seen.numel(), seen.dtype) == (tensor.data_ptr(), 16, torch.uint8)


# --- tracebacks -----------------------------------------------------------------------------------


def test_our_frames_disappear_from_tracebacks(core: FakeCore) -> None:
    with outsize.budget("64MiB"):
        try:
            torch.ones(2, requires_grad=True).numpy()
        except RuntimeError as error:
            caught = error
    files = []
    cleaned = launcher.without_our_frames(caught.__traceback__)
    while cleaned is not None:
        files.append(cleaned.tb_frame.f_code.co_filename)
        cleaned = cleaned.tb_next
    assert files == [__file__]


# --- with the real engine -------------------------------------------------------------------------


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


@pytest.mark.parametrize("policy", ["lookahead", "ondemand"])
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


def test_an_op_that_cannot_fit_is_a_budget_error() -> None:
    assert issubclass(outsize.BudgetError, torch.OutOfMemoryError)
    with outsize.budget("16MiB"):
        refused = outsize.BudgetError
        with pytest.raises(refused, match=r"the budget is 16\.0 MiB"):
            torch.ones(64 << 20).add(1)
        assert torch.ones(4).sum().item() == 4  # and the program goes on
    assert issubclass(outsize.BudgetError, outsize.OutsizeError)


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
