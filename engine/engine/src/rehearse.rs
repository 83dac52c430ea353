//! A share in virtual time, without a server: every request takes the same time and nothing is ever late.
//!
//! What a plan asks for can so be counted and held against closed forms in no time, by the same executors that make load.

use indexmap::IndexMap;

use crate::executor::{self, Executor, Ledger, Release, Start};
use crate::share::{self, Fault};
use crate::table::{Column, Table};

struct Nobody;

impl Ledger for Nobody {
    fn due(&mut self, _due_ns: i64) {}
    fn dropped(&mut self, _due_ns: i64) {}
    fn waiting(&mut self, _due_ns: i64, _free_ns: i64, _end_ns: i64) {}
    fn think(&mut self, _from_ns: i64, _to_ns: i64) {}
    fn active(&mut self, _from_ns: i64, _to_ns: i64) {}
}

/// Every request that the share's groups begin if each takes `service_ns`: a table `due_ns begun_ns i64, vu seq u64` a group,
/// in order of due time. A closed group without think time makes one request every `service_ns`, so that must be above 0.
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
        let mut begun: Vec<(Start, i64)> = (0..share.threads as u64)
            .filter_map(|thread| executor::build(share.seed, group, thread, share.threads as u64))
            .flat_map(|mut executor| play(executor.as_mut(), group.stop_offset_ns, service_ns))
            .collect();
        begun.sort_by_key(|(start, _)| (start.due_ns, start.vu, start.seq));
        (group.name.clone(), table(&begun))
    };
    Ok(share.groups.iter().map(group).collect())
}

fn play(executor: &mut dyn Executor, stop_ns: i64, service_ns: i64) -> Vec<(Start, i64)> {
    let mut begun = Vec::new();
    // All take the same time: who begins first ends first.
    let mut flying = std::collections::VecDeque::new();
    let mut now_ns = 0;
    loop {
        while let Some(start) = executor.poll(now_ns, &mut Nobody) {
            flying.push_back((now_ns + service_ns, start));
            begun.push((start, now_ns));
        }
        let next = [
            flying.front().map(|(done_ns, _)| *done_ns),
            executor.next_wake_ns().filter(|at_ns| *at_ns < stop_ns),
        ];
        let Some(next_ns) = next.into_iter().flatten().min() else {
            return begun;
        };
        now_ns = now_ns.max(next_ns);
        while let Some((at_ns, start)) = flying
            .front()
            .copied()
            .filter(|(done_ns, _)| *done_ns <= now_ns)
        {
            flying.pop_front();
            let release = Release {
                slot: start.slot,
                at_ns,
                unsent: false,
                warm: true,
            };
            executor.release(release, &mut Nobody);
        }
    }
}

fn table(begun: &[(Start, i64)]) -> Table {
    let times = |of: fn(&(Start, i64)) -> i64| Column::I64(begun.iter().map(of).collect());
    let counts = |of: fn(&(Start, i64)) -> u64| Column::U64(begun.iter().map(of).collect());
    [
        ("due_ns", times(|(start, _)| start.due_ns)),
        ("begun_ns", times(|(_, at_ns)| *at_ns)),
        ("vu", counts(|(start, _)| start.vu)),
        ("seq", counts(|(start, _)| start.seq)),
    ]
    .into_iter()
    .map(|(name, column)| (name.to_owned(), column))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
