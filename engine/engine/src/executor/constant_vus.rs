//! Closed loop: a fixed number of virtual users, each waits for its answer, then thinks.

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
    pub ramp_up_ns: u64,
    #[serde(default)]
    pub spread_ns: u64,
    /// Requests of all VUs of all shares together; VU g makes ⌈(limit − g) / vus_total⌉ of them.
    pub limit: Option<u64>,
}

impl Options {
    pub fn users(&self) -> Users {
        let spread_ns = if self.ramp_up_ns > 0 {
            self.ramp_up_ns
        } else {
            self.spread_ns
        };
        self.loop_options.users(None, spread_ns)
    }

    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        self.users().flaw()
    }
}

/// The VUs of one thread.
pub fn build(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> ClosedLoop {
    let budget = match options.limit {
        None => Budget::Endless,
        Some(all) => Budget::Dealt { all },
    };
    ClosedLoop::new(seed, group, options.users(), budget, lane)
}

#[cfg(test)]
mod tests {
    use super::super::closed_loop::UNSENT_PAUSE_NS;
    use super::super::testing::simulate;
    use super::super::{Executor, Release};
    use crate::share::testing::group;

    const MS: i64 = 1_000_000;

    fn executor(options: &str, stop_ns: i64, thread: u64, threads: u64) -> Box<dyn Executor> {
        let text = format!(r#"{{"kind": "constant-vus", {options}}}"#);
        let mut group = group(&text);
        group.stop_offset_ns = stop_ns;
        super::super::build(7, &group, thread, threads).unwrap()
    }

    #[test]
    fn a_vu_waits_then_thinks() {
        let mut one = executor(
            r#""vus": 1, "think_time": {"constant_ns": 3000000}"#,
            100 * MS,
            0,
            1,
        );
        let (begun, book) = simulate(one.as_mut(), 100 * MS, 0, |_| 7 * MS);
        let dues: Vec<_> = begun.iter().map(|(start, _)| start.due_ns).collect();
        assert_eq!(dues, (0..10).map(|n| n * 10 * MS).collect::<Vec<_>>());
        assert_eq!(book.think_ns, 30 * MS);
        assert_eq!(book.active_ns, 100 * MS);
        assert!(book.waiting.is_empty());
    }

    #[test]
    fn lateness_of_the_loop_never_moves_a_due_time_before_the_vu_was_free() {
        let mut one = executor(
            r#""vus": 1, "think_time": {"constant_ns": 3000000}"#,
            50 * MS,
            0,
            1,
        );
        let (begun, _) = simulate(one.as_mut(), 50 * MS, MS, |_| 7 * MS);
        for pair in begun.windows(2) {
            let done = pair[0].1 + 7 * MS;
            assert_eq!(pair[1].0.due_ns, done + 3 * MS);
        }
        assert!(begun[1..]
            .iter()
            .all(|(start, at)| at - start.ready_ns == MS));
    }

    #[test]
    fn ramps_and_spreads_start_vus_in_global_order() {
        let mut part = executor(
            r#""vus": 4, "vu_from": 1, "vu_step": 2, "ramp_up_ns": 80000000"#,
            1_000 * MS,
            0,
            1,
        );
        let (begun, _) = simulate(part.as_mut(), 1_000 * MS, 0, |_| 2_000 * MS);
        let starts: Vec<_> = begun
            .iter()
            .map(|(start, _)| (start.vu, start.due_ns / MS))
            .collect();
        assert_eq!(starts, [(1, 10), (3, 30), (5, 50), (7, 70)]);
        let mut spread = executor(r#""vus": 2, "spread_ns": 80000000"#, 1_000 * MS, 0, 1);
        assert_eq!(
            simulate(spread.as_mut(), 1_000 * MS, 0, |_| 2_000 * MS).0[1]
                .0
                .due_ns,
            40 * MS
        );
    }

    #[test]
    fn threads_share_the_same_vus() {
        let options = r#""vus": 5, "vus_total": 5, "spread_ns": 5000000, "think_time": {"exponential_ns": 2000000.0}"#;
        let run = |thread, threads| {
            let mut executor = executor(options, 200 * MS, thread, threads);
            let (begun, _) = simulate(executor.as_mut(), 200 * MS, 0, |start| {
                1_000 * (1 + start.vu as i64)
            });
            begun
                .into_iter()
                .map(|(start, _)| (start.due_ns, start.vu, start.seq))
                .collect::<Vec<_>>()
        };
        let mut parts: Vec<_> = (0..3).flat_map(|thread| run(thread, 3)).collect();
        parts.sort_unstable();
        let mut whole = run(0, 1);
        whole.sort_unstable();
        assert!(whole.len() > 200);
        assert_eq!(parts, whole);
    }

    #[test]
    fn a_vu_that_cannot_connect_pauses() {
        let mut one = executor(r#""vus": 1"#, 100 * MS, 0, 1);
        let mut book = super::super::testing::Book::default();
        let start = one.poll(0, &mut book).unwrap();
        let release = Release {
            slot: start.slot,
            at_ns: 5,
            unsent: true,
            warm: false,
        };
        one.release(release, &mut book);
        assert_eq!(one.next_wake_ns(), Some(5 + UNSENT_PAUSE_NS));
        let start = one.poll(20 * MS, &mut book).unwrap();
        one.release(
            Release {
                slot: start.slot,
                at_ns: 21 * MS,
                unsent: false,
                warm: true,
            },
            &mut book,
        );
        assert_eq!(one.next_wake_ns(), Some(21 * MS));
        assert_eq!(book.think_ns, UNSENT_PAUSE_NS);
    }

    #[test]
    fn a_limit_is_split_over_all_vus() {
        let count = |from, step, vus| {
            let options = format!(
                r#""vus": {vus}, "vus_total": 4, "vu_from": {from}, "vu_step": {step}, "limit": 10"#
            );
            let mut executor = executor(&options, i64::MAX / 4, 0, 1);
            let (begun, _) = simulate(executor.as_mut(), 1_000 * MS, 0, |_| MS);
            assert!(executor.finished(5 * MS));
            begun.len()
        };
        assert_eq!(count(0, 1, 4), 10);
        assert_eq!((count(0, 2, 2), count(1, 2, 2)), (5, 5));
    }

    #[test]
    fn what_is_due_at_the_end_waits() {
        let mut two = executor(r#""vus": 2"#, 10 * MS, 0, 1);
        let mut book = super::super::testing::Book::default();
        two.poll(0, &mut book).unwrap();
        two.close(9 * MS, &mut book);
        assert_eq!((book.due.len(), book.waiting.len()), (2, 1));
        assert_eq!(book.active_ns, 18 * MS);
    }
}
