//! Closed loop whose number of virtual users follows stages. A VU that must go finishes its request first; it is never cut off.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Deserialize;

use super::closed_loop::{next_due_ns, LoopOptions, Users};
use super::{Executor, Flaw, Lane, Ledger, Release, Start};
use crate::pace::ThinkPace;
use crate::pieces::Asker;
use crate::ramp::{stages_ns, Stage, VuRamp};
use crate::share::GroupSpec;

/// Options, as a share writes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// `vus` are those of this share that there ever are; without `vus_total` it is the largest target.
    #[serde(flatten)]
    pub loop_options: LoopOptions,
    /// Of all shares.
    #[serde(default)]
    pub start_vus: u64,
    /// Targets are of all shares.
    pub stages: Vec<Stage<u64>>,
}

impl Options {
    fn most(&self) -> u64 {
        let targets = self.stages.iter().map(|stage| stage.target);
        targets.max().unwrap_or(0).max(self.start_vus)
    }

    pub fn users(&self) -> Users {
        self.loop_options.users(Some(self.most()), 0)
    }

    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let length = stages_ns(&self.stages).is_some_and(|ns| ns > 0);
        let rules = [
            (
                length,
                "stages",
                "must last longer than nothing and less than 2^60 ns",
            ),
            (
                self.most() <= self.users().total,
                "vus_total",
                "is smaller than a target",
            ),
        ];
        self.users().flaw().or_else(|| super::first_flaw(&rules))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not there before `on_ns` (in the heap).
    Coming,
    /// Free since, due at (in the heap).
    Thinking {
        free_ns: i64,
        due_ns: i64,
    },
    Busy,
    /// Thinks from `free_ns` until its span ends; `next` is its next span (in the heap).
    Leaving {
        free_ns: i64,
        next: Option<(i64, i64)>,
    },
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Vu {
    number: u64,
    seq: u64,
    /// Its span.
    on_ns: i64,
    off_ns: i64,
    last_due_ns: i64,
    state: State,
    /// The most iterations that its feeders' rows allow.
    quota: u64,
}

impl Vu {
    /// Who asks next.
    fn asker(&self) -> Asker {
        Asker {
            vu: self.number,
            seq: self.seq,
        }
    }
}

/// The VUs of one thread.
pub struct RampingVus {
    vus: Vec<Vu>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
    ramp: VuRamp,
    end_ns: i64,
    pace: ThinkPace,
    pacing_ns: u64,
    busy: usize,
}

impl RampingVus {
    pub fn new(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> Self {
        let ramp = VuRamp::new(
            group.start_offset_ns,
            group.stop_offset_ns,
            options.start_vus,
            &options.stages,
        );
        let users = options.users();
        let make = |local: u64| {
            let number = users.number(local);
            let quota = group.supply.of_vu(number);
            let span = ramp.span_after(number, i64::MIN).filter(|_| quota > 0);
            let (on_ns, off_ns) = span.unwrap_or((0, 0));
            Vu {
                number,
                seq: 0,
                on_ns,
                off_ns,
                last_due_ns: on_ns,
                state: span.map_or(State::Gone, |_| State::Coming),
                quota,
            }
        };
        let vus: Vec<Vu> = lane.numbers(users.vus).map(make).collect();
        let heap = (0u32..)
            .zip(&vus)
            .filter(|(_, vu)| vu.state == State::Coming)
            .map(|(slot, vu)| Reverse((vu.on_ns, slot)))
            .collect();
        RampingVus {
            vus,
            heap,
            end_ns: ramp.end_ns(),
            ramp,
            pace: ThinkPace::new(seed, &group.name, users.think_time),
            pacing_ns: users.pacing_ns,
            busy: 0,
        }
    }

    /// A VU's span has ended and it thought to its end.
    fn leave(vu: &Vu, free_ns: i64, until_ns: i64, ledger: &mut dyn Ledger) {
        let left_ns = vu.off_ns.min(until_ns);
        ledger.think(free_ns, left_ns);
        ledger.active(vu.on_ns, left_ns);
    }
}

impl Executor for RampingVus {
    fn slots(&self) -> usize {
        self.vus.len()
    }

    fn next_wake_ns(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    fn poll(&mut self, now_ns: i64, ledger: &mut dyn Ledger) -> Option<Start> {
        let due_ns = self.next_wake_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let Reverse((_, slot)) = self.heap.pop()?;
        let vu = &mut self.vus[slot as usize];
        match vu.state {
            State::Thinking { free_ns, due_ns } => ledger.think(free_ns, due_ns),
            State::Leaving { free_ns, next } => {
                Self::leave(vu, free_ns, i64::MAX, ledger);
                (vu.on_ns, vu.off_ns) = next.unwrap_or((vu.on_ns, vu.off_ns));
            }
            State::Coming | State::Busy | State::Gone => {}
        }
        ledger.due(due_ns, vu.asker());
        vu.state = State::Busy;
        vu.seq += 1;
        vu.last_due_ns = due_ns;
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
        self.busy -= 1;
        let vu = &mut self.vus[release.slot as usize];
        if vu.seq >= vu.quota {
            ledger.active(vu.on_ns, release.at_ns);
            vu.state = State::Gone;
            return;
        }
        let think_ns = self.pace.after_ns(vu.number, vu.seq - 1);
        let due_ns = next_due_ns(think_ns, self.pacing_ns, vu.last_due_ns, &release);
        let (free_ns, slot) = (release.at_ns, release.slot);
        match self.ramp.span_after(vu.number, free_ns) {
            // It is still wanted, or wanted again: it has been there all the time.
            Some((on_ns, off_ns)) if on_ns <= free_ns => {
                vu.off_ns = off_ns;
                if due_ns < off_ns {
                    vu.state = State::Thinking { free_ns, due_ns };
                    self.heap.push(Reverse((due_ns, slot)));
                } else {
                    let next = self.ramp.span_after(vu.number, off_ns);
                    vu.state = State::Leaving { free_ns, next };
                    self.heap
                        .extend(next.map(|(on_ns, _)| Reverse((on_ns, slot))));
                }
            }
            next => {
                ledger.active(vu.on_ns, free_ns);
                vu.state = next.map_or(State::Gone, |_| State::Coming);
                (vu.on_ns, vu.off_ns) = next.unwrap_or((vu.on_ns, vu.off_ns));
                self.heap
                    .extend(next.map(|(on_ns, _)| Reverse((on_ns, slot))));
            }
        }
    }

    fn finished(&self, now_ns: i64) -> bool {
        self.busy == 0 && now_ns >= self.end_ns && self.heap.is_empty()
    }

    fn active_vus(&self, now_ns: i64) -> u64 {
        let active = |vu: &&Vu| match vu.state {
            State::Gone => false,
            State::Coming => vu.on_ns <= now_ns,
            State::Thinking { .. } | State::Busy => true,
            State::Leaving { next, .. } => {
                now_ns < vu.off_ns || next.is_some_and(|(on_ns, _)| on_ns <= now_ns)
            }
        };
        self.vus.iter().filter(active).count() as u64
    }

    fn close(&mut self, end_ns: i64, ledger: &mut dyn Ledger) {
        // A VU that came and whose first request of the span has not begun.
        let came = |vu: &Vu, on_ns: i64, ledger: &mut dyn Ledger| {
            if on_ns <= end_ns {
                ledger.due(on_ns, vu.asker());
                ledger.waiting(on_ns, on_ns, end_ns);
                ledger.active(on_ns, end_ns);
            }
        };
        for vu in &self.vus {
            match vu.state {
                State::Gone => {}
                State::Coming => came(vu, vu.on_ns, ledger),
                State::Busy => ledger.active(vu.on_ns, end_ns),
                State::Thinking { free_ns, due_ns } => {
                    ledger.think(free_ns, due_ns.min(end_ns));
                    if due_ns <= end_ns {
                        ledger.due(due_ns, vu.asker());
                        ledger.waiting(due_ns, due_ns, end_ns);
                    }
                    ledger.active(vu.on_ns, end_ns);
                }
                State::Leaving { free_ns, next } => {
                    Self::leave(vu, free_ns, end_ns, ledger);
                    if let Some((on_ns, _)) = next {
                        came(vu, on_ns, ledger);
                    }
                }
            }
        }
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::simulate;
    use super::*;
    use crate::share::testing::group;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn executor(options: &str, thread: u64, threads: u64) -> Box<dyn Executor> {
        let text = format!(r#"{{"kind": "ramping-vus", {options}}}"#);
        super::super::build(7, &group(&text), thread, threads).unwrap()
    }

    #[test]
    fn users_come_one_by_one_and_the_last_goes_first() {
        let options = r#""vus": 4, "stages": [{"duration_ns": 40000000, "target": 4}, {"duration_ns": 40000000, "target": 0}],
            "think_time": {"constant_ns": 500000}"#;
        let mut ramping = executor(options, 0, 1);
        let (begun, book) = simulate(ramping.as_mut(), 900 * MS, 0, |_| MS / 2);
        let of = |vu| {
            let dues = begun.iter().filter(move |(start, _)| start.vu == vu);
            let dues: Vec<_> = dues.map(|(start, _)| start.due_ns / MS).collect();
            (dues[0], *dues.last().unwrap(), dues.len())
        };
        assert_eq!(of(0), (10, 79, 70));
        assert_eq!(of(3), (40, 49, 10));
        // The line's integral is 160 VU·ms; by whole users it is 10 ms of each of 1, 2, 3, 4, 4, 3, 2, 1.
        assert_eq!(book.active_ns, 160 * MS);
        assert_eq!(begun.len(), 160);
        assert!(ramping.finished(80 * MS) && !ramping.finished(79 * MS));
    }

    #[test]
    fn a_request_in_progress_is_finished() {
        let options = r#""vus": 1, "start_vus": 1, "stages": [{"duration_ns": 10000000, "target": 1}, {"duration_ns": 0, "target": 0},
            {"duration_ns": 10000000, "target": 0}, {"duration_ns": 0, "target": 1}, {"duration_ns": 10000000, "target": 1}]"#;
        let mut ramping = executor(options, 0, 1);
        let (begun, book) = simulate(ramping.as_mut(), 900 * MS, 0, |_| 7 * MS);
        let dues: Vec<_> = begun.iter().map(|(start, _)| start.due_ns / MS).collect();
        assert_eq!(dues, [0, 7, 20, 27]);
        // 0 to 14 and 20 to 34: beyond its span only to end its request.
        assert_eq!(book.active_ns, 28 * MS);
        let mut through = executor(options, 0, 1);
        let (begun, book) = simulate(through.as_mut(), 900 * MS, 0, |_| 23 * MS);
        assert_eq!(begun.len(), 2);
        assert_eq!(book.active_ns, 46 * MS);
    }

    #[test]
    fn pacing_keeps_iterations_apart() {
        let options = r#""vus": 1, "start_vus": 1, "stages": [{"duration_ns": 50000000, "target": 1}], "pacing_ns": 10000000"#;
        for (service_ms, wanted) in [(3, vec![0, 10, 20, 30, 40]), (14, vec![0, 14, 28, 42])] {
            let mut ramping = executor(options, 0, 1);
            let (begun, _) = simulate(ramping.as_mut(), 900 * MS, 0, |_| service_ms * MS);
            let dues: Vec<_> = begun.iter().map(|(start, _)| start.due_ns / MS).collect();
            assert_eq!(dues, wanted);
        }
    }

    proptest! {
        #[test]
        fn what_users_did_fills_their_time(
            stages in prop::collection::vec((0u64..30, 0u64..6), 1..6), start in 0u64..4, threads in 1u64..4,
            late_ns in 0i64..2_000_000, end_ms in 1i64..200
        ) {
            let mut length_ms: u64 = stages.iter().map(|(ms, _)| ms).sum();
            let mut text: Vec<_> = stages.iter()
                .map(|(ms, target)| format!(r#"{{"duration_ns": {}, "target": {target}}}"#, ms * 1_000_000)).collect();
            if length_ms == 0 {
                text.push(r#"{"duration_ns": 1000000, "target": 3}"#.into());
                length_ms = 1;
            }
            let options = format!(
                r#""vus": 6, "vus_total": 6, "start_vus": {start}, "stages": [{}], "think_time": {{"exponential_ns": 900000.0}}"#, text.join(",")
            );
            let mut all = Vec::new();
            for thread in 0..threads {
                let mut ramping = executor(&options, thread, threads);
                let mut ends = Vec::new();
                let (begun, book) = simulate(ramping.as_mut(), end_ms * MS, late_ns, |start| {
                    let service_ns = MS / 2 + (start.vu * 7 + start.seq * 3) as i64 % 5 * MS;
                    ends.push(service_ns);
                    service_ns
                });
                let clip = |from: i64, to: i64| (to.min(end_ms * MS) - from).max(0);
                let busy: i64 = begun.iter().zip(&ends).map(|((_, at), service)| clip(*at, at + service)).sum();
                let lag: i64 = begun.iter().map(|(start, at)| at - start.due_ns).sum();
                let waited: i64 = book.waiting.iter().map(|(due, _)| end_ms * MS - due).sum();
                if late_ns == 0 {
                    prop_assert_eq!(book.active_ns, book.think_ns + busy + lag + waited);
                }
                prop_assert!(begun.iter().all(|(start, _)| start.due_ns < length_ms as i64 * MS));
                all.extend(begun.iter().map(|(start, _)| (start.vu, start.seq)));
            }
            all.sort_unstable();
            let count = all.len();
            all.dedup();
            prop_assert_eq!(all.len(), count);
        }
    }
}
