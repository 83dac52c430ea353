//! What all closed executors with a fixed set of VUs share: each VU waits for its answer, then thinks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Deserialize;

use super::{Executor, Flaw, Lane, Ledger, Release, Start, VUS_MAX};
use crate::pace::{first_due_ns, ThinkPace, ThinkTime};
use crate::pieces::Asker;
use crate::share::GroupSpec;

pub(super) fn one() -> u64 {
    1
}

/// What every closed executor's options hold, as a share writes them.
#[derive(Clone, Debug, Deserialize)]
pub struct LoopOptions {
    /// VUs of this share.
    pub vus: u64,
    /// VUs of all shares; without it `vus · vu_step`.
    pub vus_total: Option<u64>,
    #[serde(default)]
    pub vu_from: u64,
    #[serde(default = "one")]
    pub vu_step: u64,
    #[serde(default)]
    pub think_time: ThinkTime,
    /// A VU's iterations are due at least so far apart.
    #[serde(default)]
    pub pacing_ns: u64,
}

impl LoopOptions {
    /// The VUs, coming spread over `spread_ns`; `most`: how many of all shares there are where the options do not say.
    pub fn users(&self, most: Option<u64>, spread_ns: u64) -> Users {
        let total = self.vus_total.or(most);
        Users {
            vus: self.vus,
            total: total
                .unwrap_or(self.vus.saturating_mul(self.vu_step))
                .max(1),
            from: self.vu_from,
            step: self.vu_step,
            spread_ns,
            think_time: self.think_time,
            pacing_ns: self.pacing_ns,
        }
    }
}

/// The VUs of a share, and how they come and think. The VU with local number k has the global number `from + k·step`.
#[derive(Clone, Copy, Debug)]
pub struct Users {
    pub vus: u64,
    /// Of all shares.
    pub total: u64,
    pub from: u64,
    pub step: u64,
    /// They come spread evenly over this.
    pub spread_ns: u64,
    pub think_time: ThinkTime,
    pub pacing_ns: u64,
}

impl Users {
    /// What makes them impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        let last = (self.vus.max(1) - 1)
            .saturating_mul(self.step)
            .saturating_add(self.from);
        let rules = [
            (
                (1..=VUS_MAX).contains(&self.vus),
                "vus",
                "must be 1 to 1,000,000",
            ),
            (
                (1..=VUS_MAX).contains(&self.step),
                "vu_step",
                "must be 1 to 1,000,000",
            ),
            (
                self.total <= VUS_MAX,
                "vus_total",
                "must be at most 1,000,000",
            ),
            (
                last < self.total,
                "vus_total",
                "is smaller than the last VU's global number",
            ),
            (
                self.think_time.is_sound(),
                "think_time",
                "must not be negative, uniform_ns is [low, high], lognormal_ns [median, p99]",
            ),
            (self.pacing_ns < 1 << 60, "pacing_ns", "is too long"),
            (self.spread_ns < 1 << 60, "ramp_up_ns", "is too long"),
        ];
        super::first_flaw(&rules)
    }

    /// The most iterations a second that they make, on average; `None` where only the server bounds it.
    pub(super) fn most_rps(&self) -> Option<f64> {
        let cycle_ns = self.think_time.mean_ns().max(self.pacing_ns as f64);
        (cycle_ns > 0.0).then(|| self.total as f64 / cycle_ns * 1e9)
    }

    pub(super) fn number(&self, local: u64) -> u64 {
        self.from + local * self.step
    }
}

/// How many requests VUs make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    Endless,
    /// Each VU so many.
    Each(u64),
    /// So many of all shares, dealt like cards: VU g gets ⌈(all − g) / total⌉.
    Dealt {
        all: u64,
    },
    /// Dealt the same way, but the VUs of one thread make them from one heap: whoever is free takes the next.
    Pooled {
        all: u64,
    },
}

impl Budget {
    fn dealt(all: u64, vu: u64, total: u64) -> u64 {
        all.saturating_sub(vu).div_ceil(total)
    }

    fn of_vu(self, vu: u64, total: u64) -> u64 {
        match self {
            Budget::Endless | Budget::Pooled { .. } => u64::MAX,
            Budget::Each(count) => count,
            Budget::Dealt { all } => Budget::dealt(all, vu, total),
        }
    }

    fn of_lane(self, users: &Users, lane: Lane) -> u64 {
        match self {
            Budget::Pooled { all } => lane
                .numbers(users.vus)
                .map(|local| Budget::dealt(all, users.number(local), users.total))
                .sum(),
            _ => u64::MAX,
        }
    }
}

/// After a failure before anything was written (refused, no descriptor, …) a VU pauses at least this long, so that it
/// does not spin; the pause counts as think time.
pub const UNSENT_PAUSE_NS: i64 = 10_000_000;

/// When a VU that became free at `free_ns` is next due: after its think time, and not nearer than the pacing to its last due time.
pub(super) fn next_due_ns(
    think_ns: i64,
    pacing_ns: u64,
    last_due_ns: i64,
    release: &Release,
) -> i64 {
    let pause_ns = if release.unsent {
        think_ns.max(UNSENT_PAUSE_NS)
    } else {
        think_ns
    };
    release
        .at_ns
        .saturating_add(pause_ns)
        .max(last_due_ns.saturating_add(pacing_ns as i64))
}

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
    last_due_ns: i64,
    state: State,
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
pub struct ClosedLoop {
    vus: Vec<Vu>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
    pace: ThinkPace,
    pacing_ns: u64,
    stop_ns: i64,
    busy: usize,
    limited: bool,
    /// Requests left for all of them together.
    pool: u64,
}

impl ClosedLoop {
    pub fn new(seed: u64, group: &GroupSpec, users: Users, budget: Budget, lane: Lane) -> Self {
        let pool = budget.of_lane(&users, lane);
        let make = |local: u64| {
            let number = users.number(local);
            let due_ns = first_due_ns(group.start_offset_ns, users.spread_ns, number, users.total);
            let quota = budget
                .of_vu(number, users.total)
                .min(group.supply.of_vu(number));
            let state = if quota == 0 || pool == 0 {
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
                last_due_ns: due_ns,
                state,
            }
        };
        let vus: Vec<Vu> = lane.numbers(users.vus).map(make).collect();
        let heap = (0u32..)
            .zip(&vus)
            .filter(|(_, vu)| vu.state != State::Retired)
            .map(|(slot, vu)| Reverse((vu.first_due_ns, slot)))
            .collect();
        ClosedLoop {
            vus,
            heap,
            pace: ThinkPace::new(seed, &group.name, users.think_time),
            pacing_ns: users.pacing_ns,
            stop_ns: group.stop_offset_ns,
            busy: 0,
            limited: budget != Budget::Endless || !group.supply.is_endless(),
            pool,
        }
    }

    fn next_due_ns(&self) -> Option<i64> {
        self.heap
            .peek()
            .map(|Reverse((due_ns, _))| *due_ns)
            .filter(|due_ns| *due_ns < self.stop_ns)
    }

    /// The last of the pool is taken: who is not busy has nothing left to do.
    fn retire_all(&mut self, at_ns: i64, ledger: &mut dyn Ledger) {
        self.heap.clear();
        for vu in &mut self.vus {
            if let State::Thinking { free_ns, .. } = vu.state {
                let until_ns = at_ns.max(free_ns);
                ledger.think(free_ns, until_ns);
                ledger.active(vu.first_due_ns, until_ns);
                vu.state = State::Retired;
            }
        }
    }
}

impl Executor for ClosedLoop {
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
        ledger.due(due_ns, vu.asker());
        vu.state = State::Busy;
        vu.seq += 1;
        vu.last_due_ns = due_ns;
        let start = Start {
            slot,
            vu: vu.number,
            seq: vu.seq - 1,
            due_ns,
            ready_ns: due_ns,
        };
        self.busy += 1;
        self.pool -= 1;
        if self.pool == 0 {
            self.retire_all(due_ns, ledger);
        }
        Some(start)
    }

    fn release(&mut self, release: Release, ledger: &mut dyn Ledger) {
        let vu = &mut self.vus[release.slot as usize];
        self.busy -= 1;
        if vu.seq >= vu.quota || self.pool == 0 {
            vu.state = State::Retired;
            ledger.active(vu.first_due_ns, release.at_ns);
            return;
        }
        let think_ns = self.pace.after_ns(vu.number, vu.seq - 1);
        let due_ns = next_due_ns(think_ns, self.pacing_ns, vu.last_due_ns, &release);
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
                        ledger.due(due_ns, vu.asker());
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
