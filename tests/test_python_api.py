"""The Python front door: budgets as blocks and decorators, steps, threads, tracebacks.

What only hooks things up is tested here, against a core that records what it is told (`FakeCore`).
"""

from __future__ import annotations

import _thread
import concurrent.futures
import faulthandler
import gc
import inspect
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import outsize
import pytest
import torch
import torch.optim.optimizer as optimizer_module
import torch.utils._python_dispatch
import torch.utils.dlpack
from outsize import compiled, launcher, patching, steps, vector_math
from outsize.errors import Unavailable
from outsize.units import GIB, SizeError
from support.fake_core import FakeCore, core

__all__ = ["core"]  # the fixture


# --- enable, disable, budget ----------------------------------------------------------------------


def test_options_reach_the_engine(core: FakeCore, tmp_path: Path) -> None:
    outsize.enable(
        "2GiB", "ondemand", spill_dir=tmp_path, spill_limit="10GiB", disk_write_limit="50MB/s",
        faults="signal", io_threads=2, verify=True, decision_log="d.log", pilot="m.pilot",
        foresee="r.trace",
    )  # fmt: skip
    expected = (2 * GIB, 0, "ondemand", str(tmp_path), 10 * GIB, 50 * 10**6, "signal", 2, True, "d.log", "", "", "m.pilot", "r.trace")
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
        (torch.UntypedStorage, "data_ptr"), (torch, "save"), (torch.serialization, "save"),
        (threading.Thread, "_bootstrap_inner"), (_thread, "start_new_thread"),
        (concurrent.futures.thread._WorkItem, "run"), (faulthandler, "enable"),
    ]  # fmt: skip
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


def test_vector_functions_are_first_called_by_one_thread() -> None:
    called: set[tuple[str, torch.dtype]] = set()

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if args and isinstance(args[0], torch.Tensor):
                assert args[0].device.type == "cpu" and args[0].numel() < 2048  # from where on threads share them
                called.add((op._schema.name.removeprefix("aten::"), args[0].dtype))
            return op(*args, **(kwargs or {}))

    vector_math.settle.cache_clear()
    with Watch(), torch.device("meta"):
        vector_math.settle()
    expected = {"exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "erf", "erfc", "erfinv"}
    missing = {(name, dtype) for name in expected for dtype in (torch.float32, torch.float64)} - called
    assert not missing or not torch.backends.mkl.is_available()


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
    with pytest.raises(SizeError):
        outsize.enable(budget_rss=0)
    assert not outsize.enabled() and core.created is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("budget", [1]), ("budget", True), ("budget_rss", object()), ("spill_limit", b"1g"),
        ("policy", 3), ("spill_dir", 5), ("decision_log", ["a"]), ("faults", True),
        ("io_threads", "four"), ("io_threads", True), ("io_threads", 2.0), ("verify", "yes"), ("verify", 1),
    ],
)  # fmt: skip
def test_what_has_a_wrong_type_is_named(core: FakeCore, option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(f'{option}={value!r}')} is not .*[a-zA-Z]\\.$"):
        outsize.enable(**{option: value})
    assert not outsize.enabled() and core.created is None


def test_doctor_is_told_likewise(core: FakeCore) -> None:
    with pytest.raises(TypeError, match="^spill_dir=5 is not a path to a directory"):
        outsize.doctor(5)


@pytest.mark.parametrize("count", [0, -3, 1 << 40])
def test_there_is_no_such_number_of_threads(core: FakeCore, count: int) -> None:
    with pytest.raises(ValueError, match=f"^io_threads={count} is not from 1 to 1024"):
        outsize.enable("2GiB", io_threads=count)
    assert core.created is None


def test_none_is_the_default_of_every_option(core: FakeCore) -> None:
    outsize.enable()
    default = core.created
    outsize.disable()
    names = [name for name in inspect.signature(outsize.enable).parameters]
    outsize.enable(**dict.fromkeys(names))
    assert default is not None and core.created == default


def test_a_budget_above_what_is_free_is_warned_about(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "outsize"), outsize.budget("12GiB"):
        pass
    assert "more than the 8.00 GiB that are free" in caplog.text


def test_a_failed_hook_up_leaves_nothing_behind(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no /proc")

    before = threading.Thread._bootstrap_inner
    monkeypatch.setattr("outsize.raw.cover_raw_access", broken)
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
