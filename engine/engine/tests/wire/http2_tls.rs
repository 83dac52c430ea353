//! HTTP/2 by ALPN: agreed, refused, or HTTP/1.1 in its place.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::http2::{answer, frame_of, share_of, Peer};
use crate::common::tls::{lab, Lab};
use crate::common::{ok, run, serve, Server, MS};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{json, Value};
use svload_engine::wire::http2::frame::kind;

/// A TLS server that offers these protocols and speaks whichever was agreed.
fn server(lab: &Lab, protocols: &[&str]) -> Server {
    let mut config = (*lab.config).clone();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let config = Arc::new(config);
    Server::start(move |mut stream: TcpStream| {
        let mut session = ServerConnection::new(config.clone()).unwrap();
        if session.complete_io(&mut stream).is_err() {
            return;
        }
        let http2 = session.alpn_protocol() == Some(b"h2".as_slice());
        let stream = StreamOwned::new(session, stream);
        if !http2 {
            return serve(stream, &|_: &str| ok("hello"));
        }
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(asked) = peer.request() {
            if peer.answer(asked.stream, "hello").is_none() {
                return;
            }
        }
    })
}

fn asking(server: &Server, lab: &Lab, fallback: bool) -> Value {
    let mut share = share_of(server.address, 8, 4, 80);
    let tls = json!({"server_name": "cache.test", "ca_pem": lab.ca_pem});
    share["endpoints"] =
        json!({"https://cache.test": {"address": server.address.to_string(), "tls": tls}});
    share["groups"][0]["request"]["endpoint"] = "https://cache.test".into();
    share["groups"][0]["http2"]["fallback"] = fallback.into();
    share
}

#[test]
fn a_server_that_takes_http2_gets_it() {
    let lab = lab("cache.test");
    for fallback in [false, true] {
        let server = server(&lab, &["h2", "http/1.1"]);
        let ran = run(&asking(&server, &lab, fallback));
        ran.assert_all_ok();
        assert_eq!((ran.count("ok"), server.accepted()), (80, 2));
        assert_eq!((ran.count("tls_full"), ran.count("tls_resumed")), (2, 0));
        assert_eq!(ran.group()["http2"]["requests"], 80);
        assert!(ran.samples("tls").iter().all(|kind| *kind == 1));
        let handshakes = ran
            .samples("appconnect_ns")
            .iter()
            .filter(|ns| **ns > 0)
            .count();
        assert_eq!(handshakes, 2);
    }
}

#[test]
fn new_connections_resume_their_sessions() {
    let lab = lab("cache.test");
    let server = server(&lab, &["h2"]);
    let mut share = asking(&server, &lab, false);
    share["groups"][0]["connection"] = "new".into();
    share["groups"][0]["http2"]["streams"] = 1.into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((ran.count("tls_full"), ran.count("tls_resumed")), (8, 72));
}

#[test]
fn a_server_that_does_not_is_named_or_taken_as_it_is() {
    let lab = lab("cache.test");
    for protocols in [&["http/1.1"][..], &[]] {
        let server = server(&lab, protocols);
        run(&asking(&server, &lab, false)).assert_all_fail_with("http2_not_negotiated");
        let ran = run(&asking(&server, &lab, true));
        ran.assert_all_ok();
        let (http2, opened) = (&ran.group()["http2"], ran.count("connections_opened"));
        assert_eq!(
            (ran.count("ok"), opened, &http2["requests"]),
            (80, 8, &json!(0))
        );
        assert!((1..=2).contains(&http2["fallbacks"].as_u64().unwrap()));
        assert_eq!(ran.count("body_bytes"), 5 * 80);
    }
}

#[test]
fn the_time_of_a_handshake_that_fails_counts() {
    let lab = lab("cache.test");
    // Of many connections that are opened at once, some are closed before their handshake begins.
    let server = Server::start(drop);
    let mut share = asking(&server, &lab, false);
    let group = &mut share["groups"][0];
    group["executor"] = json!({"kind": "constant-vus", "vus": 64, "limit": 64});
    group["http2"]["streams"] = 1.into();
    let ran = run(&share);
    ran.assert_all_fail_with("tls_closed");
    let stamps = ["begun_ns", "connect_ns", "done_ns"].map(|name| ran.samples(name));
    let [begun, connect, done] = &stamps;
    for row in 0..done.len() {
        assert!(begun[row] + connect[row] < done[row], "{row}");
    }
}

/// A server whose first connection takes one stream at a time once that is known. It leaves with its fourth answer, `after`
/// it was asked for that; the handshakes of later connections begin after `pause`.
fn leaving(lab: &Lab, after: Duration, pause: Duration) -> Server {
    let mut config = (*lab.config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (config, known) = (Arc::new(config), AtomicBool::new(false));
    Server::start(move |mut stream: TcpStream| {
        let first = !known.swap(true, Ordering::SeqCst);
        if !first {
            thread::sleep(pause);
        }
        let mut session = ServerConnection::new(config.clone()).unwrap();
        if session.complete_io(&mut stream).is_err() {
            return;
        }
        let settings: &[_] = if first { &[(3, 1)] } else { &[] };
        let Some(mut peer) = Peer::greet(StreamOwned::new(session, stream), settings) else {
            return;
        };
        for number in 1.. {
            let Some(asked) = peer.request() else { return };
            let mut bytes = answer(asked.stream, "hello");
            if first && number == 4 {
                thread::sleep(after);
                let last = asked.stream.to_be_bytes();
                bytes.extend(frame_of(kind::GOAWAY, 0, 0, &[last, [0; 4]].concat()));
            }
            if peer.send(&bytes).is_none() {
                return;
            }
        }
    })
}

#[test]
fn requests_that_a_server_sends_away_have_their_whole_time_to_connect() {
    let (lab, ms) = (lab("cache.test"), Duration::from_millis);
    for (after, pause, late) in [(ms(3_500), ms(10_000), true), (ms(2_000), ms(2_000), false)] {
        let server = leaving(&lab, after, pause);
        let mut share = asking(&server, &lab, false);
        let group = &mut share["groups"][0];
        group["executor"] = json!({"kind": "constant-vus", "vus": 3, "limit": 6});
        group["request"]["timeout_ns"] = (10_000 * MS).into();
        group["connect_timeout_ns"] = (3_000 * MS).into();
        let ran = run(&share);
        // The first request of each user, and the second of one, are answered on the first connection.
        assert_eq!(server.accepted(), 2);
        if late {
            assert_eq!((ran.count("ok"), ran.errors()["tls_timeout"]), (4, 2));
            let last_ns = ran.samples("done_ns").into_iter().max();
            assert!(last_ns.unwrap() < 9_000 * MS);
        } else {
            assert_eq!(ran.count("ok"), 6, "{:?}", ran.errors());
            // What they waited on the first connection counts too.
            let before = ran.samples("pretransfer_ns").into_iter();
            assert_eq!(before.filter(|ns| *ns > 3_000 * MS).count(), 2);
        }
    }
}
