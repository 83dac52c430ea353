//! HTTP/2 against servers that keep its rules: how requests share connections, and what is counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::common::http2::{answer, frame_of, headers, peer, polite, share_of};
use crate::common::{open, refusal, run, Ran, MS};
use serde_json::{json, Value};
use svload_engine::wire::http2::frame::{flag, kind};

/// What the summary says of HTTP/2.
fn http2(ran: &Ran, name: &str) -> u64 {
    ran.group()["http2"][name].as_u64().unwrap()
}

#[test]
fn users_share_connections_as_their_group_says() {
    for (vus, streams, threads, connections) in [
        (64, 1, 1, 64),
        (64, 16, 1, 4),
        (64, 16, 2, 4),
        (64, 16, 3, 4),
        (10, 4, 1, 3),
        (5, 100, 2, 1),
    ] {
        let server = polite(&[]);
        let mut share = share_of(server.address, vus, streams, 20 * vus);
        share["threads"] = threads.into();
        let ran = run(&share);
        ran.assert_all_ok();
        assert_eq!(ran.count("ok"), 20 * vus);
        assert_eq!(
            server.accepted(),
            connections,
            "{vus} users, {streams} streams, {threads} threads"
        );
        assert_eq!(ran.count("connections_opened"), connections as u64);
        assert_eq!(
            (http2(&ran, "connections"), http2(&ran, "requests")),
            (connections as u64, 20 * vus)
        );
        assert_eq!(ran.group()["status"], json!({"200": 20 * vus}));
        assert_eq!(ran.count("body_bytes"), 5 * 20 * vus);
        let fresh = ran
            .samples("reused")
            .iter()
            .filter(|reused| **reused == 0)
            .count();
        assert_eq!(fresh, connections);
        let opened = ran
            .samples("connect_ns")
            .iter()
            .filter(|ns| **ns > 0)
            .count();
        assert_eq!(opened, connections);
    }
}

#[test]
fn a_connection_never_carries_more_than_its_streams() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let server = peer(move |mut peer| {
        // Answers only when eight requests are here, the last one first.
        let mut held = Vec::new();
        while let Some(asked) = peer.request() {
            held.push(asked.stream);
            seen.fetch_max(held.len(), Ordering::SeqCst);
            if held.len() == 8 {
                let bytes: Vec<u8> = held
                    .drain(..)
                    .rev()
                    .flat_map(|id| answer(id, "x"))
                    .collect();
                peer.send(&bytes)?;
            }
        }
        None
    });
    let ran = run(&share_of(server.address, 16, 8, 160));
    ran.assert_all_ok();
    assert_eq!((most.load(Ordering::SeqCst), server.accepted()), (8, 2));
}

#[test]
fn requests_carry_what_they_are_asked_to() {
    let (asked, seen) = std::sync::mpsc::channel();
    let asked = std::sync::Mutex::new(asked);
    let server = peer(move |mut peer| {
        while let Some(request) = peer.request() {
            let stream = request.stream;
            asked.lock().unwrap().send(request).unwrap();
            peer.answer(stream, "")?;
        }
        None
    });
    let mut share = share_of(server.address, 1, 1, 3);
    share["groups"][0]["request"]["path"] = json!([{"text": "/a?n="}, {"var": "iteration"}]);
    share["groups"][0]["request"]["headers"] =
        json!([["X-Fixed", [{"text": "v"}]], ["X-Id", [{"var": "request.id"}]]]);
    let ran = run(&share);
    ran.assert_all_ok();
    for (n, request) in seen.try_iter().enumerate() {
        assert_eq!((request.stream, request.ends), (1 + 2 * n as u32, true));
        for (name, value) in [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "host"),
            (":path", &*format!("/a?n={n}")),
            ("user-agent", "svload"),
            ("accept", "*/*"),
            ("x-fixed", "v"),
        ] {
            assert_eq!(request.fields[name], value, "{name} of request {n}");
        }
        assert!(request.fields.contains_key("x-id"));
    }
    // What stays the same goes by its place in the table.
    let bytes = ran.samples("request_bytes");
    assert!(
        bytes[1] + 20 < bytes[0] && bytes[1] == bytes[2],
        "{bytes:?}"
    );
}

#[test]
fn every_answer_is_read_to_its_end() {
    type Make = fn(u32) -> Vec<u8>;
    let cases: [(Make, i64, i64); 4] = [
        (
            |id| {
                let mut bytes = headers(id, 0, &[(":status", "103"), ("link", "x")]);
                bytes.extend(answer(id, "abcde"));
                bytes
            },
            200,
            5,
        ),
        (
            |id| headers(id, flag::END_STREAM, &[(":status", "204")]),
            204,
            0,
        ),
        (
            |id| {
                let mut bytes = headers(id, 0, &[(":status", "200"), ("content-length", "3")]);
                bytes.extend(frame_of(
                    kind::DATA,
                    flag::PADDED,
                    id,
                    &[2, b'a', b'b', b'c', 0, 0],
                ));
                bytes.extend(headers(id, flag::END_STREAM, &[("checksum", "x")]));
                bytes
            },
            200,
            3,
        ),
        (
            |id| {
                let mut bytes = headers(id, 0, &[(":status", "200")]);
                for _ in 0..100 {
                    bytes.extend(frame_of(kind::DATA, 0, id, &[7; 16_384]));
                    bytes.extend(frame_of(kind::PING, 0, 0, &[1; 8]));
                }
                bytes.extend(frame_of(kind::DATA, flag::END_STREAM, id, &[]));
                bytes
            },
            200,
            1_638_400,
        ),
    ];
    for (make, status, body) in cases {
        let server = peer(move |mut peer| {
            while let Some(asked) = peer.request() {
                peer.send(&make(asked.stream))?;
            }
            None
        });
        let ran = run(&share_of(server.address, 3, 3, 9));
        ran.assert_all_ok();
        assert!(ran.samples("status").iter().all(|got| *got == status));
        assert!(ran.samples("body_bytes").iter().all(|got| *got == body));
    }
}

#[test]
fn arrivals_take_free_streams_before_new_connections() {
    let server = polite(&[]);
    let mut share = share_of(server.address, 1, 8, 1);
    open(&mut share, 2_000.0, 32);
    share["groups"][0]["stop_offset_ns"] = (200 * MS).into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), ran.count("due"));
    assert!(server.accepted() <= 4, "{}", server.accepted());
}

#[test]
fn a_server_that_takes_few_streams_makes_requests_wait_and_none_fail() {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let server = polite(&[(MAX_CONCURRENT_STREAMS, 2)]);
    let ran = run(&share_of(server.address, 8, 8, 80));
    ran.assert_all_ok();
    assert!(http2(&ran, "stream_waits") > 0 && server.accepted() == 1);
}

#[test]
fn a_new_connection_for_each_request() {
    let server = polite(&[]);
    let mut share = share_of(server.address, 2, 1, 10);
    share["groups"][0]["connection"] = "new".into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((server.accepted(), http2(&ran, "connections")), (10, 10));
    assert!(ran.samples("reused").iter().all(|reused| *reused == 0));
}

#[test]
fn bytes_are_counted_as_they_stand_on_the_wire() {
    let server = polite(&[]);
    let ran = run(&share_of(server.address, 1, 1, 50));
    ran.assert_all_ok();
    let one = answer(1, "hello").len() as i64;
    assert!(ran
        .samples("header_bytes")
        .iter()
        .all(|bytes| *bytes == one - 14));
    let received: u64 = ran
        .column("intervals", "bytes_received")
        .iter()
        .map(|n| *n as u64)
        .sum();
    assert_eq!(received, 50 * one as u64);
    // The server's SETTINGS and its acknowledgement of ours.
    assert_eq!(ran.count("bytes_received"), received + 9 + 9);
    let heads: u64 = ran.samples("request_bytes").iter().map(|n| *n as u64).sum();
    // Preface, SETTINGS of three entries, WINDOW_UPDATE, acknowledgement.
    assert_eq!(ran.count("bytes_sent"), heads + 24 + 27 + 13 + 9);
}

#[test]
fn what_is_in_flight_at_the_end_is_counted() {
    let server = peer(|mut peer| {
        for _ in 0..4 {
            let asked = peer.request()?;
            peer.answer(asked.stream, "x")?;
        }
        peer.drain();
        None
    });
    let mut share = share_of(server.address, 4, 4, 100);
    share["groups"][0]["stop_offset_ns"] = (100 * MS).into();
    share["groups"][0]["graceful_stop_ns"] = 0.into();
    let ran = run(&share);
    assert_eq!((ran.count("ok"), ran.count("in_flight")), (4, 4));
}

#[test]
fn impossible_wishes_are_refused_by_field() {
    let server = polite(&[]);
    let wish = |change: &dyn Fn(&mut Value)| {
        let mut share = share_of(server.address, 1, 1, 1);
        change(&mut share["groups"][0]);
        refusal(&share)
    };
    type Change<'a> = &'a dyn Fn(&mut Value);
    let wishes: &[(&str, Change<'_>)] = &[
        ("http2.streams", &|group| {
            group["http2"]["streams"] = 0.into()
        }),
        ("http2.streams", &|group| {
            group["http2"]["streams"] = 2.into();
            group["connection"] = "new".into();
        }),
        ("request.endpoint", &|group| {
            group["http2"]["fallback"] = true.into()
        }),
        ("http2.surprise", &|group| {
            group["http2"]["surprise"] = true.into()
        }),
        ("request.headers[0]", &|group| {
            group["request"]["headers"] = json!([["Connection", [{"text": "close"}]]])
        }),
        ("request.dialogue", &|group| {
            group["request"]["dialogue"] = json!(["until_close"])
        }),
    ];
    for (field, change) in wishes {
        let said = wish(*change);
        assert!(
            said.starts_with(&format!("share.groups[0].{field}")),
            "{said}"
        );
    }
}
