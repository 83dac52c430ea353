//! What requests upload is what others read and delete, against a small store that may lose or alter it.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use indexmap::IndexMap;
use serde_json::{json, Value};
use svload_engine::{Column, Table};

use crate::common::{ok, read_head, refusal, run, run_with, share, Server, MS};

type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

const NONE: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// A store; every `spoils`th answer to a GET has a byte altered (0: none).
fn store(spoils: usize) -> (Server, Objects) {
    let objects = Objects::default();
    let (held, gets) = (objects.clone(), Arc::new(Mutex::new(0)));
    let server = Server::start(move |stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        while let Some(head) = read_head(&mut stream) {
            let [method, path] = [0, 1].map(|at| head.split(' ').nth(at).unwrap_or_default());
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            let mut body = vec![0; length.map_or(0, |text| text.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let mut objects = held.lock().unwrap();
            let answer = match method {
                "PUT" => {
                    objects.insert(path.to_owned(), body);
                    ok("")
                }
                "DELETE" => objects.remove(path).map_or(NONE.to_vec(), |_| ok("")),
                _ => objects.get(path).map_or(NONE.to_vec(), |object| {
                    let mut object = object.clone();
                    let mut gets = gets.lock().unwrap();
                    *gets += 1;
                    if spoils > 0 && *gets % spoils == 0 {
                        object[0] ^= 1;
                    }
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                        object.len()
                    );
                    [head.into_bytes(), object].concat()
                }),
            };
            drop(objects);
            if stream.get_mut().write_all(&answer).is_err() {
                return;
            }
        }
    });
    (server, objects)
}

fn step(name: &str, method: &str, path: Value, more: Value) -> Value {
    let mut request = json!({"name": name, "method": method, "endpoint": "http://host", "path": path, "timeout_ns": 2_000 * MS});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({ "request": request })
}

fn put(body: Value) -> Value {
    let path = json!([{"text": "/c/"}, {"var": "request.id"}]);
    step("put", "PUT", path, json!({"body": body, "adds": "written"}))
}

fn get(digest: &str) -> Value {
    let written = |column: &str| json!({"taken": format!("written.{column}")});
    let checks = json!([
        {"name": "size", "size_bytes": written("size_bytes")},
        {"name": "digest", "digest": digest, "equals": [written("digest")]},
    ]);
    let more = json!({"draws": "written", "checks": checks});
    step("get", "GET", json!([written("path")]), more)
}

fn delete() -> Value {
    let path = json!([{"taken": "written.path"}]);
    step(
        "delete",
        "DELETE",
        path,
        json!({"draws": "written", "removes": true}),
    )
}

/// Scenarios by weight, by three users who do not think, until `limit` iterations of each.
fn mix(server: &Server, digest: &str, scenarios: &[(u64, Vec<Value>)], limit: u64) -> Value {
    let mut share = share(server.address);
    let group = &mut share["groups"][0];
    group.as_object_mut().unwrap().remove("request");
    group["scenarios"] = scenarios
        .iter()
        .map(|(weight, steps)| json!({"weight": weight, "steps": steps}))
        .collect();
    group["sets"] = json!({"written": {"digest": digest}});
    group["executor"] =
        json!({"kind": "per-vu-iterations", "vus": 3, "vus_total": 3, "iterations": limit});
    group["stop_offset_ns"] = (20_000 * MS).into();
    share
}

fn failed_of(ran: &crate::common::Ran, step: &str, error: &str) -> u64 {
    let steps = ran.group()["steps"].as_array().unwrap();
    let found = steps.iter().find(|one| one["name"] == step).unwrap();
    found["errors"][error].as_u64().unwrap_or(0)
}

#[test]
fn what_was_written_is_read_and_deleted_and_nothing_else() {
    let (server, objects) = store(0);
    for (digest, body) in [
        ("md5", json!({"random": {"lognormal": [3e4, 6e5]}})),
        (
            "sha256",
            json!({"text": [{"text": "a body of "}, {"var": "vu"}, {"text": " "}, {"var": "iteration"}]}),
        ),
    ] {
        let scenarios = [
            (4, vec![put(body)]),
            (6, vec![get(digest)]),
            (2, vec![delete()]),
        ];
        let ran = run(&mix(&server, digest, &scenarios, 100));
        let errors = ran.errors();
        assert!(errors.keys().all(|error| error == "no_row"), "{errors:?}");
        assert!(ran.count("failed") < 60, "{errors:?}");
        let steps = ran.group()["steps"].as_array().unwrap();
        assert!(
            steps.iter().all(|step| step["ok"].as_u64() > Some(20)),
            "{steps:?}"
        );
    }
    let ran = &objects.lock().unwrap();
    assert!(!ran.is_empty(), "what was not deleted is there");
}

#[test]
fn a_scenario_reads_and_deletes_what_it_wrote() {
    let (server, objects) = store(0);
    let body = json!({"random": {"bytes": 70_000}});
    let ran = run(&mix(
        &server,
        "md5",
        &[(1, vec![put(body), get("md5"), delete()])],
        40,
    ));
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 3 * 3 * 40);
    assert!(objects.lock().unwrap().is_empty());
}

#[test]
fn an_altered_byte_is_found_each_time() {
    let (server, _) = store(5);
    let body = json!({"random": {"bytes": 3_000}});
    let ran = run(&mix(
        &server,
        "md5",
        &[(1, vec![put(body), get("md5")])],
        50,
    ));
    assert_eq!(ran.errors(), IndexMap::from([("check".to_owned(), 30)]));
}

#[test]
fn rows_of_a_table_are_there_at_first_and_an_empty_set_gives_none() {
    let (server, objects) = store(0);
    let names: Vec<String> = (0..4).map(|number| format!("/{number}")).collect();
    for name in &names {
        objects
            .lock()
            .unwrap()
            .insert(name.clone(), b"abc".to_vec());
    }
    let table = Table::from_iter([
        ("path".to_owned(), Column::Utf8(names)),
        ("size_bytes".to_owned(), Column::U64(vec![3; 4])),
        (
            "digest".to_owned(),
            Column::Utf8(vec!["900150983cd24fb0d6963f7d28e17f72".into(); 4]),
        ),
    ]);
    let mut share = mix(&server, "md5", &[(1, vec![get("md5"), delete()])], 2);
    share["groups"][0]["sets"]["written"]["table"] = "t".into();
    let ran = run_with(&share, &IndexMap::from([("t".to_owned(), table)]));
    assert_eq!(
        ran.count("ok"),
        8,
        "each is read and deleted once: {}",
        ran.group()
    );
    assert_eq!(failed_of(&ran, "get", "no_row"), 2);
    assert!(objects.lock().unwrap().is_empty());
}

#[test]
fn a_set_that_nobody_has_is_refused() {
    let (server, _) = store(0);
    let body = json!({"random": {"bytes": 10}});
    let mut wrong = mix(&server, "md5", &[(1, vec![put(body.clone())])], 1);
    wrong["groups"][0]["sets"] = json!({});
    assert!(refusal(&wrong).contains("adds"), "{}", refusal(&wrong));
    let mut chunked = mix(&server, "md5", &[(1, vec![put(body)])], 1);
    chunked["groups"][0]["scenarios"][0]["steps"][0]["request"]["chunked"] = true.into();
    assert!(
        refusal(&chunked).contains("length is said"),
        "{}",
        refusal(&chunked)
    );
}
