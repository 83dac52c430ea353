//! Closed loop of a fixed amount of work: the VUs share so many iterations, whoever is free makes the next.
//!
//! Between shares (and threads) the work is dealt before it begins, so that it does not depend on who is faster: iteration i
//! belongs to the share of VU i mod `vus_total`. Within a thread of a share the VUs take from one heap.

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
    /// Of all VUs of all shares together.
    pub iterations: u64,
}

impl Options {
    pub fn users(&self) -> Users {
        self.loop_options.users(None, self.spread_ns)
    }

    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let users = self.users();
        let enough = (users.total..1 << 60).contains(&self.iterations);
        let rules = [(
            enough,
            "iterations",
            "must be at least one a VU of all shares",
        )];
        users.flaw().or_else(|| super::first_flaw(&rules))
    }
}

/// The VUs of one thread.
pub fn build(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> ClosedLoop {
    let budget = Budget::Pooled {
        all: options.iterations,
    };
    ClosedLoop::new(seed, group, options.users(), budget, lane)
}

#[cfg(test)]
mod tests {
    use super::super::testing::simulate;
    use crate::share::testing::group;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_faster_make_more() {
        let text = r#"{"kind": "shared-iterations", "vus": 2, "iterations": 12, "think_time": {"constant_ns": 500000}}"#;
        let mut executor = super::super::build(7, &group(text), 0, 1).unwrap();
        let (begun, book) = simulate(executor.as_mut(), 900 * MS, 0, |start| {
            MS / 2 + 9 * MS * start.vu as i64
        });
        let of_second = begun.iter().filter(|(start, _)| start.vu == 1).count();
        assert_eq!((begun.len(), of_second), (12, 1));
        assert!(executor.finished(100 * MS) && book.waiting.is_empty());
        // The first took the last iteration at 10 ms, when the second had thought for 0.5 ms: it goes then.
        assert_eq!(book.think_ns, 11 * MS / 2);
        assert_eq!(book.active_ns, 10 * MS + MS / 2 + 10 * MS);
    }

    proptest! {
        #[test]
        fn every_cut_makes_exactly_all(
            vus in 1u64..9, more in 0u64..60, shares in 1u64..4, threads in 1u64..4, late_ns in 0i64..3_000_000
        ) {
            let (shares, iterations) = (shares.min(vus), vus + more);
            let mut begun = 0;
            for part in 0..shares {
                let mine = (vus - part).div_ceil(shares);
                for thread in 0..threads.min(mine) {
                    let text = format!(
                        r#"{{"kind": "shared-iterations", "vus": {mine}, "vus_total": {vus}, "vu_from": {part}, "vu_step": {shares},
                            "iterations": {iterations}, "spread_ns": 5000000, "think_time": {{"exponential_ns": 900000.0}}}}"#
                    );
                    let mut executor = super::super::build(7, &group(&text), thread, threads).unwrap();
                    let mut busy_ns = 0;
                    let (starts, book) = simulate(executor.as_mut(), 900 * MS, late_ns, |start| {
                        let service_ns = MS / 2 + (start.vu * 7 + start.seq * 3) as i64 % 5 * MS;
                        busy_ns += service_ns;
                        service_ns
                    });
                    let lag_ns: i64 = starts.iter().map(|(start, at)| at - start.due_ns).sum();
                    prop_assert!(executor.finished(900 * MS) && book.waiting.is_empty());
                    // Little, exactly: what VUs did fills their time.
                    prop_assert_eq!(book.active_ns, book.think_ns + busy_ns + lag_ns);
                    begun += starts.len() as u64;
                }
            }
            prop_assert_eq!(begun, iterations);
        }
    }
}
