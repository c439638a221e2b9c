"""What a sample's inputs say of the work to come (outsize/samples.py), and who is told."""

from __future__ import annotations

import enum
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.launch import clean_environment

pytest.importorskip("outsize._core")


def crc(text: str) -> float:
    return float(zlib.crc32(text.encode()))


@dataclass(frozen=True)
class Node:
    kind: str
    word: int
    children: tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    nodes: tuple[Node, ...]
    label: str
    _cache: int = 0


class Slotted:
    __slots__ = ("left", "unset")


class Mode(enum.Enum):
    FAST = object()


class Point(NamedTuple):
    x: int
    y: float


def said(*arguments: Any, **named: Any) -> dict[str, list[float]]:
    from outsize.samples import features_of

    features = features_of(arguments, named)
    assert all(type(number) is float for _, numbers in features for number in numbers)
    assert len(dict(features)) == len(features), "two of one name"
    return dict(features)


def test_features_are_bounded():
    import torch
    from outsize.samples import ALL_VALUES_MAX, FEATURES_MAX, VALUES_MAX, features_of

    features = features_of([[torch.ones(1)] * 1000, list(range(1000))], {"a": 1})
    assert len(features) == FEATURES_MAX
    assert features[0] == ("0 length", [1000.0])
    assert len(features_of([list(range(100_000))], {})[0][1]) == VALUES_MAX
    many = features_of([[[1.5] * VALUES_MAX] * 2 * FEATURES_MAX], {})
    assert len(many) == FEATURES_MAX
    assert sum(len(numbers) for _, numbers in many) == ALL_VALUES_MAX
    assert len(features_of([["word"] * 100_000], {})[0][1]) == VALUES_MAX
    assert len(features_of([[Point(1, 2.0)] * 100_000], {})[1][1]) == VALUES_MAX


def test_a_tree_is_a_few_rows():
    nodes = (Node("leaf", 7, ()), Node("leaf", 8, ()), Node("add", 0, (0, 1)))
    assert said(Tree(nodes, "sum"), depth=2) == {
        "0.nodes length": [3],
        "0.nodes.*.kind": [crc("leaf"), crc("leaf"), crc("add")],
        "0.nodes.*.word": [7, 8, 0],
        "0.nodes.*.children length": [0, 0, 2],
        "0.label": [crc("sum")],
        "depth": [2],
    }


def test_a_tree_is_told_at_once():
    nodes = tuple(Node(f"kind {i % 40}", i, tuple(range(i % 3))) for i in range(300))
    took = []
    for _ in range(20):
        before = time.perf_counter()
        said(Tree(nodes, "label"))
        took.append(time.perf_counter() - before)
    assert min(took) < 1e-3, "well under a millisecond, but other programs run as well"


def test_rows_of_other_things():
    import torch

    assert said([{"n": 1, "x": torch.ones(2, 3)}, {"n": 2.5, "x": torch.ones(4, 3)}]) == {
        "0 length": [2], "0.*.n": [1, 2.5], "0.*.x float32": [2, 3, 4, 3]}
    assert said([Point(1, 0.5), Point(2, 1.5)]) == {"0 length": [2], "0.*.x": [1, 2], "0.*.y": [0.5, 1.5]}
    assert said(((0, 1), (1, 2))) == {"0 length": [2], "0.*.0": [0, 1], "0.*.1": [1, 2]}
    assert said([("a", None), ("b", 5), ("c", 6)]) == {
        "0 length": [3], "0.*.0": [crc("a"), crc("b"), crc("c")], "0.*.1": [-1, 5, 6]}
    assert said([{"x": torch.ones(2)}, {"x": torch.ones(2, dtype=torch.long)}, {"x": None}]) == {
        "0 length": [3], "0.*.x tensors": [2, 2]}
    # Not all alike: each for itself, as before.
    assert said([{"a": 1}, {"b": 2}]) == {
        "0 length": [2], "0.0 length": [1], "0.0.a": [1], "0.1 length": [1], "0.1.b": [2]}
    assert said(([1, 2], [3])) == {"0 length": [2], "0.0 numbers": [1, 2], "0.1 numbers": [3]}
    assert said([torch.ones(2), torch.ones(3)]) == {"0 length": [2], "0.0 float32": [2], "0.1 float32": [3]}


def test_fields_and_names():
    half = Slotted()
    half.left = Point(3, 4.0)
    assert said(half, Mode.FAST, "fast", Slotted) == {
        "0.left.x": [3], "0.left.y": [4], "1": [crc("FAST")], "2": [crc("fast")]}
    assert said(["a", "b", "a"]) == {"0 strings": [crc("a"), crc("b"), crc("a")]}
    long = "x" * 257
    assert said(long, ["a", long], [("k", long), ("l", "b")], {"x" * 300: 1}) == {
        "0 length": [257], "1 strings lengths": [1, 257], "2 length": [2], "2.*.0": [crc("k"), crc("l")],
        "2.*.1 length": [257, 1], "3 length": [1], "3." + "x" * 256: [1]}
    assert said("\ud800") == {"0": [float(zlib.crc32(b"\xed\xa0\x80"))]}


def test_what_has_no_end_is_left():
    loop = Slotted()
    loop.left = loop
    assert said(loop, 5) == {"1": [5]}
    ring: list[Any] = []
    ring.extend([ring, ring])
    assert len(said(ring)) == 64


def test_only_a_policy_that_wants_samples_pays_for_them():
    from outsize.samples import wanted_by

    assert [wanted_by(policy) for policy in ("pilot", "pilot:search=off", "auto", "auto:rest=64")] == [True] * 4
    others = ("lookahead", "ondemand", "deepum:degree=4", "pilots", "automatic")
    assert [wanted_by(policy) for policy in others] == [False] * 5


# Whether the policy wants them is the argument; nothing is recorded.
SESSION = """
import sys
import torch, outsize
from outsize import samples
from torch.nn.modules import module

samples.wanted_by = lambda policy: sys.argv[1] == "wanted"
model = torch.nn.Linear(8, 8)
with outsize.budget("256MiB", decision_log="run.log"):
    for step in range(3):
        if step == 2:
            outsize.hint(says={"experts": [7, 9]})
        model(torch.randn(4 + step, 8)).sum().backward()
        outsize.step()
assert not module._global_forward_pre_hooks
outsize.hint(says={"experts": [1, 2]})
model(torch.randn(9, 8))
"""


@pytest.mark.parametrize("wanted", ["wanted", "not wanted"])
def test_a_session_tells_its_policy_of_samples(wanted: str, tmp_path: Path):
    from outsize.replay import load

    script = tmp_path / "itself.py"
    script.write_text(SESSION)
    done = subprocess.run([sys.executable, script, wanted], env=clean_environment(), cwd=tmp_path, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, done.stderr
    log = tmp_path / "run.log"
    lines = [line for line in log.read_text().splitlines() if line.startswith("> sample ")]
    shapes = [re.findall(r" v2 v(\d+) v(\d+)", line)[:1] for line in lines]  # the first feature: two numbers
    assert shapes == ([[("4", "8")], [("5", "8")], [("7", "9")]] if wanted == "wanted" else [])
    replayed = load().replay(str(log))
    assert replayed["same"] and replayed["violations"] == [], replayed


def test_a_sample_is_one_also_after_ctrl_c_in_a_forward():
    import torch
    from outsize.samples import SampleWatch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
            self.trouble: BaseException | None = None

        def forward(self, x):
            x = self.inner(x)
            if self.trouble is not None:
                raise self.trouble
            return self.inner(x)

    told: list[Any] = []
    watch = SampleWatch(told.append)
    watch.attach()
    try:
        model = Model()
        for rows, trouble in ((1, None), (2, KeyboardInterrupt()), (3, ValueError()), (4, None)):
            model.trouble = trouble
            try:
                model(torch.ones(rows, 2))
            except (KeyboardInterrupt, ValueError):
                pass
    finally:
        watch.detach()
    model.trouble = None
    model(torch.ones(5, 2))
    assert [sizes[0] for ((_, sizes),) in told] == [1, 2, 3, 4]


def test_what_the_program_says_itself_goes_with_the_next_call():
    import torch
    from outsize.samples import FEATURES_MAX, SampleWatch

    told: list[Any] = []
    watch = SampleWatch(told.append)
    watch.attach()
    try:
        model = torch.nn.Linear(2, 2)
        watch.hint({"experts": [3, 1, 3]})
        watch.hint({"kind": "poem", "experts": [3, 1, 2]})
        model(torch.ones(4, 2))
        model(torch.ones(5, 2))
        watch.hint({f"{i}": i for i in range(2 * FEATURES_MAX)})
        model(torch.ones(6, 2))
    finally:
        watch.detach()
    assert told[0] == [("hint experts numbers", [3, 1, 2]), ("hint kind", [crc("poem")]), ("0 float32", [4, 2])]
    assert told[1] == [("0 float32", [5, 2])]
    assert len(told[2]) == FEATURES_MAX


def test_one_odd_part_leaves_the_rest_told():
    class Odd:
        __slots__ = ("first",)

        def __getattr__(self, name):
            raise RuntimeError("not now")

    from outsize.samples import features_of

    assert ("1", [3.0]) in features_of([Odd(), 3, [Odd(), 1]], {})


def test_what_may_have_to_be_read_first_is_told_by_its_length():
    class Lazy(Mapping):
        def __getitem__(self, key):
            raise AssertionError("looked into")

        def __iter__(self):
            return iter("ab")

        def __len__(self):
            return 2

    from outsize.samples import features_of

    assert features_of([Lazy()], {}) == [("0 length", [2.0])]


def test_small_tensors_say_what_their_values_look_like():
    import torch
    from outsize import _core
    from outsize.samples import features_of

    text = torch.tensor([[5, 5, 9], [1, 2, 3]])
    assert features_of([text], {}, _core.look_at) == [
        ("0 int64", [2, 3]),
        ("0 int64 values", [5, 5, 9, 1, 2, 3]),
        ("0 int64 distinct", [2, 3]),
        ("0 int64 commonest", [2, 1]),
    ]
    columns = text.to(torch.uint8).t()[1:]
    assert dict(features_of([columns], {}, _core.look_at))["0 uint8 values"] == [5, 2, 9, 3]
    fractions = dict(features_of([torch.tensor([0.5, 0.5, 1.0])], {}, _core.look_at))
    assert fractions == {"0 float32": [3], "0 float32 distinct": [2], "0 float32 commonest": [2]}
    flags = dict(features_of([torch.tensor([True, False])], {}, _core.look_at))
    assert flags["0 bool values"] == [1, 0]


def test_tensors_that_cannot_be_looked_at_say_their_shapes():
    import torch
    from outsize import _core
    from outsize.samples import features_of

    odd = {
        "large": torch.zeros(1 << 20, dtype=torch.int64),
        "none": torch.zeros(0, dtype=torch.int64),
        "elsewhere": torch.zeros(4, device="meta"),
        "sparse": torch.eye(3).to_sparse(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "complex": torch.zeros(3, dtype=torch.complex128),
        "lying": torch.empty(0).set_(torch.empty(8).untyped_storage(), 0, (4,), (2,)),
    }
    odd["resized"] = torch.ones(64)
    odd["resized"].untyped_storage().resize_(0)
    found = dict(features_of([], odd, _core.look_at))
    assert found["large int64"] == [1 << 20]
    told = {name for name in found if name.endswith(("values", "distinct", "commonest"))}
    assert told == {"lying float32 distinct", "lying float32 commonest"}
