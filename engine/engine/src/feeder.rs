//! Which row of a table a request takes: a pure function of the plan and the request's number.

use crate::rng::{Draws, Stream};
use crate::share::{FeederSpec, Take};

/// One feeder of a group.
#[derive(Clone, Debug)]
pub struct Feeder {
    take: Take,
    rows: u64,
    vus_total: u64,
    draws: Draws,
    open: bool,
}

impl Feeder {
    /// `vus_total` is the executor's, used where the feeder names none; `open`: requests are numbered by arrival.
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
            draws: Draws::new(seed, &format!("{group}/{name}"), Stream::Feeder),
            open,
        }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn take(&self) -> Take {
        self.take
    }

    /// The row of request `seq` of VU `vu` (open: of arrival `seq`).
    #[inline]
    pub fn row(&self, vu: u64, seq: u64) -> u64 {
        match (self.take, self.open) {
            (Take::First, _) => 0,
            (Take::Walk, true) => seq % self.rows,
            (Take::Walk, false) => {
                let from =
                    (u128::from(self.rows) * u128::from(vu) / u128::from(self.vus_total)) as u64;
                (from % self.rows + seq % self.rows) % self.rows
            }
            (Take::Random, true) => self.draws.below(seq, 0, self.rows),
            (Take::Random, false) => self.draws.below(vu, seq, self.rows),
        }
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
}
