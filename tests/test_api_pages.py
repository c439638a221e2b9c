"""The C++ API's pages: made by one command, and every public symbol has a word on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

needs_doxygen = pytest.mark.skipif(shutil.which("doxygen") is None, reason="doxygen is not installed")


def make_docs(root: Path, headers: Path | str, pages: Path,
              **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / "tools/make_docs.sh", headers, pages], capture_output=True,
                          text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env=os.environ | environment)


@needs_doxygen
def test_every_public_symbol_is_documented(root: Path, tmp_path: Path) -> None:
    done = make_docs(root, "include/outsize", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "outsize from C++" in (tmp_path / "index.html").read_text()
    names = (tmp_path / "annotated.html").read_text()
    header = (root / "include/outsize/outsize.h").read_text()
    classes = re.findall(r"^(?:class|struct) (\w+)[^;]*$", header, re.M)
    assert "Session" in classes and all(name in names for name in classes)
    pages = "".join(page.read_text() for page in tmp_path.glob("*.html"))
    for function in ("hint", "close", "release", "GiB"):
        assert re.search(rf"\b{function}\b", pages)


@needs_doxygen
@pytest.mark.parametrize("silent", [
    "/// What happened so far; all zero after close().\n",  # a function
    "  ///< The most there were.",  # a field
    "/// Covers the calling thread while it lives. Harmless without a session.\n",  # a class
    "/// Bytes, from gibibytes.\n",  # a free function
])
def test_a_symbol_without_a_word_is_an_error(root: Path, tmp_path: Path, silent: str) -> None:
    header = (root / "include/outsize/outsize.h").read_text()
    assert silent in header
    (tmp_path / "include").mkdir()
    (tmp_path / "include/outsize.h").write_text(header.replace(silent, ""))
    done = make_docs(root, tmp_path / "include", tmp_path / "pages")
    assert done.returncode != 0 and "is not documented" in done.stderr


def test_without_doxygen_one_line_says_so(root: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    done = make_docs(root, "include/outsize", tmp_path / "pages", PATH=str(tools))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "apt-get install doxygen" in done.stderr
