"""Lists on a command line: budgets as shares of a peak or as sizes, policies with their settings."""

from __future__ import annotations

import re

from outsize.units import SMALLEST_SHARE, SizeError, parse_budget, parse_size


def named_policies(text: str) -> list[str]:
    """The commas of a list of policies, not those between one's settings ("deepum:degree=16,rows=8")."""
    return [policy.strip() for policy in re.split(r",(?!\s*[\w-]+=)", text)]


def named_budgets(text: str, peak: int) -> list[tuple[str, int]]:
    return [_budget(one.strip(), peak) for one in text.split(",") if one.strip()]


def _budget(text: str, peak: int) -> tuple[str, int]:
    """A share of the peak of a plain run (not of the machine's memory), or a size."""
    if not text.endswith("%"):
        size = parse_size(text)
        parse_budget(text)  # says what a forgotten unit means
        return text, size
    if not peak:
        raise SizeError(f"'{text}' is a share of plain's peak: name it (--peak) or use sizes.")
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        raise SizeError(f"'{text}' is not a share.") from None
    return text, max(int(peak * share), SMALLEST_SHARE)
