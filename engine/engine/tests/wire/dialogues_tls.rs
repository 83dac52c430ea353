//! Raw dialogues over TLS: the same turns, and ends that TLS tells apart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::common::tls::{lab, Lab};
use crate::common::{run, share, Server, MS};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{json, Value};

type Stream = StreamOwned<ServerConnection, TcpStream>;

fn server(lab: &Lab, talk: impl Fn(&mut Stream) + Send + Sync + 'static) -> Server {
    let config = lab.config.clone();
    Server::start(move |stream: TcpStream| {
        let session = ServerConnection::new(config.clone()).unwrap();
        talk(&mut StreamOwned::new(session, stream));
    })
}

/// Ends the stream as TLS wants it: with its goodbye.
fn goodbye(stream: &mut Stream) {
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

/// Two users who hold 20 dialogues between them.
fn dialogue(server: &Server, lab: &Lab, turns: Value) -> Value {
    let mut share = share(server.address);
    let tls = json!({"server_name": "cache.test", "ca_pem": lab.ca_pem});
    share["endpoints"] =
        json!({"https://cache.test": {"address": server.address.to_string(), "tls": tls}});
    let group = &mut share["groups"][0];
    group["executor"] = json!({"kind": "constant-vus", "vus": 2, "limit": 20});
    group["stop_offset_ns"] = (10_000 * MS).into();
    group["request"] = json!({"name": "talk", "endpoint": "https://cache.test", "timeout_ns": 5_000 * MS, "dialogue": turns});
    share
}

#[test]
fn a_kept_connection_carries_many_dialogues() {
    let lab = lab("cache.test");
    let server = server(&lab, |stream| {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if stream.get_mut().write_all(line.as_bytes()).is_err() {
                return;
            }
            line.clear();
        }
    });
    let turns = json!([
        {"send": [{"text": "PING "}, {"var": "vu"}, {"text": "\r\n"}]},
        {"match": r"PING \d\r\n"},
        {"send": [{"text": "BYE\r\n"}]},
        {"expect": "BYE\r\n"},
    ]);
    let ran = run(&dialogue(&server, &lab, turns));
    ran.assert_all_ok();
    assert_eq!((ran.count("ok"), ran.count("connections_opened")), (20, 2));
    assert_eq!((ran.count("tls_full"), server.accepted()), (2, 2));
    assert_eq!(ran.count("body_bytes"), 20 * 13);
}

#[test]
fn a_server_may_speak_first_and_end_the_stream_with_tls_goodbye() {
    let lab = lab("cache.test");
    let server = server(&lab, |stream| {
        if stream.write_all(b"220 ready\r\n").is_err() {
            return;
        }
        let mut quit = [0; 6];
        if stream.read_exact(&mut quit).is_ok() {
            let _ = stream.write_all(&vec![b'x'; 200_000]);
            goodbye(stream);
        }
    });
    let turns =
        json!([{"expect": "220 ready\r\n"}, {"send": [{"text": "QUIT\r\n"}]}, "until_close"]);
    let ran = run(&dialogue(&server, &lab, turns));
    ran.assert_all_ok();
    assert_eq!(ran.count("body_bytes"), 20 * (11 + 200_000));
    // Every dialogue ends its connection, and its session is taken up again.
    let (full, resumed) = (ran.count("tls_full"), ran.count("tls_resumed"));
    assert_eq!(
        (full + resumed, resumed >= 16),
        (20, true),
        "{full} {resumed}"
    );
}

#[test]
fn an_end_without_tls_goodbye_may_have_cut_something_off() {
    let lab = lab("cache.test");
    let server = server(&lab, |stream| {
        let mut asked = [0; 1];
        if stream.read_exact(&mut asked).is_ok() {
            let _ = stream.write_all(b"some");
            let _ = stream.flush();
        }
    });
    let turns = json!([{"send": [{"text": "?"}]}, "until_close"]);
    run(&dialogue(&server, &lab, turns)).assert_all_fail_with("short_body");
}

#[test]
fn long_texts_leave_whole() {
    const BYTES: usize = 3_000_000;
    let lab = lab("cache.test");
    let server = server(&lab, |stream| {
        let mut text = vec![0; BYTES];
        while stream.read_exact(&mut text).is_ok() {
            let _ = stream.write_all(if text.iter().all(|byte| *byte == b'y') {
                b"+"
            } else {
                b"-"
            });
        }
    });
    let turns = json!([{"send": [{"text": "y".repeat(BYTES)}]}, {"expect": "+"}]);
    let mut share = dialogue(&server, &lab, turns);
    share["groups"][0]["executor"]["limit"] = 4.into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("bytes_sent"), 4 * BYTES as u64);
}

#[test]
fn what_tls_refuses_has_its_name() {
    let (ours, other) = (lab("cache.test"), lab("cache.test"));
    let server = server(&ours, |stream| {
        let _ = stream.read(&mut [0; 1]);
    });
    let turns = json!([{"send": [{"text": "?"}]}, {"read": 1}]);
    run(&dialogue(&server, &other, turns)).assert_all_fail_with("tls_untrusted");
    let plain = Server::start(|mut stream: TcpStream| {
        let _ = stream.write_all(b"220 ready\r\n");
        let _ = stream.read(&mut [0; 1000]);
    });
    let turns = json!([{"expect": "220 ready\r\n"}]);
    run(&dialogue(&plain, &ours, turns)).assert_all_fail_with("tls_malformed");
}
