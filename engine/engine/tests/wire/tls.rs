//! The engine against a TLS server: verification, resumption, versions.

use std::io::Write;
use std::net::TcpStream;

use crate::common::tls::{lab, Lab};
use crate::common::{run, share, Server, MS};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{json, Value};

fn tls_server(lab: &Lab, answer: &'static str) -> Server {
    let config = lab.config.clone();
    Server::start(move |stream: TcpStream| {
        let session = ServerConnection::new(config.clone()).unwrap();
        let answer = answer.as_bytes().to_vec();
        crate::common::serve(StreamOwned::new(session, stream), &move |_: &str| {
            answer.clone()
        });
    })
}

fn tls_share(server: &Server, lab: &Lab) -> Value {
    let mut share = share(server.address);
    let tls =
        json!({"server_name": "cache.test", "ca_pem": lab.ca_pem, "verify": true, "min": "1.2"});
    share["endpoints"] =
        json!({"https://cache.test": {"address": server.address.to_string(), "tls": tls}});
    share["groups"][0]["request"]["endpoint"] = "https://cache.test".into();
    share["groups"][0]["executor"] = json!({"kind": "constant-vus", "vus": 2, "limit": 20});
    share["groups"][0]["stop_offset_ns"] = (5_000 * MS).into();
    share
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn a_verified_connection_carries_all_requests() {
    let lab = lab("cache.test");
    let server = tls_server(&lab, HELLO);
    let ran = run(&tls_share(&server, &lab));
    ran.assert_all_ok();
    assert_eq!(
        (
            ran.count("ok"),
            ran.count("tls_full"),
            ran.count("tls_resumed")
        ),
        (20, 2, 0)
    );
    assert_eq!(ran.count("body_bytes"), 100);
    // Kernel receive stamps reach through TLS.
    assert!(ran
        .samples("read_lag_ns")
        .iter()
        .any(|lag| (0..1_000 * MS).contains(lag)));
    assert!(ran.samples("tls").iter().all(|kind| *kind == 1));
    let (connect, appconnect) = (ran.samples("connect_ns"), ran.samples("appconnect_ns"));
    let reused = ran.samples("reused");
    for row in 0..reused.len() {
        assert_eq!(reused[row] == 1, appconnect[row] == 0);
        assert!(connect[row] <= appconnect[row]);
    }
}

#[test]
fn new_connections_resume_their_users_session_or_not() {
    let lab = lab("cache.test");
    let server = tls_server(&lab, HELLO);
    let mut share = tls_share(&server, &lab);
    share["groups"][0]["connection"] = "new".into();
    for min in ["1.2", "1.3"] {
        share["endpoints"]["https://cache.test"]["tls"]["min"] = min.into();
        share["groups"][0]["tls_resumption"] = true.into();
        share["groups"][0]["client"] = "engine".into();
        let resuming = run(&share);
        resuming.assert_all_ok();
        assert_eq!(
            (resuming.count("tls_full"), resuming.count("tls_resumed")),
            (2, 18)
        );
        share["groups"][0]["client"] = "curl".into();
        let curl = run(&share);
        assert_eq!((curl.count("tls_full"), curl.count("tls_resumed")), (20, 0));
        share["groups"][0]["client"] = "engine".into();
        share["groups"][0]["tls_resumption"] = false.into();
        let full = run(&share);
        assert_eq!((full.count("tls_full"), full.count("tls_resumed")), (20, 0));
        assert!(full.samples("appconnect_ns").iter().all(|ns| *ns > 0));
    }
}

#[test]
fn a_wrong_name_or_authority_is_refused() {
    let (lab, other) = (lab("other.test"), lab("cache.test"));
    let server = tls_server(&lab, HELLO);
    for (trusted, error) in [(&lab, "tls_wrong_name"), (&other, "tls_untrusted")] {
        let mut share = tls_share(&server, trusted);
        let ran = run(&share);
        ran.assert_all_fail_with(error);
        assert_eq!(
            (ran.count("written"), ran.count("connections_opened")),
            (0, ran.count("begun"))
        );
        share["endpoints"]["https://cache.test"]["tls"]["verify"] = false.into();
        run(&share).assert_all_ok();
    }
}

#[test]
fn large_bodies_pass() {
    let lab = lab("cache.test");
    let body = "x".repeat(1_000_000);
    let answer: &'static str = Box::leak(
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{body}").into_boxed_str(),
    );
    let server = tls_server(&lab, answer);
    let ran = run(&tls_share(&server, &lab));
    ran.assert_all_ok();
    assert_eq!(ran.count("body_bytes"), 20_000_000);
}

#[test]
fn bytes_behind_an_answer_are_noticed_in_a_record_of_their_own() {
    let lab = lab("cache.test");
    // With 100 bytes the session reads both records at once, with 10,000 it leaves a part of the second in the socket.
    for bytes in [100, 10_000] {
        let config = lab.config.clone();
        let server = Server::start(move |mut stream: TcpStream| {
            let mut session = ServerConnection::new(config.clone()).unwrap();
            if session.complete_io(&mut stream).is_err() {
                return;
            }
            let mut reader = std::io::BufReader::new(StreamOwned::new(session, stream));
            while crate::common::read_head(&mut reader).is_some() {
                let StreamOwned { conn, sock } = reader.get_mut();
                for record in [HELLO.as_bytes(), &vec![b'x'; bytes]] {
                    conn.writer().write_all(record).unwrap();
                }
                // Both leave in one write.
                if conn.complete_io(sock).is_err() {
                    return;
                }
            }
        });
        let mut share = tls_share(&server, &lab);
        share["groups"][0]["executor"]["think_time"] = json!({"constant_ns": 0});
        run(&share).assert_all_fail_with("unexpected_data");
    }
}

#[test]
fn a_large_body_leaves_through_tls() {
    use std::io::{BufReader, Read};
    let lab = lab("cache.test");
    let config = lab.config.clone();
    let bytes = 3_000_001usize;
    let server = Server::start(move |stream: TcpStream| {
        let session = ServerConnection::new(config.clone()).unwrap();
        let mut stream = BufReader::new(StreamOwned::new(session, stream));
        while crate::common::read_head(&mut stream).is_some() {
            let mut body = vec![0; bytes];
            stream.read_exact(&mut body).unwrap();
            let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
            let answer = crate::common::ok(&sum.to_string());
            stream.get_mut().write_all(&answer).unwrap();
        }
    });
    let mut share = tls_share(&server, &lab);
    share["groups"][0]["executor"] = json!({"kind": "constant-vus", "vus": 1, "limit": 3});
    share["groups"][0]["request"]["method"] = "PUT".into();
    share["groups"][0]["request"]["body"] = json!({"random": {"bytes": bytes}});
    share["groups"][0]["request"]["timeout_ns"] = (20_000 * MS).into();
    share["groups"][0]["graceful_stop_ns"] = (20_000 * MS).into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 3);
    let heads: i64 = ran.samples("request_bytes").iter().sum();
    assert_eq!(ran.count("bytes_sent"), heads as u64 + 3 * bytes as u64);
}

#[test]
fn a_redirect_to_https_is_verified_as_the_share_says() {
    for (host, name, error) in [
        ("localhost", "localhost", ""),
        ("127.0.0.1", "127.0.0.1", ""),
        ("localhost", "other.test", "tls_wrong_name"),
    ] {
        let lab = lab(name);
        let secure = tls_server(&lab, HELLO);
        let location = format!("https://{host}:{}/x", secure.address.port());
        let server = Server::answering(move |_| {
            format!("HTTP/1.1 301 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
                .into_bytes()
        });
        let mut share = share(server.address);
        share["groups"][0]["follow_redirects"] = 1.into();
        run(&share).assert_all_fail_with("unauthorised_target");
        share["redirect_tls"] =
            json!({"server_name": "redirect", "ca_pem": lab.ca_pem, "verify": true, "min": "1.2"});
        let ran = run(&share);
        if error.is_empty() {
            ran.assert_all_ok();
        } else {
            ran.assert_all_fail_with(error);
        }
        share["allowed"] = json!(["127.0.0.2/32"]);
        run(&share).assert_all_fail_with("unauthorised_target");
    }
}
