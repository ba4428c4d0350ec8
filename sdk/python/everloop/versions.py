"""The order of versions."""

from __future__ import annotations

import re


def compare_versions(a: str, b: str) -> int:
    """Orders versions as 2611.0.0 and 2611.0.0-beta.1: below 0, 0 or above 0. A pre-release is before its release."""
    left, right = _parse(a), _parse(b)
    return (left > right) - (left < right)


def _parse(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]:
    core, _, suffix = version.removeprefix("v").partition("-")
    numbers = [_number(part) for part in core.split(".")[:3]]
    numbers += [0] * (3 - len(numbers))
    parts = re.split(r"[.-]", suffix) if suffix else []
    return tuple(numbers), suffix == "", tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in parts)


def _number(text: str) -> int:
    digits = re.match(r"[0-9]+", text)
    return int(digits[0]) if digits else 0
