"""What a user says about the disk is obeyed, and told: limits on space and on wear, checksums."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.launch import MIB, clean_environment

TRAIN = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8)))
optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(64, 1024)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""


def run(folder: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    (folder / "train.py").write_text(TRAIN)
    done = subprocess.run(
        [sys.executable, "-m", "outsize", "run", "--budget", "32MiB", "--json", "report.json",
         *options, "train.py"],
        cwd=folder, env=clean_environment(), text=True, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    return done, json.loads((folder / "report.json").read_text())["stats"]


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    done, stats = run(tmp_path_factory.mktemp("plain"))
    assert done.returncode == 0, done.stderr
    assert stats["disk_write_limit"] == stats["held_back"] == stats["verified_bytes"] == 0
    return done.stdout, stats


def test_the_write_limit_is_kept_and_its_price_told(
    unlimited: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    losses, free = unlimited
    rate, moment = 15 * 10**6, 1.0
    done, stats = run(tmp_path, "--disk-write-limit", "15MB/s")
    assert (done.returncode, done.stdout) == (0, losses), done.stderr
    assert stats["write_bytes"] <= rate * (stats["seconds"] + moment) + 4 * MIB
    assert free["write_bytes"] > 2 * rate * moment, "the limit had nothing to hold back"
    assert stats["held_back"] > 0
    assert "15 MB a second (1.3 TB a day): writes that were needed waited" in done.stderr


def test_the_spill_limit_is_kept(unlimited: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    limit = 48 * MIB
    assert unlimited[1]["spill_file"] > limit
    done, stats = run(tmp_path, "--spill-limit", "48MiB")
    assert done.returncode == 1
    assert "outsize.SpillError" in done.stderr and "its limit is 48.0 MiB" in done.stderr
    assert "--spill-limit" in done.stderr
    assert 0 < stats["spill_file"] <= limit


def test_a_spill_limit_below_all_tensors_is_enough(unlimited: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    """Copies of what is in RAM as well are given up for what has to leave."""
    limit = 96 * MIB  # 32 of them are in RAM
    done, stats = run(tmp_path, "--spill-limit", "96MiB")
    assert (done.returncode, done.stdout) == (0, unlimited[0]), done.stderr
    assert stats["tensor_bytes_peak"] > limit >= stats["spill_file"] > 0


def test_a_spill_limit_beyond_the_disk_is_warned_of(tmp_path: Path) -> None:
    done, _ = run(tmp_path, "--spill-limit", "1000000TiB")
    assert done.returncode == 0
    assert "outsize: The spill limit of" in done.stderr and "are free" in done.stderr


def test_checksums_say_what_they_cost(
    unlimited: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    done, stats = run(tmp_path, "--verify")
    assert (done.returncode, done.stdout) == (0, unlimited[0])
    # Each byte once on its way down and once on its way up, but for those still under way.
    assert stats["verified_bytes"] >= stats["read_bytes"] + stats["write_bytes"] - 64 * MIB > 0
    assert stats["verify"] > 0
    assert "checksummed in" in done.stderr


def test_the_table_tells_of_the_disks_life(tmp_path: Path) -> None:
    done, stats = run(tmp_path)
    assert stats["disk_size"] > 0 and stats["rated_life_days"] > 0
    assert "disk life" in done.stderr and "TB a day at this pace" in done.stderr
