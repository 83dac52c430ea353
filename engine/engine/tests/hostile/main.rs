//! A server that lies, stalls, floods and breaks off, fault by fault: each has one error name, ends in bounded time and
//! memory, panics nowhere, and leaves every identity exact.

#[path = "../common/mod.rs"]
mod common;
mod http;
mod peer;
mod tls;

use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{run, Ran, MS};
use peer::{Peer, Stage};

/// How long a request may take in the faults; those that stall end with it.
pub const TIMEOUT_NS: i64 = 300 * MS;
/// No fault may hold a run of two users and four requests for longer: their timeouts, and a busy machine.
const BOUND: Duration = Duration::from_secs(120);
/// Peak memory that all faults together may add to the process, the hostile servers' own and what the allocator keeps
/// for each thread included. A header or a body that was held would be a gigabyte.
const MEMORY_KIB: u64 = 192 * 1024;
/// Faults that are played at the same time.
const AT_ONCE: usize = 6;

/// One fault: what the server does, how the share differs from the plainest one, and what every request ends as.
pub struct Fault {
    pub name: &'static str,
    /// The one error name; "" where the answer is legal and must be taken.
    pub error: &'static str,
    /// Requests that end well although the fault acts (on those before or after).
    pub some_ok: bool,
    pub stage: Stage,
    pub share: fn(&mut Value),
    pub serve: fn(&mut Peer<'_>),
}

/// Plays one fault; the text says what was not as expected.
fn play(fault: &Fault) -> Result<Ran, String> {
    let (share, _server) = peer::prepare(fault);
    let (done, outcome) = channel();
    let begun = Instant::now();
    thread::spawn(move || done.send(run(&share)));
    let ran = outcome
        .recv_timeout(BOUND)
        .map_err(|_| format!("{}: hung or panicked", fault.name))?;
    let errors: Vec<String> = ran.errors().into_keys().collect();
    let expected: Vec<&str> = Some(fault.error)
        .into_iter()
        .filter(|e| !e.is_empty())
        .collect();
    let said = format!(
        "{}: {errors:?} after {:?}: {}",
        fault.name,
        begun.elapsed(),
        ran.group()
    );
    let ok = ran.count("ok") > 0;
    let as_expected = errors == expected && ok == (fault.some_ok || fault.error.is_empty());
    if as_expected && ran.count("begun") > 0 && ran.count("in_flight") == 0 {
        Ok(ran)
    } else {
        Err(said)
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Plays a table of faults and holds all of them together to their memory.
fn play_all(faults: &[Fault]) {
    let names: BTreeSet<_> = faults.iter().map(|fault| fault.name).collect();
    assert_eq!(names.len(), faults.len(), "a name stands twice");
    let before = peak_kib();
    let mut wrong = Vec::new();
    for some in faults.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let plays: Vec<_> = some
                .iter()
                .map(|fault| scope.spawn(|| play(fault)))
                .collect();
            let ended = plays.into_iter().map(|play| play.join().unwrap());
            wrong.extend(ended.filter_map(Result::err));
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let grown = peak_kib() - before;
    assert!(grown < MEMORY_KIB, "the faults took {grown} KiB");
}

#[test]
fn every_fault_of_http_has_its_name() {
    let faults = http::faults();
    assert!(faults.len() >= 40, "{}", faults.len());
    play_all(&faults);
}

#[test]
fn every_fault_of_tls_has_its_name() {
    let faults = tls::faults();
    assert!(faults.len() >= 10, "{}", faults.len());
    play_all(&faults);
}

#[test]
fn bytes_that_come_while_idle_are_counted() {
    let late = http::faults()
        .into_iter()
        .find(|fault| fault.name == "second answer later");
    let ran = play(&late.unwrap()).unwrap();
    // Each of the two users thinks after its first request; the run ends with their second.
    assert!(ran.count("unasked_data") >= 2, "{}", ran.group());
    let kept = http::faults()
        .into_iter()
        .find(|fault| fault.name == "a few interim answers");
    assert_eq!(play(&kept.unwrap()).unwrap().count("unasked_data"), 0);
}

#[test]
fn an_answer_without_end_does_not_starve_others() {
    let endless = http::faults()
        .into_iter()
        .find(|fault| fault.name == "endless body")
        .unwrap();
    let (mut share, _server) = peer::prepare(&endless);
    let good = common::Server::answering(|_| common::ok("x"));
    share["endpoints"]["http://good"] =
        serde_json::json!({"address": good.address.to_string(), "tls": null});
    let mut group = common::share(good.address)["groups"][0].clone();
    group["name"] = "good".into();
    group["request"]["endpoint"] = "http://good".into();
    group["stop_offset_ns"] = TIMEOUT_NS.into();
    share["groups"].as_array_mut().unwrap().push(group);
    let ran = run(&share);
    let good = &ran.summary["groups"][1];
    // Every 5 ms but for the machine's mood; starved, it would be two.
    assert!(
        good["ok"].as_u64().unwrap() > 5 && good["failed"] == 0,
        "{good}"
    );
}
