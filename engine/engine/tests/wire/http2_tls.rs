//! HTTP/2 by ALPN: agreed, refused, or HTTP/1.1 in its place.

use std::net::TcpStream;
use std::sync::Arc;

use crate::common::http2::{share_of, Peer};
use crate::common::tls::{lab, Lab};
use crate::common::{ok, run, serve, Server};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{json, Value};

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
