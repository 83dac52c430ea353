//! Raw dialogues over TCP: what is said, what must come, who ends, and what goes wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::sync::Mutex;

use crate::common::{refusal, run, run_with, share, Server, MS};
use indexmap::IndexMap;
use serde_json::{json, Value};
use svload_engine::{Column, Table};

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
fn a_dialogue_that_awaits_nothing_has_no_first_byte() {
    let server = lines(|_| Vec::new());
    let ran = run(&dialogue(&server, json!([{"send": [{"text": "a:1|c\n"}]}])));
    ran.assert_all_ok();
    assert_eq!(ran.samples("first_byte_ns"), [-1; 20]);
    let metrics = ran.column("histograms", "metric");
    assert!(metrics.contains(&2) && !metrics.contains(&7));
}

/// A file server: "SIZE n\n", then a file whose length and digest the feeder knows.
fn files() -> Server {
    Server::start(|stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let bytes: usize = line.trim_end().trim_start_matches("get ").parse().unwrap();
            let mut answer = format!("SIZE {bytes}\n").into_bytes();
            answer.extend(vec![b'a'; bytes]);
            answer.extend(b"\nbye\n");
            if stream.get_mut().write_all(&answer).is_err() {
                return;
            }
            line.clear();
        }
    })
}

/// Asks for 0 to 2 MB, reads as many bytes as the server says, and holds length and digest of those against a table.
fn fetching(server: &Server, sizes: &[u64]) -> (Value, IndexMap<String, Table>) {
    use sha2::{Digest, Sha256};
    let digest = |bytes: &u64| format!("{:x}", Sha256::digest(vec![b'a'; *bytes as usize]));
    let texts = Column::Utf8;
    let table: Table = [
        ("name", texts(sizes.iter().map(u64::to_string).collect())),
        ("size_bytes", Column::U64(sizes.to_vec())),
        ("digest", texts(sizes.iter().map(digest).collect())),
    ]
    .map(|(name, column)| (name.to_owned(), column))
    .into_iter()
    .collect();
    let column = |name: &str| json!({"feeder": "file", "column": name});
    let turns = json!([
        {"send": [{"text": "get "}, column("name"), {"text": "\n"}]},
        {"take": {"name": "size", "match": "^SIZE (\\d+)\n"}},
        {"read": [{"taken": "size"}]},
        {"expect": "\nbye\n"},
    ]);
    let mut share = dialogue(server, turns);
    let group = &mut share["groups"][0];
    group["feeders"] = json!({"file": {"table": "files", "take": "sequential"}});
    group["request"]["checks"] = json!([
        {"name": "size", "size_bytes": column("size_bytes")},
        {"name": "digest", "digest": "sha256", "equals": [column("digest")]},
    ]);
    (share, [("files".to_owned(), table)].into_iter().collect())
}

#[test]
fn lengths_are_taken_from_answers_and_bodies_are_checked() {
    let (server, sizes) = (files(), [0, 1, 70_000, 2_000_000]);
    let (mut share, inputs) = fetching(&server, &sizes);
    let ran = run_with(&share, &inputs);
    ran.assert_all_ok();
    let head: u64 = sizes
        .iter()
        .map(|size| format!("SIZE {size}\n\nbye\n").len() as u64)
        .sum();
    assert_eq!(
        ran.count("body_bytes"),
        5 * (head + sizes.iter().sum::<u64>())
    );
    let wrong = json!([{"name": "digest", "digest": "md5", "equals": [{"text": "00"}]}]);
    share["groups"][0]["request"]["checks"] = wrong;
    let ran = run_with(&share, &inputs);
    ran.assert_all_fail_with("check");
    assert_eq!(ran.group()["checks_failed"], json!({"digest": 20}));
}

#[test]
fn a_value_of_one_dialogue_is_said_in_the_same_and_in_the_next() {
    let (said, heard) = channel();
    let said = Mutex::new(said);
    let server = lines(move |line| {
        said.lock().unwrap().send(line.to_owned()).unwrap();
        match line.split_once(' ') {
            None => b"TOKEN t-7;\r\n".to_vec(),
            Some((_, words)) => format!("id={words}.\r\n").into_bytes(),
        }
    });
    let request = |turns: Value, take: Value| json!({"name": "talk", "endpoint": "http://host", "timeout_ns": 5_000 * MS, "dialogue": turns, "take": take});
    let taken = |name: &str| json!({"taken": name});
    let first = request(
        json!([
            {"send": [{"text": "hello\n"}]},
            {"take": {"name": "token", "match": "TOKEN ([^;]+);\r\n"}},
            {"send": [{"text": "use "}, taken("token"), {"text": "\n"}]},
            {"match": "id=[^.]+\\.\r\n"},
        ]),
        json!([{"name": "id", "regex": "id=([^.]+)"}]),
    );
    let again =
        json!([{"send": [{"text": "again "}, taken("id"), {"text": "\n"}]}, {"expect": "\r\n"}]);
    let mut share = dialogue(&server, json!([{"read": 1}]));
    let group = share["groups"][0].as_object_mut().unwrap();
    group.remove("request");
    let steps = json!([{"request": first}, {"request": request(again, json!([]))}]);
    group.insert("scenarios".into(), json!([{"steps": steps}]));
    let ran = run(&share);
    ran.assert_all_ok();
    let lines: Vec<String> = heard.try_iter().collect();
    for (line, count) in [("hello", 20), ("use t-7", 20), ("again t-7", 20)] {
        assert_eq!(
            lines.iter().filter(|said| *said == line).count(),
            count,
            "{line}"
        );
    }
    assert_eq!(ran.count("connections_opened"), 2);
}

#[test]
fn what_goes_wrong_has_its_name() {
    type Case = (&'static str, fn() -> Server);
    let cases: [Case; 7] = [
        ("capture", || lines(|_| b"SIZE x\r\n".to_vec())),
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
        if error == "capture" {
            share["groups"][0]["request"]["dialogue"] = json!([
                {"send": [{"text": "PING\r\n"}]},
                {"take": {"name": "size", "match": "SIZE (\\w+)\r\n"}},
                {"read": [{"taken": "size"}]},
            ]);
        }
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
        "share.groups[0].request.method: does not go with dialogue"
    );
}
