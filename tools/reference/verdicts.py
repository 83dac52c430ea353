"""Verdicts: every check with its docstring, every limit with its value."""

from __future__ import annotations

from pathlib import Path

from reference.markdown import code, page, sentence, table

TITLE = "Verdicts: checks and limits"


def make() -> str:
    from svload.analysis import checks, limits, server
    from svload.model.docstrings import of_constants

    rows = [
        (code(check.name), sentence(type(check).__doc__), check.comparisons) for check in checks.all_checks()
    ]
    stated = [
        (code(name), code(str(getattr(limits, name))), text)
        for name, text in of_constants(Path(limits.__file__)).items()
    ]
    return page(
        "Verdicts",
        "Two on every trial. The **instrument** has the worst grade of the numbers that the study asks for; a "
        "check doubts single numbers, and `svload why TRIAL` prints each with its sentence. "
        "[method.md](../method.md) says why.\n",
        table(
            ("instrument", "means"),
            [
                ("VALID", "the number is off by at most 5 %"),
                ("WEAK", "the number is rough: it is used with its range"),
                (
                    "REFUSED",
                    "the number is kept and drawn hatched; a comparison uses it, unless the trial is broken",
                ),
            ],
        ),
        "## Checks of the instrument\n",
        table(("check", "what it judges", "in comparisons"), rows),
        "",
        "In comparisons of randomised blocks *reported* changes nothing; *weight*: other programs' share weights the pair; *lag*: with and without the "
        "generator's delays; *missing*: as if the trial had not been made; *lost*: the pair is broken, and counts as the worst of the others.",
        "## The server\n",
        sentence((server.__doc__ or "").partition("\n\n")[2]) + "\n",
        "## Limits\n",
        "Pairs are (WEAK, REFUSED). Shares are of 1, times in ns where the name says so.\n",
        table(("limit", "value", "meaning"), stated),
    )
