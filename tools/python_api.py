"""The page of the Python API: what `outsize` offers, by its docstrings. Reads the sources only, so it
needs neither torch nor a build. A public name without a docstring is an error."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

PACKAGE = Path("python/outsize")
RETURNED = [("counters", "Stats")]  # not named by users, but handed to them


class Undocumented(Exception):
    """A public name says nothing about itself."""


@dataclass
class Entry:
    """One function, class or method."""

    name: str
    signature: str
    text: str
    fields: str = ""  # of a class of plain values, as they stand in the source
    members: list[Entry] = field(default_factory=list)


def _public_names(init: ast.Module) -> list[tuple[str, str]]:
    """(module, name) of everything in `__all__` that another module defines."""
    home: dict[str, str] = {}
    offered: list[str] = []
    for node in ast.walk(init):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outsize."):
            home |= {alias.name: (node.module or "").removeprefix("outsize.") for alias in node.names}
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            offered = ast.literal_eval(node.value)
    return [(home[name], name) for name in offered if name in home]


def _signature(name: str, function: ast.FunctionDef | None, is_method: bool) -> str:
    if function is None:
        return name
    arguments = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(arguments, ast.FunctionDef)
    if is_method:
        del arguments.args.args[0]
    if function.returns is None or ast.unparse(function.returns) == "None":
        return f"{name}({ast.unparse(arguments.args)})"
    return f"{name}({ast.unparse(arguments.args)}) -> {ast.unparse(function.returns)}"


def _docstring(node: ast.FunctionDef | ast.ClassDef, name: str) -> str:
    text = ast.get_docstring(node)
    if not text:
        raise Undocumented(f"{name} is not documented: give it a docstring")
    return text


def _fields(node: ast.ClassDef, source: str) -> str:
    """The lines of a dataclass that declare its values."""
    declared = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    if not declared:
        return ""
    lines = source.splitlines()[declared[0].lineno - 1:declared[-1].end_lineno]
    return "\n".join(line.removeprefix("    ") for line in lines)


def _entry(node: ast.FunctionDef | ast.ClassDef, name: str, source: str) -> Entry:
    text = _docstring(node, name)
    if isinstance(node, ast.FunctionDef):
        return Entry(name, _signature(name, node, is_method=False), text)
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    entry = Entry(name, _signature(name, methods.get("__init__"), is_method=True), text, _fields(node, source))
    for method in methods.values():
        whole = f"{name}.{method.name}"
        decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
        if method.name.startswith("_") or "classmethod" in decorators:
            continue
        signature = _signature(whole, method, is_method=True)
        if "property" in decorators:
            signature = signature.replace("()", "", 1)
        entry.members.append(Entry(whole, signature, _docstring(method, whole)))
    return entry


def entries(root: Path) -> list[Entry]:
    """Everything that users may name, in the order of `__all__`."""
    found = []
    for module, name in _public_names(ast.parse((root / PACKAGE / "__init__.py").read_text())) + RETURNED:
        source = (root / PACKAGE / f"{module}.py").read_text()
        tree = ast.parse(source)
        defined = tree.body + [node for block in tree.body if isinstance(block, ast.If) for node in block.body]
        for node in defined:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                found.append(_entry(node, f"outsize.{name}" if module != "counters" else name, source))
    return found


def _html(entry: Entry, level: int) -> str:
    parts = [f'<h{level} id="{escape(entry.name)}">{escape(entry.name)}</h{level}>',
             f'<pre class="signature">{escape(entry.signature)}</pre>',
             f'<div class="docstring">{escape(entry.text)}</div>']
    if entry.fields:
        parts.append(f"<pre><code>{escape(entry.fields)}</code></pre>")
    return "\n".join(parts + [_html(member, level + 1) for member in entry.members])


def page(root: Path) -> str:
    """The body of the page."""
    overview = ast.get_docstring(ast.parse((root / PACKAGE / "__init__.py").read_text())) or ""
    body = [f'<h1 id="python-api">Python API</h1>\n<div class="docstring">{escape(overview)}</div>']
    return "\n".join(body + [_html(entry, 2) for entry in entries(root)])
