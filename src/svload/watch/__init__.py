"""Monitors, one file per kind; the process that samples them, and the controller's interface to it."""

from __future__ import annotations

from svload.watch.catalogue import declarations, monitored_names
from svload.watch.control import Sampler
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors import load_monitors, monitors_for
from svload.watch.series import SeriesReader
