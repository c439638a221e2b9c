"""What a benchmark runs: an example by its name, or any script that steps an optimizer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

LOSS_LINE = re.compile(r"^step (\d+) loss (\S+)")


class WorkloadError(ValueError):
    """There is no such workload; the message says which there are."""


@dataclass(frozen=True)
class Workload:
    name: str
    script: Path
    args: tuple[str, ...] = ()
    is_example: bool = False

    def for_steps(self, steps: int) -> Workload:
        """An example told how many steps to run; other scripts are stopped when we are done."""
        if not self.is_example or "--steps" in self.args:
            return self
        return replace(self, args=(*self.args, "--steps", str(steps)))


def examples_folder() -> Path:
    """Where the examples lie: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "gpt_bytes.py").is_file():
            return folder
    raise WorkloadError(
        f"The examples are not installed beside {package}; name a script of your own instead."
    )


def example_names() -> list[str]:
    try:
        folder = examples_folder()
    except WorkloadError:
        return []
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "common")


def find(name: str, args: list[str]) -> Workload:
    """A workload from an example's name or a script's path."""
    if name in example_names():
        return Workload(name, examples_folder() / f"{name}.py", tuple(args), is_example=True)
    path = Path(name)
    if path.is_file():
        return Workload(path.stem, path, tuple(args))
    raise WorkloadError(
        f"'{name}' is neither an example ({', '.join(example_names())}) nor a script."
    )


def parse_losses(lines: list[str]) -> list[str]:
    """The losses a script printed as `step I loss X`, as text: equal text means equal bits."""
    return [match[2] for line in lines if (match := LOSS_LINE.match(line))]
