//! HTTP/2 against servers that break its rules, or leave: each gives its own error, and no load hangs.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::Mutex;

use crate::common::http2::{answer, frame_of, headers, peer, peer_with, settings, share_of, Peer};
use crate::common::{run, Ran, Server, MS};
use svload_engine::wire::http2::frame::{flag, kind, number};

const END: u8 = flag::END_STREAM;
const OK: &[(&str, &str)] = &[(":status", "200")];

/// One request a connection, against a server that sends `bytes` for it and reads on.
fn against(bytes: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Ran {
    let server = peer(move |mut peer| {
        let asked = peer.request()?;
        peer.send(&bytes(asked.stream))?;
        peer.drain();
        None
    });
    let mut share = share_of(server.address, 2, 1, 4);
    share["groups"][0]["connection"] = "new".into();
    share["groups"][0]["request"]["timeout_ns"] = (400 * MS).into();
    run(&share)
}

fn whole(bytes: &[&[u8]]) -> Vec<u8> {
    bytes.concat()
}

#[test]
fn every_breach_has_its_name() {
    type Breach = fn(u32) -> Vec<u8>;
    let breaches: &[(&str, Breach)] = &[
        ("http2_protocol", |_| frame_of(kind::DATA, 0, 0, b"x")),
        ("http2_protocol", |_| headers(2, END, OK)),
        ("http2_protocol", |id| headers(id + 2, END, OK)),
        ("http2_protocol", |id| {
            frame_of(kind::DATA, flag::PADDED, id, &[200, 0])
        }),
        ("http2_protocol", |id| {
            frame_of(
                kind::PUSH_PROMISE,
                flag::END_HEADERS,
                id,
                &[0, 0, 0, 2, 0x82],
            )
        }),
        ("http2_protocol", |id| {
            frame_of(kind::CONTINUATION, flag::END_HEADERS, id, &[0x88])
        }),
        ("http2_protocol", |_| settings(&[(5, 1)])),
        ("http2_flow_control", |_| {
            frame_of(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes())
        }),
        ("http2_flow_control", |id| {
            frame_of(kind::WINDOW_UPDATE, 0, id, &0x7fff_ffffu32.to_be_bytes())
        }),
        ("http2_flow_control", |_| settings(&[(4, 1 << 31)])),
        ("http2_frame_size", |id| {
            frame_of(kind::DATA, 0, id, &[0; 16_385])
        }),
        ("http2_frame_size", |_| frame_of(kind::PING, 0, 0, &[0; 5])),
        ("http2_frame_size", |_| {
            frame_of(kind::SETTINGS, 0, 0, &[0; 7])
        }),
        ("http2_compression", |id| {
            frame_of(kind::HEADERS, flag::END_HEADERS, id, &[0xff, 0xff, 0xff])
        }),
        ("http2_flood", |_| {
            frame_of(kind::PING, 0, 0, &[0; 8]).repeat(20_000)
        }),
        ("http2_flood", |_| settings(&[(3, 9)]).repeat(20_000)),
        ("http2_flood", |id| {
            whole(&[
                &headers(id, 0, OK),
                &frame_of(kind::DATA, 0, id, &[]).repeat(20_000),
            ])
        }),
        ("http2_flood", |id| {
            whole(&[
                &frame_of(kind::HEADERS, 0, id, &[0x88]),
                &frame_of(kind::CONTINUATION, 0, id, &[]).repeat(1_000),
            ])
        }),
        ("header_too_large", |id| {
            let large = "y".repeat(16_000);
            whole(&[
                &headers(id, 0, &[(":status", "103"), ("a", &large)]).repeat(5),
                &headers(id, END, OK),
            ])
        }),
        ("header_too_large", |id| {
            whole(&[
                &frame_of(kind::HEADERS, 0, id, &[0x88; 16_000]),
                &frame_of(kind::CONTINUATION, 0, id, &[0x88; 16_000]).repeat(6),
            ])
        }),
        ("http2_reset_cancel", |id| {
            frame_of(kind::RST_STREAM, 0, id, &8u32.to_be_bytes())
        }),
        ("http2_reset_internal_error", |id| {
            frame_of(kind::RST_STREAM, 0, id, &2u32.to_be_bytes())
        }),
        ("http2_reset_protocol_error", |id| {
            frame_of(kind::RST_STREAM, 0, id, &1u32.to_be_bytes())
        }),
        ("http2_reset_flow_control_error", |id| {
            frame_of(kind::RST_STREAM, 0, id, &3u32.to_be_bytes())
        }),
        ("http2_reset_enhance_your_calm", |id| {
            frame_of(kind::RST_STREAM, 0, id, &11u32.to_be_bytes())
        }),
        ("http2_refused_stream", |id| {
            frame_of(kind::RST_STREAM, 0, id, &7u32.to_be_bytes())
        }),
        ("http2_reset", |id| {
            whole(&[
                &headers(id, 0, OK),
                &frame_of(kind::RST_STREAM, 0, id, &[0xff; 4]),
            ])
        }),
        ("http2_goaway", |_| frame_of(kind::GOAWAY, 0, 0, &[0; 8])),
        ("http2_malformed", |id| headers(id, END, &[("server", "x")])),
        ("http2_malformed", |id| {
            headers(id, END, &[(":status", "200"), ("Upper", "x")])
        }),
        ("http2_malformed", |id| {
            headers(id, END, &[(":status", "200"), ("connection", "keep-alive")])
        }),
        ("http2_malformed", |id| {
            headers(id, END, &[(":status", "200"), ("content-length", "two")])
        }),
        ("http2_malformed", |id| {
            headers(id, END, &[(":status", "200"), (":status", "200")])
        }),
        ("http2_malformed", |id| {
            headers(id, END, &[(":status", "200"), ("x y", "1")])
        }),
        ("http2_malformed", |id| {
            headers(id, END, &[(":status", "200"), ("x", "a\r\nb")])
        }),
        ("http2_malformed", |id| {
            whole(&[
                &headers(id, 0, OK),
                &headers(id, END, &[(":status", "200")]),
            ])
        }),
        ("http2_malformed", |id| frame_of(kind::DATA, END, id, b"x")),
        ("short_body", |id| {
            whole(&[
                &headers(id, 0, &[(":status", "200"), ("content-length", "9")]),
                &frame_of(kind::DATA, END, id, b"abc"),
            ])
        }),
        ("unexpected_data", |id| {
            whole(&[
                &headers(id, 0, &[(":status", "200"), ("content-length", "2")]),
                &frame_of(kind::DATA, END, id, b"abc"),
            ])
        }),
        ("timeout_first_byte", |_| Vec::new()),
        // Half a frame, then silence.
        ("timeout_first_byte", |id| headers(id, 0, OK)[..5].to_vec()),
        ("timeout_body", |id| headers(id, 0, OK)),
        ("timeout_body", |id| {
            whole(&[
                &headers(id, 0, OK),
                &frame_of(kind::DATA, END, id, b"abc")[..10],
            ])
        }),
    ];
    for (error, bytes) in breaches {
        let ran = against(*bytes);
        ran.assert_all_fail_with(error);
        assert_eq!(ran.count("failed"), 4, "{error}");
    }
}

#[test]
fn the_peer_is_told_why() {
    let (codes, seen) = channel();
    let codes = Mutex::new(codes);
    let server = peer(move |mut peer| {
        peer.request()?;
        peer.send(&frame_of(kind::DATA, 0, 0, b"x"))?;
        let frames = peer.drain();
        let goaway = frames.iter().find(|(head, _)| head.kind == kind::GOAWAY);
        codes
            .lock()
            .unwrap()
            .send(goaway.map(|(_, payload)| number(&payload[4..])))
            .unwrap();
        None
    });
    run(&share_of(server.address, 1, 1, 1)).assert_all_fail_with("http2_protocol");
    assert_eq!(
        seen.recv_timeout(std::time::Duration::from_secs(120)),
        Ok(Some(1))
    );
}

#[test]
fn a_request_that_times_out_is_cancelled_and_the_others_go_on() {
    let (cancelled, seen) = channel();
    let cancelled = Mutex::new(cancelled);
    let server = peer(move |mut peer| {
        let silent = peer.request()?.stream;
        while let Some(asked) = peer.request() {
            for (head, payload) in peer.others.drain(..) {
                if head.kind == kind::RST_STREAM {
                    cancelled
                        .lock()
                        .unwrap()
                        .send((head.stream == silent, number(&payload)))
                        .unwrap();
                }
            }
            peer.answer(asked.stream, "x")?;
            peer.send(&frame_of(kind::WINDOW_UPDATE, 0, silent, &[0, 0, 0, 9]))?;
        }
        None
    });
    let mut share = share_of(server.address, 4, 4, 400);
    share["groups"][0]["executor"]["think_time"] = serde_json::json!({"constant_ns": 2 * MS});
    share["groups"][0]["request"]["timeout_ns"] = (100 * MS).into();
    let ran = run(&share);
    assert_eq!(
        ran.errors().into_iter().collect::<Vec<_>>(),
        [("timeout_first_byte".to_owned(), 1)]
    );
    assert_eq!((ran.count("ok"), server.accepted()), (399, 1));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [(true, 8)]);
}

#[test]
fn a_head_that_comes_in_part_is_what_the_timeout_cut() {
    type Send = fn(&mut Peer<TcpStream>, u32) -> Option<()>;
    let cases: [(Send, &str); 4] = [
        (|_, _| Some(()), "timeout_first_byte"),
        // A block that waits for its continuation, one whose continuation has begun, and a frame in part.
        (
            |peer, id| peer.send(&frame_of(kind::HEADERS, END, id, &[0x88])),
            "timeout_head",
        ),
        (
            |peer, id| {
                peer.send(&frame_of(kind::HEADERS, END, id, &[0x88]))?;
                peer.send(&frame_of(kind::CONTINUATION, 0, id, &[]))?;
                peer.send(&frame_of(kind::CONTINUATION, 0, id, &[0x88])[..9])
            },
            "timeout_head",
        ),
        (
            |peer, id| peer.send(&headers(id, END, OK)[..9]),
            "timeout_head",
        ),
    ];
    for (send, error) in cases {
        let server = peer(move |mut peer| {
            let asked = peer.request()?;
            send(&mut peer, asked.stream)?;
            peer.drain();
            None
        });
        let mut share = share_of(server.address, 1, 1, 1);
        share["groups"][0]["request"]["timeout_ns"] = (100 * MS).into();
        run(&share).assert_all_fail_with(error);
    }
}

#[test]
fn late_frames_of_a_cancelled_stream_are_nobodys_fault() {
    let server = peer(|mut peer| {
        let late = peer.request()?.stream;
        while let Some(asked) = peer.request() {
            if peer
                .others
                .iter()
                .any(|(head, _)| head.kind == kind::RST_STREAM)
            {
                peer.others.clear();
                peer.answer(late, "too late")?;
            }
            peer.answer(asked.stream, "x")?;
        }
        None
    });
    let mut share = share_of(server.address, 2, 2, 40);
    share["groups"][0]["request"]["timeout_ns"] = (50 * MS).into();
    share["groups"][0]["executor"]["think_time"] = serde_json::json!({"constant_ns": 5 * MS});
    let ran = run(&share);
    assert_eq!(
        (ran.count("ok"), ran.errors()["timeout_first_byte"]),
        (39, 1)
    );
}

#[test]
fn a_stream_that_is_given_up_makes_room_for_a_request_that_waits() {
    // It takes one stream at a time, and never answers the first.
    let server = peer_with(&[(3, 1)], |mut peer| {
        peer.request()?;
        while let Some(asked) = peer.request() {
            peer.answer(asked.stream, "x")?;
        }
        None
    });
    let mut share = share_of(server.address, 2, 2, 2);
    let group = &mut share["groups"][0];
    group["request"]["timeout_ns"] = (1_000 * MS).into();
    group["executor"]["ramp_up_ns"] = (1_000 * MS).into();
    let ran = run(&share);
    assert_eq!(
        (ran.count("ok"), ran.errors()["timeout_first_byte"]),
        (1, 1)
    );
}

#[test]
fn a_request_that_waits_for_a_stream_in_vain_was_not_sent() {
    // It answers what comes before its settings are known, and takes nothing after that.
    let server = peer_with(&[(3, 0)], |mut peer| {
        let asked = peer.request()?;
        peer.answer(asked.stream, "x")?;
        peer.drain();
        None
    });
    let mut share = share_of(server.address, 1, 1, 2);
    share["groups"][0]["request"]["timeout_ns"] = (1_000 * MS).into();
    let ran = run(&share);
    let sent = ran
        .samples("written_ns")
        .iter()
        .filter(|ns| **ns >= 0)
        .count();
    assert_eq!((ran.count("ok"), sent), (1, 1));
    assert_eq!(
        ran.errors().into_iter().collect::<Vec<_>>(),
        [("timeout_send".to_owned(), 1)]
    );
}

#[test]
fn goaway_fails_what_the_server_will_not_answer_and_nothing_else() {
    // The server takes the first two of four requests, and leaves.
    let server = peer(|mut peer| {
        let ids: Vec<u32> = (0..4)
            .map_while(|_| peer.request())
            .map(|asked| asked.stream)
            .collect();
        let last = *ids.get(1)?;
        peer.send(&frame_of(
            kind::GOAWAY,
            0,
            0,
            &[last.to_be_bytes(), [0; 4]].concat(),
        ))?;
        for id in ids.iter().filter(|id| **id <= last) {
            peer.answer(*id, "x")?;
        }
        peer.drain();
        None
    });
    let ran = run(&share_of(server.address, 4, 4, 40));
    assert_eq!((ran.count("ok"), ran.errors()["http2_goaway"]), (20, 20));
    assert_eq!(server.accepted(), 10);
    assert_eq!(
        ran.group()["http2"]["goaways"],
        serde_json::json!({"NO_ERROR": 10})
    );
}

/// The server reads one request, sends `bytes` for it, and closes in order, or with a reset.
fn closing(bytes: fn(u32) -> Vec<u8>, reset: bool) -> Server {
    Server::start(move |stream: TcpStream| {
        let reset_later = stream.try_clone().unwrap();
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        let Some(asked) = peer.request() else { return };
        peer.send(&bytes(asked.stream));
        if reset {
            // Closing with unread data resets; so does this.
            socket2::SockRef::from(&reset_later)
                .set_linger(Some(std::time::Duration::ZERO))
                .unwrap();
        } else {
            let _ = reset_later.shutdown(std::net::Shutdown::Write);
            peer.drain();
        }
    })
}

#[test]
fn connections_that_end_early_are_told_apart() {
    type Make = fn(u32) -> Vec<u8>;
    let cases: [(Make, bool, &str); 4] = [
        (|_| Vec::new(), false, "empty_answer"),
        (|_| Vec::new(), true, "read_reset"),
        (|id| headers(id, 0, OK), false, "short_body"),
        (
            |id| whole(&[&headers(id, 0, OK), &frame_of(kind::DATA, 0, id, b"abc")]),
            false,
            "short_body",
        ),
    ];
    for (bytes, reset, error) in cases {
        let server = closing(bytes, reset);
        let mut share = share_of(server.address, 1, 1, 3);
        share["groups"][0]["connection"] = "new".into();
        run(&share).assert_all_fail_with(error);
    }
}

#[test]
fn a_kept_connection_that_has_gone_is_stale() {
    // Answers one request a connection, then closes as soon as it sees the next.
    let server = peer(|mut peer| {
        let asked = peer.request()?;
        peer.answer(asked.stream, "x")?;
        peer.request()?;
        None
    });
    let ran = run(&share_of(server.address, 1, 1, 10));
    assert_eq!((ran.count("ok"), ran.errors()["stale_connection"]), (5, 5));
}

#[test]
fn streams_of_a_connection_that_ends_at_work_are_not_stale() {
    // Two requests of each of four users. Of the first connection one, two or three are answered; it closes, in order
    // or with a reset, when the next requests of these users are in.
    for (answered, reset) in [(1, false), (2, false), (1, true), (3, true)] {
        let first = AtomicBool::new(true);
        let server = Server::start(move |stream: TcpStream| {
            let end = stream.try_clone().unwrap();
            let Some(mut peer) = Peer::greet(stream, &[]) else {
                return;
            };
            if !first.swap(false, Ordering::SeqCst) {
                while let Some(asked) = peer.request() {
                    let _ = peer.answer(asked.stream, "x");
                }
                return;
            }
            let ids: Vec<u32> = (0..4)
                .map_while(|_| peer.request())
                .map(|asked| asked.stream)
                .collect();
            for id in ids.iter().take(answered) {
                let _ = peer.answer(*id, "x");
            }
            for _ in 0..answered {
                let _ = peer.request();
            }
            if reset {
                socket2::SockRef::from(&end)
                    .set_linger(Some(std::time::Duration::ZERO))
                    .unwrap();
            }
        });
        let ran = run(&share_of(server.address, 4, 4, 8));
        let errors = ran.errors().into_iter().collect::<Vec<_>>();
        assert_eq!(errors, [("read_reset".to_owned(), 4)]);
        assert_eq!(ran.count("ok"), 4);
    }
}

#[test]
fn a_server_that_speaks_something_else_is_named() {
    for (greeting, error) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..],
            "http2_not_negotiated",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "http2_protocol"),
    ] {
        let server = Server::start(move |mut stream| {
            let _ = std::io::Write::write_all(&mut stream, greeting);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        run(&share_of(server.address, 2, 2, 4)).assert_all_fail_with(error);
    }
}

#[test]
fn a_server_that_leaves_again_and_again_is_not_asked_for_ever() {
    // It lets one stream be open, answers one request or none, and leaves with a GOAWAY or without.
    for (answers, goaway) in [(false, true), (false, false), (true, false)] {
        let server = Server::start(move |stream| {
            let Some(mut peer) = Peer::greet(stream, &[(3, 1)]) else {
                return;
            };
            if let Some(asked) = peer.request().filter(|_| answers) {
                peer.answer(asked.stream, "x");
            }
            if goaway {
                peer.send(&frame_of(kind::GOAWAY, 0, 0, &[0; 8]));
                peer.drain();
            }
        });
        let ran = run(&share_of(server.address, 4, 4, 40));
        if goaway {
            ran.assert_all_fail_with("http2_goaway");
        }
        assert_eq!(ran.count("ok") + ran.count("failed"), 40);
        assert_eq!(ran.count("ok") > 0, answers);
        assert!(server.accepted() <= 40);
    }
}

#[test]
fn a_request_that_waits_for_a_stream_moves_on_when_the_server_closes() {
    // One stream at a time. The first connection closes, without a GOAWAY, while its second request is under way and a third waits.
    let first = AtomicBool::new(true);
    let server = peer_with(&[(3, 1)], move |mut peer| {
        let closes = first.swap(false, Ordering::SeqCst);
        while let Some(asked) = peer.request() {
            if closes && asked.stream > 1 {
                std::thread::sleep(std::time::Duration::from_millis(900));
                return None;
            }
            peer.answer(asked.stream, "x")?;
        }
        None
    });
    let mut share = share_of(server.address, 2, 2, 3);
    share["groups"][0]["executor"]["ramp_up_ns"] = (1_000 * MS).into();
    let ran = run(&share);
    assert_eq!((ran.count("ok"), server.accepted()), (2, 2));
    assert_eq!(
        ran.errors().into_iter().collect::<Vec<_>>(),
        [("stale_connection".to_owned(), 1)]
    );
}

#[test]
fn answers_that_follow_each_other_without_a_pause_are_all_read() {
    let server = peer(|mut peer| {
        while let Some(asked) = peer.request() {
            peer.send(&whole(&[
                &frame_of(0x77, 0xff, asked.stream, b"unknown"),
                &frame_of(kind::PRIORITY, 0, asked.stream, &[0; 5]),
                &answer(asked.stream, "x"),
            ]))?;
        }
        None
    });
    let ran = run(&share_of(server.address, 8, 8, 800));
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 800);
}
