//! Every executor against a server: the identities of `run` hold, and the plan is what was asked.

use crate::common::{ok, open, run, share, Server, MS};
use serde_json::{json, Value};

fn with(executor: Value) -> crate::common::Ran {
    let server = Server::answering(|_| ok("hello"));
    let mut share = share(server.address);
    share["groups"][0]["stop_offset_ns"] = (10_000 * MS).into();
    share["groups"][0]["executor"] = executor;
    run(&share)
}

#[test]
fn iterations_end_the_load() {
    for (executor, count) in [
        (
            json!({"kind": "shared-iterations", "vus": 3, "iterations": 50}),
            50,
        ),
        (
            json!({"kind": "per-vu-iterations", "vus": 3, "iterations": 20, "think_time": {"lognormal_ns": [1e5, 1e6]}}),
            60,
        ),
    ] {
        let ran = with(executor);
        ran.assert_all_ok();
        assert_eq!((ran.count("begun"), ran.count("due")), (count, count));
        let last = ran.samples("done_ns").into_iter().max().unwrap();
        assert_eq!(ran.group()["last_done_ns"], last);
        assert_eq!(ran.group()["plan_done"], true);
    }
}

#[test]
fn users_follow_their_stages() {
    let ran = with(
        json!({"kind": "ramping-vus", "vus": 4, "pacing_ns": 5 * MS, "stages":
        [{"duration_ns": 40 * MS, "target": 4}, {"duration_ns": 20 * MS, "target": 4}, {"duration_ns": 40 * MS, "target": 0}]}),
    );
    ran.assert_all_ok();
    let (vus, dues) = (ran.samples("vu"), ran.samples("due_ns"));
    for vu in 0..4 {
        let mut mine: Vec<_> = vus
            .iter()
            .zip(&dues)
            .filter(|(v, _)| **v == vu)
            .map(|(_, due)| *due)
            .collect();
        mine.sort_unstable();
        assert_eq!(mine[0], (vu + 1) * 10 * MS);
        assert!(*mine.last().unwrap() < 100 * MS - vu * 10 * MS);
        assert!(mine.windows(2).all(|pair| pair[1] - pair[0] >= 5 * MS));
    }
    let active = ran.group()["vu_time"]["active_ns"].as_i64().unwrap();
    // The line's integral is 240 VU·ms; in the window of 100 ms a last request may add its own time.
    assert!((240 * MS..270 * MS).contains(&active), "{active}");
}

#[test]
fn arrivals_follow_their_stages() {
    let ran = with(
        json!({"kind": "ramping-arrival-rate", "max_vus": 50, "stages":
        [{"duration_ns": 100 * MS, "target": 2_000.0}, {"duration_ns": 50 * MS, "target": 0.0}]}),
    );
    ran.assert_all_ok();
    assert!(
        (149..=150).contains(&ran.count("due")),
        "{}",
        ran.count("due")
    );
}

#[test]
fn a_load_that_ends_at_its_stop_is_not_done_before() {
    let server = Server::answering(|_| ok("hello"));
    let mut share = share(server.address);
    assert_eq!(run(&share).group()["plan_done"], false);
    open(&mut share, 500.0, 8);
    assert_eq!(run(&share).group()["plan_done"], false);
}

#[test]
fn a_ramp_from_nothing_begins_with_no_silence() {
    let server = Server::answering(|_| ok("hello"));
    let mut share = share(server.address);
    share["window_ns"] = json!([0, 1_200 * MS]);
    let group = &mut share["groups"][0];
    group["stop_offset_ns"] = (10_000 * MS).into();
    group["executor"] = json!({"kind": "ramping-vus", "vus": 1, "pacing_ns": 5 * MS, "stages":
        [{"duration_ns": 1_000 * MS, "target": 1}, {"duration_ns": 200 * MS, "target": 1}]});
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.samples("due_ns")[0], 1_000 * MS);
    let silence_ns = ran.group()["longest_silence_ns"].as_i64().unwrap();
    assert!(silence_ns < 500 * MS, "{silence_ns}");
}

#[test]
fn a_thread_without_users_says_nothing_of_when_the_load_ended() {
    let server = Server::answering(|_| ok("hello"));
    let mut share = share(server.address);
    share["threads"] = 2.into();
    share["window_ns"] = json!([0, 10_000 * MS]);
    let group = &mut share["groups"][0];
    group["stop_offset_ns"] = (10_000 * MS).into();
    group["executor"] = json!({"kind": "per-vu-iterations", "vus": 1, "iterations": 1});
    let ran = run(&share);
    ran.assert_all_ok();
    let silence_ns = ran.group()["longest_silence_ns"].as_i64().unwrap();
    assert!(silence_ns < 5_000 * MS, "{silence_ns}");
}
