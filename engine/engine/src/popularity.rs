//! Rows of which some are asked for more often than others: Zipf's law, and a hot set.

use std::sync::Arc;

use crate::share::{FeederSpec, Take};

/// Zipf's exponent where none is given.
pub const SKEW: f64 = 1.0;
/// A tenth of the rows has nine tenths of the requests, where nothing is said.
pub const HOT: (f64, f64) = (0.1, 0.9);

/// How likely each row is; the first rows are the popular ones.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// Row k has the weight 1 / (k + 1)^s: the sums of all weights up to each row, the last of them 1.
    Zipf(Arc<[f64]>),
    /// So many rows share so much of the requests, the others the rest; inside either all are alike.
    Hot { rows: u64, asks: f64 },
}

impl Popularity {
    /// Of a feeder over `rows` rows; `None` where its rows are taken otherwise.
    pub fn of(spec: &FeederSpec, rows: u64) -> Option<Self> {
        match spec.take {
            Take::Zipf => Some(Self::zipf(spec.skew.unwrap_or(SKEW), rows)),
            Take::Hot => {
                let (share, asks) = spec.hot.unwrap_or(HOT);
                let hot = (rows as f64 * share).ceil() as u64;
                let rows = hot.clamp(1, rows);
                Some(Popularity::Hot { rows, asks })
            }
            _ => None,
        }
    }

    fn zipf(skew: f64, rows: u64) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=rows)
            .map(|rank| {
                sum += (rank as f64).powf(-skew);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|one| *one /= sum);
        Popularity::Zipf(sums.into())
    }

    /// The row of a number drawn evenly from 0 to 1.
    pub fn row(&self, drawn: f64, rows: u64) -> u64 {
        let row = match self {
            Popularity::Zipf(sums) => sums.partition_point(|sum| *sum <= drawn) as u64,
            Popularity::Hot { rows: hot, asks } if drawn < *asks || *hot == rows => {
                let part = if *hot == rows { drawn } else { drawn / asks };
                ((part * *hot as f64) as u64).min(hot - 1)
            }
            Popularity::Hot { rows: hot, asks } => {
                hot + ((drawn - asks) / (1.0 - asks) * (rows - hot) as f64) as u64
            }
        };
        row.min(rows - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 100_000;

    fn counts(popularity: &Popularity, rows: u64) -> Vec<f64> {
        let mut counts = vec![0.0; rows as usize];
        for n in 0..DRAWS {
            let drawn = (n as f64 + 0.5) / DRAWS as f64;
            counts[popularity.row(drawn, rows) as usize] += 1.0 / DRAWS as f64;
        }
        counts
    }

    #[test]
    fn zipf_has_its_weights() {
        for skew in [0.5, 1.0, 1.4] {
            let found = counts(&Popularity::zipf(skew, 50), 50);
            let all: f64 = (1..=50).map(|rank| f64::from(rank).powf(-skew)).sum();
            for (rank, share) in (1..).zip(found) {
                let wanted = f64::from(rank).powf(-skew) / all;
                assert!(
                    (share - wanted).abs() < 2e-5,
                    "{skew} {rank}: {share} {wanted}"
                );
            }
        }
    }

    #[test]
    fn a_hot_set_has_its_share() {
        let found = counts(&Popularity::Hot { rows: 5, asks: 0.8 }, 50);
        assert!(found[..5].iter().all(|share| (share - 0.16).abs() < 2e-5));
        let cold = 0.2 / 45.0;
        assert!(
            found[5..].iter().all(|share| (share - cold).abs() < 2e-5),
            "{found:?}"
        );
        let all = counts(&Popularity::Hot { rows: 4, asks: 0.5 }, 4);
        assert!(
            all.iter().all(|share| (share - 0.25).abs() < 2e-5),
            "{all:?}"
        );
    }

    #[test]
    fn the_ends_keep_to_the_table() {
        for popularity in [
            Popularity::zipf(1.0, 7),
            Popularity::Hot { rows: 1, asks: 0.9 },
        ] {
            assert_eq!(popularity.row(0.0, 7), 0);
            assert_eq!(popularity.row(1.0, 7), 6);
        }
    }
}
