"""The table at the end of a run, and the same facts as JSON.

It is what a user pastes into a bug report: peak against budget, what moved, what it cost, and what
to change next time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from outsize import machine
from outsize.counters import SSD_RATED_WRITES, Stats
from outsize.units import format_bytes, format_count, format_days, format_decimal, format_seconds


UNTRACKED_WORTH_TELLING = 32 << 20  # bytes


def rows(stats: Stats) -> list[tuple[str, str]]:
    """The table's lines: name and value."""
    if not stats.budget:
        return [("budget", "none has been in force")]
    table = [
        ("policy", f"{stats.policy}, page faults by {stats.mechanism}"),
        *([("foresight", stats.foresight)] if stats.foresight else []),
        *([("pilot's model", _pilot(stats))] if stats.pilot_ops else []),
        *([("recorded run", foreseen(stats))] if stats.foresee_ops else []),
        ("peak in RAM", _peak(stats)),
        ("peak of all tensors", format_bytes(stats.tensor_bytes_peak)),
        ("whole process", _whole_process(stats)),
        ("time", f"{format_seconds(stats.seconds)}, {format_count(stats.steps, 'step')}"),
        ("stall", f"{format_seconds(stats.stall_seconds)} ({stats.stall_share:.1%} of the time)"),
        ("moved up", _moved(stats.read_bytes, stats.steps)),
        ("moved down", _moved(stats.write_bytes, stats.steps)),
        ("recompute", "0 B (this policy moves bytes, it recomputes none)"),
        ("prediction hits", _hits(stats)),
        ("disk writes", _disk_writes(stats)),
    ]
    if stats.rated_life_days is not None:
        table.append(("disk life", _disk_life(stats)))
    if stats.disk_write_limit:
        table.append(("disk write limit", _disk_write_limit(stats)))
    if stats.verified_bytes:
        table.append(("verified", _verified(stats)))
    if stats.untracked and stats.untracked[0][1] >= UNTRACKED_WORTH_TELLING:
        table.append(("untracked", _untracked(stats)))
    if stats.raw_faults:
        table.append(("raw accesses", format_count(stats.raw_faults, "page fault")))
    if stats.min_spill_file:
        table.append(("spill file", f"{format_bytes(stats.min_spill_file)} or more would have done"))
    table.append(("smallest budget", _smallest(stats)))
    return table


def foreseen(stats: Stats) -> str:
    """How far the run was the one that its policy had been told."""
    ops = format_count(stats.foresee_ops, "op")
    if stats.foresee_known_ops == stats.foresee_ops:
        return f"every one of {ops} came as recorded"
    other = stats.foresee_ops - stats.foresee_known_ops
    rest = ": at the end nothing was foreseen any more" if stats.foresee_given_up else ""
    return f"{other:,} of {ops} did not come as recorded" + rest


def _pilot(stats: Stats) -> str:
    share = 100 * stats.pilot_known_ops // stats.pilot_ops
    knew = f"knew {share} % of the first {format_count(stats.pilot_ops, 'op')}"
    return knew + (": given up but for what has no names" if stats.pilot_given_up else "")


def _peak(stats: Stats) -> str:
    if stats.process_budget:
        return f"{format_bytes(stats.resident_peak)} of tensors"
    return _of_a_budget(stats.resident_peak, stats.budget)


def _of_a_budget(peak: int, budget: int) -> str:
    return f"{format_bytes(peak)} of a budget of {format_bytes(budget)} ({peak / budget:.0%})"


def _whole_process(stats: Stats) -> str:
    if not stats.process_peak:
        return "not known (/proc/self/statm cannot be read)"
    if stats.process_budget:
        over = stats.process_peak > stats.process_budget
        return _of_a_budget(stats.process_peak, stats.process_budget) + (
            ": more than the budget, which is too small for this program" if over else ""
        )
    return f"{format_bytes(stats.process_peak)} in RAM at its peak, with what is no tensor"


def _moved(moved: int, steps: int) -> str:
    if not moved:
        return "nothing"
    per_step = f", {format_bytes(moved / steps)} a step" if steps else ""
    return format_bytes(moved) + per_step


def _hits(stats: Stats) -> str:
    share = stats.prefetch_hit_share
    if share is None:
        return "nothing had to come back"
    return f"{share:.1%} of the bytes that came back were there before they were needed"


def _disk_writes(stats: Stats) -> str:
    if not stats.write_bytes:
        return "none"
    return (
        f"{format_bytes(stats.write_bytes)}, {format_decimal(stats.written_bytes_per_day)} a day at"
        f" this pace; spill file {format_bytes(stats.spill_file)} in {stats.spill_dir}"
    )


def _untracked(stats: Stats) -> str:
    """Bytes beside tensors that came and may have gone; the largest few."""
    largest = [f"{format_bytes(size)} in {op}" for op, size in stats.untracked[:3]]
    return "; ".join(largest) + " (RAM that is no tensor: kernels' scratch, Python objects)"


def _disk_life(stats: Stats) -> str:
    return (
        f"{format_days(stats.rated_life_days or 0.0)} at this pace, were it a consumer SSD of this size"
        f" ({format_decimal(stats.disk_size)}, rated for"
        f" {format_decimal(stats.disk_size * SSD_RATED_WRITES)} written)"
    )


def _disk_write_limit(stats: Stats) -> str:
    limit = stats.disk_write_limit
    pace = f"{format_decimal(limit)} a second ({format_decimal(limit * 86400)} a day)"
    if not stats.held_back:
        return f"{pace}: nobody had to wait for it"
    return f"{pace}: writes that were needed waited {format_seconds(stats.held_back_seconds)} for it"


def _verified(stats: Stats) -> str:
    return (
        f"{format_bytes(stats.verified_bytes)} checksummed in"
        f" {format_seconds(stats.verify_seconds)} on the I/O threads"
    )


def _smallest(stats: Stats) -> str:
    if not stats.min_budget:
        return "not known yet (no op was seen)"
    op = f", needed by {stats.min_budget_op}" if stats.min_budget_op else ""
    return format_bytes(stats.min_budget) + op


def advice(stats: Stats) -> str | None:
    """The one thing most worth trying next, if there is one."""
    refused = _of_refused(stats)
    if refused is not None:
        return refused
    if stats.budget and not stats.read_bytes and not stats.write_bytes:
        return "Everything fitted: nothing had to move."
    if stats.budget and not stats.steps and stats.policy == "lookahead":
        return (
            "No step's end was seen, so little could be foreseen: call outsize.step() at the end of"
            " each iteration (an optimizer of torch.optim does it for you)."
        )
    if stats.held_back > stats.stall / 2 and stats.stall_share > 0.1:
        return "Most of the stall is for --disk-write-limit: a larger --budget writes less."
    if stats.stall_share > 0.25:
        return (
            f"Ops waited {stats.stall_share:.0%} of the time for bytes to move: a larger --budget"
            " or a faster --spill-dir would help most (`outsize doctor` measures the disk)."
        )
    return None


def _of_refused(stats: Stats) -> str | None:
    """Ops may be refused for several reasons: the one that hides the others."""
    if stats.budget and stats.min_budget > stats.budget and not stats.process_budget:
        return (
            f"An op was refused: it needs a budget of at least {format_bytes(stats.min_budget)}, and"
            " others may need more."
        )
    if stats.min_spill_file:
        return (
            "An op was refused for want of room to spill to: that takes"
            f" {format_bytes(stats.min_spill_file)} or more, as other ops may need more. A larger --budget"
            " takes less."
        )
    if stats.refused_ops:
        return "An op was refused: its error says what it needs, and other ops may need more."
    return None


def print_report(
    stats: Stats, stream: TextIO | None = None, *, title: str = "outsize", ended: bool = False
) -> None:
    """Writes the table: framed where a person looks on, plain lines elsewhere. `ended`: the program
    itself ended the budget, before its own end."""
    out = stream if stream is not None else sys.stderr
    table = rows(stats)
    if ended:
        table.append(("ended", "by outsize.disable(); this table tells of the time until then"))
    note = advice(stats)
    if out.isatty():
        _print_rich(table, note, title, out)
        return
    width = max(len(name) for name, _ in table)
    lines = [f"{title}:"] + [f"  {name:<{width}}  {value}" for name, value in table]
    if note:
        lines.append(f"  {note}")
    out.write("\n".join(lines) + "\n")
    out.flush()


def _print_rich(table: list[tuple[str, str]], note: str | None, title: str, out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    framed = Table(box=box.ROUNDED, show_header=False, title=title, caption=note)
    framed.add_column(style="bold", no_wrap=True)
    framed.add_column(overflow="fold")
    for name, value in table:
        framed.add_row(Text(name), Text(value))
    Console(file=out).print(framed)


def as_json(stats: Stats, options: dict[str, Any]) -> dict[str, Any]:
    return {"outsize": options, "stats": stats.as_dict(), "machine": machine.describe()}


def write_json(path: str, facts: dict[str, Any]) -> None:
    """`-` is stdout. The work is done by now: a file that cannot be written is only told."""
    text = json.dumps(facts, indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        print(f"outsize: the report could not be written to {path}: {error}", file=sys.stderr)
