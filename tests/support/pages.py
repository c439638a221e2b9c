"""What pages of docs/contributing tell a contributor to write: files, and changes to files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^`([\w/.-]+)`:\n\n```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Snippet:
    path: str  # from the root of the checkout
    text: str
    is_change: bool  # of a file that is there already

    def write(self, root: Path) -> None:
        target = root / self.path
        if self.is_change:
            target.write_text(changed(target.read_text(), self.text))
            return
        assert not target.exists(), f"{self.path} exists: show a page's reader what to change in it"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.text)


def snippets(page: str) -> list[Snippet]:
    return [Snippet(path, text, kind == "diff") for path, kind, text in BLOCK.findall(page)]


def changed(text: str, diff: str) -> str:
    """`text` after a diff whose hunks are parted by `@@` lines; each must fit in exactly one place."""
    for hunk in re.split(r"^@@\n", diff, flags=re.M):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -\n" or line == "\n")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        if text.count(before) != 1 and len(lines) == 2:  # a piece of a line, and what it becomes
            before, after = before.rstrip("\n"), after.rstrip("\n")
        assert text.count(before) == 1, f"does not fit in one place:\n{hunk}"
        text = text.replace(before, after)
    return text
