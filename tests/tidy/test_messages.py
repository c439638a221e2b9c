"""docs/MESSAGES.md has an entry for everything that outsize can say, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import messages
import pytest
import rules

PAGE = (rules.ROOT / "docs/MESSAGES.md").read_text()
LINES = messages.quoted_lines(PAGE)
FOLDERS = ("adapter", "cmake", "core", "include", "planners", "platforms", "predictors", "python", "tools",
           "sim/foresight", "sim/replay.cpp", "sim/simrd", "sim/trace_program.cpp", "traces")
# Folders that say nothing to a user.
SILENT = {
    "core/check": "the judge of tests; `outsize replay` passes on what it says, for who mends the engine",
    "core/trace/decision_log": "its lines are data, not messages",
    "core/trace/trace_event.cpp": "names of kinds of events, which tests print",
    "traces/export_forms.h": "JSON and CSV: data, not messages",
    "python/outsize/pilot/graph_forms.py": "Graphviz, Mermaid and JSON: data, not messages",
    "planners/weights": "the planner says nothing, its solvers are called by tests and bench/weights_offloading.cpp",
    "tools/run_tests.py": "for contributors; its lines are the tests' results",
}
# Prose that no user meets as a message.
EXEMPT = {
    "the reading was interrupted": "the user sees the command's own word for Ctrl-C",
    "outsize replay": "the command's name, in its usage",
    "outsize pilot eval": "the command's name, in its usage",
    "outsize pilot graph": "the command's name, in its usage",
    "no span of time": "caught where it is raised; the user sees the message of parse_rate",
    "Something outsize could not do; the message says what, where and what to try.": "docstring",
    "More memory is needed than the budget, or the machine, allows.": "docstring",
    "The spill file could not be made, grown, read or written.": "docstring",
    "The compiled part of outsize. Programs use the outsize package instead.": "docstring",
    "Turns interception on or off for the calling thread; says whether it was on.": "docstring",
    "An operator log of DTR's public simulator.": "docstring",
    "A recorded run that can be simulated.": "docstring",
    "The path of a recorded run.": "docstring",
    "What the policy pilot has learnt, from a file.": "docstring",
    "What the policy pilot learns from recorded runs.": "docstring",
    "outsize pilot train": "the command's name, in its usage",
    "outsize pilot show": "the command's name, in its usage",
    "The simulators of outsize. Programs use the outsize package instead.": "docstring",
    "Using `torch.compile.module.` when there are global hooks": "a warning of torch that is kept from the user",
    "model name": "what /proc/cpuinfo calls it",
    "cpu model": "what /proc/cpuinfo calls it",
    "outsize bench step end": "an event's name in a profile that bench reads itself",
    "Python API": "a heading of build/docs",
    "For users": "a heading of build/docs",
    "For contributors": "a heading of build/docs",
    'echo $$ > "$0/cgroup.procs" && exec "$@"': "a shell's command",
}
# Quoted, and put together in the sources from single words or said by the kernel.
PUT_TOGETHER = {"pread of", "pwrite of", "userfaultfd failed:", "failed: Cannot allocate memory (errno 12).",
                "OSError: [Errno 14] Bad address", "userfaultfd: move, write-protect,"}


def sources() -> list[Path]:
    return [path for path in rules.tree()
            if any(path.is_relative_to(folder) for folder in FOLDERS) and path.suffix in messages.READERS
            and not path.name.endswith(rules.TEST_NAMES + ("_rig.h",))
            and not str(path).startswith(tuple(SILENT))]


SAID = {path: messages.said_by(rules.ROOT / path) for path in sources()}
ALL_SAID = {piece for said in SAID.values() for piece in said}


def test_there_is_something_to_compare():
    assert len(ALL_SAID) > 200 and len(LINES) > 100
    assert "The machine or the memory cgroup is out of memory." in ALL_SAID
    assert "the budget is" in ALL_SAID


@pytest.mark.parametrize("path", [path for path, said in SAID.items() if said], ids=str)
def test_every_message_has_an_entry(path: Path):
    missing = [piece for piece in SAID[path]
               if piece not in EXEMPT and not messages.is_quoted(piece, LINES)]
    assert missing == [], "give them an entry in docs/MESSAGES.md, with cause and cure"


def test_no_entry_is_left_of_a_message_that_has_gone():
    assert set(messages.not_said(LINES, ALL_SAID)) == PUT_TOGETHER


def test_no_exemption_outlives_its_words():
    assert set(EXEMPT) <= ALL_SAID
    assert [start for start in SILENT if not list(rules.ROOT.glob(start + "*"))] == []


def test_every_entry_has_a_cause_and_a_cure():
    assert messages.without_cause_and_cure(PAGE) == []


# --- the functions themselves, on bad and good examples -------------------------------------------

def test_words_of_cpp_are_found(tmp_path: Path):
    source = tmp_path / "a.cpp"
    source.write_text('#include "a file of ours"\n// "in a comment"\n'
                      'Error e{"the disk has " + mib(n) + " of its bytes "\n  "on the moon.", "where"};\n'
                      'std::fprintf(stderr, "outsize: the log %s is not whole\\n", name);\n')
    assert messages.said_by(source) == ["the disk has", "of its bytes on the moon.",
                                        "outsize: the log", "is not whole"]


def test_words_of_python_are_found(tmp_path: Path):
    source = tmp_path / "a.py"
    source.write_text('"""A docstring of it."""\n'
                      'add("--x", help="what it does")\n'
                      'raise ValueError(f"there are {n} of them"\n  " on the moon")\n'
                      '_log.warning("the budget is %s too large", n)\nNAME = "word"\n')
    assert sorted(messages.said_by(source)) == ["of them on the moon", "the budget is", "there are",
                                                "too large"]


def test_words_of_the_build_are_found(tmp_path: Path):
    script, config = tmp_path / "a.sh", tmp_path / "a.cmake"
    script.write_text('[ -x a ] || fail "$("$python" --version) is too old: $version is"\n'
                      'echo "outsize: one of two" \\\n  "and the other"\nX="not a message this"\n')
    config.write_text('message(FATAL_ERROR "no ${key} is there "\n  "at all")\nset(A "not this one")\n')
    assert messages.said_by(script) == ["is too old:", "outsize: one of two and the other"]
    assert messages.said_by(config) == ["is there at all"]


def test_what_is_missing_or_stale_is_noticed():
    page = "```text\nThe disk … is full. Buy another one.\n```\n\n**Cause.** So. **Cure.** Thus.\n"
    lines = messages.quoted_lines(page)
    assert messages.is_quoted("is full. Buy another one.", lines)
    assert not messages.is_quoted("The disk is on fire.", lines)
    assert messages.not_said(lines, {"The disk", "is full. Buy another one."}) == []
    assert messages.not_said(lines, {"The disk", "is full."}) == ["Buy another one."]
    assert messages.without_cause_and_cure(page) == []
    assert messages.without_cause_and_cure(page.replace("**Cure.**", "")) != []
    assert messages.without_cause_and_cure(re.sub(r"\*\*C\w+\.\*\*.*", "**Meaning.** It.", page)) == []
