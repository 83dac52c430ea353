"""A histogram's buckets, one at a time: what analysis computes for many at once."""

from __future__ import annotations


def bucket_bounds(index: int) -> tuple[int, int]:
    """Return [low, high) in ns of a bucket; its representative value is the middle (error ≤ 0.4 %)."""
    if index < 128:
        return index, index + 1
    exponent = index // 128 + 6
    low = (index % 128 + 128) << (exponent - 7)
    return low, low + (1 << (exponent - 7))
