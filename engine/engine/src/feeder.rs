//! Which row of a table an iteration takes: a pure function of the plan and the iteration's number.

use indexmap::IndexMap;

use crate::popularity::Popularity;
use crate::rng::{Draws, Stream};
use crate::share::{FeederSpec, GroupSpec, Take, WhenExhausted};
use crate::table::Table;

/// One feeder of a group.
#[derive(Clone, Debug)]
pub struct Feeder {
    take: Take,
    rows: u64,
    vus_total: u64,
    offset: Option<u64>,
    draws: Draws,
    open: bool,
    popularity: Option<Popularity>,
}

/// The rows [from, to) that are VU `vu`'s own, of `rows` cut into `vus_total` parts; at least one.
fn own_rows(rows: u64, vu: u64, vus_total: u64) -> (u64, u64) {
    let cut = |vu: u64| (u128::from(rows) * u128::from(vu) / u128::from(vus_total)) as u64;
    let vu = vu % vus_total;
    let from = cut(vu).min(rows - 1);
    (from, cut(vu + 1).max(from + 1))
}

impl Feeder {
    /// `vus_total` is the executor's, used where the feeder names none; `open`: iterations are numbered by arrival.
    pub fn new(
        seed: u64,
        group: &str,
        name: &str,
        spec: &FeederSpec,
        rows: u64,
        vus_total: u64,
        open: bool,
    ) -> Self {
        Feeder {
            take: spec.take,
            rows,
            vus_total: spec.vus_total.unwrap_or(vus_total).max(1),
            offset: spec.offset,
            draws: Draws::new(seed, &format!("{group}/{name}"), Stream::Feeder),
            open,
            popularity: Popularity::of(spec, rows),
        }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn take(&self) -> Take {
        self.take
    }

    /// The row of iteration `seq` of VU `vu` (open: of arrival `seq`).
    #[inline]
    pub fn row(&self, vu: u64, seq: u64) -> u64 {
        let at = |from: u64, step: u64| (from % self.rows + step % self.rows) % self.rows;
        match (self.take, self.open) {
            (Take::First, _) => 0,
            (Take::Walk | Take::Sequential | Take::Unique | Take::Vu, true) => seq % self.rows,
            (Take::Walk, false) => match self.offset {
                Some(offset) => {
                    let from = u128::from(offset) * u128::from(vu) % u128::from(self.rows);
                    at(from as u64, seq)
                }
                None => at(
                    (u128::from(self.rows) * u128::from(vu) / u128::from(self.vus_total)) as u64,
                    seq,
                ),
            },
            (Take::Sequential, false) => {
                let dealt = u128::from(seq) * u128::from(self.vus_total) + u128::from(vu);
                (dealt % u128::from(self.rows)) as u64
            }
            (Take::Unique, false) => {
                let (from, to) = own_rows(self.rows, vu, self.vus_total);
                from + seq % (to - from)
            }
            (Take::Vu, false) => vu % self.rows,
            (Take::Random, true) => self.draws.below(seq, 0, self.rows),
            (Take::Random, false) => self.draws.below(vu, seq, self.rows),
            (Take::Zipf | Take::Hot, open) => {
                let (unit, step) = if open { (seq, 0) } else { (vu, seq) };
                let drawn = self.draws.uniform(unit, step);
                let popularity = self.popularity.as_ref();
                popularity.map_or(0, |popularity| popularity.row(drawn, self.rows))
            }
        }
    }
}

/// How many iterations the rows of the feeders allow that stop when they are exhausted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// (how the rows are taken, how many there are, VUs they are cut for)
    bounds: Vec<(Take, u64, u64)>,
}

impl Supply {
    /// Of the feeders of a checked group.
    pub fn of(group: &GroupSpec, inputs: &IndexMap<String, Table>) -> Self {
        let bound = |spec: &FeederSpec| {
            let rows = inputs.get(&spec.table)?.values().next()?.len() as u64;
            let vus_total = spec.vus_total.unwrap_or(group.executor.vus_total()).max(1);
            (spec.when_exhausted == WhenExhausted::Stop).then_some((spec.take, rows, vus_total))
        };
        Supply {
            bounds: group.feeders.values().filter_map(bound).collect(),
        }
    }

    pub fn is_endless(&self) -> bool {
        self.bounds.iter().all(|(take, _, _)| {
            matches!(
                take,
                Take::First | Take::Random | Take::Zipf | Take::Hot | Take::Vu
            )
        })
    }

    /// Iterations of one VU.
    pub fn of_vu(&self, vu: u64) -> u64 {
        let one = |(take, rows, vus_total): &(Take, u64, u64)| match take {
            Take::Walk => *rows,
            Take::Sequential => rows.saturating_sub(vu).div_ceil(*vus_total),
            Take::Unique => {
                let (from, to) = own_rows(*rows, vu, *vus_total);
                to - from
            }
            Take::First | Take::Random | Take::Zipf | Take::Hot | Take::Vu => u64::MAX,
        };
        self.bounds.iter().map(one).min().unwrap_or(u64::MAX)
    }

    /// Arrivals of all shares; `None` where they are not bounded.
    pub fn of_all(&self) -> Option<u64> {
        let bounded = |take: &Take| {
            !matches!(
                take,
                Take::First | Take::Random | Take::Zipf | Take::Hot | Take::Vu
            )
        };
        let bounds = self.bounds.iter().filter(|(take, _, _)| bounded(take));
        bounds.map(|(_, rows, _)| *rows).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feeder(take: Take, rows: u64, vus_total: u64, open: bool) -> Feeder {
        let spec = FeederSpec {
            table: "t".into(),
            take,
            vus_total: Some(vus_total),
            offset: None,
            skew: None,
            hot: None,
            when_exhausted: WhenExhausted::Repeat,
        };
        Feeder::new(7, "g", "f", &spec, rows, 1, open)
    }

    #[test]
    fn a_walk_visits_the_whole_table_before_it_repeats() {
        let walk = feeder(Take::Walk, 10, 4, false);
        for (vu, from) in [(0, 0), (1, 2), (2, 5), (3, 7)] {
            let rows: Vec<_> = (0..25).map(|seq| walk.row(vu, seq)).collect();
            assert_eq!(
                rows,
                (0..25).map(|seq| (from + seq) % 10).collect::<Vec<_>>()
            );
        }
        let open = feeder(Take::Walk, 10, 1, true);
        assert_eq!((open.row(99, 3), open.row(5, 23)), (3, 3));
    }

    #[test]
    fn first_and_random_keep_to_the_table() {
        assert_eq!(feeder(Take::First, 10, 1, false).row(3, 9), 0);
        let random = feeder(Take::Random, 10, 1, false);
        let mut seen = [0; 10];
        for seq in 0..10_000 {
            seen[random.row(1, seq) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_ne!(
            (0..50).map(|seq| random.row(1, seq)).collect::<Vec<_>>(),
            (0..50).map(|seq| random.row(2, seq)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn rows_are_dealt_like_cards_or_in_parts() {
        let rows = |take, vu, count, of| {
            let feeder = feeder(take, of, 3, false);
            (0..count)
                .map(|seq| feeder.row(vu, seq))
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(Take::Sequential, 1, 4, 10), [1, 4, 7, 0]);
        assert_eq!(rows(Take::Unique, 0, 4, 10), [0, 1, 2, 0]);
        assert_eq!(rows(Take::Unique, 2, 5, 10), [6, 7, 8, 9, 6]);
        assert_eq!(rows(Take::Unique, 2, 2, 2), [1, 1]);
        assert_eq!(rows(Take::Vu, 2, 3, 10), [2, 2, 2]);
        for take in [Take::Sequential, Take::Unique, Take::Walk] {
            assert_eq!(feeder(take, 10, 3, true).row(7, 12), 2);
        }
        let paper = FeederSpec {
            table: "t".into(),
            take: Take::Walk,
            vus_total: Some(3),
            offset: Some(2_000),
            skew: None,
            hot: None,
            when_exhausted: WhenExhausted::Repeat,
        };
        let paper = Feeder::new(7, "g", "f", &paper, 5_000, 1, false);
        assert_eq!(
            (paper.row(0, 9), paper.row(2, 999), paper.row(2, 1_000)),
            (9, 4_999, 0)
        );
    }

    #[test]
    fn unique_rows_are_nobody_elses() {
        for (rows, vus) in [(10, 3), (7, 7), (100, 1), (5, 2)] {
            let unique = feeder(Take::Unique, rows, vus, false);
            let mut owner = vec![None; rows as usize];
            for vu in 0..vus {
                for seq in 0..2 * rows {
                    let row = unique.row(vu, seq) as usize;
                    assert!(owner[row].is_none_or(|known| known == vu), "{rows} {vus}");
                    owner[row] = Some(vu);
                }
            }
            assert!(owner.iter().all(Option::is_some));
        }
    }

    #[test]
    fn a_supply_ends_where_rows_would_come_again() {
        for (take, rows, vus) in [
            (Take::Walk, 6, 4),
            (Take::Sequential, 6, 4),
            (Take::Unique, 6, 4),
        ] {
            let supply = Supply {
                bounds: vec![(take, rows, vus)],
            };
            let feeder = feeder(take, rows, vus, false);
            for vu in 0..vus {
                let count = supply.of_vu(vu);
                let asked: Vec<_> = (0..count).map(|seq| feeder.row(vu, seq)).collect();
                let mut once = asked.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), asked.len(), "{take:?} {vu}");
            }
            let all: u64 = (0..vus).map(|vu| supply.of_vu(vu)).sum();
            assert_eq!(all, if take == Take::Walk { rows * vus } else { rows });
            assert_eq!((supply.of_all(), supply.is_endless()), (Some(rows), false));
        }
        let endless = Supply {
            bounds: vec![(Take::Random, 6, 4)],
        };
        assert!(endless.is_endless() && endless.of_all().is_none());
    }
}
