"""Fails one I/O after the other of small training programs, all in this process; reports as JSON.

    python fault_worker.py OUTPUT.json retried|trained|gpt [--faults …] [--jail] [--kinds EIO …]

Plain PyTorch says what is right: `retried` compares with it before every action and tries a failed
action again until the end is plain's; `trained` and `gpt` run real backward passes and optimizers,
and ask that what a failure left is a state that plain PyTorch passes through. A state is every
byte and version counter of weights, gradients and optimizer state.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import random
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import jail
import torch
import torch.nn.functional as F
from record import digest
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

MIB = 1 << 20
WIDTH, BATCH, LAYERS, STEPS = 512, 192, 3, 2
TRIES_MAX = 50
AT_THE_END = 12  # transfers when the budget ends, which its counters do not tell

State = dict[str, str]
CAUSE = {
    "EIO": r"failed: Input/output error \(errno 5\)",
    "ENOSPC": r"failed: No space left on device \(errno 28\)",
    "SHORT": r"stopped after 0 bytes",
}
FLIP = (
    r"^\S.*: spilled bytes came back different from what was written \(checksum \d+ instead of \d+,"
    r" \d+ bytes at offset \d+\).* \[spill file in /.*\].*--spill-dir"
)


def problem_with(error: BaseException, kind: str) -> str:
    """What an exception fails to say: the operation, the place, the cause and what to try."""
    told = FLIP if kind == "FLIP" else (
        rf"^\S.*: (pread|pwrite) of \d+ bytes at offset \d+ .*{CAUSE[kind]}\."
        r" \[spill file in /.*\].*--spill-dir"
    )
    from outsize import SpillError

    if isinstance(error, SpillError) and re.search(told, str(error), re.S):
        return ""
    return f"not what {kind} should be told as: {type(error).__name__}: {error}"


class Report:
    """What happened in one run with faults."""

    def __init__(self, kind: str, injected: str) -> None:
        self.kind = kind
        self.injected = injected
        self.told: list[str] = []  # where the program was told, in order
        self.wrong: list[str] = []
        self.completed = False
        self.transfers = 0  # that succeeded, until the budget ended
        self.in_program = 0  # of these, before the state was looked at in the end
        self.reads = 0  # of these

    def fail(self, what: str) -> None:
        self.wrong.append(f"OUTSIZE_IO_FAULT={self.injected}: {what}")

    def note(self, where: str, error: BaseException) -> None:
        self.told.append(where)
        if problem := problem_with(error, self.kind):
            self.fail(f"at {where}: {problem}")
        # Frames keep operands alive, which would be another program than the plain one.
        traceback.clear_frames(error.__traceback__)

    def insist(self, where: str, action: Callable[[], Any]) -> Any:
        """Until it is done: a failed op may be tried again."""
        for _ in range(TRIES_MAX):
            try:
                return action()
            except RuntimeError as error:
                self.note(where, error)
        raise RuntimeError(f"{where} failed {TRIES_MAX} times in a row ({self.injected})")

    def program_ends(self) -> None:
        import outsize

        stats = outsize.stats()
        self.in_program = stats.reads + stats.writes
        self.reads = stats.reads

    def as_dict(self) -> dict[str, Any]:
        return {
            "injected": self.injected, "kind": self.kind, "told": self.told, "wrong": self.wrong,
            "completed": self.completed, "transfers": self.transfers,
            "in_program": self.in_program, "reads": self.reads,
        }  # fmt: skip


@contextlib.contextmanager
def faulty(options: argparse.Namespace, budget: int, report: Report) -> Iterator[None]:
    """A budget in force whose transfers fail as `report` says."""
    import outsize

    os.environ["OUTSIZE_IO_FAULT"] = report.injected
    outsize.enable(budget, options.policy, faults=options.faults, spill_dir=options.spill_dir,
                   verify=options.verify)
    try:
        yield
    finally:
        gc.collect()
        report.insist("disable", outsize.disable)
        stats = outsize.stats()
        report.transfers = stats.reads + stats.writes
        del os.environ["OUTSIZE_IO_FAULT"]
    if not stats.mechanism.startswith(options.mechanism):
        report.fail(f"ran on {stats.mechanism}, not on {options.mechanism}")


# --- states -----------------------------------------------------------------------------------


def entry(tensor: Tensor | None) -> str:
    return "none" if tensor is None else f"{tensor._version} {digest(tensor)}"


class Trained:
    """A model and its optimizer, once they exist: what a step changes."""

    def __init__(self) -> None:
        self.model: nn.Module | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        self.losses: list[str] = []

    def tensors(self) -> Iterator[tuple[str, Tensor | None]]:
        if self.model is None:
            return
        for name, parameter in self.model.named_parameters():
            yield name, parameter
            yield f"{name}.grad", parameter.grad
            state = self.optimizer.state.get(parameter, {}) if self.optimizer else {}
            for key, value in state.items():
                if isinstance(value, Tensor):
                    yield f"{name}.{key}", value


class Passed(TorchDispatchMode):
    """Every state in which plain PyTorch starts an op, in order.

    Hashes again only what has changed: another object, another version or other memory.
    """

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.trained = trained
        self.states: list[State] = []
        self.known: dict[str, tuple[tuple[int, int, int], str]] = {}

    def look(self) -> None:
        state: State = {}
        for name, tensor in self.trained.tensors():
            if tensor is None:  # what comes next may look like what was there before
                self.known.pop(name, None)
                state[name] = "none"
                continue
            key = (id(tensor), tensor._version, tensor.data_ptr())
            if self.known.get(name, ((), ""))[0] != key:
                self.known[name] = (key, entry(tensor))
            state[name] = self.known[name][1]
        if not self.states or self.states[-1] != state:
            self.states.append(state)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        self.look()
        return function(*args, **(kwargs or {}))


def nearest(state: State, states: list[State]) -> str:
    """For the person who reads that a state is none of plain's."""
    each = [[k for k in s | state if state.get(k) != s.get(k)] for s in states]
    best = min(range(len(states)), key=lambda index: len(each[index]))
    differing = each[best]
    return f"closest to state {best} of {len(states)}, but for {differing[:6]}"


# --- one action at a time, each tried again -----------------------------------------------------


class Actions:
    """Two steps of a three-layer MLP with AdamW, as actions that happen entirely or not at all."""

    def __init__(self) -> None:
        self.place: dict[str, Tensor] = {}  # weights, gradients, moments
        self.passing: dict[str, Tensor] = {}  # activations and other temporaries

    def list(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "seed", lambda: void(torch.manual_seed(3))
        for i in range(LAYERS):
            yield f"make weight {i}", lambda i=i: self.keep(
                f"weight {i}", torch.randn(WIDTH, WIDTH).mul_(0.05).requires_grad_())
            yield f"make bias {i}", lambda i=i: self.keep(
                f"bias {i}", torch.zeros(WIDTH).requires_grad_())
        names = list(self.place)
        for name in names:
            for moment in ("mean", "square"):
                yield f"make {moment} of {name}", lambda n=name, m=moment: self.keep(
                    f"{m} of {n}", torch.zeros_like(self.place[n].detach()))
        for step in range(STEPS):
            yield from self.forward_and_backward(step)
            for name in names:
                yield from self.update(name)

    def keep(self, name: str, tensor: Tensor) -> None:
        self.place[name] = tensor

    def forward_and_backward(self, step: int) -> Any:
        place, passing = self.place, self.passing

        def forward(i: int) -> None:
            x = passing[f"h {i}"].detach().requires_grad_()
            passing[f"x {i}"] = x
            h = F.linear(x, place[f"weight {i}"], place[f"bias {i}"])
            passing[f"h {i + 1}"] = torch.tanh(h)

        def backward(i: int) -> None:
            """One layer: a pass that failed is done again from its start."""
            wanted = [passing[f"x {i}"], place[f"weight {i}"], place[f"bias {i}"]]
            top = i == LAYERS - 1
            outcome = torch.autograd.grad(
                passing["loss" if top else f"h {i + 1}"], wanted,
                None if top else passing[f"slope {i + 1}"], retain_graph=True)
            passing[f"slope {i}"], weight, bias = outcome
            place.update({f"gradient of weight {i}": weight, f"gradient of bias {i}": bias})

        def data(name: str, seed: int) -> None:
            generator = torch.Generator().manual_seed(seed)
            passing[name] = torch.randn(BATCH, WIDTH, generator=generator)

        yield f"inputs of step {step}", lambda: data("h 0", 2 * step)
        yield f"targets of step {step}", lambda: data("y", 2 * step + 1)
        for i in range(LAYERS):
            yield f"layer {i} of step {step}", lambda i=i: forward(i)
        yield f"loss of step {step}", lambda: void(passing.update(
            loss=F.mse_loss(passing[f"h {LAYERS}"], passing["y"])))
        for i in reversed(range(LAYERS)):
            yield f"backward of layer {i} of step {step}", lambda i=i: backward(i)
        yield f"graph of step {step} goes", passing.clear

    def update(self, name: str) -> Any:
        """As AdamW does it: in-place ops that must leave the old bytes when they fail."""
        place, passing = self.place, self.passing

        def scale() -> None:
            passing["denominator"] = place[f"square of {name}"].sqrt().add_(1e-8)

        @torch.no_grad()
        def apply() -> None:
            place[name].addcdiv_(place[f"mean of {name}"], passing["denominator"], value=-1e-3)

        def of(what: str) -> Tensor:
            return place[f"{what} of {name}"]

        yield f"{name}: mean decays", lambda: void(of("mean").mul_(0.9))
        yield f"{name}: mean grows", lambda: void(of("mean").add_(of("gradient"), alpha=0.1))
        yield f"{name}: square decays", lambda: void(of("square").mul_(0.999))
        yield f"{name}: square grows", lambda: void(
            of("square").addcmul_(of("gradient"), of("gradient"), value=0.001))
        yield f"{name}: denominator", scale
        yield f"{name}: moves", apply
        yield f"{name}: temporary goes", passing.clear


def void(_: Any) -> None:
    """Makes an expression an action."""


def plain_actions() -> list[State]:
    """The state before each action, and at last after all of them."""
    program = Actions()
    states: list[State] = []
    for _, action in program.list():
        states.append({name: entry(tensor) for name, tensor in program.place.items()})
        action()
    states.append({name: entry(tensor) for name, tensor in program.place.items()})
    return states


def retried(right: list[State], report: Report) -> None:
    """Every failure leaves the state before the action; trying again leads to plain's end."""
    program = Actions()

    def compare(index: int, when: str) -> None:
        state = {name: report.insist(f"reading {name}", lambda t=tensor: entry(t))
                 for name, tensor in program.place.items()}
        if state != right[index]:
            different = [n for n in right[index] | state if right[index].get(n) != state.get(n)]
            report.fail(f"{when}: {different} differ from plain's")

    for index, (label, action) in enumerate(program.list()):
        for attempt in range(TRIES_MAX + 1):
            if attempt == TRIES_MAX:
                return  # a disk that never works again: told, and nothing lost
            try:
                action()
                break
            except RuntimeError as error:
                report.note(label, error)
                if attempt == 0:
                    compare(index, f"after a failed {label!r}")
    report.program_ends()
    compare(-1, "at the end")
    report.completed = True


# --- real training ------------------------------------------------------------------------------


def mlp(trained: Trained) -> None:
    torch.manual_seed(5)
    layers = [m for _ in range(LAYERS) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    trained.model = model = nn.Sequential(*layers)
    trained.optimizer = optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    for _ in range(STEPS):
        x, y = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        trained.losses.append(float(loss.detach()).hex())


def gpt_bytes(arguments: list[str]) -> Callable[[Trained], None]:
    """The example, unchanged; its model and optimizer are caught as they are made."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
    import common
    import gpt_bytes as example

    build_model, make_optimizer = example.build_model, torch.optim.AdamW

    def program(trained: Trained) -> None:
        def catch_model(args: argparse.Namespace) -> nn.Module:
            trained.model = build_model(args)
            return trained.model

        def catch_optimizer(*args: Any, **kwargs: Any) -> torch.optim.Optimizer:
            trained.optimizer = make_optimizer(*args, **kwargs)
            return trained.optimizer

        def end_step(self: common.Reporter, loss: Tensor) -> None:
            trained.losses.append(loss.item().hex())

        replaced: list[tuple[Any, str, Any]] = [
            (example, "build_model", catch_model), (torch.optim, "AdamW", catch_optimizer),
            (common.Reporter, "end_step", end_step),
            (sys, "argv", ["gpt_bytes.py", *arguments])]  # fmt: skip
        before = [getattr(owner, name) for owner, name, _ in replaced]
        try:
            for owner, name, value in replaced:
                setattr(owner, name, value)
            with contextlib.redirect_stdout(io.StringIO()):
                example.main()
        finally:
            for (owner, name, _), value in zip(replaced, before, strict=True):
                setattr(owner, name, value)

    return program


def plain_training(program: Callable[[Trained], None]) -> tuple[list[State], list[str]]:
    trained = Trained()
    with Passed(trained) as passed:
        program(trained)
    passed.look()
    return passed.states, trained.losses


def train(program: Callable[[Trained], None], right: tuple[list[State], list[str]],
          report: Report) -> None:
    """A failure leaves a state that plain passes through; without one, the end is plain's."""
    states, losses = right
    trained = Trained()
    try:
        program(trained)
        report.completed = True
    except RuntimeError as error:
        report.note("training", error)
    report.program_ends()
    state = {name: report.insist(f"reading {name}", lambda t=tensor: entry(t))
             for name, tensor in trained.tensors()}
    if trained.losses != losses[: len(trained.losses)]:
        report.fail(f"losses {trained.losses} where plain PyTorch has {losses}")
    if report.completed and (state != states[-1] or len(trained.losses) != len(losses)):
        report.fail(f"the end is not plain's: {nearest(state, states[-1:])}")
    if not report.completed and state not in states:
        report.fail(f"no state of plain's: {nearest(state, states)}")


# --- all faults, one after the other --------------------------------------------------------------


def hunt(options: argparse.Namespace, run: Callable[[Report], None]) -> dict[str, Any]:
    """Without faults to count the transfers; then k by k; then without faults once more."""
    gc.freeze()  # what is here stays: collecting after each run need not look at it
    reports: list[Report] = []
    budget = options.budget * MIB

    def once(kind: str, injected: str) -> Report:
        report = Report(kind, injected)
        with faulty(options, budget, report):
            run(report)
        gc.collect()
        reports.append(report)
        return report

    calm = [once("none", "") for _ in range(2)]
    most = max(report.transfers for report in calm)
    if options.sample:
        chance = random.Random(options.seed)
        for _ in range(options.sample):
            kind = chance.choice(options.kinds)
            once(kind, f"every={chance.randint(1, most)},error={kind}")
    else:
        k = int("FLIP" in options.kinds)
        while (k := k + 1) <= most + AT_THE_END:
            kinds = options.kinds if options.all_kinds else [options.kinds[k % len(options.kinds)]]
            for kind in kinds:
                # Foresight depends on time: another run may move more, and its last k counts too.
                # A bit that changes on its way down is lost for good; on its way up it can be read again.
                only = ",kind=read" if kind == "FLIP" else ""
                report = once(kind, f"every={k},error={kind}{only}")
                if not report.told:
                    most = max(most, report.transfers)
    calm.append(once("none", ""))
    return {"uid": os.getuid(), "calm": [report.as_dict() for report in calm],
            "runs": [report.as_dict() for report in reports if report.kind != "none"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("program", choices=["retried", "trained", "gpt"])
    jail.add_options(parser)
    parser.add_argument("--mechanism", default="", help="what it must have run on")
    parser.add_argument("--policy", default="lookahead")
    parser.add_argument("--budget", type=int, default=8, help="MiB (%(default)s)")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--kinds", nargs="+", default=list(CAUSE))
    parser.add_argument("--all-kinds", action="store_true", help="for every k, not in turn")
    parser.add_argument("--sample", type=int, default=0, help="so many k by chance, not every k")
    parser.add_argument("--seed", type=int, default=0)
    # One, because idle threads spin, and there are hundreds of short runs.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--spill-dir", default="")
    parser.add_argument("--arguments", nargs=argparse.REMAINDER, default=[])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.jail:
        jail.enter()
    if options.program == "retried":
        right = plain_actions()
        report = hunt(options, lambda report: retried(right, report))
    else:
        program = mlp if options.program == "trained" else gpt_bytes(options.arguments)
        passed = plain_training(program)
        report = hunt(options, lambda report: train(program, passed, report))
        report["states"] = len(passed[0])
    with open(options.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
