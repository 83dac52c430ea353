//! A share in virtual time, without a server: every request takes the same time and nothing is ever late.
//!
//! What a plan asks for can so be counted and held against closed forms in no time, by the same executors that make load.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use indexmap::IndexMap;

use crate::executor::{self, Executor, Ledger, Release, Start};
use crate::pieces::Asker;
use crate::scenario::{Course, Next};
use crate::share::{self, Fault};
use crate::table::{Column, Table};
use crate::turns::LoadTime;

struct Nobody;

impl Ledger for Nobody {
    fn due(&mut self, _due_ns: i64, _asker: Asker) {}
    fn dropped(&mut self, _due_ns: i64, _asker: Asker) {}
    fn waiting(&mut self, _due_ns: i64, _free_ns: i64, _end_ns: i64) {}
    fn think(&mut self, _from_ns: i64, _to_ns: i64) {}
    fn active(&mut self, _from_ns: i64, _to_ns: i64) {}
}

/// A request that has begun. Times are load time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub start: Start,
    pub step: u16,
    pub due_ns: i64,
    pub at_ns: i64,
}

/// Every request that the share's groups begin if each takes `service_ns`: a table `due_ns begun_ns i64, vu seq u64, step u16`
/// a group, in order of due time. A closed group without think time makes one request every `service_ns`, so that must be above 0.
/// Times are load time, and so the same with and without turns.
pub fn rehearse(
    text: &str,
    inputs: &IndexMap<String, Table>,
    service_ns: i64,
) -> Result<IndexMap<String, Table>, Fault> {
    let share = share::parse(text, inputs)?;
    if service_ns <= 0 {
        return Err(Fault::new("service_ns", "must be above 0"));
    }
    let group = |group: &share::GroupSpec| {
        let course = Course::new(share.seed, group, group.stop_offset_ns);
        let mut begun: Vec<Begun> = (0..share.threads as u64)
            .filter_map(|thread| executor::build(share.seed, group, thread, share.threads as u64))
            .flat_map(|mut executor| {
                play(
                    executor.as_mut(),
                    &course,
                    &LoadTime::default(),
                    group.stop_offset_ns,
                    |_| service_ns,
                    &mut Nobody,
                )
            })
            .collect();
        begun.sort_by_key(|one| (one.due_ns, one.start.vu, one.start.seq, one.step));
        (group.name.clone(), table(&begun))
    };
    Ok(share.groups.iter().map(group).collect())
}

/// When something ends or is due (real time), its place in order (or the request's number), and its slot.
type Event = Reverse<(i64, usize, u32)>;

/// Plays an executor and a course in virtual time, as a thread of the load that is never late. A request takes
/// `service(request)`; `stop_ns` is load time.
pub(crate) fn play(
    executor: &mut dyn Executor,
    course: &Course,
    time: &LoadTime,
    stop_ns: i64,
    service: impl Fn(&Begun) -> i64,
    ledger: &mut dyn Ledger,
) -> Vec<Begun> {
    let mut begun: Vec<Begun> = Vec::new();
    let mut flying: BinaryHeap<Event> = BinaryHeap::new();
    // Later steps, and the ends of iterations that load time has yet to reach.
    let mut later: BinaryHeap<Event> = BinaryHeap::new();
    let mut waiting: HashMap<u32, (Start, Option<u16>, i64)> = HashMap::new();
    let mut now_ns = 0;
    loop {
        let load_ns = time.load_ns(now_ns);
        let mut begin = |start: Start, step: u16, due_ns: i64| {
            let one = Begun {
                start,
                step,
                due_ns,
                at_ns: load_ns,
            };
            flying.push(Reverse((now_ns + service(&one), begun.len(), start.slot)));
            begun.push(one);
        };
        while let Some(Reverse((_, _, slot))) =
            later.peek().copied().filter(|top| top.0 .0 <= now_ns)
        {
            later.pop();
            match waiting.remove(&slot) {
                Some((start, Some(step), due_ns)) => begin(start, step, due_ns),
                Some((_, None, due_ns)) => executor.release(free(slot, due_ns), ledger),
                None => {}
            }
        }
        while let Some(start) = executor.poll(load_ns, ledger) {
            begin(start, course.first(start.asker()), start.due_ns);
        }
        let wake_ns = executor.next_wake_ns().filter(|at_ns| *at_ns < stop_ns);
        let next = [
            flying.peek().map(|top| top.0 .0),
            wake_ns.map(|at_ns| time.real_ns(at_ns)),
            later.peek().map(|top| top.0 .0),
        ];
        let Some(next_ns) = next.into_iter().flatten().min() else {
            return begun;
        };
        now_ns = now_ns.max(next_ns);
        while let Some(Reverse((at_ns, number, slot))) =
            flying.peek().copied().filter(|top| top.0 .0 <= now_ns)
        {
            flying.pop();
            let one = begun[number];
            let done_ns = time.since_ready_ns(time.real_ns(one.at_ns), at_ns);
            let (step, due_ns) = match course.after(one.step, one.start.asker(), true, done_ns) {
                Next::End if done_ns <= time.load_ns(now_ns) => {
                    executor.release(free(slot, done_ns), ledger);
                    continue;
                }
                Next::End => (None, done_ns),
                Next::Step { step, due_ns } => (Some(step), due_ns),
                Next::Cut { at_ns } => (None, at_ns),
            };
            waiting.insert(slot, (one.start, step, due_ns));
            later.push(Reverse((time.real_ns(due_ns), begun.len(), slot)));
        }
    }
}

fn free(slot: u32, at_ns: i64) -> Release {
    Release {
        slot,
        at_ns,
        unsent: false,
        warm: true,
    }
}

fn table(begun: &[Begun]) -> Table {
    let times = |of: fn(&Begun) -> i64| Column::I64(begun.iter().map(of).collect());
    let counts = |of: fn(&Begun) -> u64| Column::U64(begun.iter().map(of).collect());
    [
        ("due_ns", times(|one| one.due_ns)),
        ("begun_ns", times(|one| one.at_ns)),
        ("vu", counts(|one| one.start.vu)),
        ("seq", counts(|one| one.start.seq)),
        (
            "step",
            Column::U16(begun.iter().map(|one| one.step).collect()),
        ),
    ]
    .into_iter()
    .map(|(name, column)| (name.to_owned(), column))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_open_plan_is_played_as_it_stands() {
        let share = |rate: f64, threads: u32| {
            format!(
                r#"{{"format": 1, "id": "a", "seed": 7, "start_at_ns": 0, "threads": {threads}, "interval_ns": 1000000, "window_ns": [0, 5],
                    "endpoints": {{"http://a": {{"address": "127.0.0.1:1", "tls": null}}}}, "allowed": [],
                    "groups": [{{"name": "load", "client": "engine", "connection": "new", "record": "rows", "stop_offset_ns": 100000000,
                        "executor": {{"kind": "constant-arrival-rate", "rate_rps": {rate}, "max_vus": 3}},
                        "request": {{"name": "g", "method": "GET", "endpoint": "http://a", "path": [], "timeout_ns": 5}}}}]}}"#
            )
        };
        let column = |rate, threads, name: &str| {
            let groups = rehearse(&share(rate, threads), &IndexMap::new(), 1_000_000).unwrap();
            groups["load"][name].clone()
        };
        assert_eq!(column(1_000.0, 1, "due_ns").len(), 100);
        assert_eq!(column(1_000.0, 1, "due_ns"), column(1_000.0, 3, "due_ns"));
        assert_eq!(column(1_000.0, 1, "due_ns"), column(1_000.0, 1, "begun_ns"));
        let nothing = rehearse(&share(0.0, 1), &IndexMap::new(), 1);
        assert_eq!(
            nothing.unwrap_err().field,
            "share.groups[0].executor.rate_rps"
        );
    }

    fn scenarios(executor: &str, threads: u64, thinks: &[u64]) -> String {
        let step = |name: &str, think: &u64| {
            format!(
                r#"{{"request": {{"name": "{name}", "method": "GET", "endpoint": "http://a", "timeout_ns": 5}},
                    "think_time": {{"exponential_ns": {think}.0}}}}"#
            )
        };
        let walk: Vec<_> = thinks.iter().map(|think| step("walk", think)).collect();
        format!(
            r#"{{"format": 1, "id": "a", "seed": 7, "start_at_ns": 0, "threads": {threads}, "interval_ns": 1000000, "window_ns": [0, 5],
                "endpoints": {{"http://a": {{"address": "127.0.0.1:1", "tls": null}}}}, "allowed": [],
                "groups": [{{"name": "load", "client": "engine", "connection": "new", "record": "rows", "stop_offset_ns": 60000000,
                    "executor": {executor},
                    "scenarios": [{{"weight": 2, "steps": [{}]}}, {{"weight": 1, "steps": [{}]}}]}}]}}"#,
            walk.join(","),
            step("alone", &0)
        )
    }

    /// (due, vu, seq, step) of all that begins.
    fn begun(share: &str, service_ns: i64) -> Vec<(i64, u64, u64, u16)> {
        let played = rehearse(share, &IndexMap::new(), service_ns).unwrap();
        let of = |name: &str| played["load"][name].clone();
        let (Column::I64(due), Column::U64(vu), Column::U64(seq), Column::U16(step)) =
            (of("due_ns"), of("vu"), of("seq"), of("step"))
        else {
            panic!("columns of other kinds");
        };
        (0..due.len())
            .map(|at| (due[at], vu[at], seq[at], step[at]))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn open_scenarios_are_the_same_on_any_number_of_threads_and_shares(
            thinks in prop::collection::vec(0u64..9_000_000, 1..4), threads in 2u64..5
        ) {
            let open = |from: u64, step: u64| format!(
                r#"{{"kind": "constant-arrival-rate", "rate_rps": 900.0, "max_vus": 500, "index_from": {from}, "index_step": {step}}}"#
            );
            // The place that runs an arrival is no part of the plan.
            let plan = |executor: &str, threads| {
                let begun = begun(&scenarios(executor, threads, &thinks), 700_000);
                let mut plan: Vec<_> = begun.into_iter().map(|(due, _, seq, step)| (due, seq, step)).collect();
                plan.sort_unstable();
                plan
            };
            let whole = plan(&open(0, 1), 1);
            prop_assert!(whole.len() >= 54 && whole.iter().any(|(_, _, step)| usize::from(*step) == thinks.len()));
            prop_assert_eq!(&whole, &plan(&open(0, 1), threads));
            let mut parts = plan(&open(0, 2), 1);
            parts.extend(plan(&open(1, 2), threads));
            parts.sort_unstable();
            prop_assert_eq!(whole, parts);
        }

        #[test]
        fn a_slower_server_only_shortens_what_each_vu_does(
            thinks in prop::collection::vec(0u64..9_000_000, 1..4), threads in 1u64..4, slower in 1i64..20
        ) {
            let closed = r#"{"kind": "constant-vus", "vus": 5, "spread_ns": 3000000, "think_time": {"exponential_ns": 1000000.0}}"#;
            let of_vu = |threads, service_ns, vu| {
                let mut mine: Vec<_> = begun(&scenarios(closed, threads, &thinks), service_ns)
                    .into_iter().filter(|one| one.1 == vu).map(|(_, _, seq, step)| (seq, step)).collect();
                mine.sort_unstable();
                mine
            };
            for vu in 0..5 {
                let fast = of_vu(1, 300_000, vu);
                let slow = of_vu(threads, 300_000 * slower, vu);
                prop_assert!(slow.len() <= fast.len());
                prop_assert_eq!(&fast[..slow.len()], &slow[..]);
            }
        }
    }
}
