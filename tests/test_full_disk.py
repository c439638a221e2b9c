"""Somebody else fills the disk: the program is told what failed and what to do, and goes on after it.

On a file system of its own, from a file, which needs root. What is injected instead is in
test_io_faults.py.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.launch import MIB, mechanism_options, mechanisms, run_json

SIZE = 224 * MIB


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """An ext4 file system of its own."""
    from outsize.checkup import default_spill_dir

    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    with TemporaryDirectory(prefix="outsize-test-", dir=default_spill_dir()) as folder:
        os.chmod(folder, 0o755)
        image, place = Path(folder) / "image", Path(folder) / "disk"
        place.mkdir()
        with open(image, "wb") as file:
            file.truncate(SIZE)
        for words in (["mkfs.ext4", "-q", "-F", "-m", "0", str(image)],
                      ["mount", "-o", "loop", str(image), str(place)]):
            try:
                done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
            except FileNotFoundError:
                pytest.skip(f"{words[0]} is not installed")
            if done.returncode:
                pytest.skip(f"{' '.join(words[:2])}: {done.stderr.strip()}")
        try:
            os.chmod(place, 0o777)
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True, timeout=120)


@pytest.mark.parametrize("mechanism", mechanisms())
def test_the_program_goes_on_when_there_is_room_again(mechanism: str, small_disk: Path) -> None:
    args = mechanism_options(mechanism)
    report = run_json("full_disk.py", str(small_disk), *args)
    assert report["full"] == 4
    start = report["at the start"]
    assert "No space left on device" in start and "--spill-dir" in start and str(small_disk) in start
    stats = report["stats"]
    assert stats["mechanism"].startswith(mechanism)
    assert stats["resident_peak"] <= stats["budget"] and stats["evictions"] > 0
    assert report["plain"] and report["ours"] == report["after"] == report["plain"]
    # Full before the file had a byte, before it grew again, and after it had shrunk.
    told = report["told"]
    made = [count for _, count, *_ in told]
    assert made[0] < max(made) > made[-1], told
    for message, _, *right in told:
        assert all(right), "a tensor was damaged by a full disk"
        assert re.search(r"^aten::\S.*: another 4.0 MiB make [\d.]+ MiB of tensors, of which RAM may hold 16.0 MiB. "
                         r"The spill file in \S+ cannot hold [\d.]+ MiB and, to exchange tensors .*, 8.0 MiB", message), message
        assert "fallocate failed: No space left on device (errno 28)" in message
        assert "Free space there, raise --budget, or name a larger disk with --spill-dir." in message
    assert [path.name for path in small_disk.iterdir()] == ["lost+found"]
