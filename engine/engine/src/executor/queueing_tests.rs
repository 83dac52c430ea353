//! Open loops against queueing theory, in virtual time: the waits that a full pool makes are a queue's, to the nanosecond.

use super::testing::{simulate, Book};
use super::{build, Start};
use crate::rng::{Draws, Stream};
use crate::share::testing::group;

const RATE_RPS: f64 = 500.0;
const SECONDS: i64 = 400;
const S: i64 = 1_000_000_000;

/// Exponential service times of arrival `seq`, ns; the mean is 1 ms.
fn service_ns(seq: u64) -> i64 {
    let draws = Draws::new(11, "service", Stream::BodySize);
    (draws.exponential(seq, 0) * 1e6).round() as i64
}

/// Plays Poisson arrivals for [`SECONDS`] with `places`, and lets the server decide how long a request that begins now takes.
fn play(places: u64, mut service: impl FnMut(&Start) -> i64) -> (Vec<(Start, i64)>, Book) {
    let json = format!(
        r#"{{"kind": "constant-arrival-rate", "rate_rps": {RATE_RPS}.0, "max_vus": {places}, "arrivals": "poisson"}}"#
    );
    let mut group = group(&json);
    group.stop_offset_ns = SECONDS * S;
    let mut executor = build(3, &group, 0, 1).unwrap();
    simulate(executor.as_mut(), (SECONDS + 60) * S, 0, &mut service)
}

/// Lindley's recursion (1952): the response time of each arrival at one server, first come, first served.
fn lindley(due_ns: &[i64]) -> Vec<i64> {
    let mut free_ns = 0;
    (0u64..)
        .zip(due_ns)
        .map(|(seq, due_ns)| {
            free_ns = free_ns.max(*due_ns) + service_ns(seq);
            free_ns - due_ns
        })
        .collect()
}

fn mean(values: &[i64]) -> f64 {
    values.iter().sum::<i64>() as f64 / values.len() as f64
}

fn quantile(values: &[i64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(p * sorted.len() as f64).ceil() as usize - 1] as f64
}

#[test]
fn a_pool_of_one_place_is_the_queue_of_m_m_1() {
    let mut done = Vec::new();
    let (begun, book) = play(1, |start| service_ns(start.seq));
    let due: Vec<i64> = begun.iter().map(|(start, _)| start.due_ns).collect();
    for (start, at_ns) in &begun {
        // Nothing is late here: who begins has a place, and had none before.
        assert_eq!(start.ready_ns, *at_ns);
        done.push(at_ns + service_ns(start.seq) - start.due_ns);
    }
    assert!(book.dropped.is_empty() && book.waiting.is_empty());
    assert_eq!(done, lindley(&due));
    // ρ = 1/2: R is exponential with mean 1/(μ − λ) = 2 ms (Kleinrock, Queueing Systems I, §3.2). 200,000 arrivals
    // whose responses are correlated over about 12 leave a relative error of the mean of 1 %.
    assert!((due.len() as f64 / (RATE_RPS * SECONDS as f64) - 1.0).abs() < 0.01);
    assert!((mean(&done) / 2e6 - 1.0).abs() < 0.04, "{}", mean(&done));
    for p in [0.5f64, 0.9, 0.99] {
        let expected = -(1.0 - p).ln() * 2e6;
        assert!((quantile(&done, p) / expected - 1.0).abs() < 0.06, "{p}");
    }
}

#[test]
fn a_pool_that_is_never_full_adds_nothing_to_the_servers_queue() {
    let mut free_ns = 0;
    let mut done = Vec::new();
    let (begun, _) = play(10_000, |start| {
        // The server's own queue, seen from the moment the request begins.
        free_ns = start.due_ns.max(free_ns) + service_ns(start.seq);
        done.push(free_ns - start.due_ns);
        free_ns - start.due_ns
    });
    assert!(begun
        .iter()
        .all(|(start, at_ns)| start.ready_ns == start.due_ns && *at_ns == start.due_ns));
    let due: Vec<i64> = begun.iter().map(|(start, _)| start.due_ns).collect();
    assert_eq!(done, lindley(&due));
}
