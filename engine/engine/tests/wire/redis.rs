//! Redis commands, pipelined, against a tiny server that keeps words in memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{refusal, run, share, Server, MS};
use serde_json::{json, Value};

/// The words of a command; `None` at the end of the stream.
fn command(stream: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let mut number = |mark: char| {
        let mut line = String::new();
        stream
            .read_line(&mut line)
            .ok()
            .filter(|bytes| *bytes > 0)?;
        let count = line.trim_end().strip_prefix(mark)?.parse::<usize>().ok()?;
        if mark == '*' {
            return Some((count, Vec::new()));
        }
        let mut word = vec![0; count + 2];
        stream.read_exact(&mut word).ok()?;
        assert_eq!(word.split_off(count), b"\r\n");
        Some((count, word))
    };
    let (count, _) = number('*')?;
    (0..count).map(|_| Some(number('$')?.1)).collect()
}

/// A server, and how many commands it was asked.
fn redis() -> (Server, Arc<AtomicUsize>) {
    let (asked, values) = (Arc::new(AtomicUsize::new(0)), Mutex::new(HashMap::new()));
    let counted = asked.clone();
    let server = Server::start(move |stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        while let Some(words) = command(&mut stream) {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = match words[0].to_ascii_uppercase().as_slice() {
                b"SET" => {
                    let value = words[2].clone();
                    values.lock().unwrap().insert(words[1].clone(), value);
                    b"+OK\r\n".to_vec()
                }
                b"GET" => match values.lock().unwrap().get(&words[1]) {
                    Some(value) => {
                        let mut answer = format!("${}\r\n", value.len()).into_bytes();
                        answer.extend(value);
                        answer.extend(b"\r\n");
                        answer
                    }
                    None => b"$-1\r\n".to_vec(),
                },
                b"TWICE" => b"+OK\r\n+OK\r\n".to_vec(),
                b"HTTP" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                b"QUIT" => return,
                _ => b"-ERR unknown command\r\n".to_vec(),
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
        "redis": {"commands": commands}});
    share
}

fn words(text: &str) -> Value {
    text.split(' ')
        .map(|word| json!([{"text": word}]))
        .collect()
}

#[test]
fn commands_leave_together_and_every_reply_is_awaited() {
    let (server, asked) = redis();
    let key = json!([{"text": "k"}, {"var": "vu"}, {"text": "/"}, {"var": "iteration"}]);
    let commands = json!([
        [[{"text": "SET"}], key, [{"text": "größe\r\n"}]],
        [[{"text": "GET"}], key],
        [[{"text": "GET"}], [{"text": "none"}]],
    ]);
    let mut share = asking(&server, commands);
    share["groups"][0]["request"]["checks"] = json!([{"name": "found", "body": {"contains": [{"text": "$9\r\ngröße\r\n"}]}}, {"name": "size", "size_bytes": 25}]);
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 20);
    assert_eq!(asked.load(Ordering::SeqCst), 60);
    assert_eq!(ran.count("connections_opened"), 2);
    assert_eq!(ran.count("body_bytes"), 20 * 25);
    assert_eq!(ran.count("bytes_received"), 20 * 25);
    assert_eq!(ran.group()["status"], json!({}));
    assert_eq!(
        ran.column("samples", "request_bytes").iter().sum::<i64>() as u64,
        ran.count("bytes_sent")
    );
}

#[test]
fn a_large_value_goes_both_ways() {
    let (server, _) = redis();
    let value = "x".repeat(1_000_000);
    let commands = json!([words("SET large"), words("GET large")]);
    let mut share = asking(&server, commands);
    share["groups"][0]["request"]["redis"]["commands"][0]
        .as_array_mut()
        .unwrap()
        .push(json!([{"text": value}]));
    let ran = run(&share);
    ran.assert_all_ok();
    let each = "+OK\r\n$1000000\r\n\r\n".len() as u64 + 1_000_000;
    assert_eq!(ran.count("body_bytes"), 20 * each);
}

#[test]
fn what_goes_wrong_has_its_name() {
    for (command, error) in [
        ("FLY", "reply_error"),
        ("TWICE", "unexpected_data"),
        ("HTTP", "malformed"),
        ("QUIT", "empty_answer"),
    ] {
        let (server, _) = redis();
        let mut share = asking(&server, json!([words(command)]));
        share["groups"][0]["executor"]["limit"] = 4.into();
        run(&share).assert_all_fail_with(error);
    }
}

#[test]
fn an_error_among_replies_fails_the_request_and_keeps_the_connection() {
    let (server, _) = redis();
    let share = asking(&server, json!([words("FLY"), words("SET a b")]));
    let ran = run(&share);
    ran.assert_all_fail_with("reply_error");
    assert_eq!(ran.count("connections_opened"), 2);
}

#[test]
fn commands_that_cannot_be_sent_are_refused() {
    let (server, _) = redis();
    assert_eq!(
        refusal(&asking(&server, json!([words("SUBSCRIBE news")]))),
        "share.groups[0].request.redis.commands[0]: is not answered by one reply"
    );
    let mut share = asking(&server, json!([words("PING")]));
    share["groups"][0]["request"]["checks"] = json!([{"name": "status", "status": [200, 200]}]);
    assert_eq!(
        refusal(&share),
        "share.groups[0].request.checks[0]: does not go with redis"
    );
    let mut share = asking(&server, json!([words("PING")]));
    share["groups"][0]["http2"] = json!({"streams": 1});
    assert_eq!(
        refusal(&share),
        "share.groups[0].request.redis: is held on a stream of bytes, which HTTP/2 is not"
    );
}
