//! Raw dialogues over TCP: what is said, what must come, who ends, and what goes wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::sync::Mutex;

use crate::common::{refusal, run, share, Server, MS};
use serde_json::{json, Value};

/// Two users who hold 20 dialogues between them.
fn dialogue(server: &Server, turns: Value) -> Value {
    let mut share = share(server.address);
    let group = &mut share["groups"][0];
    group["executor"] = json!({"kind": "constant-vus", "vus": 2, "limit": 20});
    group["stop_offset_ns"] = (10_000 * MS).into();
    group["request"] = json!({"name": "talk", "endpoint": "http://host", "timeout_ns": 5_000 * MS, "dialogue": turns});
    share
}

/// Answers every line with what `answer` makes of it.
fn lines(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(move |stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if stream
                .get_mut()
                .write_all(&answer(line.trim_end()))
                .is_err()
            {
                return;
            }
            line.clear();
        }
    })
}

#[test]
fn texts_are_said_with_their_variables_and_answers_awaited() {
    let (said, heard) = channel();
    let said = Mutex::new(said);
    let server = lines(move |line| {
        said.lock().unwrap().send(line.to_owned()).unwrap();
        format!("+OK {line}\r\n").into_bytes()
    });
    let turns = json!([
        {"send": [{"text": "PING "}, {"var": "vu"}, {"text": "/"}, {"var": "iteration"}, {"text": "\r\n"}]},
        {"match": r"^\+OK PING \d/\d+\r\n"},
        {"send": [{"text": "BYE\r\n"}]},
        {"expect": "BYE\r\n"},
    ]);
    let ran = run(&dialogue(&server, turns));
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 20);
    assert_eq!(ran.count("connections_opened"), 2);
    let mut lines: Vec<String> = heard.try_iter().collect();
    assert_eq!(lines.iter().filter(|line| *line == "BYE").count(), 20);
    lines.retain(|line| line != "BYE");
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 20);
    assert!(lines.contains(&"PING 1/9".to_owned()), "{lines:?}");
    let (sent, received) = (ran.count("bytes_sent"), ran.count("bytes_received"));
    assert_eq!(sent, 20 * ("PING 0/0\r\nBYE\r\n".len() as u64));
    assert_eq!(received, sent + 40 * "+OK ".len() as u64);
    assert_eq!(ran.count("body_bytes"), received);
    assert_eq!(ran.group()["status"], json!({}));
}

#[test]
fn a_server_may_speak_first_and_end_the_stream() {
    let server = Server::start(|mut stream: TcpStream| {
        stream.write_all(b"220 ready\r\n").unwrap();
        let mut stream = BufReader::new(stream);
        let _ = stream.read_line(&mut String::new());
        let _ = stream.get_mut().write_all(b"221 bye\r\nand more");
    });
    let turns =
        json!([{"expect": "220 ready\r\n"}, {"send": [{"text": "QUIT\r\n"}]}, "until_close"]);
    let ran = run(&dialogue(&server, turns));
    ran.assert_all_ok();
    assert_eq!(ran.count("connections_opened"), 20);
    let each = "220 ready\r\n221 bye\r\nand more".len() as u64;
    assert_eq!(ran.count("body_bytes"), 20 * each);
}

#[test]
fn bytes_are_counted_and_need_not_be_text() {
    let server = Server::start(|mut stream: TcpStream| {
        let mut asked = [0; 3];
        while stream.read_exact(&mut asked).is_ok() {
            assert_eq!(asked, [0xff, 0, 0x0a]);
            stream.write_all(&[0xfe, 1, 2]).unwrap();
            stream.write_all(&vec![7; 300_000]).unwrap();
        }
    });
    let turns = json!([{"send_hex": "ff 00 0a"}, {"expect_hex": "fe0102"}, {"read": 300_000}]);
    let ran = run(&dialogue(&server, turns));
    ran.assert_all_ok();
    assert_eq!(ran.count("body_bytes"), 20 * 300_003);
}

#[test]
fn what_goes_wrong_has_its_name() {
    type Case = (&'static str, fn() -> Server);
    let cases: [Case; 6] = [
        ("timeout_first_byte", || lines(|_| Vec::new())),
        ("timeout_body", || lines(|_| b"+O".to_vec())),
        ("unexpected_data", || lines(|_| b"+OK\r\n+OK\r\n".to_vec())),
        ("no_match", || lines(|_| vec![b'x'; 200_000])),
        ("short_body", || {
            Server::start(|mut stream: TcpStream| {
                let _ = stream.read(&mut [0; 100]);
                let _ = stream.write_all(b"+O");
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read(&mut [0; 100]);
            })
        }),
        ("empty_answer", || {
            Server::start(|mut stream: TcpStream| {
                let _ = stream.read(&mut [0; 100]);
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read(&mut [0; 100]);
            })
        }),
    ];
    for (error, server) in cases {
        let server = server();
        let mut share = dialogue(
            &server,
            json!([{"send": [{"text": "PING\r\n"}]}, {"expect": "+OK\r\n"}]),
        );
        share["groups"][0]["executor"]["limit"] = 4.into();
        if error.starts_with("timeout") {
            share["groups"][0]["request"]["timeout_ns"] = (150 * MS).into();
        }
        run(&share).assert_all_fail_with(error);
    }
}

#[test]
fn a_dialogue_that_cannot_be_held_is_refused() {
    let server = lines(|_| Vec::new());
    let said = |turns: Value| refusal(&dialogue(&server, turns));
    assert_eq!(
        said(json!(["until_close", {"read": 1}])),
        "share.groups[0].request.dialogue[0]: must be the last turn: nothing follows the stream's end"
    );
    assert_eq!(
        said(json!([{"match": "("}])),
        "share.groups[0].request.dialogue[0]: \"(\" is no regular expression"
    );
    let mut share = dialogue(&server, json!([{"read": 1}]));
    share["groups"][0]["request"]["method"] = "GET".into();
    assert_eq!(
        refusal(&share),
        "share.groups[0].request.method: belongs to HTTP: a dialogue has none"
    );
}
