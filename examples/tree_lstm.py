"""A child-sum Tree-LSTM over syntax trees, one cell with its own weights per kind of node.

    python tree_lstm.py
    outsize run --budget 153MiB tree_lstm.py

The path through the network *is* the tree: every function of Python's standard library calls other
cells in another order. The network sees a function's body and guesses the first word of its name.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import random
import zlib
from dataclasses import dataclass

import torch
from common import Reporter, add_common_options, parse, stdlib_functions
from torch import Tensor, nn

WORD_BUCKETS = 2048
OTHER = "other"


@dataclass(frozen=True)
class Node:
    kind: str
    word: int  # bucket of the identifier or constant at this node
    children: tuple[int, ...]  # positions of the children, all before this node


@dataclass(frozen=True)
class Tree:
    nodes: tuple[Node, ...]  # children first, the root last
    label: str


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8, help="trees per step (%(default)s)")
    parser.add_argument("--functions", type=int, default=0, help="how many to read (0: all there are)")
    parser.add_argument("--max-nodes", type=int, default=300, help="largest tree (%(default)s)")
    parser.add_argument("--classes", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="adam")
    add_common_options(parser, steps=20)
    return parse(parser, tiny={"functions": 400, "hidden": 32, "batch": 2, "max_nodes": 60, "steps": 4})


def word_of(node: ast.AST) -> int:
    """A stable bucket for the name or constant that a node carries (Python's hash is salted)."""
    for field in ("id", "attr", "arg", "value"):
        value = getattr(node, field, None)
        if isinstance(value, (str, int, float, bytes)):
            return 1 + zlib.crc32(repr(value).encode()) % (WORD_BUCKETS - 1)
    return 0


def flatten(function: ast.FunctionDef) -> tuple[Node, ...]:
    """The nodes of a function's body, children before parents; no recursion, bodies can be deep."""
    nodes: list[Node] = []
    stack: list[tuple[ast.AST, list[int], list[int], bool]] = [(function, [], [], False)]
    while stack:
        node, mine, parents, seen = stack.pop()
        if seen:
            parents.append(len(nodes))
            nodes.append(Node(type(node).__name__, word_of(node), tuple(mine)))
            continue
        stack.append((node, mine, parents, True))
        for child in reversed(list(ast.iter_child_nodes(node))):
            stack.append((child, [], mine, False))
    return tuple(nodes)


def load_trees(functions: int, max_nodes: int, classes: int) -> tuple[list[Tree], dict[str, int]]:
    trees: list[Tree] = []
    counts: dict[str, int] = {}
    for function in itertools.islice(stdlib_functions(), functions or None):
        nodes = flatten(function)
        if 8 <= len(nodes) <= max_nodes:
            label = function.name.strip("_").split("_")[0].lower() or OTHER
            counts[label] = counts.get(label, 0) + 1
            trees.append(Tree(nodes, label))
    common = sorted(counts, key=lambda label: (-counts[label], label))[: classes - 1]
    labels = {label: index for index, label in enumerate(common)}
    labels[OTHER] = len(labels)
    return trees, labels


class Cell(nn.Module):
    """One child-sum LSTM cell; every kind of node has its own."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.gates_x = nn.Linear(hidden, 4 * hidden)
        self.gates_h = nn.Linear(hidden, 3 * hidden, bias=False)
        self.forget_h = nn.Linear(hidden, hidden, bias=False)

    def forward(self, word: Tensor, states: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        gates = self.gates_x(word)
        if not states:
            i, o, u, _ = gates.chunk(4)
            cell = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(cell), cell
        children_h = torch.stack([h for h, _ in states])
        children_c = torch.stack([c for _, c in states])
        iou, forget = gates.split([3 * word.numel(), word.numel()])
        i, o, u = (iou + self.gates_h(children_h.sum(0))).chunk(3)
        kept = torch.sigmoid(forget + self.forget_h(children_h)) * children_c
        cell = torch.sigmoid(i) * torch.tanh(u) + kept.sum(0)
        return torch.sigmoid(o) * torch.tanh(cell), cell


class TreeLstm(nn.Module):
    def __init__(self, kinds: list[str], hidden: int, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORD_BUCKETS, hidden)
        self.cells = nn.ModuleDict({kind: Cell(hidden) for kind in kinds})
        self.head = nn.Linear(hidden, classes)

    def forward(self, tree: Tree) -> Tensor:
        words = self.words(torch.tensor([node.word for node in tree.nodes]))
        states: list[tuple[Tensor, Tensor]] = []
        for node, word in zip(tree.nodes, words, strict=True):
            states.append(self.cells[node.kind](word, [states[child] for child in node.children]))
        return self.head(states[-1][0])


def main() -> None:
    args = parse_args()
    trees, labels = load_trees(args.functions, args.max_nodes, args.classes)
    kinds = sorted({node.kind for tree in trees for node in tree.nodes})
    model = TreeLstm(kinds, args.hidden, len(labels))
    make = torch.optim.Adam if args.optimizer == "adam" else torch.optim.SGD
    optimizer = make(model.parameters(), lr=args.lr)
    picker = random.Random(args.seed)
    reporter = Reporter("tree_lstm")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        batch = picker.sample(trees, args.batch)
        targets = torch.tensor([labels.get(tree.label, labels[OTHER]) for tree in batch])
        scores = torch.stack([model(tree) for tree in batch])
        loss = nn.functional.cross_entropy(scores, targets)
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
