//! Closed loop: a fixed number of virtual users, each waits for its answer, then thinks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Deserialize;

use super::{Executor, Lane, Ledger, Release, Start};
use crate::pace::{first_due_ns, ThinkPace, ThinkTime};
use crate::share::GroupSpec;

/// Options, as a share writes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// VUs of this share.
    pub vus: u64,
    /// VUs of all shares; without it `vus · vu_step`.
    pub vus_total: Option<u64>,
    #[serde(default)]
    pub vu_from: u64,
    #[serde(default = "one")]
    pub vu_step: u64,
    #[serde(default)]
    pub ramp_up_ns: u64,
    #[serde(default)]
    pub spread_ns: u64,
    #[serde(default)]
    pub think_time: ThinkTime,
    /// Requests of all VUs of all shares together; VU g makes ⌈(limit − g) / vus_total⌉ of them.
    pub limit: Option<u64>,
}

fn one() -> u64 {
    1
}

impl Options {
    pub fn vus_total(&self) -> u64 {
        self.vus_total.unwrap_or(self.vus * self.vu_step).max(1)
    }

    fn quota(&self, vu: u64) -> u64 {
        self.limit.map_or(u64::MAX, |limit| {
            limit.saturating_sub(vu).div_ceil(self.vus_total())
        })
    }
}

/// After a failure before anything was written (refused, no descriptor, …) a VU pauses at least this long, so that it
/// does not spin; the pause counts as think time.
pub const UNSENT_PAUSE_NS: i64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Free since, due at (in the heap).
    Thinking {
        free_ns: i64,
        due_ns: i64,
    },
    Busy,
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Vu {
    number: u64,
    seq: u64,
    quota: u64,
    first_due_ns: i64,
    state: State,
}

/// The VUs of one thread.
pub struct ConstantVus {
    vus: Vec<Vu>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
    pace: ThinkPace,
    stop_ns: i64,
    busy: usize,
    limited: bool,
}

impl ConstantVus {
    pub fn new(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> Self {
        let spread_ns = if options.ramp_up_ns > 0 {
            options.ramp_up_ns
        } else {
            options.spread_ns
        };
        let make = |local: u64| {
            let number = options.vu_from + local * options.vu_step;
            let due_ns = first_due_ns(
                group.start_offset_ns,
                spread_ns,
                number,
                options.vus_total(),
            );
            let quota = options.quota(number);
            let state = if quota == 0 {
                State::Retired
            } else {
                State::Thinking {
                    free_ns: due_ns,
                    due_ns,
                }
            };
            Vu {
                number,
                seq: 0,
                quota,
                first_due_ns: due_ns,
                state,
            }
        };
        let vus: Vec<Vu> = lane.numbers(options.vus).map(make).collect();
        let heap = (0u32..)
            .zip(&vus)
            .filter(|(_, vu)| vu.state != State::Retired)
            .map(|(slot, vu)| Reverse((vu.first_due_ns, slot)))
            .collect();
        ConstantVus {
            vus,
            heap,
            pace: ThinkPace::new(seed, &group.name, options.think_time),
            stop_ns: group.stop_offset_ns,
            busy: 0,
            limited: options.limit.is_some(),
        }
    }

    fn next_due_ns(&self) -> Option<i64> {
        self.heap
            .peek()
            .map(|Reverse((due_ns, _))| *due_ns)
            .filter(|due_ns| *due_ns < self.stop_ns)
    }
}

impl Executor for ConstantVus {
    fn slots(&self) -> usize {
        self.vus.len()
    }

    fn next_wake_ns(&self) -> Option<i64> {
        self.next_due_ns()
    }

    fn poll(&mut self, now_ns: i64, ledger: &mut dyn Ledger) -> Option<Start> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let Reverse((_, slot)) = self.heap.pop()?;
        let vu = &mut self.vus[slot as usize];
        if let State::Thinking { free_ns, due_ns } = vu.state {
            ledger.think(free_ns, due_ns);
        }
        ledger.due(due_ns);
        vu.state = State::Busy;
        vu.seq += 1;
        self.busy += 1;
        Some(Start {
            slot,
            vu: vu.number,
            seq: vu.seq - 1,
            due_ns,
            ready_ns: due_ns,
        })
    }

    fn release(&mut self, release: Release, ledger: &mut dyn Ledger) {
        let vu = &mut self.vus[release.slot as usize];
        self.busy -= 1;
        if vu.seq >= vu.quota {
            vu.state = State::Retired;
            ledger.active(vu.first_due_ns, release.at_ns);
            return;
        }
        let think_ns = self.pace.after_ns(vu.number, vu.seq - 1);
        let pause_ns = if release.unsent {
            think_ns.max(UNSENT_PAUSE_NS)
        } else {
            think_ns
        };
        let due_ns = release.at_ns + pause_ns;
        vu.state = State::Thinking {
            free_ns: release.at_ns,
            due_ns,
        };
        self.heap.push(Reverse((due_ns, release.slot)));
    }

    fn finished(&self, now_ns: i64) -> bool {
        let over = now_ns >= self.stop_ns || (self.limited && self.heap.is_empty());
        self.busy == 0 && over && self.next_due_ns().is_none()
    }

    fn active_vus(&self, now_ns: i64) -> u64 {
        let active = |vu: &&Vu| vu.state != State::Retired && vu.first_due_ns <= now_ns;
        self.vus.iter().filter(active).count() as u64
    }

    fn close(&mut self, end_ns: i64, ledger: &mut dyn Ledger) {
        for vu in self.vus.iter().filter(|vu| vu.first_due_ns <= end_ns) {
            match vu.state {
                State::Retired => continue,
                State::Busy => {}
                State::Thinking { free_ns, due_ns } => {
                    ledger.think(free_ns, due_ns.min(end_ns));
                    if due_ns <= end_ns && due_ns < self.stop_ns {
                        ledger.due(due_ns);
                        ledger.waiting(due_ns, due_ns, end_ns);
                    } else if due_ns < end_ns {
                        // Retired at the stop, the load goes on to its graceful end: it thinks on.
                        ledger.think(due_ns, end_ns);
                    }
                }
            }
            ledger.active(vu.first_due_ns, end_ns);
        }
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::simulate;
    use super::*;
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
