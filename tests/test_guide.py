"""The programs of docs/GUIDE.md run as they stand there: the script, and the notebook's cells."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.launch import clean_environment

# As in a notebook: an exception ends a cell and not the session, and is kept for the debugger.
NOTEBOOK = """
import code, json, sys
notebook = code.InteractiveConsole()
for cell in json.load(sys.stdin):
    assert notebook.runsource(cell, "<cell>", "exec") is False
"""
FAILING = """
def unlucky():
    batch = [torch.ones(1 << 20) for _ in range(24)]
    torch.ones(1 << 23)
    torch.ones(1 << 24)
unlucky()
"""
HELD = "print('held', outsize.stats().tensor_bytes >> 20, outsize.enabled())"


def blocks(root: Path, heading: str) -> list[str]:
    """The Python programs of one chapter."""
    chapter = re.split(r"^## ", (root / "docs/GUIDE.md").read_text(), flags=re.M)
    text = next(part for part in chapter if part.startswith(heading + "\n"))
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def run_cells(cells: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", NOTEBOOK], input=json.dumps(cells), text=True,
                          capture_output=True, timeout=300, env=clean_environment())


def test_the_way_to_save_works(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (save,) = blocks(root, "Checkpoints")
    exec(save, {})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_the_programs_run(root: Path) -> None:
    (script,) = blocks(root, "A script")
    switch_on, train, switch_off, clear = (*blocks(root, "A notebook"),)
    assert "enable" in switch_on and "disable" in switch_off and "clear_frames" in clear
    done = run_cells([script, "train(1)", switch_on, switch_on, train, HELD, FAILING, HELD,
                      clear, HELD, switch_off, HELD])
    assert done.returncode == 0, done.stderr
    # The one traceback is the cell's that fails on purpose.
    assert done.stderr.count("Traceback") == 1 and "BudgetError" in done.stderr, done.stderr
    assert "Give a budget of at least" in done.stderr
    tables = re.findall(r"peak in RAM: ([\d.]+) MiB of a budget of 24.0 MiB", done.stdout)
    assert len(tables) == 2, "one of the script, one of the notebook's last cell"
    assert re.search(r"^step 3 · .* of 24.0 MiB · up [1-9]", done.stdout, re.M), done.stdout
    held = [(int(size), state) for size, state in re.findall(r"^held (\d+) (\w+)", done.stdout, re.M)]
    assert [state for _, state in held] == ["True", "True", "True", "False"]
    before, failed, cleared = (size for size, _ in held[:3])
    assert failed >= before + 96, "the traceback holds the batch"
    assert abs(cleared - before) <= 4, "and lets go of it"
