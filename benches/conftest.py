"""Benches may ask for what the tests may: programs, and known-truth servers."""

from __future__ import annotations

from tests.conftest import needs, pytest_configure, serve_truth

__all__ = ["needs", "pytest_configure", "serve_truth"]
