"""What a page draws of a timeline (core/trace/timeline.h): rows few enough for a browser.

Times count from the first that is drawn, in units of so many nanoseconds that they stay short. Neighbours
are put together until there are few enough; of stalls the longest stay as they are. What that left out is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

BARS_MAX = 1200  # of each lane, on a page of few runs
STALLS_MAX = 1200
POINTS_MAX = 1500
PRECISION = 2_000_000  # units that a window is long at most

WORK, MOVE, STALL = 4, 8, 14  # integers of a row, as timeline.cpp writes them


def rows(flat: list[int], width: int) -> Iterator[tuple[int, ...]]:
    for at in range(0, len(flat), width):
        yield tuple(flat[at : at + width])


def drawn(timeline: dict[str, Any], names: Mapping[int, str], share: float = 1.0) -> dict[str, Any]:
    """`share`: of the rows that a page which shows one run alone may have."""
    begin, end = timeline["begin"], timeline["end"]
    bars_max, stalls_max, points_max = (round(most * share) for most in (BARS_MAX, STALLS_MAX, POINTS_MAX))
    unit = max(1, (end - begin) // PRECISION)

    def at(time: int) -> int:
        return round((time - begin) / unit)

    works = [row for row in rows(timeline["work"], WORK) if row[2] > begin and row[1] < end]
    moves = [row for row in rows(timeline["moves"], MOVE) if row[5] > begin and row[4] < end]
    stalls = [row for row in rows(timeline["stalls"], STALL) if row[7] > begin and row[6] < end]
    threads = sorted({row[0] for row in works} | {row[0] for row in stalls})
    place = {thread: index for index, thread in enumerate(threads)}
    bars = [bar for thread in threads for bar in work_bars([w for w in works if w[0] == thread], end - begin, bars_max)]
    lanes = [move_bars([m for m in moves if m[0] == write], end - begin, bars_max) for write in (0, 1)]
    longest = sorted(stalls, key=lambda row: row[6] - row[7])
    kept, rest = sorted(longest[:stalls_max], key=lambda row: row[6]), longest[stalls_max:]
    levels = points(list(rows(timeline["resident"], 2)), begin, end, points_max)
    used = sorted({bar[3] for bar in bars} | {row[3] for row in kept})
    spelled = [names.get(timeline["sites"][site], "") if site else "between ops" for site in used]
    index = {site: number for number, site in enumerate(used)}
    return {
        "unit": unit,
        "span": at(end),
        "first_step": timeline["last_step"] - timeline["steps"] + 1,
        "last_step": timeline["last_step"],
        "cut": bool(timeline["cut"]),
        "step_ends": [at(time) for time in timeline["step_ends"] if begin < time <= end],
        "threads": len(threads),
        "names": spelled,
        "work": [[place[t], at(b), at(e) - at(b), index[site], count] for t, b, e, site, count in bars],
        "up": [transfer(bar, at) for bar in lanes[0]],
        "down": [transfer(bar, at) for bar in lanes[1]],
        "stalls": [[place[row[0]], row[1], row[2], index[row[3]], row[4], at(row[5]), at(row[6]),
                    row[7] - row[6], row[8], row[9], at(row[10]), at(row[11]), row[12], row[13]]
                   for row in kept],  # fmt: skip
        "resident": [number for time, size in levels for number in (at(time), size)],
        "ops_put_together": len(works) - len(bars),
        "transfers_put_together": len(moves) - sum(map(len, lanes)),
        "stalls_left_out": len(rest),
        "stalls_left_out_ns": sum(row[7] - row[6] for row in rest),
        "stall_by_cause": timeline["stall_by_cause"],
        "stalls_by_cause": timeline["stalls_by_cause"],
    }


def transfer(bar: tuple[int, ...], at: Any) -> list[int]:
    begin, end, size, extent, asked, ahead, outcome, count = bar
    return [at(begin), at(end) - at(begin), size, extent, at(asked), ahead, outcome, count]


def gaps(span: int) -> Iterator[int]:
    """How far apart neighbours may be that are put together: not at all, then ever farther."""
    yield -1
    gap = max(1, span // 8000)
    while gap <= 2 * span:
        yield gap
        gap *= 2


def work_bars(works: list[tuple[int, ...]], span: int, most: int) -> list[tuple[int, ...]]:
    """(thread, begin, end, site, how many) of one thread; a bar has the site that took it longest."""
    works = sorted(works, key=lambda row: row[1])
    for gap in gaps(span):
        bars: list[list[Any]] = []
        for thread, begin, end, site in works:
            last = bars[-1] if bars else None
            if last is not None and begin - last[2] <= gap:
                last[2] = max(last[2], end)
                last[3][site] += end - begin
                last[4] += 1
            else:
                bars.append([thread, begin, end, Counter({site: end - begin}), 1])
        if len(bars) <= most:
            break
    return [(thread, begin, end, took.most_common(1)[0][0], count) for thread, begin, end, took, count in bars]


def move_bars(moves: list[tuple[int, ...]], span: int, most: int) -> list[tuple[int, ...]]:
    """(begin, end, bytes, extent, asked, ahead, outcome, how many); of several, no extent."""
    moves = sorted(moves, key=lambda row: row[4])
    for gap in gaps(span):
        bars: list[list[int]] = []
        for _, extent, size, asked, begin, end, ahead, outcome in moves:
            last = bars[-1] if bars else None
            if last is not None and begin - last[1] <= gap:
                last[1], last[2], last[3] = max(last[1], end), last[2] + size, -1
                last[5], last[7] = last[5] & ahead, last[7] + 1
            else:
                bars.append([begin, end, size, extent, asked, ahead, outcome, 1])
        if len(bars) <= most:
            break
    return [tuple(bar) for bar in bars]


def points(levels: list[tuple[int, ...]], begin: int, end: int, most: int) -> list[tuple[int, int]]:
    """Bytes in RAM: of each stretch of time the first, the least, the most and the last."""
    inside = [(max(time, begin), size) for time, size in levels if time < end]
    if len(inside) <= most:
        return inside
    stretch = max(1, (end - begin) // (most // 4))
    found: list[tuple[int, int]] = []
    group: list[tuple[int, int]] = []
    for point in [*inside, (end + stretch, 0)]:
        if group and point[0] // stretch != group[0][0] // stretch:
            ends = {0, len(group) - 1}
            ends.add(min(range(len(group)), key=lambda i: group[i][1]))
            ends.add(max(range(len(group)), key=lambda i: group[i][1]))
            found += [group[i] for i in sorted(ends)]
            group = []
        group.append(point)
    return found
