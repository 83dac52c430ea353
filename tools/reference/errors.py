"""Every failure that a user can meet."""

from __future__ import annotations

from reference.markdown import code, page, table

TITLE = "Errors, and what to do"


def make() -> str:
    from svload.model.errors import CATALOGUE
    from svload.model.request_errors import MEANINGS
    from svload.model.request_hints import HINTS

    rows = [
        (code(kind.code), str(int(kind.exit_code)), kind.sentence, kind.remedy) for kind in CATALOGUE.values()
    ]
    return page(
        "Errors",
        "Every failure you can meet: what happened, and what to do. A message ends with its code in brackets.\n",
        table(("code", "exit", "what happened", "what to do"), rows),
        "## Errors of a request\n",
        "A failed request has one of these (`error_name` in SQL, `errors` in the summary).\n",
        table(
            ("error", "what happened", "what it most likely means"),
            [(code(name), meaning, HINTS[name]) for name, meaning in MEANINGS.items()],
        ),
    )
