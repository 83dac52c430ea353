//! A token that ends: renewed before that, and after a 401, by requests of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{json, Value};

use crate::common::{ok, run, share, Server, MS};

/// A server whose tokens are good for so many requests; `first` is good from the begin.
fn door(good_for: usize) -> Server {
    let left = Arc::new(Mutex::new(HashMap::from([("first".to_owned(), good_for)])));
    let given = Mutex::new(0);
    Server::answering(move |head| {
        let mut left = left.lock().unwrap();
        if head.starts_with("GET /auth ") {
            let mut given = given.lock().unwrap();
            *given += 1;
            let token = format!("token-{given}");
            left.insert(token.clone(), good_for);
            return format!(
                "HTTP/1.1 200 OK\r\nX-Auth-Token: {token}\r\nContent-Length: 0\r\n\r\n"
            )
            .into_bytes();
        }
        let sent = head
            .lines()
            .find_map(|line| line.strip_prefix("X-Auth-Token: "));
        match sent.and_then(|token| left.get_mut(token)) {
            Some(requests) if *requests > 0 => {
                *requests -= 1;
                ok("object")
            }
            _ => b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec(),
        }
    })
}

/// One user's iterations, each with the token; renewed after `renew_ns`.
fn load(server: &Server, renew_ns: i64, iterations: u64, think_ns: i64) -> Value {
    let request = |name: &str, path: &str| json!({"name": name, "method": "GET", "endpoint": "http://host", "path": [{"text": path}], "timeout_ns": 2_000 * MS});
    let mut fetch = request("fetch", "/o");
    fetch["headers"] = json!([["X-Auth-Token", [{"taken": "token"}]]]);
    let mut renew = request("renew", "/auth");
    renew["take"] = json!([{"name": "token", "header": "X-Auth-Token"}]);
    let mut share = share(server.address);
    let group = &mut share["groups"][0];
    group.as_object_mut().unwrap().remove("request");
    group["given"] = json!({"token": "first"});
    group["scenarios"] = json!([
        {"steps": [{"request": fetch}]},
        {"weight": 0, "renew_ns": renew_ns, "steps": [{"request": renew}]},
    ]);
    group["executor"] = json!({"kind": "constant-vus", "vus": 1, "limit": iterations, "think_time": {"constant_ns": think_ns}});
    group["stop_offset_ns"] = (20_000 * MS).into();
    share
}

fn step<'a>(ran: &'a crate::common::Ran, name: &str) -> &'a Value {
    let steps = ran.group()["steps"].as_array().unwrap();
    steps.iter().find(|one| one["name"] == name).unwrap()
}

#[test]
fn a_refused_token_costs_its_request_and_is_renewed_by_one_of_its_own() {
    let server = door(10);
    let ran = run(&load(&server, 60_000 * MS, 43, 0));
    assert_eq!(ran.errors(), [("status".to_owned(), 3)].into());
    assert_eq!(step(&ran, "renew")["ok"], 3);
    assert_eq!(step(&ran, "fetch")["failed"], 3);
    assert_eq!(
        step(&ran, "fetch")["ok"],
        40,
        "no request was made again unseen"
    );
}

#[test]
fn a_token_is_renewed_before_it_ends() {
    let server = door(1_000);
    let ran = run(&load(&server, 30 * MS, 40, 5 * MS));
    ran.assert_all_ok();
    let renewals = step(&ran, "renew")["ok"].as_u64().unwrap();
    let lasted_ms = ran.group()["last_done_ns"].as_u64().unwrap() / 1_000_000;
    assert!(
        (3..=lasted_ms / 30).contains(&renewals),
        "every 30 of {lasted_ms} ms: {renewals}"
    );
    assert_eq!(step(&ran, "fetch")["ok"], 40);
    for name in ["fetch", "renew"] {
        let one = step(&ran, name);
        assert_eq!(one["due"], one["begun"], "{one}");
    }
}

#[test]
fn a_token_that_lasts_is_not_renewed() {
    let server = door(1_000);
    let ran = run(&load(&server, 60_000 * MS, 20, 0));
    ran.assert_all_ok();
    assert_eq!(step(&ran, "renew")["begun"], 0);
}
