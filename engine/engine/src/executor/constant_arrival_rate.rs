//! Open loop: arrivals at a rate, whatever the server does. A due time never slips; a full pool makes arrivals wait or drops them.

use std::collections::VecDeque;

use serde::Deserialize;

use super::closed_loop::one;
use super::{Executor, Flaw, Lane, Ledger, Release, Start, VUS_MAX};
use crate::pace::{Arrivals, OpenPace, OpenPlan, Rate};
use crate::pieces::Asker;
use crate::share::GroupSpec;

/// What happens to an arrival that finds every slot taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// It waits, first come first served; the wait is part of its response time.
    #[default]
    Wait,
    /// It is dropped, and counted.
    Drop,
}

/// Options, as a share writes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Of all shares together.
    pub rate_rps: f64,
    #[serde(flatten)]
    pub places: Places,
}

fn constant() -> Arrivals {
    Arrivals::Constant
}

impl Options {
    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let rate = (1e-6..=1e8).contains(&self.rate_rps);
        let rules = [(rate, "rate_rps", "must be 1e-6 to 1e8")];
        super::first_flaw(&rules).or_else(|| self.places.flaw())
    }
}

/// Which arrivals of an open plan are this share's, and how many of them may be under way.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Places {
    #[serde(default)]
    pub index_from: u64,
    #[serde(default = "one")]
    pub index_step: u64,
    /// Slots of this share.
    pub max_vus: u64,
    #[serde(default)]
    pub on_full: OnFull,
    #[serde(default = "constant")]
    pub arrivals: Arrivals,
    /// Only global indexes below this exist.
    pub limit: Option<u64>,
}

impl Places {
    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let count = |n: u64| (1..=VUS_MAX).contains(&n);
        let rules = [
            (
                count(self.index_step),
                "index_step",
                "must be 1 to 1,000,000",
            ),
            (
                self.index_from <= VUS_MAX,
                "index_from",
                "must be at most 1,000,000",
            ),
            (count(self.max_vus), "max_vus", "must be 1 to 1,000,000"),
        ];
        super::first_flaw(&rules)
    }
}

/// The arrivals of one thread.
pub fn build(seed: u64, group: &GroupSpec, options: &Options, lane: Lane) -> OpenLoop {
    let rate = Rate::constant(options.rate_rps);
    OpenLoop::new(seed, group, rate, options.places, lane)
}

/// The arrivals of one thread. The queue of waiting ones is not stored: `served` follows `arrived` through the same plan.
pub struct OpenLoop {
    arrived: OpenPace,
    served: OpenPace,
    backlog: u64,
    stop_ns: i64,
    on_full: OnFull,
    lane: Lane,
    slots: usize,
    /// Slots handed out at least once.
    used: u32,
    /// Places never taken, free since ever.
    fresh: usize,
    /// Since when the other free places are free, oldest first. Which slot runs a request does not matter here:
    /// an arrival was ready when the place that was free longest became free.
    free_since: VecDeque<i64>,
    /// Free slots with a live connection, the last used on top; an entry is stale unless `warm` says so.
    warm_slots: Vec<u32>,
    cold_slots: Vec<u32>,
    warm: Vec<bool>,
    in_flight: usize,
}

impl OpenLoop {
    /// Any open executor: arrivals at `rate`, into `places`.
    pub fn new(seed: u64, group: &GroupSpec, rate: Rate, places: Places, lane: Lane) -> Self {
        let arrived = OpenPace::new(OpenPlan {
            seed,
            group: &group.name,
            start_ns: group.start_offset_ns,
            rate,
            arrivals: places.arrivals,
            from: places.index_from + lane.lane * places.index_step,
            step: places.index_step * lane.lanes,
            limit: places.limit.into_iter().chain(group.supply.of_all()).min(),
        });
        let slots = lane.numbers(places.max_vus).count();
        OpenLoop {
            served: arrived.clone(),
            arrived,
            backlog: 0,
            stop_ns: group.stop_offset_ns,
            on_full: places.on_full,
            lane,
            slots,
            used: 0,
            fresh: slots,
            free_since: VecDeque::new(),
            warm_slots: Vec::new(),
            cold_slots: Vec::new(),
            warm: Vec::new(),
            in_flight: 0,
        }
    }

    fn next_arrival(&self) -> Option<(u64, i64)> {
        self.arrived
            .peek()
            .filter(|(_, due_ns)| *due_ns < self.stop_ns)
    }

    /// Since when a place is free; `None` if all are taken.
    fn free_since_ns(&self) -> Option<i64> {
        if self.fresh > 0 {
            Some(i64::MIN)
        } else {
            self.free_since.front().copied()
        }
    }

    fn take_place(&mut self) {
        if self.fresh > 0 {
            self.fresh -= 1;
        } else {
            self.free_since.pop_front();
        }
    }

    /// Prefers a live connection, then a slot that had one, then a new slot.
    fn take_slot(&mut self) -> u32 {
        self.take_place();
        self.in_flight += 1;
        self.any_used_slot().unwrap_or_else(|| {
            self.used += 1;
            self.warm.push(false);
            self.used - 1
        })
    }

    fn any_used_slot(&mut self) -> Option<u32> {
        while let Some(slot) = self.warm_slots.pop() {
            if std::mem::take(&mut self.warm[slot as usize]) {
                return Some(slot);
            }
            self.cold_slots.push(slot);
        }
        self.cold_slots.pop()
    }

    fn start(&mut self, index: u64, due_ns: i64, free_ns: i64) -> Start {
        let slot = self.take_slot();
        Start {
            slot,
            vu: self.lane.lane + u64::from(slot) * self.lane.lanes,
            seq: index,
            due_ns,
            ready_ns: due_ns.max(free_ns),
        }
    }

    fn poll_waiting(&mut self, now_ns: i64, ledger: &mut dyn Ledger) -> Option<Start> {
        self.count_arrivals(now_ns, ledger);
        let free_ns = self.free_since_ns().filter(|_| self.backlog > 0)?;
        let (index, due_ns) = self.served.peek()?;
        self.served.advance();
        self.backlog -= 1;
        Some(self.start(index, due_ns, free_ns))
    }

    fn count_arrivals(&mut self, now_ns: i64, ledger: &mut dyn Ledger) {
        while let Some((index, due_ns)) =
            self.next_arrival().filter(|(_, due_ns)| *due_ns <= now_ns)
        {
            ledger.due(due_ns, arrival(index));
            self.arrived.advance();
            self.backlog += 1;
        }
    }

    /// An arrival is dropped if no slot was free at its due time, however late the loop looks at it.
    fn poll_dropping(&mut self, now_ns: i64, ledger: &mut dyn Ledger) -> Option<Start> {
        while let Some((index, due_ns)) =
            self.next_arrival().filter(|(_, due_ns)| *due_ns <= now_ns)
        {
            ledger.due(due_ns, arrival(index));
            self.arrived.advance();
            match self.free_since_ns() {
                Some(free_ns) if free_ns <= due_ns => {
                    return Some(self.start(index, due_ns, free_ns))
                }
                _ => ledger.dropped(due_ns, arrival(index)),
            }
        }
        None
    }
}

/// Who asks at an arrival: which place runs it does not matter.
fn arrival(index: u64) -> Asker {
    Asker { vu: 0, seq: index }
}

impl Executor for OpenLoop {
    fn slots(&self) -> usize {
        self.slots
    }

    fn next_wake_ns(&self) -> Option<i64> {
        // With every slot taken only a release can start something; arrivals are counted, with their due times, then.
        self.free_since_ns()?;
        self.next_arrival().map(|(_, due_ns)| due_ns)
    }

    fn poll(&mut self, now_ns: i64, ledger: &mut dyn Ledger) -> Option<Start> {
        match self.on_full {
            OnFull::Wait => self.poll_waiting(now_ns, ledger),
            OnFull::Drop => self.poll_dropping(now_ns, ledger),
        }
    }

    fn release(&mut self, release: Release, _ledger: &mut dyn Ledger) {
        self.in_flight -= 1;
        self.free_since.push_back(release.at_ns);
        self.warm[release.slot as usize] = release.warm;
        if release.warm {
            self.warm_slots.push(release.slot);
        } else {
            self.cold_slots.push(release.slot);
        }
    }

    fn cooled(&mut self, slot: u32) {
        self.warm[slot as usize] = false;
    }

    fn finished(&self, now_ns: i64) -> bool {
        let over = now_ns >= self.stop_ns || self.arrived.peek().is_none();
        self.in_flight == 0
            && self.backlog == 0
            && over
            && self.next_arrival().is_none_or(|(_, due)| due > now_ns)
    }

    fn active_vus(&self, _now_ns: i64) -> u64 {
        self.in_flight as u64
    }

    fn close(&mut self, end_ns: i64, ledger: &mut dyn Ledger) {
        while let Some((index, due_ns)) =
            self.next_arrival().filter(|(_, due_ns)| *due_ns <= end_ns)
        {
            ledger.due(due_ns, arrival(index));
            self.arrived.advance();
            let free = self
                .free_since_ns()
                .is_some_and(|free_ns| free_ns <= due_ns);
            if self.on_full == OnFull::Wait {
                self.backlog += 1;
            } else if free {
                self.take_place();
                ledger.waiting(due_ns, due_ns, end_ns);
            } else {
                ledger.dropped(due_ns, arrival(index));
            }
        }
        for _ in 0..std::mem::take(&mut self.backlog) {
            let Some((_, due_ns)) = self.served.peek() else {
                break;
            };
            self.served.advance();
            ledger.waiting(due_ns, self.free_since_ns().unwrap_or(end_ns), end_ns);
            self.take_place();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{simulate, Book};
    use super::*;
    use crate::share::testing::group;

    const MS: i64 = 1_000_000;

    fn executor(options: &str, thread: u64, threads: u64) -> Box<dyn Executor> {
        let text = format!(r#"{{"kind": "constant-arrival-rate", "rate_rps": 1000.0, {options}}}"#);
        let mut group = group(&text);
        group.stop_offset_ns = 100 * MS;
        super::super::build(7, &group, thread, threads).unwrap()
    }

    #[test]
    fn arrivals_do_not_care_for_the_server() {
        let run = |service_ns, late_ns| {
            let mut open = executor(r#""max_vus": 200"#, 0, 1);
            simulate(open.as_mut(), 100 * MS, late_ns, |_| service_ns)
        };
        let (fast, book) = run(MS / 10, 0);
        assert_eq!(fast.len(), 100);
        assert!(book.waiting.is_empty());
        let (slow, _) = run(90 * MS, 0);
        let dues = |begun: &[(Start, i64)]| {
            begun
                .iter()
                .map(|(start, _)| start.due_ns)
                .collect::<Vec<_>>()
        };
        assert_eq!(dues(&fast), dues(&slow));
        assert!(slow.iter().all(|(start, at)| start.due_ns == *at));
        let (late, book) = run(MS / 10, 2 * MS);
        assert_eq!(dues(&fast)[..late.len()], dues(&late));
        assert!(late.iter().all(|(start, _)| start.ready_ns == start.due_ns));
        assert_eq!(late.len() + book.waiting.len(), 100);
    }

    #[test]
    fn a_full_pool_makes_arrivals_wait_in_order() {
        let mut open = executor(r#""max_vus": 2"#, 0, 1);
        let (begun, book) = simulate(open.as_mut(), 100 * MS, 0, |_| 10 * MS);
        // Two slots of 10 ms serve 200/s of 1000/s.
        assert_eq!(begun.len(), 20);
        assert_eq!((book.due.len(), book.waiting.len()), (100, 80));
        let indexes: Vec<_> = begun.iter().map(|(start, _)| start.seq).collect();
        assert_eq!(indexes, (0..20).collect::<Vec<_>>());
        for (start, at) in &begun {
            assert_eq!(start.ready_ns, *at);
        }
        let (last, _) = begun[19];
        assert_eq!(
            last.ready_ns - last.due_ns,
            begun[1].0.due_ns + 90 * MS - last.due_ns
        );
    }

    #[test]
    fn a_late_loop_is_lag_and_not_slot_wait() {
        let mut open = executor(r#""max_vus": 1"#, 0, 1);
        let mut book = Book::default();
        let first = open.poll(MS, &mut book).unwrap();
        // Done at 1.5 ms, but noticed at 50 ms: the wait ends when the slot was free.
        open.release(
            Release {
                slot: first.slot,
                at_ns: MS + MS / 2,
                unsent: false,
                warm: true,
            },
            &mut book,
        );
        let second = open.poll(50 * MS, &mut book).unwrap();
        assert_eq!(second.ready_ns, second.due_ns.max(MS + MS / 2));
        assert_eq!(book.due.len(), 50);
    }

    #[test]
    fn dropped_arrivals_are_counted() {
        let mut open = executor(r#""max_vus": 2, "on_full": "drop""#, 0, 1);
        let (begun, book) = simulate(open.as_mut(), 100 * MS, 0, |_| 10 * MS - 1);
        assert_eq!(begun.len(), 20);
        assert_eq!(
            (book.due.len(), book.dropped.len(), book.waiting.len()),
            (100, 80, 0)
        );
        assert!(begun
            .iter()
            .all(|(start, _)| start.ready_ns == start.due_ns));
    }

    #[test]
    fn max_vus_holds_on_every_number_of_threads() {
        for threads in 1..=4 {
            let mut slots = 0;
            let mut dues = Vec::new();
            for thread in 0..threads.min(3) {
                let mut open = executor(r#""max_vus": 3, "arrivals": "poisson""#, thread, threads);
                slots += open.slots();
                let (begun, book) = simulate(open.as_mut(), 100 * MS, 0, |_| 5 * MS);
                assert!(begun
                    .iter()
                    .all(|(start, _)| (start.slot as usize) < open.slots()));
                dues.extend(book.due);
            }
            assert_eq!(slots, 3);
            dues.sort_unstable();
            let mut whole = executor(r#""max_vus": 300, "arrivals": "poisson""#, 0, 1);
            assert_eq!(dues, simulate(whole.as_mut(), 100 * MS, 0, |_| MS).1.due);
        }
    }

    #[test]
    fn live_connections_are_preferred() {
        let mut open = executor(r#""max_vus": 9"#, 0, 1);
        let mut book = Book::default();
        let slots: Vec<_> = (0..3)
            .map(|_| open.poll(50 * MS, &mut book).unwrap().slot)
            .collect();
        for (slot, warm) in slots.iter().zip([true, true, false]) {
            open.release(
                Release {
                    slot: *slot,
                    at_ns: 50 * MS,
                    unsent: false,
                    warm,
                },
                &mut book,
            );
        }
        open.cooled(slots[1]);
        assert_eq!(open.poll(50 * MS, &mut book).unwrap().slot, slots[0]);
        let others = [
            open.poll(50 * MS, &mut book).unwrap().slot,
            open.poll(50 * MS, &mut book).unwrap().slot,
        ];
        assert!(others.contains(&slots[1]) && others.contains(&slots[2]));
    }

    #[test]
    fn a_limit_ends_the_group() {
        let mut open = executor(r#""max_vus": 9, "limit": 7"#, 0, 1);
        let (begun, book) = simulate(open.as_mut(), 100 * MS, 0, |_| MS);
        assert_eq!((begun.len(), book.due.len()), (7, 7));
        assert!(open.finished(20 * MS));
    }
}
