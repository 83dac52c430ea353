"""The metric catalogue."""

from __future__ import annotations

from reference.markdown import code, page, table

TITLE = "Metrics: units, definitions, statistics"


def make() -> str:
    from svload.model.metrics import CATALOGUE, STATS
    from svload.model.units import units_of

    titles = {
        "traffic": (
            "What the load saw",
            "Of a traffic group: `probe.response.p95`. Without an owner it is the main group's: the first "
            "with `client: curl`, else "
            "the last. The definitions of due, ready, begun, written, first byte and done are in "
            "[method.md](../method.md).",
        ),
        "service": (
            "What the servers counted",
            "Of a service: `cache.hit_ratio`. Counters are differences over the load.",
        ),
        "feeder": ("What was actually requested", "Of a feeder: `object.early_repeats`."),
    }
    units = {
        "time_s": "s",
        "size_bytes": "bytes",
        "ratio": "share of 1",
        "rate_rps": "1/s",
        "count": "number",
    }
    texts = [
        "Thresholds, `expect`, `compare` and `findings.json` use these names, in the grammar "
        "`[group.|service.|feeder.]metric[.stat] OP value unit`, with OP one of `<= >= == != < >`. Values in "
        "`findings.json` are "
        "in the unit given here; a column of SQL carries its unit in its name.\n",
        f"Statistics: {', '.join(code(stat) for stat in STATS)}. A metric without a default statistic is one "
        f"number. `goodput` is written with its "
        "limit, `goodput(200 ms)`, in any unit of time; results spell it with the largest unit that needs no "
        "dot (`0.2 s` is `200 ms`). A percentile with "
        "too few requests for its interval is marked `weak`, with the reason.\n",
        table(
            ("quantity", "units it may be written in"),
            [
                (units[dimension], ", ".join(code(unit) for unit in units_of(dimension)) or "none")
                for dimension in units
            ],
        ),
    ]
    for source, (title, lead) in titles.items():
        rows = [
            (
                code(f"{metric.name}(200 ms)" if metric.has_limit else metric.name),
                units[metric.dimension],
                code(metric.default_stat) if metric.default_stat else "–",
                {"lower": "lower", "higher": "higher", "neither": "–"}[metric.better],
                metric.definition,
            )
            for metric in CATALOGUE.values()
            if metric.source == source
        ]
        texts += [
            f"## {title}\n",
            lead + "\n",
            table(("metric", "unit", "default", "better", "definition"), rows),
        ]
    return page("Metrics", *texts)
