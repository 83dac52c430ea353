"""The SQL views of `svload query`, read from a synthetic run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from reference.markdown import code, page, table

TITLE = "SQL views"


def make() -> str:
    from tests.support import make_run

    from svload.store import query
    from svload.store.sql import VIEWS

    texts = [
        '`svload query RUN "select …"` queries these views of the sealed trials; there are examples in '
        "[how-to.md](../how-to.md#query-with-sql). `cases` has a column for each factor of the study. `-1` in a "
        "time column means “did not happen”.\n",
        table(("view", "a row"), [(code(view), meaning) for view, meaning in VIEWS.items()]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), cases=1, replicates=1)
        factors = {factor.name for factor in run.lock().factors}
        for view in VIEWS:
            _, rows = query(run, f"describe {view}")
            kept = [
                (code(str(row[0])), str(row[1])) for row in rows if view != "cases" or row[0] not in factors
            ]
            texts += [f"## {view}\n", table(("column", "type"), kept)]
    return page(TITLE, *texts)
