//! Due times: pure functions of seed and index, so that 1 or 10 generators ask the same (docs/method.md §1).

use crate::ramp::RateRamp;
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
/// With Λ(t) the rate's integral from the start: constant: Λ(due − start) = i + phase, phase uniform in [0, 1). Poisson:
/// Λ(due − start) = Σ_{j ≤ i} E_j with seeded exponentials E_j (a Poisson process on Λ's own clock); every subset sums all of
/// them in the same order, so subsets of one plan interleave exactly.
#[derive(Clone, Debug)]
pub struct OpenPace {
    start_ns: i64,
    rate: Rate,
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

/// Arrivals a second, for ever the same or in stages.
#[derive(Clone, Debug)]
pub enum Rate {
    Constant { gap_ns: f64 },
    Ramp(RateRamp),
}

impl Rate {
    pub fn constant(rate_rps: f64) -> Self {
        Rate::Constant {
            gap_ns: 1e9 / rate_rps,
        }
    }

    /// Where its integral reaches `arrivals`, ns from its begin; `None` if it never does.
    #[inline]
    fn due_ns(&self, arrivals: f64) -> Option<i64> {
        match self {
            Rate::Constant { gap_ns } => Some((arrivals * gap_ns) as i64),
            Rate::Ramp(ramp) => ramp.due_ns(arrivals),
        }
    }
}

/// What an [`OpenPace`] is made of.
#[derive(Clone, Debug)]
pub struct OpenPlan<'a> {
    pub seed: u64,
    pub group: &'a str,
    pub start_ns: i64,
    pub rate: Rate,
    pub arrivals: Arrivals,
    pub from: u64,
    pub step: u64,
    pub limit: Option<u64>,
}

impl OpenPace {
    pub fn new(plan: OpenPlan<'_>) -> Self {
        let mut pace = OpenPace {
            start_ns: plan.start_ns,
            rate: plan.rate,
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
        pace.find_next();
        pace
    }

    /// Global index and due offset of the next arrival; `None` past the limit, or where the rate ends.
    #[inline]
    pub fn peek(&self) -> Option<(u64, i64)> {
        (self.next_index < self.limit).then_some((self.next_index, self.next_due_ns))
    }

    /// Moves on to the subset's next index.
    pub fn advance(&mut self) {
        self.next_index = self.next_index.saturating_add(self.step);
        self.find_next();
    }

    /// Sets the due time of the next index; a rate that never gets so far ends the plan.
    fn find_next(&mut self) {
        if self.next_index >= self.limit {
            return;
        }
        let arrivals = match self.arrivals {
            Arrivals::Constant => self.next_index as f64 + self.phase,
            Arrivals::Poisson => {
                while self.summed <= self.next_index {
                    self.sum += self.draws.exponential(self.summed, 0);
                    self.summed += 1;
                }
                self.sum
            }
        };
        match self.rate.due_ns(arrivals) {
            Some(due_ns) => self.next_due_ns = self.start_ns.saturating_add(due_ns),
            None => self.limit = self.next_index,
        }
    }
}

/// A VU's think times.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThinkTime {
    ConstantNs(u64),
    UniformNs([u64; 2]),
    ExponentialNs(f64),
    /// Median and 99 % quantile.
    LognormalNs([f64; 2]),
}

impl ThinkTime {
    /// Whether it is one that can be drawn.
    pub fn is_sound(&self) -> bool {
        match self {
            ThinkTime::ConstantNs(ns) => *ns < 1 << 60,
            ThinkTime::UniformNs([low, high]) => low <= high && *high < 1 << 60,
            ThinkTime::ExponentialNs(mean) => (0.0..1e15).contains(mean),
            ThinkTime::LognormalNs([median, p99]) => {
                *median > 0.0 && median <= p99 && (0.0..1e15).contains(p99)
            }
        }
    }
}

impl ThinkTime {
    /// Its expectation.
    pub fn mean_ns(&self) -> f64 {
        match self {
            ThinkTime::ConstantNs(ns) => *ns as f64,
            ThinkTime::UniformNs([low, high]) => (*low as f64 + *high as f64) / 2.0,
            ThinkTime::ExponentialNs(mean) => *mean,
            ThinkTime::LognormalNs([median, p99]) => {
                let sigma = (p99 / median).ln() / NORMAL_P99;
                median * (sigma * sigma / 2.0).exp()
            }
        }
    }
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
    turns: Draws,
}

impl ThinkPace {
    pub fn new(seed: u64, group: &str, think: ThinkTime) -> Self {
        ThinkPace {
            think,
            draws: Draws::new(seed, group, Stream::Think),
            turns: Draws::new(seed, group, Stream::ThinkTurn),
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
            ThinkTime::LognormalNs([median, p99]) => {
                let normal = self.draws.normal(&self.turns, vu, seq);
                // 1e18 ns is 30 years: beyond any load, within i64.
                lognormal(median, p99, normal).min(1e18) as i64
            }
        }
    }
}

/// The 99 % quantile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// The log-normal value of a given median and 99 % quantile at `normal` standard deviations.
pub fn lognormal(median: f64, p99: f64, normal: f64) -> f64 {
    median * (normal * (p99 / median).ln() / NORMAL_P99).exp()
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
            rate: Rate::constant(500.0),
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
    fn an_arrival_beyond_the_range_of_ns_is_never_due() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let pace = OpenPace::new(OpenPlan {
                rate: Rate::constant(1e-6),
                limit: None,
                ..plan(arrivals, 20_000, 1)
            });
            assert_eq!(pace.peek(), Some((20_000, i64::MAX)));
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
    fn a_ramp_is_cut_into_subsets_too_and_ends() {
        use crate::ramp::Stage;
        let stages = [
            Stage {
                duration_ns: 2_000_000_000,
                target: 1_000.0,
            },
            Stage {
                duration_ns: 1_000_000_000,
                target: 0.0,
            },
        ];
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let ramp = |from, step| OpenPlan {
                rate: Rate::Ramp(RateRamp::new(0.0, &stages)),
                ..plan(arrivals, from, step)
            };
            let whole = all(OpenPace::new(ramp(0, 1)));
            let spread = if arrivals == Arrivals::Poisson {
                150.0
            } else {
                1.0
            };
            assert!(
                (whole.len() as f64 - 1_500.0).abs() <= spread,
                "{}",
                whole.len()
            );
            let half = whole.iter().filter(|(_, due)| *due < 1_000_001_000).count();
            assert!((half as f64 - 250.0).abs() <= spread, "{half}");
            let mut parts: Vec<_> = (0..3)
                .flat_map(|from| all(OpenPace::new(ramp(from, 3))))
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, whole);
        }
    }

    #[test]
    fn lognormal_think_times_have_their_median_and_p99() {
        let think = ThinkPace::new(7, "g", ThinkTime::LognormalNs([1e6, 1e7]));
        let mut drawn: Vec<_> = (0..20_000).map(|n| think.after_ns(n % 7, n)).collect();
        drawn.sort_unstable();
        let (median, p99) = (drawn[10_000] as f64, drawn[19_800] as f64);
        assert!((median / 1e6 - 1.0).abs() < 0.03, "{median}");
        assert!((p99 / 1e7 - 1.0).abs() < 0.1, "{p99}");
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
