//! Faults of an HTTP/1 server.

use std::time::Duration;

use serde_json::{json, Value};

use super::common::{ok, MS};
use super::peer::{Peer, Stage};
use super::Fault;

const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn plain(_: &mut Value) {}

/// Long enough for what is not meant to time out.
fn patient(share: &mut Value) {
    share["groups"][0]["request"]["timeout_ns"] = (10_000 * MS).into();
}

fn thinking(share: &mut Value) {
    patient(share);
    share["groups"][0]["executor"]["think_time"] = json!({"constant_ns": 200 * MS});
}

fn following(share: &mut Value) {
    patient(share);
    share["groups"][0]["follow_redirects"] = 5.into();
}

fn asking_head(share: &mut Value) {
    patient(share);
    share["groups"][0]["request"]["method"] = "HEAD".into();
}

/// 16 MiB: more than the sockets between take.
fn uploading(share: &mut Value) {
    let request = &mut share["groups"][0]["request"];
    request["method"] = "PUT".into();
    request["body"] = json!({"random": {"bytes": 16 << 20}});
}

fn uploading_patiently(share: &mut Value) {
    uploading(share);
    patient(share);
}

fn awaiting_continue(share: &mut Value) {
    uploading(share);
    share["groups"][0]["request"]["expect_continue"] = true.into();
}

fn awaiting_continue_patiently(share: &mut Value) {
    awaiting_continue(share);
    patient(share);
    share["groups"][0]["request"]["body"] = json!({"random": {"bytes": 1000}});
}

const fn fault(
    name: &'static str,
    error: &'static str,
    share: fn(&mut Value),
    serve: fn(&mut Peer<'_>),
) -> Fault {
    Fault {
        name,
        error,
        some_ok: false,
        stage: Stage::Plain,
        share,
        serve,
    }
}

/// Answers with these bytes and ends the stream.
macro_rules! says {
    ($name:literal, $error:literal, $bytes:expr) => {
        fault($name, $error, patient, |peer| {
            if peer.answer($bytes) {
                peer.end();
            }
        })
    };
}

/// Answers with these bytes and then nothing more.
macro_rules! stalls {
    ($name:literal, $error:literal, $bytes:expr) => {
        fault($name, $error, plain, |peer| {
            if peer.answer($bytes) {
                peer.stall();
            }
        })
    };
}

/// Answers with these bytes and resets the connection.
macro_rules! resets {
    ($name:literal, $error:literal, $bytes:expr) => {
        fault($name, $error, patient, |peer| {
            if peer.answer($bytes) {
                // The client takes in what came, so that the reset does not overtake it.
                peer.pause(Duration::from_millis(50));
                peer.reset();
            }
        })
    };
}

/// Answers with the first bytes, then floods with the second.
macro_rules! floods {
    ($name:literal, $error:literal, $share:expr, $bytes:expr, $piece:expr) => {
        fault($name, $error, $share, |peer| {
            if peer.answer($bytes) {
                peer.flood($piece, usize::MAX);
            }
        })
    };
}

/// All of them.
pub fn faults() -> Vec<Fault> {
    [
        heads(),
        lengths(),
        chunks(),
        connections(),
        redirects(),
        uploads(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn heads() -> Vec<Fault> {
    vec![
        says!("half a status line", "short_head", "HTTP/1.1 20"),
        stalls!(
            "half a status line, then silence",
            "timeout_head",
            "HTTP/1.1 20"
        ),
        says!("no status code", "malformed", "HTTP/1.1\r\n\r\n"),
        says!("another protocol", "malformed", "SSH-2.0-OpenSSH_9.2\r\n"),
        says!("HTTP/0.9", "malformed", "<html>hello</html>\n"),
        says!(
            "HTTP/2 in the status line",
            "malformed",
            "HTTP/2.0 200 OK\r\n\r\n"
        ),
        says!(
            "HTTP/2 frames",
            "malformed",
            b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"
        ),
        says!(
            "status 099",
            "malformed",
            "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n"
        ),
        says!(
            "status of four digits",
            "malformed",
            "HTTP/1.1 2000 OK\r\n\r\n"
        ),
        fault("status 999", "status", patient, |peer| {
            while peer.answer("HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n") {}
        }),
        says!(
            "switching protocols",
            "malformed",
            "HTTP/1.1 101 Switch\r\nUpgrade: x\r\n\r\n"
        ),
        // 1 GB in pieces of 64 KiB, should anybody take it.
        fault("header of 1 GB", "header_too_large", patient, |peer| {
            if peer.answer(format!("{OK}X: ")) {
                peer.flood(&[b'x'; 65_536], 1 << 14);
            }
        }),
        floods!(
            "headers without end",
            "header_too_large",
            patient,
            OK,
            b"X-A: b\r\n"
        ),
        fault("head of a byte a second", "timeout_head", plain, |peer| {
            if peer.asked() {
                peer.drip(OK.as_bytes());
            }
        }),
        says!(
            "head cut off",
            "short_head",
            "HTTP/1.1 200 OK\r\nContent-Le"
        ),
        resets!(
            "reset in the head",
            "read_reset",
            "HTTP/1.1 200 OK\r\nContent-Le"
        ),
        says!(
            "NUL in a header",
            "malformed_header",
            "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"
        ),
        says!(
            "header without colon",
            "malformed_header",
            "HTTP/1.1 200 OK\r\nServer\r\n\r\n"
        ),
        says!(
            "header without name",
            "malformed_header",
            "HTTP/1.1 200 OK\r\n: x\r\n\r\n"
        ),
        says!(
            "space before the colon",
            "malformed_header",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n"
        ),
        // RFC 9112 §5.2: a user agent reads on where a field is folded; there is none to fold before the first.
        fault("folded header", "", patient, |peer| {
            while peer.answer("HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length:\r\n\t0\r\n\r\n") {}
        }),
        says!(
            "folded status line",
            "malformed_header",
            "HTTP/1.1 200 OK\r\n c\r\nA: b\r\n\r\n"
        ),
        says!(
            "lone CR in a header",
            "malformed_header",
            "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n"
        ),
        floods!(
            "interim answers without end",
            "header_too_large",
            patient,
            "",
            b"HTTP/1.1 102 Wait\r\n\r\n"
        ),
        stalls!(
            "an interim answer, then silence",
            "timeout_head",
            "HTTP/1.1 102 Wait\r\n\r\n"
        ),
        fault("a few interim answers", "", patient, |peer| {
            let storm = "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n".repeat(100);
            while peer.answer([storm.as_bytes(), &ok("x")].concat()) {}
        }),
    ]
}

fn lengths() -> Vec<Fault> {
    vec![
        says!(
            "length too long",
            "short_body",
            format!("{OK}Content-Length: 9\r\n\r\nabc")
        ),
        says!(
            "length too short",
            "unexpected_data",
            format!("{OK}Content-Length: 2\r\n\r\nabc")
        ),
        says!(
            "two lengths",
            "malformed_length",
            format!("{OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc")
        ),
        says!(
            "negative length",
            "malformed_length",
            format!("{OK}Content-Length: -1\r\n\r\n")
        ),
        says!(
            "length of 2^64",
            "malformed_length",
            format!("{OK}Content-Length: 18446744073709551616\r\n\r\n")
        ),
        says!(
            "length in words",
            "malformed_length",
            format!("{OK}Content-Length: two\r\n\r\n")
        ),
        stalls!(
            "length of 2^63, then silence",
            "timeout_body",
            format!("{OK}Content-Length: 9223372036854775808\r\n\r\nabc")
        ),
        fault("body of a byte a second", "timeout_body", plain, |peer| {
            if peer.answer(format!("{OK}Content-Length: 9\r\n\r\n")) {
                peer.drip(b"abcdefghi");
            }
        }),
        resets!(
            "reset in the body",
            "read_reset",
            format!("{OK}Content-Length: 9\r\n\r\nabc")
        ),
        floods!(
            "endless body",
            "timeout_body",
            plain,
            format!("{OK}\r\n"),
            &[b'x'; 65_536]
        ),
        says!(
            "204 with a body",
            "unexpected_data",
            "HTTP/1.1 204 None\r\nContent-Length: 3\r\n\r\nabc"
        ),
        says!(
            "304 with a body",
            "unexpected_data",
            "HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\nabc"
        ),
        Fault {
            share: asking_head,
            ..says!("HEAD with a body", "unexpected_data", ok("abc"))
        },
        fault(
            "second answer at once",
            "unexpected_data",
            patient,
            |peer| {
                while peer.answer([ok("x"), ok("y")].concat()) {}
            },
        ),
        fault("second answer later", "", thinking, |peer| {
            if peer.answer(ok("x")) && peer.pause(Duration::from_millis(10)) {
                peer.say(ok("y"));
                peer.stall();
            }
        }),
    ]
}

fn chunks() -> Vec<Fault> {
    vec![
        says!(
            "chunk of 2^64",
            "malformed_chunk",
            format!("{CHUNKED}10000000000000000\r\n")
        ),
        says!(
            "chunk size that is no number",
            "malformed_chunk",
            format!("{CHUNKED}five\r\n")
        ),
        says!(
            "negative chunk",
            "malformed_chunk",
            format!("{CHUNKED}-5\r\n")
        ),
        says!(
            "chunk longer than it says",
            "malformed_chunk",
            format!("{CHUNKED}2\r\nabc\r\n0\r\n\r\n")
        ),
        says!(
            "chunk size without end",
            "malformed_chunk",
            format!("{CHUNKED}{}", "0".repeat(9_999))
        ),
        floods!(
            "chunk extension without end",
            "malformed_chunk",
            patient,
            format!("{CHUNKED}5;"),
            &[b'x'; 65_536]
        ),
        says!(
            "no last chunk",
            "short_body",
            format!("{CHUNKED}3\r\nabc\r\n")
        ),
        stalls!(
            "no last chunk, then silence",
            "timeout_body",
            format!("{CHUNKED}3\r\nabc\r\n")
        ),
        stalls!(
            "trailers without end, then silence",
            "timeout_body",
            format!("{CHUNKED}0\r\nA: b\r\n")
        ),
        floods!(
            "trailers without end",
            "header_too_large",
            patient,
            format!("{CHUNKED}0\r\n"),
            b"A: bcdefghijklmnopqrstuvwxyz\r\n"
        ),
        says!(
            "NUL in a trailer",
            "malformed_chunk",
            format!("{CHUNKED}0\r\nA: \0\r\n\r\n")
        ),
        says!(
            "trailer without colon",
            "malformed_chunk",
            format!("{CHUNKED}0\r\nnonsense\r\n\r\n")
        ),
        says!(
            "trailer without name",
            "malformed_chunk",
            format!("{CHUNKED}0\r\n: x\r\n\r\n")
        ),
        fault("trailers", "", patient, |peer| {
            while peer.answer(format!("{CHUNKED}1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\n")) {}
        }),
        says!(
            "bytes after the last chunk",
            "unexpected_data",
            format!("{CHUNKED}0\r\n\r\nabc")
        ),
        floods!(
            "chunks of a byte without end",
            "timeout_body",
            plain,
            CHUNKED,
            &b"1\r\nx\r\n".repeat(1_000)
        ),
        resets!(
            "reset in a chunk",
            "read_reset",
            format!("{CHUNKED}9\r\nabc")
        ),
    ]
}

fn connections() -> Vec<Fault> {
    vec![
        stalls!("nobody answers", "timeout_first_byte", ""),
        Fault {
            stage: Stage::QueueFull,
            ..fault("accept queue full", "connect_timeout", plain, |_| {})
        },
        Fault {
            stage: Stage::Nobody,
            ..fault("nobody listens", "connect_refused", plain, |_| {})
        },
        says!("end before any byte", "empty_answer", ""),
        resets!("reset before any byte", "read_reset", ""),
        Fault {
            some_ok: true,
            ..fault(
                "reset of a reused connection",
                "stale_connection",
                patient,
                |peer| {
                    if peer.answer(ok("x")) && peer.asked() {
                        peer.reset();
                    }
                },
            )
        },
        Fault {
            some_ok: true,
            ..fault(
                "end of a reused connection",
                "stale_connection",
                patient,
                |peer| {
                    if peer.answer(ok("x")) && peer.asked() {
                        peer.end();
                    }
                },
            )
        },
        fault("end of an idle connection", "", thinking, |peer| {
            if peer.answer(ok("x")) {
                peer.end();
            }
        }),
    ]
}

fn redirects() -> Vec<Fault> {
    /// Redirects every request to the same place.
    macro_rules! redirects {
        ($name:literal, $error:literal, $fields:literal) => {
            fault($name, $error, following, |peer| {
                while peer.answer(concat!(
                    "HTTP/1.1 302 Go\r\n",
                    $fields,
                    "Content-Length: 0\r\n\r\n"
                )) {}
            })
        };
    }
    vec![
        redirects!(
            "redirect to itself",
            "too_many_redirects",
            "Location: /\r\n"
        ),
        redirects!(
            "redirect to an address not allowed",
            "unauthorised_target",
            "Location: http://192.0.2.1/\r\n"
        ),
        redirects!(
            "redirect to an unknown name",
            "unauthorised_target",
            "Location: http://elsewhere.test/\r\n"
        ),
        redirects!(
            "redirect to localhost over TLS, without a word on how to verify it",
            "unauthorised_target",
            "Location: https://localhost/\r\n"
        ),
        redirects!(
            "redirect to a name that only looks like localhost",
            "unauthorised_target",
            "Location: http://localhost.test/\r\n"
        ),
        fault("redirect to localhost", "", following, |peer| {
            let port = peer.tcp.local_addr().unwrap().port();
            while let Some(head) = peer.head() {
                let go = format!(
                    "HTTP/1.1 302 Go\r\nLocation: http://localhost:{port}/there\r\nContent-Length: 0\r\n\r\n"
                );
                let there = head.starts_with("GET /there ");
                peer.say(if there { ok("x") } else { go.into_bytes() });
            }
        }),
        redirects!("redirect to nowhere", "bad_redirect", ""),
        redirects!(
            "redirect to no host",
            "bad_redirect",
            "Location: http://\r\n"
        ),
        redirects!(
            "redirect to another protocol",
            "bad_redirect",
            "Location: ftp://a/b\r\n"
        ),
    ]
}

fn uploads() -> Vec<Fault> {
    vec![
        fault("body never read", "timeout_send", uploading, |peer| {
            if peer.asked() {
                peer.hold();
            }
        }),
        fault(
            "100 never comes",
            "timeout_send",
            awaiting_continue,
            |peer| {
                if peer.asked() {
                    peer.stall();
                }
            },
        ),
        fault(
            "100 never comes, the answer does",
            "",
            awaiting_continue_patiently,
            |peer| {
                while peer.asked() && peer.take(1_000) && peer.say(ok("x")) {}
            },
        ),
        fault(
            "reset in the request's body",
            "write_reset",
            uploading_patiently,
            |peer| {
                if peer.asked() {
                    peer.take(100_000);
                    peer.reset();
                }
            },
        ),
        fault(
            "refusal before the body",
            "status",
            awaiting_continue_patiently,
            |peer| {
                while peer.answer("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n") {}
            },
        ),
    ]
}
