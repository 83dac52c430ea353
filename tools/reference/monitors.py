"""Every monitor with its series."""

from __future__ import annotations

from reference.markdown import code, page, sentence, table

TITLE = "Monitors and their series"


def make() -> str:
    from svload.drive import witness
    from svload.watch import sampler
    from svload.watch.monitors import load_monitors

    texts = [
        "A monitor attaches itself to every service whose facts it can read; `host` to the machine. They are sampled by one process "
        "of its own, on the load's clock; its own cost is the series `sampler`. `_total` is a counter since its process began; a name "
        "ends in its unit, and without one it is a number of things. The series are the view `monitors` of `svload query`.\n"
    ]
    for name, told, metrics in (
        (
            "generator",
            "what the load's own threads used and how long their cores gave nobody a turn, told by the engine",
            witness.METRICS,
        ),
        ("sampler", "the process that samples all monitors", sampler.METRICS),
    ):
        texts.append(f"## {name}\n\n{told}.\n")
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
    return page("Monitors", *texts)
