"""The arrows of ARCHITECTURE.md: who may include whom, and what core may need from outside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import rules

CPP_FILES = [path for path in rules.tree() if path.suffix in rules.CPP]


def test_there_is_something_to_check():
    tops = {path.parts[0] for path in CPP_FILES}
    assert {"core", "planners", "predictors", "platforms", "sim", "adapter", "include"} <= tops


@pytest.mark.parametrize("path", CPP_FILES, ids=str)
def test_includes_follow_the_arrows(path: Path):
    assert rules.wrong_includes(path, (rules.ROOT / path).read_text()) == []


@pytest.mark.parametrize("path, include", [
    ("core/engine/engine.cpp", "<sys/mman.h>"),
    ("core/engine/engine.cpp", "<chrono>"),
    ("core/engine/engine.cpp", "<ATen/ATen.h>"),
    ("core/engine/engine.cpp", '"platforms/host/runtime.h"'),
    ("core/engine/engine.cpp", '"planners/lookahead/lookahead.h"'),
    ("core/base/types.h", '"core/engine/engine.h"'),
    ("core/check/checker.cpp", '"core/residency/extent.h"'),
    ("core/engine/engine.cpp", '"core/check/checker.h"'),
    ("planners/lookahead/lookahead.cpp", '"planners/ondemand/ondemand.h"'),
    ("predictors/repeat/repeat.cpp", '"platforms/host/runtime.h"'),
    ("predictors/pilot/plan.h", '"predictors/repeat/repeat.h"'),
    ("platforms/host/arena.cpp", '"adapter/hooks.h"'),
    ("platforms/host/arena.cpp", "<c10/core/Storage.h>"),
    ("sim/world.cpp", '"platforms/host/runtime.h"'),
    ("python/bindings/sim_module.cpp", '"adapter/control.h"'),
    ("python/bindings/sim_module.cpp", "<ATen/ATen.h>"),
    ("python/bindings/sim_module.cpp", '"python/bindings/traces.h"'),
    ("include/outsize/outsize.h", '"core/base/types.h"'),
    ("include/outsize/outsize.h", "<torch/torch.h>"),
    ("examples/cpp/train.cpp", '"platforms/host/runtime.h"'),
])
def test_a_wrong_include_is_found(path: str, include: str):
    assert rules.wrong_includes(Path(path), f"#include {include}\n") != []


@pytest.mark.parametrize("path, include", [
    ("core/engine/engine.cpp", "<vector>"),
    ("core/engine/engine.cpp", '"core/residency/extent.h"'),
    ("core/engine/engine_test.cpp", "<gtest/gtest.h>"),
    ("planners/registry/policies.cpp", '"planners/lookahead/lookahead.h"'),
    ("planners/lookahead/lookahead.h", '"planners/ahead/ahead.h"'),
    ("predictors/pilot/plan.h", '"predictors/steps/outlook.h"'),
    ("platforms/host/arena.cpp", "<sys/mman.h>"),
    ("adapter/hooks.cpp", "<ATen/ATen.h>"),
    ("python/bindings/sim_module.cpp", "<pybind11/pybind11.h>"),
    ("python/bindings/sim_module.cpp", '"python/bindings/reading.h"'),
    ("examples/cpp/train.cpp", "<torch/torch.h>"),
    ("examples/cpp/train.cpp", "<outsize/outsize.h>"),
])
def test_a_right_include_passes(path: str, include: str):
    assert rules.wrong_includes(Path(path), f"#include {include}\n") == []


def core_archive() -> Path:
    # Instrumented builds need their runtime's symbols, and release builds hold no machine code yet.
    archives = [rules.ROOT / "build" / preset / "liboutsize_core.a" for preset in ("unit", "dev")]
    archives = [path for path in archives if path.exists()]
    if not archives:
        pytest.skip("no plain build of core; tools/run_tests.py unit makes one")
    return max(archives, key=lambda path: path.stat().st_mtime)


def test_core_needs_only_the_cpp_library():
    assert rules.foreign_symbols(core_archive()) == []


@pytest.mark.parametrize("code, symbol", [
    ("#include <unistd.h>\nvoid f() { getpid(); }", "getpid"),
    ("#include <cstdio>\nvoid f() { std::fopen(\"a\", \"r\"); }", "fopen"),
    ("#include <chrono>\nlong f() { return std::chrono::steady_clock::now().time_since_epoch().count(); }",
     "std::chrono"),
    ("#include <sys/mman.h>\nvoid f() { mmap(0, 1, 0, 0, 0, 0); }", "mmap"),
    ("#include <mutex>\nstd::mutex m; void f() { m.lock(); }", "pthread_mutex_lock"),
    ("namespace at { void empty(); }\nvoid f() { at::empty(); }", "at::empty()"),
])
def test_a_foreign_symbol_is_found(tmp_path: Path, code: str, symbol: str):
    source, target = tmp_path / "bad.cpp", tmp_path / "bad.o"
    source.write_text(code)
    subprocess.run(["c++", "-std=c++20", "-O1", "-w", "-c", source, "-o", target], check=True)
    assert any(symbol in name for name in rules.foreign_symbols(target))
