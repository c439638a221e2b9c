"""Ctrl-C and SIGTERM reach the program as in plain Python, at any moment, and nothing is lost by it.

Inside one process (support/interrupt_cases.py): steps that were hit are done again from the state
before them and end as if nobody had disturbed them; budgets that were hit while they began or ended
are on or off. And as a whole: `outsize run` ends as Python does, and leaves no file.

OUTSIZE_TEST_SEED chooses other moments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.launch import MIB, clean_environment, mechanism_options, mechanisms, run_json

SEED = os.environ.get("OUTSIZE_TEST_SEED", "3")


@pytest.mark.parametrize("mechanism", mechanisms())
def test_interrupted_steps_and_budgets(mechanism: str) -> None:
    print("seed", SEED)
    args = mechanism_options(mechanism)
    report = run_json("interrupt_cases.py", *args, "--seed", SEED)
    print(report["hits"], report["spans"])
    stats = report["stats"]
    assert report["plain"] and report["ours"] == report["plain"]
    assert stats["mechanism"].startswith(mechanism)
    assert stats["evictions"] > 0 and stats["resident_peak"] <= stats["budget"]
    assert stats["tensor_bytes"] <= MIB, "an interrupted step is held by somebody"
    assert report["hits"].get("KeyboardInterrupt", 0) >= 4 and report["hits"].get("Terminated", 0) >= 4
    assert report["wrong"] == []
    assert report["spans"].get("before the end began", 0) <= 1
    # How many hit an end is a matter of chance and of the machine; that some came in between is not.
    assert sum(report["spans"].values()) >= 40
    assert report["spans"].get("inside", 0) + report["spans"].get("ending", 0) >= 5


TRAIN = """\
import signal, sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(10)))
optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
def step():
    optimizer.zero_grad()
    loss = model(torch.randn(64, 1024)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item().hex()
for number in range(3):
    print(step(), flush=True)
state = [t.detach().clone() for p in model.parameters() for t in (p, optimizer.state[p]["momentum_buffer"])]
generator = torch.get_rng_state()
"""
# Goes on after Ctrl-C, from the last step that was complete.
GOES_ON = TRAIN + """
try:
    print("up", flush=True)
    while "disturbed" in sys.argv:
        step()
except KeyboardInterrupt:
    print("caught", file=sys.stderr)
now = [t for p in model.parameters() for t in (p, optimizer.state[p]["momentum_buffer"])]
with torch.no_grad():
    for tensor, before in zip(now, state):
        tensor.copy_(before)
torch.set_rng_state(generator)
for number in range(3):
    print(step())
"""
DIES = TRAIN + """
print("up", flush=True)
while True:
    step()
"""


@pytest.fixture
def spill():
    """On a disk: pytest's own folder may be in RAM, which outsize refuses."""
    from outsize.checkup import default_spill_dir

    with TemporaryDirectory(prefix="outsize-test-", dir=default_spill_dir()) as folder:
        yield Path(folder)


def disturbed(words: list[str], number: signal.Signals, folder: Path) -> tuple[int, str, str]:
    """Exit code and output of a program that gets a signal in the middle of its steps."""
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(), stdin=subprocess.DEVNULL,
        # A test run in a shell's background ignores it, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = ""
        while not said.endswith("up\n"):
            line = process.stdout.readline()
            assert line, process.communicate()[1][-4000:]
            said += line
        process.send_signal(number)
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, said + output, errors


def run_words(mechanism: str, spill: Path) -> list[str]:
    return ["-m", "outsize", "run", "--quiet", "--budget", "32MiB", "--faults", mechanism,
            "--spill-dir", str(spill)]  # fmt: skip


@pytest.mark.parametrize("mechanism", mechanisms())
def test_a_script_that_catches_ctrl_c_trains_on(mechanism: str, tmp_path: Path, spill: Path) -> None:
    (tmp_path / "train.py").write_text(GOES_ON)
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=clean_environment(),
                           capture_output=True, text=True, timeout=300, check=True)  # fmt: skip
    words = [*run_words(mechanism, spill), "train.py", "disturbed"]
    code, said, errors = disturbed(words, signal.SIGINT, tmp_path)
    assert (code, said, errors) == (0, plain.stdout, "caught\n")
    assert len(plain.stdout.split()) == 7 and list(spill.iterdir()) == []


@pytest.mark.parametrize(("number", "mechanism"), [(signal.SIGINT, "auto"), (signal.SIGTERM, "signal")])
def test_a_signal_in_mid_step_ends_the_run_as_python(
    number: signal.Signals, mechanism: str, root: Path, tmp_path: Path, spill: Path
) -> None:
    (tmp_path / "train.py").write_text(DIES)
    plain = disturbed(["train.py"], number, tmp_path)
    ours = disturbed([*run_words(mechanism, spill), "train.py"], number, tmp_path)
    assert ours[:2] == plain[:2] and ours[0] == -number
    last = [errors.splitlines()[-1:] for errors in (plain[2], ours[2])]
    assert last[0] == last[1] == (["KeyboardInterrupt"] if number == signal.SIGINT else [])
    assert "outsize" not in ours[2].replace(str(root), ""), "the checkout may have that name"
    assert list(spill.iterdir()) == []


def test_ctrl_c_before_signals_are_held_back_ends_the_budget_for_all_that() -> None:
    program = """\
import outsize, torch
from outsize import signals
held_back = signals.HeldBack.__enter__
def hit(self):
    signals.HeldBack.__enter__ = held_back
    raise KeyboardInterrupt
kept = torch.ones(1 << 20)
try:
    with outsize.budget("64MiB"):
        kept.add_(1)
        signals.HeldBack.__enter__ = hit
except KeyboardInterrupt:
    print(outsize.enabled(), kept.eq(2).all().item())
"""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=120)
    assert (done.stdout, done.returncode) == ("False True\n", 0), done.stderr
