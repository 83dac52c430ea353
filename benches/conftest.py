"""Benches may ask for what the tests may: programs, and known-truth servers."""

from __future__ import annotations

from tests.conftest import needs, serve_truth

__all__ = ["needs", "serve_truth"]
