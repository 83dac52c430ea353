//! When requests begin: one file an executor, named as users name it.
//!
//! An executor decides from offsets alone and touches neither clock nor socket, so it is tested in virtual time.
//! Due times of arrivals come from `pace.rs`; those of users from `closed_loop.rs` and `ramping_vus.rs`.
//! A new one is a new file, a variant of [`crate::share::ExecutorSpec`] and a line in [`build`].

mod closed_loop;
pub mod constant_arrival_rate;
pub mod constant_vus;
pub mod per_vu_iterations;
#[cfg(test)]
mod queueing_tests;
pub mod ramping_arrival_rate;
pub mod ramping_vus;
pub mod shared_iterations;

use crate::pieces::Asker;
use crate::ramp::stages_ns;
use crate::share::{ExecutorSpec, GroupSpec};

/// The most VUs, places or shares that a number may name.
pub const VUS_MAX: u64 = 1_000_000;

/// A field of an executor's options and what is wrong with it.
pub type Flaw = (&'static str, &'static str);

/// The first rule (holds, field, problem) that does not hold.
fn first_flaw(rules: &[(bool, &'static str, &'static str)]) -> Option<Flaw> {
    let broken = rules.iter().find(|(holds, _, _)| !holds);
    broken.map(|(_, field, problem)| (*field, *problem))
}

/// One thread's part of a group: it has every `lanes`-th arrival, from number `lane`, and every `lanes`-th block of VUs or places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub lane: u64,
    pub lanes: u64,
    /// So many VUs or places stay together, since they share a connection.
    pub block: u64,
}

impl Lane {
    /// The local numbers below `count` that belong to this lane.
    pub fn numbers(self, count: u64) -> impl Iterator<Item = u64> {
        let blocks = (self.lane * self.block..count).step_by((self.lanes * self.block) as usize);
        blocks.flat_map(move |first| first..count.min(first + self.block))
    }
}

/// An iteration that may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Where it runs: the VU (closed) or place (open), numbered within the thread.
    pub slot: u32,
    /// Global number of the VU; open: of the place within the share.
    pub vu: u64,
    /// Number of the iteration: per VU; open: the global arrival index.
    pub seq: u64,
    pub due_ns: i64,
    /// When it was due and a slot was free.
    pub ready_ns: i64,
}

impl Start {
    /// Who asks.
    pub fn asker(&self) -> Asker {
        Asker {
            vu: self.vu,
            seq: self.seq,
        }
    }
}

/// A slot that has become free.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    pub slot: u32,
    pub at_ns: i64,
    /// It failed before anything was written.
    pub unsent: bool,
    /// It keeps a live connection.
    pub warm: bool,
}

/// Where an executor writes what only it knows. due = begun + waiting + dropped, with begun counted by the caller.
pub trait Ledger {
    fn due(&mut self, due_ns: i64, asker: Asker);
    fn dropped(&mut self, due_ns: i64, asker: Asker);
    /// Due, but not begun when the load ended at `end_ns`; a slot was free from `free_ns` on (or never: `end_ns`).
    fn waiting(&mut self, due_ns: i64, free_ns: i64, end_ns: i64);
    /// A VU thought.
    fn think(&mut self, from_ns: i64, to_ns: i64);
    /// A VU existed.
    fn active(&mut self, from_ns: i64, to_ns: i64);
}

/// Decides which requests of one group begin, and when. All times are offsets in ns and come in order.
pub trait Executor: Send {
    /// How many slots it may use at once.
    fn slots(&self) -> usize;

    /// When it next has something to start, if nothing is released before.
    fn next_wake_ns(&self) -> Option<i64>;

    /// Counts what has become due by `now_ns` and hands out one iteration that may begin. Call until `None`.
    fn poll(&mut self, now_ns: i64, ledger: &mut dyn Ledger) -> Option<Start>;

    /// A slot handed out by `poll` is free again.
    fn release(&mut self, release: Release, ledger: &mut dyn Ledger);

    /// An idle slot has lost its connection.
    fn cooled(&mut self, _slot: u32) {}

    /// Nothing is in flight and nothing will begin any more.
    fn finished(&self, now_ns: i64) -> bool;

    /// VUs that exist now (open: requests in flight).
    fn active_vus(&self, now_ns: i64) -> u64;

    /// The load has ended: counts what is due but will not begin.
    fn close(&mut self, end_ns: i64, ledger: &mut dyn Ledger);
}

impl ExecutorSpec {
    /// Whether arrivals, and not users, make the requests.
    pub fn is_open(&self) -> bool {
        use ExecutorSpec::{ConstantArrivalRate, RampingArrivalRate};
        matches!(self, ConstantArrivalRate(_) | RampingArrivalRate(_))
    }

    /// VUs of all shares; 1 for an open executor.
    pub fn vus_total(&self) -> u64 {
        match self {
            ExecutorSpec::ConstantVus(options) => options.users().total,
            ExecutorSpec::RampingVus(options) => options.users().total,
            ExecutorSpec::SharedIterations(options) => options.users().total,
            ExecutorSpec::PerVuIterations(options) => options.users().total,
            ExecutorSpec::ConstantArrivalRate(_) | ExecutorSpec::RampingArrivalRate(_) => 1,
        }
    }

    /// The most iterations a second that all shares plan; `None` where only the server bounds it.
    pub fn most_rps(&self) -> Option<f64> {
        match self {
            ExecutorSpec::ConstantVus(options) => options.users().most_rps(),
            ExecutorSpec::RampingVus(options) => options.users().most_rps(),
            ExecutorSpec::SharedIterations(options) => options.users().most_rps(),
            ExecutorSpec::PerVuIterations(options) => options.users().most_rps(),
            ExecutorSpec::ConstantArrivalRate(options) => Some(options.rate_rps),
            ExecutorSpec::RampingArrivalRate(options) => {
                let targets = options.stages.iter().map(|stage| stage.target);
                Some(targets.fold(options.start_rate_rps, f64::max))
            }
        }
    }

    /// How long its stages take; `None` if it has none.
    pub fn stages_ns(&self) -> Option<i64> {
        match self {
            ExecutorSpec::RampingVus(options) => stages_ns(&options.stages),
            ExecutorSpec::RampingArrivalRate(options) => stages_ns(&options.stages),
            _ => None,
        }
    }

    /// VUs or places of this share.
    fn places(&self) -> u64 {
        match self {
            ExecutorSpec::ConstantVus(options) => options.loop_options.vus,
            ExecutorSpec::RampingVus(options) => options.loop_options.vus,
            ExecutorSpec::SharedIterations(options) => options.loop_options.vus,
            ExecutorSpec::PerVuIterations(options) => options.loop_options.vus,
            ExecutorSpec::ConstantArrivalRate(options) => options.places.max_vus,
            ExecutorSpec::RampingArrivalRate(options) => options.places.max_vus,
        }
    }

    /// What makes its options impossible.
    pub fn flaw(&self) -> Option<Flaw> {
        match self {
            ExecutorSpec::ConstantVus(options) => options.flaw(),
            ExecutorSpec::RampingVus(options) => options.flaw(),
            ExecutorSpec::SharedIterations(options) => options.flaw(),
            ExecutorSpec::PerVuIterations(options) => options.flaw(),
            ExecutorSpec::ConstantArrivalRate(options) => options.flaw(),
            ExecutorSpec::RampingArrivalRate(options) => options.flaw(),
        }
    }
}

/// The executor of a group on one of `threads` threads; `None` if that thread has no part in it.
pub fn build(seed: u64, group: &GroupSpec, thread: u64, threads: u64) -> Option<Box<dyn Executor>> {
    let block = group.http2.map_or(1, |http2| http2.streams);
    let lane = Lane {
        lane: thread,
        lanes: threads.min(group.executor.places().div_ceil(block)).max(1),
        block,
    };
    if lane.lane >= lane.lanes {
        return None;
    }
    Some(match &group.executor {
        ExecutorSpec::ConstantVus(options) => {
            Box::new(constant_vus::build(seed, group, options, lane))
        }
        ExecutorSpec::RampingVus(options) => {
            Box::new(ramping_vus::RampingVus::new(seed, group, options, lane))
        }
        ExecutorSpec::SharedIterations(options) => {
            Box::new(shared_iterations::build(seed, group, options, lane))
        }
        ExecutorSpec::PerVuIterations(options) => {
            Box::new(per_vu_iterations::build(seed, group, options, lane))
        }
        ExecutorSpec::ConstantArrivalRate(options) => {
            Box::new(constant_arrival_rate::build(seed, group, options, lane))
        }
        ExecutorSpec::RampingArrivalRate(options) => {
            Box::new(ramping_arrival_rate::build(seed, group, options, lane))
        }
    })
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A ledger that remembers.
    #[derive(Default, Debug, PartialEq)]
    pub struct Book {
        pub due: Vec<i64>,
        pub dropped: Vec<i64>,
        pub waiting: Vec<(i64, i64)>,
        pub think_ns: i64,
        pub active_ns: i64,
    }

    impl Ledger for Book {
        fn due(&mut self, due_ns: i64, _asker: Asker) {
            self.due.push(due_ns);
        }
        fn dropped(&mut self, due_ns: i64, _asker: Asker) {
            self.dropped.push(due_ns);
        }
        fn waiting(&mut self, due_ns: i64, free_ns: i64, _end_ns: i64) {
            self.waiting.push((due_ns, free_ns));
        }
        fn think(&mut self, from_ns: i64, to_ns: i64) {
            self.think_ns += to_ns - from_ns;
        }
        fn active(&mut self, from_ns: i64, to_ns: i64) {
            self.active_ns += to_ns - from_ns;
        }
    }

    /// Runs an executor in virtual time: every request takes `service(start)` ns, the loop notices things `late_ns` late.
    pub fn simulate(
        executor: &mut dyn Executor,
        end_ns: i64,
        late_ns: i64,
        mut service: impl FnMut(&Start) -> i64,
    ) -> (Vec<(Start, i64)>, Book) {
        let mut book = Book::default();
        let mut begun: Vec<(Start, i64)> = Vec::new();
        let mut flying: Vec<(i64, Start)> = Vec::new();
        let mut now = 0;
        loop {
            while let Some(start) = executor.poll(now, &mut book) {
                assert!(
                    start.due_ns <= start.ready_ns && start.ready_ns <= now,
                    "{start:?} at {now}"
                );
                flying.push((now + service(&start), start));
                begun.push((start, now));
            }
            flying.sort_by_key(|(done, start)| (std::cmp::Reverse(*done), start.slot));
            let next = [
                flying.last().map(|(done, _)| *done),
                executor.next_wake_ns(),
            ];
            let Some(next) = next
                .into_iter()
                .flatten()
                .min()
                .filter(|next| *next <= end_ns)
            else {
                break;
            };
            now = now.max(next + late_ns);
            while let Some((done, start)) = flying.pop_if(|(done, _)| *done <= now) {
                let release = Release {
                    slot: start.slot,
                    at_ns: done,
                    unsent: false,
                    warm: true,
                };
                executor.release(release, &mut book);
            }
        }
        executor.close(end_ns, &mut book);
        assert_eq!(
            book.due.len(),
            begun.len() + book.waiting.len() + book.dropped.len()
        );
        (begun, book)
    }
}
