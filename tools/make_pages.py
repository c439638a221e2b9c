"""Makes browsable pages of every Markdown document, of the Python API, and of the source files that
they link to. A link that leads nowhere is an error.

    make_pages.py PAGES [--root CHECKOUT]

Where PAGES/cpp holds the pages of the C++ API already, they are linked to.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath, relpath

import python_api
from markdown_it import MarkdownIt
from markdown_it.token import Token

# The sidebar: documents in the order in which one reads them; others come after them by name.
USERS = ["README.md", "docs/GUIDE.md", "docs/MESSAGES.md", "CHANGELOG.md"]
CONTRIBUTORS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/contributing/add-a-predictor.md",
                "docs/contributing/add-a-planner.md", "docs/contributing/add-a-platform.md",
                "docs/GLOSSARY.md", "docs/INVARIANTS.md", "docs/TESTING.md", "docs/DEPENDENCIES.md"]
SKIPPED = {".venv", "build", "dist", "__pycache__", ".git"}


def slug(heading: str) -> str:
    """The anchor that a heading gets, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def files_of(root: Path) -> list[str]:
    """Every file of the project: what git tracks, or an unpacked archive."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             cwd=root, capture_output=True, text=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*")
                 if path.is_file() and not SKIPPED & set(path.relative_to(root).parts)]
    return sorted(name for name in names if (root / name).is_file())


class Document:
    """One Markdown file: its title, its anchors, and its tokens."""

    def __init__(self, name: str, text: str, markdown: MarkdownIt) -> None:
        self.name = name
        self.tokens = markdown.parse(text)
        self.anchors: set[str] = set()
        self.title = name
        seen: Counter[str] = Counter()
        for token, inline in zip(self.tokens, self.tokens[1:]):
            if token.type != "heading_open":
                continue
            text = "".join(child.content for child in inline.children or [])
            anchor = slug(text)
            unique = f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
            seen[anchor] += 1
            token.attrSet("id", unique)
            self.anchors.add(unique)
            if token.tag == "h1" and self.title == name:
                self.title = text

    def links(self) -> list[Token]:
        return [child for token in self.tokens for child in token.children or []
                if child.type == "link_open"]


class Site:
    """All pages, and what is wrong with them."""

    def __init__(self, root: Path, out: Path) -> None:
        self.root, self.out = root, out
        self.files = files_of(root)
        self.markdown = MarkdownIt("commonmark").enable("table")
        self.documents = {name: Document(name, (root / name).read_text(), self.markdown)
                          for name in self.files if name.endswith(".md")}
        self.shown: list[str] = []  # source files and folders that have pages, or will
        self.problems: list[str] = []

    def place(self, name: str) -> str:
        """Where the page of a file or folder lies."""
        if name == "README.md":
            return "index.html"
        if name in self.documents:
            return name.removesuffix(".md") + ".html"
        return f"source/{name}/index.html" if (self.root / name).is_dir() else f"source/{name}.html"

    def link(self, page: str, name: str, anchor: str = "") -> str:
        return relpath(self.place(name), os.path.dirname(page) or ".") + (f"#{anchor}" if anchor else "")

    def follow(self, document: Document, href: str) -> str:
        """What a link of a document becomes."""
        if re.match(r"[a-z]+:", href):
            return href
        path, _, anchor = href.partition("#")
        name = normpath(f"{os.path.dirname(document.name)}/{path}".lstrip("/")) if path else document.name
        if name in self.documents:
            if anchor and anchor not in self.documents[name].anchors:
                self.problems.append(f"{document.name}: {href} (no such heading)")
        elif name not in self.files and not any(file.startswith(name + "/") for file in self.files):
            self.problems.append(f"{document.name}: {href} (no such file)")
            return href
        elif name not in self.shown:
            self.shown.append(name)
        return self.link(self.place(document.name), name, anchor if name in self.documents else "")

    def write(self, page: str, title: str, body: str) -> None:
        target = self.out / page
        target.parent.mkdir(parents=True, exist_ok=True)
        up = relpath(".", os.path.dirname(page) or ".")
        target.write_text(
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="stylesheet" href="{up}/pages.css"></head>\n<body><nav>{self.sidebar(page)}</nav>\n'
            f"<main>{body}</main></body></html>\n")

    def sidebar(self, page: str) -> str:
        api = [("python.html", "Python")]
        if (self.out / "cpp/index.html").exists():
            api.append(("cpp/index.html", "C++"))
        records = [name for name in self.documents if "/adr/" in name]
        listed = {*USERS, *CONTRIBUTORS, *records}
        more = [name for name in self.documents if name not in listed]
        groups = [("For users", self.entries(USERS)), ("API", api),
                  ("For contributors", self.entries(CONTRIBUTORS + more)), ("Decisions", self.entries(records))]
        base = os.path.dirname(page) or "."
        parts = []
        for title, entries in groups:
            items = "".join(f'<li><a href="{relpath(place, base)}">{escape(text)}</a></li>'
                            for place, text in entries)
            parts.append(f"<b>{title}</b><ul>{items}</ul>" if items else "")
        return "".join(parts)

    def entries(self, names: list[str]) -> list[tuple[str, str]]:
        return [(self.place(name), self.documents[name].title) for name in names if name in self.documents]

    def make(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(__file__).with_name("pages.css"), self.out)
        for document in self.documents.values():
            for token in document.links():
                token.attrSet("href", self.follow(document, str(token.attrGet("href"))))
            body = self.markdown.renderer.render(document.tokens, self.markdown.options, {})
            self.write(self.place(document.name), document.title, body)
        self.write("python.html", "Python API", python_api.page(self.root))
        for name in self.shown:  # grows while folders are shown
            self.show(name)
        self.problems += broken_links(self.out)

    def show(self, name: str) -> None:
        """The page of a source file, or of a folder."""
        page = self.place(name)
        if (self.root / name).is_dir():
            inside = [file for file in self.files if file.startswith(name + "/")]
            self.shown += [file for file in inside if file not in self.shown and file not in self.documents]
            items = "".join(f'<li><a href="{self.link(page, file)}">{escape(file)}</a></li>' for file in inside)
            self.write(page, name, f"<h1>{escape(name)}</h1><ul>{items}</ul>")
            return
        text = (self.root / name).read_text(errors="replace")
        self.write(page, name, f"<h1>{escape(name)}</h1><pre><code>{escape(text)}</code></pre>")


# --- the pages as they lie there -------------------------------------------------------------------

class Reader(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name == "href" and value:
                self.links.append(value)


def broken_links(out: Path) -> list[str]:
    """Links between our pages that lead nowhere. Doxygen answers for its own."""
    readers: dict[Path, Reader] = {}
    for path in out.rglob("*.html"):
        if path.relative_to(out).parts[0] != "cpp":
            readers[path.resolve()] = reader = Reader()
            reader.feed(path.read_text())
    broken = []
    for path, reader in readers.items():
        for link in reader.links:
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            outside = re.match(r"[a-z]+:", link)
            lost = not target.exists() or bool(anchor) and target in readers and anchor not in readers[target].anchors
            if not outside and lost:
                broken.append(f"{path.relative_to(out.resolve())}: {link}")
    return broken


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    args = parser.parse_args(argv)
    site = Site(args.root, args.pages)
    try:
        site.make()
    except python_api.Undocumented as problem:
        site.problems.append(str(problem))
    for problem in site.problems:
        print(f"outsize: {problem}", file=sys.stderr)
    return 1 if site.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
