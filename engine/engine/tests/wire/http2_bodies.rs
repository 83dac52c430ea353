//! Request bodies over HTTP/2: however small the windows are, what arrives is what was planned.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::Mutex;

use crate::common::http2::{frame_of, headers, peer_with, share_of};
use crate::common::{run, MS};
use serde_json::json;
use svload_engine::body::{SizeLaw, Streamed};
use svload_engine::request::Asker;
use svload_engine::wire::http2::frame::{flag, kind};

/// A server that takes bodies and checks that they keep within its windows; each is handed out with its path.
fn taker(
    settings: &'static [(u16, u32)],
    window: i64,
) -> (
    crate::common::Server,
    std::sync::mpsc::Receiver<(String, Vec<u8>)>,
) {
    let (bodies, seen) = channel();
    let bodies = Mutex::new(bodies);
    let server = peer_with(settings, move |mut peer| {
        let mut open: HashMap<u32, (String, Vec<u8>)> = HashMap::new();
        let (mut room, mut connection) = (HashMap::new(), 65_535i64);
        loop {
            let (head, payload) = peer.frame()?;
            match head.kind {
                kind::HEADERS => {
                    let asked = peer.read_head(head, payload)?;
                    let length = asked.fields["content-length"].clone();
                    open.insert(asked.stream, (length, Vec::new()));
                    room.insert(asked.stream, window);
                    if asked.ends {
                        let (path, body) = open.remove(&asked.stream)?;
                        bodies.lock().unwrap().send((path, body)).unwrap();
                        peer.answer(asked.stream, "taken")?;
                    }
                }
                kind::DATA => {
                    let bytes = payload.len() as i64;
                    let left = room.get_mut(&head.stream)?;
                    *left -= bytes;
                    connection -= bytes;
                    assert!(*left >= 0 && connection >= 0, "beyond a window");
                    open.get_mut(&head.stream)?.1.extend(payload);
                    if bytes > 0 {
                        let by = (bytes as u32).to_be_bytes();
                        *left += bytes;
                        connection += bytes;
                        peer.send(&frame_of(kind::WINDOW_UPDATE, 0, head.stream, &by))?;
                        peer.send(&frame_of(kind::WINDOW_UPDATE, 0, 0, &by))?;
                    }
                    if head.has(flag::END_STREAM) {
                        let (path, body) = open.remove(&head.stream)?;
                        bodies.lock().unwrap().send((path, body)).unwrap();
                        peer.answer(head.stream, "taken")?;
                    }
                }
                _ => {}
            }
        }
    });
    (server, seen)
}

#[test]
fn bodies_arrive_as_they_are_planned_through_any_window() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const LARGE: &[(u16, u32)] = &[(INITIAL_WINDOW_SIZE, 1 << 30), (5, 1 << 20)];
    let cases: [(&'static [(u16, u32)], i64); 3] = [
        (&[], 65_535),
        (&[(INITIAL_WINDOW_SIZE, 1_000)], 1_000),
        (LARGE, 1 << 30),
    ];
    for (settings, window) in cases {
        // The first request may leave before the settings are read.
        let (server, seen) = taker(settings, window.max(65_535));
        let mut share = share_of(server.address, 4, 4, 12);
        share["groups"][0]["request"]["method"] = "PUT".into();
        share["groups"][0]["request"]["body"] = json!({"random": {"lognormal": [3e4, 6e5]}});
        share["groups"][0]["request"]["timeout_ns"] = (20_000 * MS).into();
        let ran = run(&share);
        ran.assert_all_ok();
        let law = SizeLaw::Lognormal([3e4, 6e5]);
        let planned = Streamed::random(7, "load", law, false);
        let mut wanted: Vec<Vec<u8>> = (0..4)
            .flat_map(|vu| (0..3).map(move |seq| Asker { vu, seq }))
            .map(|asker| {
                let mut body = vec![0; planned.length(asker) as usize];
                planned.fill(asker, 0, &mut body).unwrap();
                body
            })
            .collect();
        let mut got: Vec<Vec<u8>> = seen
            .try_iter()
            .map(|(length, body)| {
                assert_eq!(length, body.len().to_string());
                body
            })
            .collect();
        wanted.sort();
        got.sort();
        assert!(got == wanted);
    }
}

#[test]
fn text_bodies_arrive_and_have_their_length() {
    let (server, seen) = taker(&[], 65_535);
    let mut share = share_of(server.address, 1, 1, 12);
    share["groups"][0]["request"]["method"] = "POST".into();
    share["groups"][0]["request"]["body"] = json!({"text": [{"text": "n="}, {"var": "iteration"}]});
    run(&share).assert_all_ok();
    let got: Vec<_> = seen.try_iter().collect();
    for (n, (length, body)) in got.iter().enumerate() {
        assert_eq!(
            (length.as_str(), body.as_slice()),
            (
                &*(2 + n.to_string().len()).to_string(),
                format!("n={n}").as_bytes()
            )
        );
    }
    assert_eq!(got.len(), 12);
}

#[test]
fn an_early_answer_ends_the_request_and_not_the_connection() {
    let server = peer_with(&[], |mut peer| {
        while let Some(asked) = peer.request() {
            peer.send(&headers(
                asked.stream,
                flag::END_STREAM,
                &[(":status", "200")],
            ))?;
        }
        None
    });
    let mut share = share_of(server.address, 2, 2, 8);
    share["groups"][0]["request"]["method"] = "PUT".into();
    share["groups"][0]["request"]["body"] = json!({"random": {"bytes": 10_000_000}});
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((ran.count("ok"), server.accepted()), (8, 1));
    assert!(ran.count("bytes_sent") < 80_000_000);
}

#[test]
fn a_window_that_never_opens_ends_in_a_timeout() {
    let server = peer_with(&[(4, 0)], |mut peer| {
        peer.drain();
        None
    });
    let mut share = share_of(server.address, 2, 2, 4);
    share["groups"][0]["request"]["method"] = "PUT".into();
    share["groups"][0]["request"]["body"] = json!({"random": {"bytes": 100_000}});
    share["groups"][0]["request"]["timeout_ns"] = (150 * MS).into();
    run(&share).assert_all_fail_with("timeout_send");
}
