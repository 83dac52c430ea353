"""Servers: kits, up, reset, read back, down."""

from __future__ import annotations

from svload.lab.catalogue import all_kits, check_specs
from svload.lab.lab import Lab, endpoints
from svload.lab.objects import ObjectTable
from svload.lab.setup import check, install

__all__ = ["Lab", "ObjectTable", "all_kits", "check", "check_specs", "endpoints", "install"]
