//! Open loop whose rate follows stages: arrival i is due where the rate's integral reaches i and the phase.

use serde::Deserialize;

use super::constant_arrival_rate::{OpenLoop, Places};
use super::{Flaw, Lane};
use crate::pace::Rate;
use crate::ramp::{stages_ns, RateRamp, Stage};
use crate::share::GroupSpec;

/// Options, as a share writes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Of all shares together.
    #[serde(default)]
    pub start_rate_rps: f64,
    /// Targets are arrivals a second of all shares together.
    pub stages: Vec<Stage<f64>>,
    #[serde(flatten)]
    pub places: Places,
}

impl Options {
    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let rate = |rate_rps: f64| (0.0..=1e8).contains(&rate_rps);
        let length = stages_ns(&self.stages).is_some_and(|ns| ns > 0);
        let rules = [
            (
                rate(self.start_rate_rps),
                "start_rate_rps",
                "must be 0 to 1e8",
            ),
            (
                self.stages.iter().all(|stage| rate(stage.target)),
                "stages",
                "must have targets of 0 to 1e8",
            ),
            (
                length,
                "stages",
                "must last longer than nothing and less than 2^60 ns",
            ),
        ];
        super::first_flaw(&rules).or_else(|| self.places.flaw())
    }
}

/// The arrivals of one thread.
pub fn build(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> OpenLoop {
    let ramp = RateRamp::new(options.start_rate_rps, &options.stages);
    OpenLoop::new(seed, group, Rate::Ramp(ramp), options.places, lane)
}

#[cfg(test)]
mod tests {
    use super::super::testing::simulate;
    use crate::share::testing::group;

    const MS: i64 = 1_000_000;

    fn begun(options: &str, thread: u64, threads: u64) -> (Vec<(u64, i64)>, usize, bool) {
        let text = format!(
            r#"{{"kind": "ramping-arrival-rate", "start_rate_rps": 100.0, "stages": [{{"duration_ns": 200000000, "target": 1000.0}},
                {{"duration_ns": 100000000, "target": 0.0}}], {options}}}"#
        );
        let mut open = super::super::build(7, &group(&text), thread, threads).unwrap();
        let (begun, book) = simulate(open.as_mut(), 900 * MS, 0, |_| 3 * MS);
        let finished = open.finished(303 * MS);
        (
            begun
                .iter()
                .map(|(start, _)| (start.seq, start.due_ns))
                .collect(),
            book.waiting.len() + book.dropped.len(),
            finished,
        )
    }

    #[test]
    fn the_integral_is_met_to_one_request() {
        let (whole, left, finished) = begun(r#""max_vus": 99"#, 0, 1);
        // 550 · 0.2 + 500 · 0.1 = 160.
        assert!((159..=160).contains(&whole.len()), "{}", whole.len());
        assert!(finished && left == 0);
        for (index, due_ns) in &whole {
            let t = *due_ns as f64 / 1e9;
            let rises = t.min(0.2);
            let falls = (t - 0.2).max(0.0);
            let integral =
                100.0 * rises + 2_250.0 * rises * rises + 1_000.0 * falls - 5_000.0 * falls * falls;
            assert!(
                (integral - *index as f64 - 0.5).abs() <= 0.501,
                "{integral} at {index}"
            );
        }
        assert_eq!(begun(r#""max_vus": 1"#, 0, 1).0, whole);
    }

    #[test]
    fn threads_and_shares_are_subsets() {
        let (whole, _, _) = begun(r#""max_vus": 99, "arrivals": "poisson""#, 0, 1);
        let mut parts = Vec::new();
        for share in 0..2 {
            for thread in 0..3 {
                let options = format!(
                    r#""max_vus": 99, "arrivals": "poisson", "index_from": {share}, "index_step": 2"#
                );
                parts.extend(begun(&options, thread, 3).0);
            }
        }
        parts.sort_unstable();
        assert_eq!(parts, whole);
    }
}
