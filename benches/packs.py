"""The claims of all committed packs by the present rules: how many are decided, and why others are open.

python -m benches.packs    # minutes on one core; writes benches/packs.md
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benches.harness import arguments, page, publish
from svload.api.runs import find_run, judged
from svload.model.results import Findings
from svload.report.wording.claimed import Claimed, claimed

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("docs/example", "studies/*/example", "studies/*/packs")
TABLE = page(__file__)
DECIDED = ("decided", "no difference")
HEAD = """# The committed packs' claims

Every comparison of every committed run, judged by today's rules from its sealed trials. Written by \
`python -m benches.packs`.

| pack | claims | decided | no difference | undecided |
|---|--:|--:|--:|--:|
"""


def packs() -> list[Path]:
    """Return every pack of a study or the example; those of tests/packs are synthetic."""
    return sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.svload.zip"))


def row(path: Path, findings: Findings) -> str:
    """Return the pack's counts, as a row of the table."""
    return _row(name(path), Counter(one.outcome for one in claimed(findings)))


def _row(of: str, counts: Counter[str]) -> str:
    left = counts["open"] + counts["refused"]
    return f"| {of} | {counts.total()} | {counts['decided']} | {counts['no difference']} | {left} |"


def open_rows(path: Path, findings: Findings) -> Iterator[str]:
    """Yield each undecided claim of the pack: the measured effect, why it is undecided, what would decide
    it."""
    for one in claimed(findings):
        if one.outcome not in DECIDED:
            cells = (name(path), one.claim.name, one.effect_words or "–", reason(one), one.needs or "–")
            yield f"| {' | '.join(cells)} |"


def reason(one: Claimed) -> str:
    """Return the reason given for the undecided claim, else that its interval includes both directions."""
    if one.claim.why_open:
        return one.claim.why_open
    low, high = one.claim.ratio.low, one.claim.ratio.high
    if low is None or high is None:
        return "no interval"
    if low <= 1 <= high:
        return "the interval includes “no change” and is too wide for “no difference”"
    return "its direction is not sure over all comparisons of the study"


def name(path: Path) -> str:
    return path.name.removesuffix(".svload.zip")


def main() -> int:
    arguments(__doc__)
    found = [(path, judged(find_run(str(path)))) for path in packs()]
    found = [(path, findings) for path, findings in found if findings.claims]
    claims = [one for _, findings in found for one in claimed(findings)]
    reasons = Counter(reason(one) for one in claims if one.outcome not in DECIDED)
    rows = [row(*one) for one in found] + [_row("**all**", Counter(one.outcome for one in claims))]
    lines = [*rows, "", "Reasons why comparisons stay undecided:", ""]
    lines += [f"- {count} × {why}" for why, count in reasons.most_common()]
    lines += ["", "| pack | comparison | seen (95 % interval) | undecided because | what would decide it |"]
    lines += ["|---|---|---|---|---|", *(line for one in found for line in open_rows(*one)), ""]
    publish(TABLE, HEAD + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
