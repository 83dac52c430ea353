//! Spinning for quick answers: nothing is lost by it, and where answers are slow the thread sleeps.

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::{ok, run, share, Ran, Server, MS};
use serde_json::json;

/// A run of a share that may spin `spin_ns`, against a server that answers after `delay`.
fn spun(spin_ns: i64, delay: Duration) -> Ran {
    let server = Server::answering(move |_| {
        sleep(delay);
        ok("hello")
    });
    let mut share = share(server.address);
    share["spin_ns"] = spin_ns.into();
    let ran = run(&share);
    ran.assert_all_ok();
    ran
}

fn spin_ns(ran: &Ran) -> i64 {
    ran.summary["threads"][0]["spin_ns"].as_i64().unwrap()
}

#[test]
fn quick_answers_are_spun_for() {
    let ran = spun(10 * MS, Duration::ZERO);
    assert!(spin_ns(&ran) > 0, "{}", ran.group());
}

#[test]
fn slow_answers_are_slept_for() {
    let spinning = spun(MS, Duration::from_millis(20));
    let wall_ns = spinning.summary["threads"][0]["wall_ns"].as_i64().unwrap();
    // A twentieth of the time, and as long as others take the core meanwhile.
    assert!(
        spin_ns(&spinning) < wall_ns * 3 / 4,
        "{} of {wall_ns}",
        spin_ns(&spinning)
    );
}

/// How much of its time a thread was on a CPU.
fn busy(ran: &Ran, thread: usize) -> f64 {
    let ns = |name: &str| ran.summary["threads"][thread][name].as_f64().unwrap();
    ns("cpu_ns") / ns("wall_ns")
}

#[test]
fn a_thread_sleeps_beside_a_group_that_it_has_no_part_in_or_that_has_ended() {
    let server = Server::answering(|head| {
        if head.starts_with("GET /late ") {
            sleep(Duration::from_millis(100));
        }
        ok("hello")
    });
    let shares = [(2, "/"), (1, "/late")].map(|(threads, path)| {
        let mut share = share(server.address);
        share["threads"] = threads.into();
        let users = &mut share["groups"][0];
        users["executor"]["think_time"]["constant_ns"] = (50 * MS).into();
        users["stop_offset_ns"] = (400 * MS).into();
        let mut one = users.clone();
        one["name"] = "one".into();
        one["executor"] = json!({"kind": "per-vu-iterations", "vus": 1, "iterations": 1});
        one["request"]["path"] = json!([{"text": path}]);
        one["request"]["timeout_ns"] = (20 * MS).into();
        share["groups"].as_array_mut().unwrap().push(one);
        busy(&run(&share), threads as usize - 1)
    });
    assert!(shares.iter().all(|busy| *busy < 0.1), "{shares:?}");
}
