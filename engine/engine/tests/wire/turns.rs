//! Loads that run in turns: what is due falls in them, and load time stands still between them.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::{json, Value};
use svload_engine::{rehearse, Column};

use crate::common::http2::{polite, share_of};
use crate::common::{ok, open, refusal, run, share, Ran, Server, MS};

/// `count` turns of `length_ns`: the first begins at `first_ns`, the others `apart_ns` after the one before.
fn turns(count: i64, first_ns: i64, length_ns: i64, apart_ns: i64) -> Vec<(i64, i64)> {
    let begins = (0..count).map(|turn| first_ns + turn * apart_ns);
    begins
        .map(|begin_ns| (begin_ns, begin_ns + length_ns))
        .collect()
}

/// The share of `common` in turns: 100 ms of load, 10 ms of every 25.
fn in_turns(server: &Server) -> Value {
    let mut share = share(server.address);
    share["turns_ns"] = json!(turns(10, 5 * MS, 10 * MS, 25 * MS));
    share
}

fn turns_of(share: &Value) -> Vec<(i64, i64)> {
    serde_json::from_value(share["turns_ns"].clone()).unwrap()
}

/// A share's load time, by its definition: the load stops with the last turn, and from then on time goes on.
fn load_ns(share: &Value, real_ns: i64) -> i64 {
    let mut turns = turns_of(share);
    turns.last_mut().unwrap().1 = i64::MAX;
    let before = turns
        .iter()
        .map(|(begin, end)| (real_ns.min(*end) - begin).max(0));
    before.sum()
}

fn due_in_turns(ran: &Ran, share: &Value) {
    let turns = turns_of(share);
    for due_ns in ran.samples("due_ns") {
        let inside = turns.iter().any(|turn| (turn.0..turn.1).contains(&due_ns));
        assert!(inside, "{due_ns}");
    }
}

/// Answers after `ms`.
fn slow(ms: u64) -> Server {
    Server::answering(move |_| {
        thread::sleep(Duration::from_millis(ms));
        ok("hello")
    })
}

#[test]
fn every_executor_keeps_its_turns_and_its_accounts() {
    let users = json!({"vus": 3, "think_time": {"exponential_ns": 3e6}});
    let stages =
        json!([{"duration_ns": 60 * MS, "target": 3}, {"duration_ns": 40 * MS, "target": 0}]);
    for (kind, more) in [
        ("constant-vus", json!({"spread_ns": 20 * MS})),
        ("ramping-vus", json!({"stages": stages})),
        ("shared-iterations", json!({"iterations": 9})),
        ("per-vu-iterations", json!({"iterations": 3})),
    ] {
        let server = slow(2);
        let mut share = in_turns(&server);
        let mut executor = users.clone();
        executor["kind"] = kind.into();
        for (key, value) in more.as_object().unwrap() {
            executor[key] = value.clone();
        }
        share["groups"][0]["executor"] = executor;
        let ran = run(&share);
        ran.assert_all_ok();
        due_in_turns(&ran, &share);
    }
}

#[test]
fn arrivals_are_those_of_a_load_without_turns() {
    let server = Server::answering(|_| ok("hello"));
    let mut share = in_turns(&server);
    open(&mut share, 800.0, 20);
    let ran = run(&share);
    ran.assert_all_ok();
    due_in_turns(&ran, &share);
    let planned = rehearse(&share.to_string(), &IndexMap::new(), 1).unwrap();
    let dues = ran.samples("due_ns");
    let dues: Vec<i64> = dues.iter().map(|due_ns| load_ns(&share, *due_ns)).collect();
    assert_eq!(planned["load"]["due_ns"], Column::I64(dues));
    // Its first ten intervals are its ten turns.
    let due = ran.column("intervals", "due");
    let in_turn = |due: &i64| (7..=9).contains(due);
    assert!(due[..10].iter().all(in_turn), "{due:?}");
}

#[test]
fn a_user_whose_answer_came_late_goes_on_as_much_later() {
    // Answers take longer than a turn and shorter than a pause, some of them end in a pause.
    let server = slow(7);
    let mut share = in_turns(&server);
    let group = &mut share["groups"][0];
    group["executor"] = json!({"kind": "constant-vus", "vus": 3});
    let step = json!({"request": group["request"].take()});
    group["scenarios"] = json!([{"steps": [step, step]}]);
    let ran = run(&share);
    ran.assert_all_ok();
    due_in_turns(&ran, &share);
    let columns = ["vu", "due_ns", "done_ns"].map(|name| ran.samples(name));
    let mut late = 0;
    for vu in 0..3 {
        let mine: Vec<usize> = (0..columns[0].len())
            .filter(|row| columns[0][*row] == vu)
            .collect();
        for pair in mine.windows(2) {
            let (due_ns, done_ns) = (columns[1][pair[0]], columns[2][pair[0]]);
            let next_ns = load_ns(&share, columns[1][pair[1]]);
            assert_eq!(next_ns, load_ns(&share, due_ns) + done_ns - due_ns);
            late += u64::from(load_ns(&share, done_ns) < next_ns);
        }
    }
    assert!(late > 3, "{late}");
}

#[test]
fn connections_stay_between_turns() {
    let server = polite(&[]);
    let mut share = share_of(server.address, 8, 4, 80);
    share["groups"][0]["executor"]["pacing_ns"] = (5 * MS).into();
    share["turns_ns"] = json!(turns(1_000, 0, 10 * MS, 14 * MS));
    let ran = run(&share);
    ran.assert_all_ok();
    due_in_turns(&ran, &share);
    assert_eq!((ran.count("ok"), server.accepted()), (80, 2));
    assert!(ran.samples("due_ns").iter().any(|due_ns| *due_ns > 28 * MS));
}

#[test]
fn what_had_no_slot_waits_in_load_time() {
    let server = slow(6);
    let mut share = in_turns(&server);
    open(&mut share, 200.0, 1);
    let ran = run(&share);
    ran.assert_all_ok();
    due_in_turns(&ran, &share);
    let columns = ["due_ns", "ready_ns", "done_ns"].map(|name| ran.samples(name));
    let mut over_a_pause = 0;
    let mut response_ns = 0;
    for ((due_ns, ready_ns), done_ns) in columns[0].iter().zip(&columns[1]).zip(&columns[2]) {
        let wait_ns = load_ns(&share, *ready_ns) - load_ns(&share, *due_ns);
        over_a_pause += u64::from(wait_ns < ready_ns - due_ns);
        response_ns += wait_ns + done_ns - ready_ns;
    }
    assert!(over_a_pause > 3, "{over_a_pause}");
    let counted = ran.column("intervals", "response_sum_ns");
    assert_eq!(counted.iter().sum::<i64>(), response_ns);
}

#[test]
fn a_load_stopped_between_two_turns_keeps_its_accounts() {
    let (reader, writer) = std::io::pipe().unwrap();
    let server = Server::answering(move |_| {
        // The answer comes in the pause; so does the stop.
        thread::sleep(Duration::from_millis(60));
        let _ = writer.try_clone().unwrap().write(b"stop");
        ok("hello")
    });
    let mut share = share(server.address);
    share["turns_ns"] = json!(turns(3, 0, 50 * MS, 10_000 * MS));
    share["stop_fd"] = reader.as_raw_fd().into();
    let think = json!({"constant_ns": 1_000 * MS});
    let executor =
        json!({"kind": "constant-vus", "vus": 4, "spread_ns": 40 * MS, "think_time": think});
    share["groups"][0]["executor"] = executor;
    let ran = run(&share);
    assert_eq!(ran.summary["stopped"], "stop_fd");
    assert_eq!(ran.count("due"), 4);
}

#[test]
fn turns_that_do_not_fit_are_refused() {
    let server = Server::answering(|_| ok("hello"));
    for (turns_ns, place) in [
        (json!([[0, 50 * MS]]), "share.turns_ns: must together"),
        (json!([[0, 105 * MS]]), "share.turns_ns[0]: must be as long"),
        (json!([[5, 5]]), "share.turns_ns[0]: must be [begin, end)"),
        (
            json!([[0, 60 * MS], [59 * MS, 109 * MS]]),
            "share.turns_ns[1]: must be [begin, end)",
        ),
    ] {
        let mut share = share(server.address);
        share["turns_ns"] = turns_ns;
        let text = refusal(&share);
        assert!(text.starts_with(place), "{text}");
    }
}
