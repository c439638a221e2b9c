"""The command line is a promise: an option appears or goes only together with cli_options.txt.

To change it on purpose: edit the list, and write a line in CHANGELOG.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_name("cli_options.txt")


def options_in(help_text: str) -> set[str]:
    """The long options that a help text lists (not those its prose mentions)."""
    listed = re.findall(r"^ {2}(?:-\w(?: [A-Z]+)?, )?(--[a-z][a-z-]*)", help_text, re.M)
    return set(listed) - {"--help"}


def help_of(*words: str) -> str:
    result = subprocess.run([sys.executable, "-m", "outsize", *words, "--help"], text=True,
                            capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_help_is_understood():
    text = "usage: x [--not-this]\n  -q, --quiet  less, unlike --loud\n  --size SIZE\n\n--nor-this\n"
    assert options_in(text) == {"--quiet", "--size"}


def test_the_options_are_those_promised():
    overview = help_of()
    commands = re.findall(r"^  ([a-z]+)  +\S", overview, re.M)
    actual = {command for command in commands}
    for command in commands:
        text = help_of(command)
        inner = [f"{command} {name}" for name in re.findall(r"^    ([a-z]+)  +[a-z]", text, re.M)]
        actual |= {f"{command} {option}" for option in options_in(text)} | set(inner)
        for name in inner:
            actual |= {f"{name} {option}" for option in options_in(help_of(*name.split()))}
    assert "run --budget" in actual
    assert sorted(actual) == LIST.read_text().split("\n")[:-1]
