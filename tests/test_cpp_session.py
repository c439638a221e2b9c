"""A libtorch program built with find_package(outsize) trains to the same losses under a budget."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")
core = pytest.importorskip("outsize._core")


def package_config() -> Path:
    """Where the installed package keeps outsizeConfig.cmake."""
    return Path(core.__file__).resolve().parent / "share/cmake/outsize"


@pytest.fixture(scope="module")
def program(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("cpp-example")
    source = root / "examples/cpp"
    configure = ["cmake", "-S", source, "-B", build, "-G", "Ninja",
                 f"-Doutsize_DIR={package_config()}", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "train"


def train(program: Path, budget_mib: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, "--budget", str(budget_mib), "--steps", "4"],
                          capture_output=True, text=True, timeout=300)


def test_same_losses_under_a_budget(program: Path) -> None:
    plain = train(program, 0)
    assert plain.returncode == 0 and plain.stdout.count("loss") == 4, plain.stderr
    for budget in (2000, 60):
        ours = train(program, budget)
        assert ours.returncode == 0, ours.stderr
        assert ours.stdout == plain.stdout
        evictions = int(ours.stderr.split()[-2])
        assert (evictions > 0) == (budget == 60), ours.stderr


def test_what_cannot_work_is_said(program: Path) -> None:
    tiny = train(program, 0.5)
    assert tiny.returncode == 1 and "1 MiB" in tiny.stderr
    refused = train(program, 8)
    assert refused.returncode == 1
    assert "needs" in refused.stderr and "budget" in refused.stderr
