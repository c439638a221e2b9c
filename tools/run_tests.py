#!/usr/bin/env python3
"""Runs every test of the project, phase after phase, and ends with one honest line of counts.

A phase that fails does not stop the next ones: a person who waited wants the whole picture. A build
that fails, or a phase that runs no test, counts as one failure.

    tools/run_tests.py                all phases
    tools/run_tests.py unit python    these phases only
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test-results"
JOBS = str(os.cpu_count() or 1)


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""

    def add(self, other: Counts) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds


@dataclass(frozen=True)
class CppPhase:
    """A preset to build and the ctest labels (= test binaries) to run in it."""

    preset: str
    targets: tuple[str, ...]
    what: str


CPP_PHASES = {
    "unit": CppPhase("unit", ("core_tests", "trace_tests", "host_tests", "sim_tests"), "C++ tests with assertions"),
    "asan": CppPhase("asan-ubsan", ("core_tests", "trace_tests", "sim_tests"), "core, traces and sim under ASan + UBSan"),
    "tsan": CppPhase("tsan", ("host_tests",), "threaded platform tests under TSan"),
}
PHASES = (*CPP_PHASES, "python")


def run(*command: str) -> int:
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode


def read_junit(path: Path, exit_code: int) -> Counts:
    """Counts from a JUnit file; the exit code has the last word."""
    counts = Counts()
    if path.exists():
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            total = int(suite.get("tests", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
            counts.add(Counts(total - failed - skipped, failed, skipped))
    if counts.passed + counts.failed == 0:
        counts.failed, counts.note = 1, "no test ran"
    elif exit_code != 0 and counts.failed == 0:
        counts.failed, counts.note = 1, f"exit code {exit_code}"
    return counts


def run_cpp(name: str, phase: CppPhase) -> Counts:
    if run("cmake", "--preset", phase.preset) != 0:
        return Counts(failed=1, note="configuring failed")
    build = ("cmake", "--build", "--preset", phase.preset, "-j", JOBS, "--target", *phase.targets)
    if run(*build) != 0:
        return Counts(failed=1, note="building failed")
    junit = RESULTS / f"{name}.xml"
    junit.unlink(missing_ok=True)
    labels = "|".join(f"^{target}$" for target in phase.targets)
    code = run("ctest", "--preset", phase.preset, "-L", labels, "-j", JOBS, "--progress",
               "--output-junit", str(junit))
    return read_junit(junit, code)


def run_python() -> Counts:
    junit = RESULTS / "python.xml"
    junit.unlink(missing_ok=True)
    # Several processes with OpenMP threads: those that wait must sleep, not spin for a core that another
    # one needs (measured here: three times the time).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # By file, but for a few long ones (tests/conftest.py): what a file's tests share (a build, a run in a
    # worker process) is made once. One worker more than there are cores, as they wait for the disk; no
    # more than the memory of most machines bears.
    workers = str(min(int(JOBS) + 1, 6))
    code = run(sys.executable, "-m", "pytest", "tests", "-n", workers, "--dist", "loadscope",
               f"--junitxml={junit}", "--durations=15")
    return read_junit(junit, code)


def main(names: list[str]) -> int:
    unknown = set(names) - set(PHASES)
    if unknown:
        print(f"unknown phase {', '.join(sorted(unknown))}; there are: {', '.join(PHASES)}")
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    results: dict[str, Counts] = {}
    for name in names or PHASES:
        what = CPP_PHASES[name].what if name in CPP_PHASES else "Python tests"
        print(f"\n=== {name}: {what}", flush=True)
        begin = time.monotonic()
        counts = run_cpp(name, CPP_PHASES[name]) if name in CPP_PHASES else run_python()
        counts.seconds = time.monotonic() - begin
        results[name] = counts

    total = Counts()
    print(f"\n{'phase':10}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for name, counts in results.items():
        total.add(counts)
        print(f"{name:10}{counts.passed:8}{counts.failed:8}{counts.skipped:9}{counts.seconds:9.0f}"
              f"  {counts.note}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
