"""Builds and loads what the probe does in C++; `ops` are its functions."""

from __future__ import annotations

import os
from pathlib import Path

import torch

NATIVE = Path(__file__).parent / "native"
NEUTRAL = ["storage_swap.cpp", "dispatch_mode.cpp"]
CUDA = ["cuda_only.cpp"]
ops = torch.ops.outsize_probe


def build(folder: Path) -> Path:
    """Builds the library for the PyTorch that is running, into `folder`; without CUDA's part on a
    PyTorch that has none."""
    from torch.utils import cpp_extension

    sources, flags, include = list(NEUTRAL), [], [str(NATIVE.parents[2])]
    if torch.version.cuda:
        sources += CUDA
        flags = [f"-L{Path(torch.__file__).parent / 'lib'}", "-lc10_cuda", "-ldl"]
        include.append(str(Path(cpp_extension.CUDA_HOME or "/usr/local/cuda") / "include"))
    folder.mkdir(parents=True, exist_ok=True)
    cpp_extension.load(
        "outsize_probe", [str(NATIVE / name) for name in sources], extra_cflags=["-std=c++20", "-O2", "-DNDEBUG"],
        extra_ldflags=flags, extra_include_paths=include, build_directory=str(folder), is_python_module=False)
    return folder / "outsize_probe.so"


def load(library: str) -> None:
    torch.ops.load_library(os.fspath(library))
