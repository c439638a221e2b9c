"""Sizes and budgets as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outsize.units import (
    AUTO_SHARE,
    GIB,
    MIB,
    MemoryLimits,
    SizeError,
    format_bytes,
    format_days,
    format_decimal,
    format_seconds,
    parse_budget,
    parse_rate,
    parse_size,
)

ROOMY = MemoryLimits(total=32 * GIB, available=20 * GIB)
BOXED = MemoryLimits(total=32 * GIB, available=20 * GIB, cgroup=4 * GIB, cgroup_used=1 * GIB)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512MiB", 512 * MIB),
        ("2GiB", 2 * GIB),
        ("1.5g", 3 * GIB // 2),
        ("1.5G", 3 * GIB // 2),
        ("100GB", 100 * 10**9),
        ("2 GiB", 2 * GIB),
        ("4096", 4096),
        (4096, 4096),
        (4096.0, 4096),
        ("1TiB", 1024 * GIB),
        ("7b", 7),
        (".5g", GIB // 2),
    ],
)
def test_sizes(text: str | int | float, expected: int) -> None:
    assert parse_size(text) == expected


NO_SIZES = ["", "GiB", "-1g", "1.2.3g", "2 potatoes", "1e9", "nan", "60%", "٣g"]


@pytest.mark.parametrize("text", NO_SIZES)
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(SizeError, match="write for example 512MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50MB/s", 50 * 10**6),
        ("2TB/day", 2 * 10**12 // 86400),
        ("100 GiB / hour", 100 * GIB // 3600),
        ("60MiB/min", MIB),
        ("0", 0),
        (0, 0),
        (12345, 12345),
        (50e6, 50 * 10**6),
        ("12345", 12345),
    ],
)
def test_paces(text: str | int, expected: int) -> None:
    assert parse_rate(text) == expected


@pytest.mark.parametrize("text", ["", "2TB", "/day", "2TB/", "2TB/moon", "-1GB/s", "60%/s", "1/2/s"])
def test_what_is_not_a_pace_is_refused(text: str) -> None:
    with pytest.raises(SizeError, match="write for example 2TB/day"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["1B/day", "0GB/day"])
def test_a_pace_that_never_moves_is_refused(text: str) -> None:
    with pytest.raises(SizeError, match="less than a byte a second"):
        parse_rate(text)


@pytest.mark.parametrize("parse", [parse_size, parse_budget, lambda text: parse_rate(f"{text}/s")])
def test_what_64_bits_cannot_count_is_refused(parse) -> None:
    for text in ("9999999TiB", "9" * 400 + ".0"):
        with pytest.raises(SizeError, match="more than any machine|is not a pace"):
            parse(text)


def test_large_exact_sizes_stay_exact() -> None:
    assert parse_size(str(2**53 + 1)) == 2**53 + 1


def test_a_share_is_of_the_tightest_limit() -> None:
    assert parse_budget("60%").resolve(ROOMY) == int(32 * GIB * 0.6) // MIB * MIB
    assert parse_budget("50%").resolve(BOXED) == 2 * GIB


def test_auto_takes_its_share_of_what_is_free() -> None:
    assert parse_budget("auto").resolve(ROOMY) == int(20 * GIB * AUTO_SHARE)
    assert parse_budget("auto").resolve(BOXED) == int(3 * GIB * AUTO_SHARE)
    assert parse_budget("AUTO").automatic


def test_auto_where_nothing_is_free_says_so() -> None:
    full = MemoryLimits(total=32 * GIB, available=20 * GIB, cgroup=GIB, cgroup_used=GIB)
    with pytest.raises(SizeError, match=r"memory cgroup: 0 B free of 1\.00 GiB"):
        parse_budget("auto").resolve(full)


def test_a_cgroup_wider_than_ram_changes_nothing() -> None:
    wide = MemoryLimits(total=32 * GIB, available=20 * GIB, cgroup=64 * GIB, cgroup_used=GIB)
    assert (wide.limit, wide.free, wide.reason) == (32 * GIB, 20 * GIB, "RAM")


@pytest.mark.parametrize("text", ["0%", "101%", "-5%", "sixty", "2 potatoes", ""])
def test_what_is_not_a_budget_is_refused(text: str) -> None:
    with pytest.raises(SizeError):
        parse_budget(text)


def test_a_forgotten_unit_is_noticed() -> None:
    with pytest.raises(SizeError, match="did you mean 2GiB"):
        parse_budget("2")
    with pytest.raises(SizeError, match="budget of 0.5 B .* did you mean 50%"):
        parse_budget(0.5)
    for text in ("0", "0GiB", "500KiB", "1000000"):  # no unit was left out, or GiB would be absurd
        with pytest.raises(SizeError, match=r"too small to train in \(at least 1.00 MiB\)\.$"):
            parse_budget(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_plain_bytes_come_back(count: int) -> None:
    assert parse_size(str(count)) == count


@given(st.integers(min_value=0, max_value=2**50))
def test_formatting_keeps_three_digits(count: int) -> None:
    assert parse_size(format_bytes(count)) == pytest.approx(count, rel=0.006)


def test_disks_are_told_as_they_are_sold() -> None:
    counts = (0, 5, 432_000, 999_600, 5 * 10**11, 27.8e12, 3e18)
    told = ["0 B", "5 B", "432 kB", "1 MB", "500 GB", "27.8 TB", "3,000 PB"]
    assert [format_decimal(count) for count in counts] == told


def test_days_never_come_to_nothing() -> None:
    told = [format_days(days) for days in (0.0002, 0.3, 3, 340, 1_000_000)]
    assert told == ["17.3 s", "7 h 12 min", "3.0 days", "340 days", "2,738 years"]


def test_times_read_well() -> None:
    assert [format_seconds(s) for s in (0.85, 12.34, 245, 11520)] == [
        "850 ms",
        "12.3 s",
        "4 min 05 s",
        "3 h 12 min",
    ]
