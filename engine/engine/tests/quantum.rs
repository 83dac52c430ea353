//! Pacing in quanta: the plan stays as it is, and nothing that waits for its time begins between two points of the grid.

mod common;

use common::{ok, open, run, share, Ran, Server, MS};
use serde_json::{json, Value};

const QUANTUM_NS: i64 = 7 * MS;

fn quantised(change: impl Fn(&mut Value), quantum_ns: i64) -> Ran {
    let server = Server::answering(|_| ok("hello"));
    let mut share = share(server.address);
    share["groups"][0]["pacing_quantum_ns"] = quantum_ns.into();
    change(&mut share);
    let ran = run(&share);
    ran.assert_all_ok();
    for (due_ns, begun_ns) in ran.samples("due_ns").iter().zip(ran.samples("begun_ns")) {
        let point_ns = (due_ns + quantum_ns - 1) / quantum_ns * quantum_ns;
        assert!(begun_ns >= point_ns, "due {due_ns}, begun {begun_ns}");
    }
    ran
}

#[test]
fn arrivals_keep_their_due_times_and_begin_on_the_grid() {
    let arrive = |share: &mut Value| open(share, 2_000.0, 400);
    let dues = |ran: Ran| {
        let mut dues = ran.samples("due_ns");
        dues.sort_unstable();
        dues
    };
    let grid = dues(quantised(arrive, QUANTUM_NS));
    assert_eq!(grid, dues(quantised(arrive, 1)));
    assert_eq!(grid.len(), 200);
}

#[test]
fn users_who_think_begin_on_the_grid_and_their_lag_is_told() {
    let ran = quantised(|_| (), QUANTUM_NS);
    assert!(ran.group()["vu_time"]["lag_ns"].as_i64().unwrap() > MS);
}

#[test]
fn steps_begin_on_the_grid_unless_they_follow_at_once() {
    let step = |think_ns: i64| {
        json!({"request": {"name": "get", "method": "GET", "endpoint": "http://host", "path": [{"text": "/"}], "timeout_ns": 2_000 * MS},
            "think_time": {"constant_ns": think_ns}})
    };
    let with = |think_ns: i64| {
        move |share: &mut Value| {
            let group = share["groups"][0].as_object_mut().unwrap();
            group.remove("request");
            group["executor"] = json!({"kind": "shared-iterations", "vus": 1, "iterations": 1});
            group.insert(
                "scenarios".to_owned(),
                json!([{"steps": [step(think_ns), step(0)]}]),
            );
        }
    };
    let ran = quantised(with(3 * MS), QUANTUM_NS);
    assert_eq!(ran.count("begun"), 2);
    // At once: no grid of a second is waited for.
    let server = Server::answering(|_| ok("hello"));
    let mut share = share(server.address);
    share["groups"][0]["pacing_quantum_ns"] = (1_000 * MS).into();
    with(0)(&mut share);
    let ran = run(&share);
    ran.assert_all_ok();
    assert!(ran
        .samples("done_ns")
        .iter()
        .all(|done_ns| *done_ns < 900 * MS));
}
