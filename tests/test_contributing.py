"""The pages on adding a predictor, a planner, a platform: what they say is done in a copy of the
sources, built without torch, and its tests pass."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.pages import changed, snippets

PAGES = ["add-a-predictor", "add-a-planner", "add-a-platform"]
FOLDERS = ["bench", "cmake", "core", "planners", "predictors", "sim", "traces"]


def text_of(root: Path, page: str) -> str:
    return (root / "docs/contributing" / f"{page}.md").read_text()


@pytest.fixture(scope="module")
def build(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with what all pages add, and no tests but the pages'."""
    tree = tmp_path_factory.mktemp("contributing")
    for folder in FOLDERS:
        shutil.copytree(root / folder, tree / folder, ignore=shutil.ignore_patterns("*_test.cpp"))
    shutil.copy(root / "CMakeLists.txt", tree)
    for page in PAGES:
        for snippet in snippets(text_of(root, page)):
            snippet.write(tree)
    for command in (["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                     "-DOUTSIZE_BUILD_TORCH=OFF"], ["cmake", "--build", tree / "build", "-j2"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    return tree / "build"


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_adds_works(root: Path, build: Path, page: str) -> None:
    told = set(re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", text_of(root, page), re.M))
    assert told
    pattern = "^(" + "|".join(f"{suite}.{name}" for suite, name in told) + ")$"
    done = subprocess.run(["ctest", "--test-dir", build, "-R", pattern, "--output-on-failure"],
                          capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"100% tests passed, 0 tests failed out of {len(told)}" in done.stdout, done.stdout


def test_a_change_that_no_longer_fits_is_noticed() -> None:
    assert changed("a\nb\nc\n", " a\n+x\n b\n@@\n-c\n") == "a\nx\nb\n"
    for text in ("a\nc\n", "a\nb\na\nb\n"):
        with pytest.raises(AssertionError, match="does not fit"):
            changed(text, " a\n+x\n b\n")
