"""C++ programs outside the tree, built with find_package(outsize) against an installed prefix."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
core = pytest.importorskip("outsize._core")

CHECKS = ["adopted", "spilled-bytes-return", "pins", "hints", "errors", "threads"]


def run(*command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def configure(source: Path, build: Path, config: Path, *more: str,
              check: bool = True) -> subprocess.CompletedProcess[str]:
    return run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-Doutsize_DIR={config}",
               "-DCMAKE_BUILD_TYPE=Release", *more, check=check)


@pytest.fixture(scope="module")
def wheel_config() -> Path:
    """Where the installed Python package keeps outsizeConfig.cmake."""
    return Path(core.__file__).resolve().parent / "share/cmake/outsize"


@pytest.fixture(scope="module")
def prefix_config(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a prefix keeps it; moved after the installation, as package builders do."""
    if not (root / "build/wheel/cmake_install.cmake").exists():
        pytest.skip("outsize was not built in build/wheel of this checkout: nothing to install from")
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", root / "build/wheel", "--prefix", folder / "made")
    (folder / "made").rename(folder / "moved")
    files = {str(path.relative_to(folder / "moved"))
             for path in (folder / "moved").rglob("*") if path.is_file()}
    libraries = {name for name in files if "/liboutsize.so" in name}
    headers = {name for name in files if name.startswith("include/outsize/")}
    configs = {name for name in files if "/cmake/outsize/" in name}
    assert len(libraries) == 1 and headers and len(configs) == 2
    assert files == libraries | headers | configs, "nothing of Python's, nothing internal"
    return next((folder / "moved").rglob("outsizeConfig.cmake")).parent


@pytest.fixture(scope="module")
def programs(root: Path, prefix_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, `api`, the program of all checks, and `guide`, as docs/GUIDE.md has it."""
    build = tmp_path_factory.mktemp("cpp")
    (program,) = re.findall(r"^```cpp\n(.*?)^```$", (root / "docs/GUIDE.md").read_text(), re.M | re.S)
    (build / "guide.cpp").write_text(program)
    configure(root / "tests/support/cpp", build, prefix_config, f"-DGUIDE_PROGRAM={build / 'guide.cpp'}")
    run("cmake", "--build", build)
    return build


@pytest.mark.parametrize("layout", ["wheel_config", "prefix_config"])
def test_the_header_needs_no_torch_header(
    root: Path, tmp_path: Path, layout: str, request: pytest.FixtureRequest
) -> None:
    config: Path = request.getfixturevalue(layout)
    configure(root / "tests/support/cpp/plain", tmp_path, config)
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "plain").stdout == f"{64 << 20} bytes, 1 step, lookahead\n"
    library = next(line for line in run("ldd", tmp_path / "plain").stdout.splitlines()
                   if "liboutsize" in line)
    where = config.parents[2]  # the package's folder, or the prefix's lib/
    assert str(where) in library


def test_another_torch_is_refused_in_one_sentence(
    root: Path, wheel_config: Path, tmp_path: Path
) -> None:
    torch = tmp_path / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "lib/libc10.so").touch()
    (torch / "version.py").write_text("__version__ = '1.13.1+cpu'\n")
    more = f"-Doutsize_TORCH_DIR={torch}"
    done = configure(root / "tests/support/cpp/plain", tmp_path / "build", wheel_config, more,
                     check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"built for torch {core.built_for_torch().partition('+')[0]}" in said and "1.13.1" in said
    (torch / "lib/libc10.so").unlink()
    shutil.rmtree(tmp_path / "build")
    done = configure(root / "tests/support/cpp/plain", tmp_path / "build", wheel_config, more,
                     check=False)
    assert done.returncode != 0 and "set outsize_TORCH_DIR" in " ".join(done.stderr.split())


@pytest.mark.parametrize("version", ["1.13.1", "2.11.0+cpu", "3.0.0"])
def test_building_for_another_torch_is_refused_in_one_sentence(
    root: Path, tmp_path: Path, version: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(
        f"class _C:\n    _GLIBCXX_USE_CXX11_ABI = True\n__version__ = {version!r}\n")
    done = subprocess.run(
        ["cmake", "-S", root, "-B", tmp_path / "build", "-G", "Ninja", "-DOUTSIZE_BUILD_TESTS=OFF",
         f"-DPython_EXECUTABLE={sys.executable}"],
        capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and f"has {version}. Install torch 2.13 there." in said


def train(programs: Path, name: str, budget_mib: float,
          *options: str) -> subprocess.CompletedProcess[str]:
    return run(programs / "examples" / name, "--budget", budget_mib, "--steps", 4, *options,
               check=False)


def figure(stderr: str, pattern: str) -> float:
    found = re.search(pattern, stderr)
    assert found, stderr
    return float(found[1])


@pytest.mark.parametrize(("name", "runs"), [
    ("transformer", [(0.4, "lookahead")]),
    ("tree_lstm", [(0.5, "lookahead"), (0.25, "lookahead"), (0.25, "ondemand")]),
])
def test_the_same_losses_under_a_budget(
    programs: Path, name: str, runs: list[tuple[float, str]]
) -> None:
    plain = train(programs, name, 0)
    assert plain.returncode == 0 and plain.stdout.count("loss") == 4, plain.stderr
    losses = re.findall(r"loss (\S+)", plain.stdout)
    assert len(set(losses)) == 4, "four steps, four losses"
    ample = train(programs, name, 4000)
    assert ample.stdout == plain.stdout and "0 evictions" in ample.stderr, ample.stderr
    needs = figure(ample.stderr, r"for ([\d.]+) MiB of tensors")
    for share, policy in runs:
        budget = round(needs * share, 2)
        ours = train(programs, name, budget, "--policy", policy)
        assert ours.returncode == 0, ours.stderr
        assert ours.stdout == plain.stdout, (share, policy)
        assert figure(ours.stderr, r"peak ([\d.]+) of") <= budget
        assert figure(ours.stderr, r"([\d.]+) MiB read back") > 0
        assert figure(ours.stderr, r"(\d+) evictions") > 0


def test_the_guides_program_keeps_its_budget(programs: Path) -> None:
    said = run(programs / "guide").stdout
    peak, budget, steps = re.fullmatch(r"(\d+) of (\d+) bytes, (\d+) steps\n", said).groups()
    assert (int(budget), int(steps)) == (24 << 20, 3)
    assert 16 << 20 < int(peak) <= 24 << 20


def test_what_cannot_work_is_said(programs: Path) -> None:
    tiny = train(programs, "transformer", 0.5)
    assert tiny.returncode == 1 and "1 MiB" in tiny.stderr
    refused = train(programs, "transformer", 8)
    assert refused.returncode == 1
    assert "needs" in refused.stderr and "budget" in refused.stderr


@pytest.mark.parametrize("check", CHECKS)
def test_the_api(programs: Path, check: str) -> None:
    done = run(programs / "api", check, check=False)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr
