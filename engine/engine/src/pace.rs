//! Due times: pure functions of seed and index, so that 1 or 10 generators ask the same (METHOD §1).

use crate::rng::{Draws, Stream};

/// How open arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    Constant,
    Poisson,
}

/// The due offsets of one subset of an open group's arrivals: global indexes `from`, `from + step`, … below `limit`.
///
/// Constant: `start + (i + phase) / rate`, phase uniform in [0, 1). Poisson: `start + Σ_{j ≤ i} E_j / rate` with seeded
/// exponentials E_j; every subset sums all of them in the same order, so subsets of one plan interleave exactly.
#[derive(Clone, Debug)]
pub struct OpenPace {
    start_ns: i64,
    gap_ns: f64,
    arrivals: Arrivals,
    phase: f64,
    draws: Draws,
    step: u64,
    limit: u64,
    next_index: u64,
    next_due_ns: i64,
    summed: u64,
    sum: f64,
}

/// What an [`OpenPace`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct OpenPlan<'a> {
    pub seed: u64,
    pub group: &'a str,
    pub start_ns: i64,
    pub rate_rps: f64,
    pub arrivals: Arrivals,
    pub from: u64,
    pub step: u64,
    pub limit: Option<u64>,
}

impl OpenPace {
    pub fn new(plan: OpenPlan<'_>) -> Self {
        let mut pace = OpenPace {
            start_ns: plan.start_ns,
            gap_ns: 1e9 / plan.rate_rps,
            arrivals: plan.arrivals,
            phase: Draws::new(plan.seed, plan.group, Stream::Phase).uniform(0, 0),
            draws: Draws::new(plan.seed, plan.group, Stream::Arrival),
            step: plan.step,
            limit: plan.limit.unwrap_or(u64::MAX),
            next_index: plan.from,
            next_due_ns: 0,
            summed: 0,
            sum: 0.0,
        };
        pace.next_due_ns = pace.due_of_next();
        pace
    }

    /// Global index and due offset of the next arrival; `None` past the limit.
    #[inline]
    pub fn peek(&self) -> Option<(u64, i64)> {
        (self.next_index < self.limit).then_some((self.next_index, self.next_due_ns))
    }

    /// Moves on to the subset's next index.
    pub fn advance(&mut self) {
        self.next_index = self.next_index.saturating_add(self.step);
        if self.next_index < self.limit {
            self.next_due_ns = self.due_of_next();
        }
    }

    fn due_of_next(&mut self) -> i64 {
        let gaps = match self.arrivals {
            Arrivals::Constant => self.next_index as f64 + self.phase,
            Arrivals::Poisson => {
                while self.summed <= self.next_index {
                    self.sum += self.draws.exponential(self.summed, 0);
                    self.summed += 1;
                }
                self.sum
            }
        };
        self.start_ns + (gaps * self.gap_ns) as i64
    }
}

/// A VU's think times.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThinkTime {
    ConstantNs(u64),
    UniformNs([u64; 2]),
    ExponentialNs(f64),
}

impl Default for ThinkTime {
    fn default() -> Self {
        ThinkTime::ConstantNs(0)
    }
}

/// The planned think times of a closed group.
#[derive(Clone, Copy, Debug)]
pub struct ThinkPace {
    think: ThinkTime,
    draws: Draws,
}

impl ThinkPace {
    pub fn new(seed: u64, group: &str, think: ThinkTime) -> Self {
        ThinkPace {
            think,
            draws: Draws::new(seed, group, Stream::Think),
        }
    }

    /// Think time after request number `seq` of VU `vu`, ns.
    #[inline]
    pub fn after_ns(&self, vu: u64, seq: u64) -> i64 {
        match self.think {
            ThinkTime::ConstantNs(ns) => ns as i64,
            ThinkTime::UniformNs([low, high]) => {
                low as i64 + self.draws.below(vu, seq, high - low + 1) as i64
            }
            ThinkTime::ExponentialNs(mean) => (mean * self.draws.exponential(vu, seq)) as i64,
        }
    }
}

/// When VU `vu` of `vus_total` is first due: `start + spread · vu / vus_total` (a ramp is a spread).
pub fn first_due_ns(start_ns: i64, spread_ns: u64, vu: u64, vus_total: u64) -> i64 {
    start_ns + (u128::from(spread_ns) * u128::from(vu) / u128::from(vus_total.max(1))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arrivals: Arrivals, from: u64, step: u64) -> OpenPlan<'static> {
        OpenPlan {
            seed: 7,
            group: "load",
            start_ns: 1_000,
            rate_rps: 500.0,
            arrivals,
            from,
            step,
            limit: Some(3_000),
        }
    }

    fn all(mut pace: OpenPace) -> Vec<(u64, i64)> {
        std::iter::from_fn(|| pace.peek().inspect(|_| pace.advance())).collect()
    }

    #[test]
    fn shares_are_subsets_of_one_plan() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let whole = all(OpenPace::new(plan(arrivals, 0, 1)));
            assert_eq!(whole.len(), 3_000);
            assert!(whole.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            for step in [2, 3, 10] {
                let mut parts: Vec<_> = (0..step)
                    .flat_map(|from| all(OpenPace::new(plan(arrivals, from, step))))
                    .collect();
                parts.sort_unstable();
                assert_eq!(parts, whole);
            }
        }
    }

    #[test]
    fn constant_arrivals_keep_their_rate_and_phase() {
        let dues = all(OpenPace::new(plan(Arrivals::Constant, 0, 1)));
        let phase_ns = dues[0].1 - 1_000;
        assert!((0..2_000_000).contains(&phase_ns));
        for (index, due) in dues {
            assert!((due - 1_000 - phase_ns - 2_000_000 * index as i64).abs() <= 1);
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let dues = all(OpenPace::new(plan(Arrivals::Poisson, 0, 1)));
        let gaps: Vec<f64> = dues
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let long = gaps.iter().filter(|gap| **gap > 2e6).count() as f64 / gaps.len() as f64;
        assert!((mean / 2e6 - 1.0).abs() < 0.06, "{mean}");
        assert!((long - (-1.0f64).exp()).abs() < 0.03, "{long}");
    }

    #[test]
    fn a_vu_thinks_the_same_whoever_runs_it() {
        let uniform = ThinkPace::new(7, "g", ThinkTime::UniformNs([10, 20]));
        let drawn: Vec<_> = (0..2_000).map(|seq| uniform.after_ns(3, seq)).collect();
        assert!(drawn.iter().all(|ns| (10..=20).contains(ns)));
        assert!((10..=20).all(|ns| drawn.contains(&ns)));
        assert_eq!(
            uniform.after_ns(3, 9),
            ThinkPace::new(7, "g", ThinkTime::UniformNs([10, 20])).after_ns(3, 9)
        );
        assert_eq!(
            ThinkPace::new(7, "g", ThinkTime::ConstantNs(5)).after_ns(1, 1),
            5
        );
    }

    #[test]
    fn vus_start_evenly_over_the_ramp() {
        assert_eq!(first_due_ns(5, 1_000, 0, 4), 5);
        assert_eq!(first_due_ns(5, 1_000, 3, 4), 755);
        assert_eq!(
            first_due_ns(5, u64::MAX >> 1, 3, 4),
            5 + ((u64::MAX >> 1) as u128 * 3 / 4) as i64
        );
    }
}
