"""Sizes, banned words and machine paths, over every file that git tracks."""

from __future__ import annotations

from pathlib import Path

import pytest
import rules

FILES = rules.tree()
SOURCES = [path for path in FILES if path.suffix in rules.SOURCE]
BINARY = {".png", ".gz", ".npz", ".ico"}


def is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name.endswith("_test.cpp")


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_are_short(path: Path):
    lines = len((rules.ROOT / path).read_text().splitlines())
    assert lines <= (rules.TEST_FILE_LINES_MAX if is_test(path) else rules.FILE_LINES_MAX)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_functions_are_short(path: Path):
    text = (rules.ROOT / path).read_text()
    limit = rules.TEST_FUNCTION_LINES_MAX if is_test(path) else rules.FUNCTION_LINES_MAX
    if path.suffix in rules.CPP:
        assert rules.long_cpp_functions(text, limit) == []
    elif path.suffix == ".py":
        assert rules.long_python_functions(text, limit) == []


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix not in BINARY], ids=str)
def test_no_loose_ends_and_no_machine_paths(path: Path):
    assert rules.bad_words((rules.ROOT / path).read_text()) == []


def test_a_long_function_is_found():
    body = "\n".join("  work();" for _ in range(80))
    in_class = f"namespace a {{\nclass B {{\n void f(int x) const {{\n{body}\n }}\n}};\n}}\n"
    assert [lines for _, lines in rules.long_cpp_functions(in_class)] == [82]
    assert rules.long_cpp_functions(f"namespace a {{\n{body}\n}}\n") == []
    assert rules.long_cpp_functions('const char* s = "f() {";\nchar c = \'{\';\n') == []
    assert rules.long_python_functions("def f():\n" + "    pass\n" * 80) == [("f", 81)]


@pytest.mark.parametrize("text", [
    "// TO" "DO: later", "see /ro" "ot/x", 'open("/ho' 'me/ann/a")', "https:" "//files.example.org/simple",
    "cd /wo" "rk/main",
])
def test_a_bad_word_is_found(text: str):
    assert rules.bad_words(text) != []


@pytest.mark.parametrize("text", ["a/wo" "rk/b", "https://arxiv.org/abs/1234.5678", "${HOME}/wo" "rk/x"])
def test_a_good_word_passes(text: str):
    assert rules.bad_words(text) == []
