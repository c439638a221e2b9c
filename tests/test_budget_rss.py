"""A budget for the whole process: what is no tensor is seen, named, and made room for.

Sorting, taking the top and listing 32 M floats takes hundreds of MiB that never pass PyTorch's
allocator. In a memory cgroup of just the budget, without swap, plain PyTorch is killed.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cgroup import memory_cgroup
from support.launch import MIB, clean_environment, mechanisms

from outsize.bench.memory import limits
from outsize.bench.swap import SwapUnavailable

# Beside what the interpreter takes: the sort's 490 MiB of tensors and 245 of scratch, a margin, and 150
# for what grows while a busy machine lets nobody look. Plain PyTorch keeps 490 MiB of others beside them.
FOR_THE_SORT = 920 * MIB
IMPORTS = """
import outsize, os, torch
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
"""

PROGRAM = """\
import hashlib, torch
torch.manual_seed(0)
others = [torch.randn(8_000_000) for _ in range(16)]
x = torch.randn(32_000_000)

def show(*tensors):
    for tensor in tensors:
        print(hashlib.sha256(tensor.view(torch.uint8).numpy()).hexdigest(), flush=True)

for _ in range(2):
    show(*torch.sort(x))
    show(*torch.topk(x, 10))
print(sum(x[:2_000_000].tolist()).hex())
show(*others)
"""


def run(folder: Path, *command: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    (folder / "sort.py").write_text(PROGRAM)
    return subprocess.run(
        [*prefix, sys.executable, *command, "sort.py"], cwd=folder, env=clean_environment(),
        text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def budget() -> int:
    done = subprocess.run([sys.executable, "-c", IMPORTS], env=clean_environment(), text=True,
                          capture_output=True, timeout=300, check=True)  # fmt: skip
    return (int(done.stdout) + FOR_THE_SORT) // MIB * MIB


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    done = run(tmp_path_factory.mktemp("plain"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("mechanism", mechanisms())
def test_it_holds_in_a_cgroup_of_that_size(
    mechanism: str, budget: int, plain: str, tmp_path: Path
) -> None:
    if limits().free < budget + budget // 4:
        pytest.skip(f"of {budget // MIB} MiB that this takes, {limits().free // MIB} MiB are free")
    options = ["-m", "outsize", "run", "--budget-rss", str(budget), "--json", "r.json"]
    try:
        with memory_cgroup(budget) as group:
            done = run(tmp_path, *options, "--faults", mechanism, prefix=group.prefix)
            assert group.killed() == 0, done.stderr
            assert (done.returncode, done.stdout) == (0, plain), done.stderr
            killed = run(tmp_path, prefix=group.prefix)
    except SwapUnavailable as reason:
        pytest.skip(str(reason))
    assert killed.returncode == -signal.SIGKILL, "plain PyTorch fits: this shows nothing"
    stats = json.loads((tmp_path / "r.json").read_text())["stats"]
    assert 0 < stats["process_peak"] <= budget == stats["process_budget"]
    assert stats["write_bytes"] > 0
    scratch = dict(stats["untracked"])
    top = max(size for op, size in scratch.items() if op.startswith("aten::topk"))
    assert 400 * MIB < top < 600 * MIB, "16 bytes an element"
    assert "MiB in aten::topk [32000000]" in done.stderr


def test_what_is_no_tensor_is_named_under_any_budget(plain: str, tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "outsize", "run", "--budget", "3GiB", "--json", "r.json")
    assert (done.returncode, done.stdout) == (0, plain), done.stderr
    scratch = json.loads((tmp_path / "r.json").read_text())["stats"]["untracked"]
    named = {name.split()[0]: size for name, size in scratch}
    assert named["aten::topk"] > 400 * MIB
    assert named["Python,"] > 40 * MIB, "a list of two million floats"
    assert "untracked" in done.stderr and "Python, between ops" in done.stderr


def test_too_small_a_budget_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "outsize", "run", "--budget-rss", "800MiB")
    assert done.returncode == 1
    said = done.stderr
    assert "outsize.BudgetError: aten::sort" in said and "for the whole process leaves" in said
    assert "for scratch" in said and "Give a --budget-rss of at least" in said
    left, outside, scratch, free = (
        float(size) for size in re.findall(r"([\d.]+) MiB (?:beside|that are|for scratch|kept free)", said)
    )
    # What fits is given back to tensors only when it is a 64th of the whole.
    assert 800 - 800 / 64 - 1 <= left + outside + scratch + free <= 800 + 1, said


def test_the_size_that_is_named_is_enough(tmp_path: Path) -> None:
    """But for other ops, which may need more than the one that was refused."""
    budget, named = 800, []
    for _ in range(3):
        done = run(tmp_path, "-m", "outsize", "run", "--budget-rss", f"{budget}MiB")
        if done.returncode == 0:
            break
        found = re.search(r"Give a --budget-rss of at least (\d+)MiB", done.stderr)
        assert found, done.stderr
        budget = int(found[1])
        named.append(budget)
    assert done.returncode == 0, named


def test_two_budgets_are_one_too_many(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "outsize", "run", "--budget-rss", "2GiB", "--budget", "1GiB")
    assert done.returncode == 2
    assert "not both" in done.stderr and len(done.stderr.splitlines()) == 1
