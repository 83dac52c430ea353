"""Every monitor with its series."""

from __future__ import annotations

from reference.markdown import code, page, sentence, table

TITLE = "Monitors and their series"


def make() -> str:
    from svload.watch.monitors import load_monitors

    texts = [
        "A monitor attaches itself to every service whose facts it can read; `host` to the machine. They are sampled by one process "
        "of its own, on the load's clock; its own cost is the series `sampler`. `_total` is a counter since its process began; a name "
        "ends in its unit, and without one it is a number of things. The series are the view `monitors` of `svload query`.\n"
    ]
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
