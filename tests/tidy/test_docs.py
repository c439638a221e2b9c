"""The documents tell the truth: links lead somewhere, words live where the glossary says, the
picture shows the folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rules
from support import pages

MARKDOWN = [path for path in rules.tree() if path.suffix == ".md"]
GLOSSARY = rules.glossary_rows((rules.ROOT / "docs/GLOSSARY.md").read_text())
CODE_FOLDERS = {"adapter", "core", "include", "planners", "platforms", "predictors", "python", "sim", "traces"}


@pytest.mark.parametrize("path", MARKDOWN, ids=str)
def test_links_resolve(path: Path):
    assert rules.broken_links(path) == []


def test_a_broken_link_is_found(tmp_path: Path):
    (tmp_path / "a.md").write_text("# One thing\n[x](b.md) [y](#one-thing) [z](#another) `[n](no.md)`")
    assert rules.broken_links(Path("a.md"), tmp_path) == ["a.md: b.md",
                                                          "a.md: #another (no such heading)"]


def test_the_glossary_has_its_words():
    words = {word for word, _ in GLOSSARY}
    assert {"storage", "extent", "tier", "pin", "op site", "step", "predictor", "planner", "driver",
            "spill", "drop", "fetch", "prefetch"} <= words


@pytest.mark.parametrize("word, places", GLOSSARY, ids=[word for word, _ in GLOSSARY])
def test_a_word_lives_where_the_glossary_says(word: str, places: list[str]):
    assert places, f"the glossary names no place for {word!r}"
    for place in places:
        assert (rules.ROOT / place).exists(), place
        assert rules.word_is_in(word, rules.ROOT / place), f"{word!r} is not found in {place}"


def test_a_word_that_is_not_there_is_noticed(tmp_path: Path):
    (tmp_path / "a.h").write_text("struct OpSite {};")
    assert rules.word_is_in("op site", tmp_path)
    assert not rules.word_is_in("extent", tmp_path)


def test_every_invariant_names_where_it_lives():
    text = (rules.ROOT / "docs/INVARIANTS.md").read_text()
    rows = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", text, re.M)
    assert [int(number) for number, *_ in rows] == list(range(1, 12))
    for number, _, enforced, tested in rows:
        if "nothing is recomputed yet" in enforced:
            continue
        for column in (enforced, tested):
            places = re.findall(r"`([^`]+)`", column)
            assert places, f"invariant {number}: no place"
            assert [place for place in places if not (rules.ROOT / place).is_file()] == []


def picture() -> str:
    text = (rules.ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("## The picture", 1)[1]
    return re.search(r"```\n(.*?)```", section, re.S).group(1)


def test_the_picture_shows_what_exists():
    shown = set(re.findall(r"\b[a-z]+/[a-z/]*", picture()))
    assert len(shown) > 8
    missing = {name for name in shown if not (rules.ROOT / name).is_dir()}
    assert missing == set()


def test_everything_that_exists_is_in_the_picture():
    files = rules.tree()
    tops = {path.parts[0] for path in files if path.suffix in rules.CPP} - {"examples", "bench", "tests"}
    assert tops <= CODE_FOLDERS, "a new top-level folder: draw it into ARCHITECTURE.md's picture"
    core = {"/".join(path.parts[:2]) for path in files if path.parts[0] == "core"}
    platforms = {"/".join(path.parts[:2]) for path in files if path.parts[0] == "platforms"}
    for folder in tops | core | platforms:
        assert folder in picture(), f"{folder} is not in ARCHITECTURE.md's picture"


def test_every_decision_record_is_complete():
    records = sorted((rules.ROOT / "docs/adr").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        headings = re.findall(r"^## (.+)$", path.read_text(), re.M)
        assert headings == ["Context", "Decision", "Price", "How we would know it is wrong"], path.name


@pytest.mark.parametrize("page", sorted((rules.ROOT / "docs/contributing").glob("*.md")), ids=lambda path: path.stem)
def test_what_contributors_are_shown_keeps_the_rules(page: Path):
    files = [snippet for snippet in pages.snippets(page.read_text()) if snippet.path.endswith((".h", ".cpp"))]
    assert len(files) >= 3
    for snippet in files:
        lines = [line[1:] for line in snippet.text.splitlines() if line.startswith("+")]
        text = "\n".join(lines) if snippet.is_change else snippet.text
        assert rules.wrong_includes(Path(snippet.path), text) == []
        assert rules.long_cpp_functions(text) == []


def test_every_dependency_has_its_reason():
    text = (rules.ROOT / "docs/DEPENDENCIES.md").read_text()
    for name in ("requirements.txt", "requirements-torch.txt"):
        for line in (rules.ROOT / name).read_text().splitlines():
            if re.match(r"[A-Za-z]", line):
                package = re.split(r"[=<>\[]", line)[0]
                assert f"`{package}`" in text, f"docs/DEPENDENCIES.md does not say why {package}"
