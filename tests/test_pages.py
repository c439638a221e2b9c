"""The pages of build/docs: made by one command, every public symbol has a word on it, and every link
leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

needs_doxygen = pytest.mark.skipif(shutil.which("doxygen") is None, reason="doxygen is not installed")


def make_docs(root: Path, headers: Path | str, pages: Path,
              **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / "tools/make_docs.sh", headers, pages], capture_output=True,
                          text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env=os.environ | {"VENV": sys.prefix} | environment)


def make_pages(checkout: Path, root: Path, pages: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / "tools/make_pages.py", pages, "--root", checkout],
                          capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)


@needs_doxygen
def test_every_public_symbol_is_documented(root: Path, tmp_path: Path) -> None:
    done = make_docs(root, "include/outsize", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "<h1 id=\"outsize\">outsize</h1>" in (tmp_path / "index.html").read_text()
    cpp = (tmp_path / "cpp/index.html").read_text()
    assert "outsize from C++" in cpp and 'href="../index.html"' in cpp
    assert 'href="cpp/index.html"' in (tmp_path / "index.html").read_text()
    names = (tmp_path / "cpp/annotated.html").read_text()
    header = (root / "include/outsize/outsize.h").read_text()
    classes = re.findall(r"^(?:class|struct) (\w+)[^;]*$", header, re.M)
    assert "Session" in classes and all(name in names for name in classes)
    pages = "".join(page.read_text() for page in (tmp_path / "cpp").glob("*.html"))
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


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project with pages of every kind."""
    files = {
        "README.md": "# One\n[guide](docs/guide.md#the-way) [code](src/a.py) [folder](src) [here](#one)\n",
        "docs/guide.md": "# Two\n## The `way`\n[back](../README.md)\n\n| a | b |\n|---|---|\n| 1 | <2 |\n",
        "src/a.py": "print('<hello>')\n",
        "python/outsize/__init__.py":
            '"""The package."""\nfrom outsize.api import go\n__all__ = ["go"]\n',
        "python/outsize/api.py": 'def go(far: int = 1) -> str:\n    """Goes there."""\n',
        "python/outsize/counters.py": 'class Stats:\n    """Numbers."""\n    steps: int = 0  # so far\n',
    }
    for name, text in files.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def test_documents_become_pages_that_link_to_each_other(root: Path, checkout: Path, tmp_path: Path) -> None:
    done = make_pages(checkout, root, tmp_path / "pages")
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "pages/index.html").read_text()
    for link in ("docs/guide.html#the-way", "source/src/a.py.html", "source/src/index.html", "index.html#one",
                 "python.html"):
        assert f'href="{link}"' in index
    guide = (tmp_path / "pages/docs/guide.html").read_text()
    assert '<h2 id="the-way">' in guide and 'href="../index.html"' in guide and "<td>&lt;2</td>" in guide
    assert "print('&lt;hello&gt;')" in (tmp_path / "pages/source/src/a.py.html").read_text().replace("&#x27;", "'")
    api = (tmp_path / "pages/python.html").read_text()
    assert "outsize.go(far: int=1) -&gt; str" in api and "Goes there." in api and "# so far" in api


@pytest.mark.parametrize(("file", "before", "after", "said"), [
    ("README.md", "docs/guide.md#the-way", "docs/guide.md#no-way", "docs/guide.md#no-way (no such heading)"),
    ("README.md", "src/a.py", "src/b.py", "README.md: src/b.py (no such file)"),
    ("docs/guide.md", "../README.md", "README.md", "docs/guide.md: README.md (no such file)"),
    ("python/outsize/api.py", '"""Goes there."""', "...", "outsize.go is not documented"),
])
def test_what_leads_nowhere_is_an_error(
    root: Path, checkout: Path, tmp_path: Path, file: str, before: str, after: str, said: str
) -> None:
    text = (checkout / file).read_text()
    assert before in text
    (checkout / file).write_text(text.replace(before, after))
    done = make_pages(checkout, root, tmp_path / "pages")
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_every_document_of_ours_has_a_page(root: Path, tmp_path: Path) -> None:
    done = make_pages(root, root, tmp_path)
    assert done.returncode == 0, done.stderr
    for document in ("ARCHITECTURE", "docs/GUIDE", "docs/MESSAGES", "docs/contributing/add-a-planner",
                     "docs/adr/0001-one-engine-two-drivers", "bench/README"):
        assert "<h1" in (tmp_path / f"{document}.html").read_text()
    api = (tmp_path / "python.html").read_text()
    for name in ("budget", "enable", "hint", "pin", "stats", "step", "BudgetError"):
        assert api.count(f'id="outsize.{name}"') == 1
