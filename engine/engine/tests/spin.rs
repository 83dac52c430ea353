//! Spinning for quick answers: nothing is lost by it, and where answers are slow the thread sleeps.

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::{ok, run, share, Ran, Server, MS};

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
