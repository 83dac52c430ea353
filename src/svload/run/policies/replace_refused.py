"""The policy of `replace_refused: n`: what was refused is made once more, at most so often (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from svload.analysis.contrasts import Contrast, contrasts_of
from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Lock
from svload.run.policies.base import Sealed
from svload.study.config import measure_of
from svload.study.order import draw, plot_of, side_by_side


def replace_refused(lock: Lock, sealed: Sealed) -> Batch | None:
    """A batch of new trials for refused ones, where the study says `replace_refused: n`; else None (docs/method.md §2).

    A refused trial is repeated with its partners of each planned claim that lost a pair by it, one beside the
    other, their order drawn anew. The repeated trial counts for everything, a repeated partner for those
    claims alone. What was refused stays in the record. Of a claim's pair in a block, and of a trial that cost
    no claim a pair, there are at most n repetitions.
    """
    allowed = {case.name: measure_of(lock, case).replace_refused for case in lock.valid_cases}
    batches, lost = sealed.batches, sealed.verdicts.lost
    made = _Made(lock, tuple(trial for batch in batches for trial in batch.trials))
    clusters: list[_Cluster] = []
    contrasts = {contrast.name: contrast for contrast in contrasts_of(lock)}
    for trial in made.trials:
        claims = {
            name for name in lost.get(trial.trial, ()) if made.rounds(trial, name) < allowed[trial.case]
        }
        alone = (
            trial.trial in lost
            and not lost[trial.trial]
            and made.is_last(trial)
            and made.repeats(trial) < allowed[trial.case]
        )
        if claims or alone:
            _add(clusters, trial, {name: contrasts[name] for name in sorted(claims) if name in contrasts})
    chosen: list[TrialPlan] = []
    for cluster in sorted(clusters, key=lambda one: one.block):
        chosen += made.planned(cluster, chosen, len(batches))
    if not chosen:
        return None
    most = max(allowed.values())
    because = (
        f"replace_refused: {most}; refused: {', '.join(sorted(name for name in lost if made.has(name)))}"
    )
    return sealed.batch(because, chosen)


@dataclass
class _Cluster:
    """Cases of one block that are made once more, one beside the other: case → the claims that it
    counts for, None for everything. `pairs`: those of which one was refused, to be neighbours."""

    block: int
    cases: dict[str, set[str] | None] = field(default_factory=dict)
    pairs: set[tuple[str, str]] = field(default_factory=set)


def _add(clusters: list[_Cluster], trial: TrialPlan, claims: Mapping[str, Contrast]) -> None:
    """The refused trial and its partners, joined with what shares a case with them in the block."""
    new = _Cluster(trial.block, {trial.case: set(claims) if trial.serves else None})
    for name, contrast in claims.items():
        for cell in contrast.cells:
            if trial.case not in cell:
                continue
            new.pairs |= set(zip(cell[::2], cell[1::2], strict=True))
            for partner in cell:
                serves = new.cases.setdefault(partner, set())
                if serves is not None:
                    serves.add(name)
    for other in [one for one in clusters if one.block == new.block and set(one.cases) & set(new.cases)]:
        clusters.remove(other)
        new.pairs |= other.pairs
        for case, serves in other.cases.items():
            mine = new.cases.get(case, set())
            new.cases[case] = None if serves is None or mine is None else mine | serves
    clusters.append(new)


@dataclass(frozen=True)
class _Made:
    """What all batches hold so far."""

    lock: Lock
    trials: tuple[TrialPlan, ...]

    def has(self, name: str) -> bool:
        return any(trial.trial == name for trial in self.trials)

    def same_cell(self, trial: TrialPlan) -> list[TrialPlan]:
        return [one for one in self.trials if (one.case, one.block) == (trial.case, trial.block)]

    def repeats(self, trial: TrialPlan) -> int:
        """How often this case was made once more in this block for its own sake."""
        return sum(_is_repeat(one) and not one.serves for one in self.same_cell(trial))

    def rounds(self, trial: TrialPlan, claim: str) -> int:
        """How often it was made once more for this claim."""
        return sum(
            _is_repeat(one) and (not one.serves or claim in one.serves) for one in self.same_cell(trial)
        )

    def is_last(self, trial: TrialPlan) -> bool:
        """The newest of those that count for everything: one that came after it stands in for it already."""
        return not trial.serves and trial == [one for one in self.same_cell(trial) if not one.serves][-1]

    def order(self, cluster: _Cluster, batch: int) -> list[str]:
        """The cluster's cases in the order they run, drawn: those of a pair as neighbours wherever that can be
        had (`side_by_side`); pairs within one bring-up before those that need a restart between them."""
        places = {case.name: place for place, case in enumerate(self.lock.cases)}
        plots = {name: plot_of(self.lock, self.lock.case(name)) for name in cluster.cases}

        def drawn(*what: str | int) -> int:
            return draw(self.lock.seed, "again", batch, cluster.block, *what)

        def first(pair: tuple[str, str]) -> tuple[bool, int]:
            return plots[pair[0]] != plots[pair[1]], drawn("pair", *map(places.__getitem__, pair))

        def of_row(row: list[str]) -> tuple[int, int]:
            return drawn("plot", *plots[row[0]]), drawn(places[row[0]])

        rows = side_by_side(sorted(cluster.cases, key=places.__getitem__), sorted(cluster.pairs, key=first))
        turned = [min(row, row[::-1], key=lambda one: drawn("turn", places[one[0]])) for row in rows]
        return [name for row in sorted(turned, key=of_row) for name in row]

    def planned(self, cluster: _Cluster, chosen: Sequence[TrialPlan], batch: int) -> Iterator[TrialPlan]:
        """The cluster's trials in the order they run, each bring-up that differs from the one before anew."""
        places = {case.name: place for place, case in enumerate(self.lock.cases)}
        made = [*self.trials, *chosen]
        number, before = made[-1].whole_plot, None
        for name in self.order(cluster, batch):
            plot = plot_of(self.lock, self.lock.case(name))
            restart = bool(plot) and plot != before
            number, before = number + restart, plot
            first = next(trial for trial in self.trials if (trial.case, trial.block) == (name, cluster.block))
            replicate = max(trial.replicate for trial in made if trial.case == name) + 1
            new = TrialPlan(
                trial=trial_name(name, replicate),
                case=name,
                replicate=replicate,
                block=cluster.block,
                position=len(made),
                seed=draw(self.lock.seed, "load", "again", cluster.block, places[name], replicate),
                whole_plot=number,
                restart=restart,
                instead_of=first.trial,
                at=first.at,
                serves=tuple(sorted(cluster.cases[name] or ())),
            )
            made.append(new)
            yield new


def _is_repeat(trial: TrialPlan) -> bool:
    return trial.instead_of is not None
