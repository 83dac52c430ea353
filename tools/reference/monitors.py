"""Every monitor with its series."""

from __future__ import annotations

from typing import Any

from reference.markdown import code, page, sentence, table

TITLE = "Monitors and their series"


def make() -> str:
    from svload.drive import witness
    from svload.watch import sampler
    from svload.watch.monitors import load_monitors

    texts = [
        "A monitor attaches itself to every service whose facts it can read; `host` to the machine. They are "
        "sampled by one process "
        "of its own, on the load's clock; its own cost is the series `sampler`. `_total` is a counter since "
        "its process began; a name "
        "ends in its unit, and without one it is a number of things. The series are the view `monitors` of "
        "`svload query`.\n"
    ]
    for name, expected, metrics in (
        (
            "generator",
            "what the load's own threads used and how long their cores ran no thread, reported by the engine",
            witness.METRICS,
        ),
        ("sampler", "the process that samples all monitors", sampler.METRICS),
    ):
        texts.append(f"## {name}\n\n{expected}.\n")
        texts.append(table(("metric", "meaning"), [(code(metric), text) for metric, text in metrics.items()]))
    for monitor in load_monitors():
        if not monitor.__module__.startswith("svload."):
            continue
        least = f" At most every {monitor.interval_s:g} s." if monitor.interval_s else ""
        texts.append(
            f"## {monitor.name}\n\n{monitor.summary}. Attaches to: {sentence(monitor.reads.__doc__)}{least}\n"
        )
        texts.append(
            table(("metric", "meaning"), [(code(name), text) for name, text in monitor.metrics.items()])
        )
        texts += _declared(monitor)
    return page("Monitors", *texts)


def _declared(monitor: Any) -> list[str]:
    """Return what it declares: limits, and counters of refusals."""
    texts = []
    if monitor.limits:
        rows = [
            (
                limit.name,
                code(limit.used) + (" a second" if limit.used.endswith("_total") else ""),
                code(limit.of) if isinstance(limit.of, str) else f"{limit.of:g}",
                _reached(limit),
                "SATURATED" if limit.verdict else "evidence",
            )
            for limit in monitor.limits
        ]
        texts.append(table(("limit", "used", "of", "reached", "then"), rows))
    if monitor.refusals:
        rows = [
            (code(one.counter), one.means, one.kind, one.resource, "SATURATED" if one.verdict else "evidence")
            for one in monitor.refusals
        ]
        texts.append(table(("counter of refusals", "counts", "which were", "resource", "then"), rows))
    return texts


def _reached(limit: Any) -> str:
    share = "above it" if limit.beyond else "at it" if limit.at == 1 else f"at {100 * limit.at:g} %"
    if limit.waiting:
        return f"{share} in most readings, while {code(limit.waiting)}"
    return f"{share} in one reading" if limit.brief else f"{share} on average"
