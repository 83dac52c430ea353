//! memcached commands, pipelined, against a tiny server that keeps values in memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{refusal, run, share, Server, MS};
use serde_json::{json, Value};

/// A command's line in words, and its value if it stores one; `None` at the end of the stream.
fn command(stream: &mut impl BufRead) -> Option<(Vec<String>, Vec<u8>)> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .ok()
        .filter(|bytes| *bytes > 0)?;
    let words: Vec<String> = line.trim_end().split(' ').map(str::to_owned).collect();
    let mut value = Vec::new();
    if words[0] == "set" {
        value.resize(words[4].parse::<usize>().ok()? + 2, 0);
        stream.read_exact(&mut value).ok()?;
        assert_eq!(value.split_off(value.len() - 2), b"\r\n");
    }
    Some((words, value))
}

/// A server, and how many commands it was asked.
fn memcached() -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let values = Mutex::new(HashMap::<String, Vec<u8>>::new());
    let counted = asked.clone();
    let server = Server::start(move |stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        while let Some((words, value)) = command(&mut stream) {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = match words[0].as_str() {
                "set" => {
                    values.lock().unwrap().insert(words[1].clone(), value);
                    b"STORED\r\n".to_vec()
                }
                "get" => {
                    let mut answer = Vec::new();
                    for key in &words[1..] {
                        if let Some(value) = values.lock().unwrap().get(key) {
                            write!(answer, "VALUE {key} 0 {}\r\n", value.len()).unwrap();
                            answer.extend(value);
                            answer.extend(b"\r\n");
                        }
                    }
                    answer.extend(b"END\r\n");
                    answer
                }
                "delete" => b"NOT_FOUND\r\nNOT_FOUND\r\n".to_vec(),
                "touch" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                "decr" => return,
                _ => b"CLIENT_ERROR no\r\n".to_vec(),
            };
            if stream.get_mut().write_all(&answer).is_err() {
                return;
            }
        }
    });
    (server, asked)
}

/// Two users who ask 20 times between them; each command is a list of words, each word a list of parts.
fn asking(server: &Server, commands: Value) -> Value {
    let mut share = share(server.address);
    let group = &mut share["groups"][0];
    group["executor"] = json!({"kind": "constant-vus", "vus": 2, "limit": 20});
    group["stop_offset_ns"] = (10_000 * MS).into();
    group["request"] = json!({"name": "ask", "endpoint": "http://host", "timeout_ns": 5_000 * MS,
        "memcached": {"commands": commands}});
    share
}

fn words(text: &str) -> Value {
    text.split(' ')
        .map(|word| json!([{"text": word}]))
        .collect()
}

#[test]
fn values_are_stored_and_come_back_as_the_body() {
    let (server, asked) = memcached();
    let key = json!([{"text": "k"}, {"var": "vu"}, {"text": "/"}, {"var": "iteration"}]);
    let zero = json!([{"text": "0"}]);
    let value = json!([{"text": "größe\r\n"}]);
    let commands = json!([
        [[{"text": "set"}], key, zero, zero, value],
        [[{"text": "get"}], key, [{"text": "none"}]],
        words("get none"),
    ]);
    let mut share = asking(&server, commands);
    // printf 'größe\r\n' | md5sum
    share["groups"][0]["request"]["checks"] = json!([
        {"name": "value", "body": {"equals": value}},
        {"name": "size", "size_bytes": 9},
        {"name": "digest", "digest": "md5", "equals": [{"text": "e1a2b22eb3fbe8a627922268c3348fdb"}]},
    ]);
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 20);
    assert_eq!(asked.load(Ordering::SeqCst), 60);
    assert_eq!(ran.count("connections_opened"), 2);
    assert_eq!(ran.group()["status"], json!({}));
    assert_eq!(ran.count("body_bytes"), ran.count("bytes_received"));
    let sent = ran.column("samples", "request_bytes").iter().sum::<i64>();
    assert_eq!(sent as u64, ran.count("bytes_sent"));
}

#[test]
fn a_value_that_is_another_fails_its_check() {
    let (server, _) = memcached();
    let commands = json!([words("set k 0 0 one"), words("get k")]);
    let mut share = asking(&server, commands);
    share["groups"][0]["request"]["checks"] =
        json!([{"name": "value", "body": {"equals": [{"text": "two"}]}}]);
    run(&share).assert_all_fail_with("check");
}

#[test]
fn without_a_get_the_body_is_what_came() {
    let (server, _) = memcached();
    let mut share = asking(&server, json!([words("set k 0 0 one")]));
    share["groups"][0]["request"]["checks"] =
        json!([{"name": "stored", "body": {"equals": [{"text": "STORED\r\n"}]}}]);
    run(&share).assert_all_ok();
}

#[test]
fn a_large_value_goes_both_ways() {
    let (server, _) = memcached();
    let value = "x".repeat(1_000_000);
    let commands = json!([words(&format!("set large 0 0 {value}")), words("get large")]);
    let mut share = asking(&server, commands);
    share["groups"][0]["request"]["checks"] = json!([{"name": "size", "size_bytes": 1_000_000}]);
    run(&share).assert_all_ok();
}

#[test]
fn what_goes_wrong_has_its_name() {
    for (command, error) in [
        ("incr k 1", "reply_error"),
        ("delete k", "unexpected_data"),
        ("touch k 0", "malformed"),
        ("decr k 1", "empty_answer"),
    ] {
        let (server, _) = memcached();
        let mut share = asking(&server, json!([words(command)]));
        share["groups"][0]["executor"]["limit"] = 4.into();
        run(&share).assert_all_fail_with(error);
    }
}

#[test]
fn an_error_among_replies_fails_the_request_and_keeps_the_connection() {
    let (server, _) = memcached();
    let share = asking(&server, json!([words("incr k 1"), words("set a 0 0 b")]));
    let ran = run(&share);
    ran.assert_all_fail_with("reply_error");
    assert_eq!(ran.count("connections_opened"), 2);
}

#[test]
fn commands_that_cannot_be_sent_are_refused() {
    let (server, _) = memcached();
    assert_eq!(
        refusal(&asking(&server, json!([words("get k"), words("get")]))),
        "share.groups[0].request.memcached.commands[1]: needs a key"
    );
    let mut share = asking(&server, json!([words("get k")]));
    share["groups"][0]["request"]["redis"] = json!({"commands": [words("PING")]});
    assert_eq!(
        refusal(&share),
        "share.groups[0].request.memcached: does not go with redis"
    );
}
