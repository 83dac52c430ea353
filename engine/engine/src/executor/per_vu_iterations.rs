//! Closed loop of a fixed amount of work: every VU makes so many iterations, then goes.

use serde::Deserialize;

use super::closed_loop::{Budget, ClosedLoop, LoopOptions, Users};
use super::{Flaw, Lane};
use crate::share::GroupSpec;

/// Options, as a share writes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    #[serde(flatten)]
    pub loop_options: LoopOptions,
    #[serde(default)]
    pub spread_ns: u64,
    /// Of each VU.
    pub iterations: u64,
}

impl Options {
    pub fn users(&self) -> Users {
        self.loop_options.users(None, self.spread_ns)
    }

    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let some = self.iterations > 0 && self.iterations < 1 << 60;
        let rules = [(some, "iterations", "must be at least 1")];
        self.users().flaw().or_else(|| super::first_flaw(&rules))
    }
}

/// The VUs of one thread.
pub fn build(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> ClosedLoop {
    let budget = Budget::Each(options.iterations);
    ClosedLoop::new(seed, group, options.users(), budget, lane)
}

#[cfg(test)]
mod tests {
    use super::super::testing::simulate;
    use crate::share::testing::group;

    const MS: i64 = 1_000_000;

    #[test]
    fn each_vu_makes_its_own_and_a_slow_one_is_waited_for() {
        let text = r#"{"kind": "per-vu-iterations", "vus": 3, "iterations": 4}"#;
        let mut executor = super::super::build(7, &group(text), 0, 1).unwrap();
        let (begun, book) = simulate(executor.as_mut(), 900 * MS, 0, |start| {
            MS * (1 + 9 * start.vu as i64)
        });
        let mut counts = [0; 3];
        for (start, _) in &begun {
            assert_eq!(start.seq, counts[start.vu as usize]);
            counts[start.vu as usize] += 1;
        }
        assert_eq!(counts, [4, 4, 4]);
        assert!(executor.finished(100 * MS) && book.waiting.is_empty());
        assert_eq!(book.active_ns, (4 + 40 + 76) * MS);
    }

    #[test]
    fn shares_and_threads_make_them_all() {
        let mut total = 0;
        for (from, vus) in [(0, 3), (1, 2)] {
            for thread in 0..2 {
                let text = format!(
                    r#"{{"kind": "per-vu-iterations", "vus": {vus}, "vus_total": 5, "vu_from": {from}, "vu_step": 2, "iterations": 7}}"#
                );
                let mut executor = super::super::build(7, &group(&text), thread, 2).unwrap();
                total += simulate(executor.as_mut(), 900 * MS, 0, |_| MS).0.len();
            }
        }
        assert_eq!(total, 35);
    }
}
