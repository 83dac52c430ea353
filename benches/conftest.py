"""Benches may use the fixtures for programs and known-truth servers of the tests."""

from __future__ import annotations

from tests.conftest import needs, serve_truth

__all__ = ["needs", "serve_truth"]
