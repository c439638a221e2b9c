"""Finds the words that outsize can say to a person, in the sources and on docs/MESSAGES.md.

A message is put together from literals and values. What is compared are its fixed pieces: every
literal of the sources that reads as prose must be quoted on the page (in a block marked
`text`), and every piece of a quotation must be a literal of the sources. So a new message needs an entry, and an
entry of a message that has gone, or was reworded, is noticed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Words of a person: two letters or more, or "a". Identifiers, paths and options alone are no prose.
WORD = re.compile(r"(?<![\w/.:+-])(?:[A-Za-z]{2,}|a)(?!\w|::|[/(+]\w)")
PROSE_WORDS = 2
GAP = "…"  # stands on the page for what differs from time to time

# Where values stand in format strings: printf's, logging's, rich's and those of str.format. And HTML.
CONVERSION = re.compile(r"""%[-\d.]*(?:l{0,2}[dux]|[sfgcp])|%\(\w+\)s|\{[\w.\[\]]*\}|\n
                        |<[!/]?[a-z][\w-]*(?:\ [\w-]+="[^"\n]*"?)*>?""", re.X)
CPP_TOKEN = re.compile(r"""
      //[^\n]* | /\*.*?\*/
    | R"(?P<mark>\w*)\(.*?\)(?P=mark)"
    | "(?P<text>(?:\\.|[^"\\\n])*)"
    | '(?:\\.|[^'\\\n])+'""", re.S | re.X)
PYTHON_HELP = {"help", "description", "usage", "metavar"}  # arguments that `--help` shows
PYTHON_HELP_TEXTS = {"_OVERVIEW", "COMMANDS"}


def is_prose(piece: str) -> bool:
    return len(WORD.findall(piece)) >= PROSE_WORDS


def tidy(text: str) -> str:
    return " ".join(text.split())


def pieces(literal: str) -> Iterator[str]:
    """The fixed pieces of one format string."""
    for piece in CONVERSION.split(literal):
        if tidy(piece):
            yield tidy(piece)


def cpp_literals(text: str) -> list[str]:
    """String literals of C++, with those that stand side by side joined. No comments, no
    includes, and no raw strings: these are programs in other languages."""
    text = re.sub(r"^[ \t]*#[^\n]*", "", text, flags=re.M)
    found: list[str] = []
    end = -1
    for token in CPP_TOKEN.finditer(text):
        if token["text"] is None:
            continue
        literal = token["text"].replace("\\n", "\n").replace('\\"', '"')
        beside = found and end >= 0 and not text[end:token.start()].strip()
        if beside:
            found[-1] += literal
        else:
            found.append(literal)
        end = token.end()
    return found


def _is_no_message(node: ast.AST) -> bool:
    """Help texts and regular expressions."""
    if isinstance(node, ast.keyword):
        return node.arg in PYTHON_HELP
    if isinstance(node, ast.Assign):
        return any(isinstance(name, ast.Name) and name.id in PYTHON_HELP_TEXTS for name in node.targets)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"


def python_literals(text: str) -> list[str]:
    """String literals of Python that are neither docstrings nor help texts; values in f-strings
    become line ends, which divide pieces."""
    tree = ast.parse(text)
    skip: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skip.add(id(node.value))
        if _is_no_message(node):
            skip |= {id(inner) for inner in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        if id(node) in skip:
            continue
        if isinstance(node, ast.JoinedStr):
            skip |= {id(part) for part in node.values if isinstance(part, ast.Constant)}
            found.append("".join(part.value if isinstance(part, ast.Constant) else "\n"
                                 for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def shell_literals(text: str) -> list[str]:
    """What a shell script echoes or fails with; values become line ends."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"\$\([^()]*\)|\$\{[^}]*\}|\$[\w*]+", "\n", text)
    spoken = re.findall(r"\b(?:echo|fail) ((?:\"[^\"]*\"\s*)+)", text)
    return [re.sub(r"\"\s*\"", " ", said).replace('"', "") for said in spoken]


def cmake_literals(text: str) -> list[str]:
    """What CMake stops with; values become line ends."""
    text = re.sub(r"\$\{[^}]*\}|@\w+@|\\n", "\n", text)
    spoken = re.findall(r"(?:FATAL_ERROR|NOT_FOUND_MESSAGE)\s*((?:\"[^\"]*\"\s*)+)", text)
    return [re.sub(r"\"\s*\"", "", said).replace('"', "") for said in spoken]


READERS = {".py": python_literals, ".cpp": cpp_literals, ".h": cpp_literals, ".sh": shell_literals,
           ".cmake": cmake_literals, ".in": cmake_literals}


def said_by(path: Path) -> list[str]:
    """The prose pieces of one source file."""
    literals = READERS[path.suffix](path.read_text())
    return [piece for literal in literals for piece in pieces(literal) if is_prose(piece)]


def quoted_lines(page: str) -> list[str]:
    """What the page quotes: each line of a `text` block is one message."""
    blocks = re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)
    return [tidy(line) for block in blocks for line in block.splitlines() if line.strip()]


def _whole(piece: str) -> str:
    """A pattern for a piece that does not begin or end within a word."""
    before = r"(?<!\w)" if piece[0].isalnum() else ""
    after = r"(?!\w)" if piece[-1].isalnum() else ""
    return before + re.escape(piece) + after


def is_quoted(piece: str, lines: list[str]) -> bool:
    pattern = re.compile(_whole(piece))
    return any(piece in line and pattern.search(line) for line in lines)


def not_said(lines: list[str], said: set[str]) -> list[str]:
    """What is quoted and no source says. Names and single words may stand for values; `[where]`
    and `outsize:` stand around many."""
    longest_first = "|".join(_whole(piece) for piece in sorted(said, key=len, reverse=True))
    rest = (re.sub(longest_first + r"|\[[\w-]+\]|^outsize:", GAP, line) for line in lines)
    return [tidy(part) for line in rest for part in line.split(GAP) if is_prose(part)]


def without_cause_and_cure(page: str) -> list[str]:
    """The quoted blocks that are followed by no explanation."""
    bare = []
    for entry in page.split("```text\n")[1:]:
        block, _, after = entry.partition("\n```\n")
        after = re.split(r"^#", after, maxsplit=1, flags=re.M)[0]
        if "**Meaning.**" not in after and not ("**Cause.**" in after and "**Cure.**" in after):
            bare.append(block)
    return bare
