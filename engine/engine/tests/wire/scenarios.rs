//! Scenarios against a server: steps in order, variables from answers, where variables may lead; the identities of `run` hold.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::common::{ok, run, run_with, share, Server, MS};
use indexmap::IndexMap;
use serde_json::{json, Value};
use svload_engine::{Column, Table};

fn request(name: &str, path: Value) -> Value {
    json!({"name": name, "method": "GET", "endpoint": "http://host", "path": path, "timeout_ns": 2_000 * MS})
}

fn text(path: &str) -> Value {
    json!([{"text": path}])
}

/// A share whose group runs the scenarios in place of its request.
fn with(server: &Server, scenarios: Value) -> Value {
    let mut share = share(server.address);
    let group = share["groups"][0].as_object_mut().unwrap();
    group.remove("request");
    group.insert("scenarios".into(), scenarios);
    share
}

/// Answers `/login` with a token and `/shop` with the asked object; anything else as told.
fn shop(seen: Arc<Mutex<Vec<String>>>) -> Server {
    Server::answering(move |head| {
        seen.lock().unwrap().push(head.to_owned());
        let path = head.split(' ').nth(1).unwrap();
        match path {
            "/login" => {
                let body = r#"{"access": {"token": "t 1"}, "next": "/shop?item=42"}"#;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nX-Auth: secret\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                format!("{head}{body}").into_bytes()
            }
            path if path.starts_with("/shop") => ok("bought"),
            _ => b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        }
    })
}

#[test]
fn steps_run_in_order_with_what_answers_gave() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = shop(seen.clone());
    let mut login = request("login", text("/login"));
    login["take"] = json!([{"name": "token", "json": "access.token"}, {"name": "key", "header": "x-auth"},
        {"name": "item", "regex": r"item=(\d+)"}]);
    let mut buy = request(
        "buy",
        json!([{"text": "/shop/"}, {"taken": "item"}, {"text": "/"}, {"taken": "token"}]),
    );
    buy["headers"] = json!([["Authorization", [{"text": "Bearer "}, {"taken": "key"}]]]);
    buy["checks"] = json!([{"name": "bought", "body": {"contains": [{"text": "ought"}]}}]);
    let ran = run(&with(
        &server,
        json!([{"steps": [{"request": login, "think_time": {"constant_ns": 3 * MS}}, {"request": buy}]}]),
    ));
    ran.assert_all_ok();
    assert_eq!(server.accepted(), 2);
    let (vus, seqs, steps) = (ran.samples("vu"), ran.samples("seq"), ran.samples("step"));
    let (dues, dones) = (ran.samples("due_ns"), ran.samples("done_ns"));
    let find = |vu, seq, step| {
        (0..steps.len()).find(|at| (vus[*at], seqs[*at], steps[*at]) == (vu, seq, step))
    };
    let mut pairs = 0;
    for at in (0..steps.len()).filter(|at| steps[*at] == 1) {
        let former = find(vus[at], seqs[at], 0).unwrap();
        assert_eq!(dues[at], dones[former] + 3 * MS);
        pairs += 1;
    }
    assert!(pairs > 2, "{pairs}");
    let heads = seen.lock().unwrap();
    let buys: Vec<_> = heads
        .iter()
        .filter(|head| head.starts_with("GET /shop"))
        .collect();
    assert!(buys.iter().all(|head| {
        head.starts_with("GET /shop/42/t%201 HTTP/1.1")
            && head.contains("Authorization: Bearer secret\r\n")
    }));
    let told = &ran.group()["steps"];
    assert_eq!(
        (told[0]["name"].as_str(), told[1]["name"].as_str()),
        (Some("login"), Some("buy"))
    );
    assert_eq!(told[1]["ok"].as_u64(), Some(buys.len() as u64));
    assert_eq!(
        told[0]["ok"].as_u64().unwrap() + told[1]["ok"].as_u64().unwrap(),
        ran.count("ok")
    );
}

#[test]
fn a_step_that_fails_ends_its_iteration_under_its_own_name() {
    let server = shop(Arc::default());
    let mut login = request("login", text("/login"));
    login["take"] = json!([{"name": "token", "json": "access.no_such"}]);
    let buy = request("buy", json!([{"text": "/shop/"}, {"taken": "token"}]));
    let ran = run(&with(
        &server,
        json!([{"steps": [{"request": login}, {"request": buy}]}]),
    ));
    ran.assert_all_fail_with("capture");
    assert_eq!(ran.group()["steps"][1]["due"], 0);
    let lost = request("lost", text("/lost"));
    let mut lost_first = lost.clone();
    lost_first["expect_status"] = json!([[200, 299]]);
    let ran = run(&with(
        &server,
        json!([{"steps": [{"request": lost_first}, {"request": lost}]}]),
    ));
    ran.assert_all_fail_with("status");
}

#[test]
fn scenarios_are_chosen_by_weight() {
    let server = shop(Arc::default());
    let login = request("login", text("/login"));
    let buy = request("buy", text("/shop"));
    let mut share = with(
        &server,
        json!([{"weight": 3, "steps": [{"request": login}]}, {"weight": 1, "steps": [{"request": buy}]}]),
    );
    share["groups"][0]["executor"] =
        json!({"kind": "shared-iterations", "vus": 4, "iterations": 400});
    share["groups"][0]["stop_offset_ns"] = (20_000 * MS).into();
    let ran = run(&share);
    ran.assert_all_ok();
    let of = |step: usize| ran.group()["steps"][step]["due"].as_u64().unwrap();
    assert_eq!(of(0) + of(1), 400);
    assert!((260..340).contains(&of(0)), "{}", of(0));
}

#[test]
fn each_endpoint_keeps_its_connection() {
    let (one, two) = (shop(Arc::default()), shop(Arc::default()));
    let login = request("login", text("/login"));
    let mut buy = request("buy", text("/shop"));
    buy["endpoint"] = "http://other".into();
    let mut share = with(
        &one,
        json!([{"steps": [{"request": login}, {"request": buy}]}]),
    );
    share["endpoints"]["http://other"] = json!({"address": two.address.to_string(), "tls": null});
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((one.accepted(), two.accepted()), (2, 2));
    assert_eq!(ran.count("connections_opened"), 4);
}

#[test]
fn an_address_made_of_a_variable_is_asked_only_where_the_load_may_go() {
    let stranger = Server::answering(|_| ok("never"));
    let target = Arc::new(Mutex::new(String::new()));
    let named = target.clone();
    let server = Server::answering(move |_| {
        let body = named.lock().unwrap().clone();
        format!("HTTP/1.1 200 OK\r\nX-Storage-Url: {body}\r\nContent-Length: 0\r\n\r\n")
            .into_bytes()
    });
    let mut auth = request("auth", text("/auth"));
    auth["take"] = json!([{"name": "storage", "header": "X-Storage-Url"}]);
    let fetch = json!({"name": "fetch", "method": "GET", "url": [{"taken": "storage"}, {"text": "/o"}], "timeout_ns": 2_000 * MS});
    let mut share = with(
        &server,
        json!([{"steps": [{"request": auth}, {"request": fetch}]}]),
    );
    share["allowed"] = json!([format!("{}/32", server.address.ip())]);

    *target.lock().unwrap() = "http://host/v1/AUTH_a".into();
    let ran = run(&share);
    ran.assert_all_ok();

    // Not an address of the load, although something listens there.
    share["allowed"] = json!(["127.0.0.0/8"]);
    share["endpoints"]["http://host"]["address"] = server.address.to_string().into();
    *target.lock().unwrap() = format!("http://unknown.test:{}/v1", stranger.address.port());
    let ran = run(&share);
    assert_eq!(
        ran.errors().keys().collect::<Vec<_>>(),
        ["unauthorised_target"]
    );
    let listed: Vec<String> = serde_json::from_value(ran.summary["unauthorised"].clone()).unwrap();
    assert_eq!(
        listed,
        [format!("http://unknown.test:{}", stranger.address.port())]
    );
    share["allowed"] = json!(["127.0.0.1/32"]);
    *target.lock().unwrap() = format!("http://127.0.0.2:{}/v1", stranger.address.port());
    let ran = run(&share);
    assert_eq!(
        ran.errors().keys().collect::<Vec<_>>(),
        ["unauthorised_target"]
    );
    assert_eq!(stranger.accepted(), 0);

    *target.lock().unwrap() = "no address".into();
    let ran = run(&share);
    assert_eq!(ran.errors().keys().collect::<Vec<_>>(), ["capture"]);
}

#[test]
fn unique_rows_end_where_they_are_exhausted() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = shop(seen.clone());
    let table: Table = [(
        "path".to_owned(),
        Column::Utf8((0..20).map(|n| format!("/shop/{n}")).collect()),
    )]
    .into_iter()
    .collect();
    let inputs: IndexMap<_, _> = [("objects".to_owned(), table)].into_iter().collect();
    let mut share = with(
        &server,
        json!([{"steps": [{"request": request("buy", json!([{"feeder": "object", "column": "path"}]))}]}]),
    );
    share["groups"][0]["feeders"] =
        json!({"object": {"table": "objects", "take": "unique", "when_exhausted": "stop"}});
    share["groups"][0]["executor"] = json!({"kind": "constant-vus", "vus": 3});
    share["groups"][0]["stop_offset_ns"] = (20_000 * MS).into();
    let ran = run_with(&share, &inputs);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 20);
    let paths: HashSet<String> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|head| head.split(' ').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(paths.len(), 20);
}

#[test]
fn what_every_vu_took_is_reported_where_it_is_asked_for() {
    let server = shop(Arc::default());
    let mut login = request("login", text("/login"));
    login["take"] = json!([{"name": "token", "json": "access.token"}]);
    let mut share = with(&server, json!([{"steps": [{"request": login}]}]));
    share["groups"][0]["executor"] =
        json!({"kind": "per-vu-iterations", "vus": 3, "iterations": 1});
    assert_eq!(run(&share).group()["taken"], json!([]));
    share["groups"][0]["report_taken"] = true.into();
    let taken = run(&share).group()["taken"].clone();
    let of = |vu: u64| json!({"vu": vu, "values": {"token": "t 1"}});
    assert_eq!(taken, json!([of(0), of(1), of(2)]));
}

#[test]
fn the_end_of_the_load_cuts_iterations_and_counts_all() {
    let server = shop(Arc::default());
    for think_ms in [1, 30, 500] {
        for executor in [
            json!({"kind": "constant-vus", "vus": 3, "spread_ns": 7 * MS}),
            json!({"kind": "constant-arrival-rate", "rate_rps": 300.0, "max_vus": 5}),
            json!({"kind": "ramping-vus", "vus": 3, "stages": [{"duration_ns": 40 * MS, "target": 3}, {"duration_ns": 40 * MS, "target": 0}]}),
        ] {
            let step = |path: &str| json!({"request": request("a", text(path)), "think_time": {"constant_ns": think_ms * MS}});
            let mut share = with(
                &server,
                json!([{"steps": [step("/login"), step("/shop"), step("/shop")]}]),
            );
            share["groups"][0]["executor"] = executor;
            share["groups"][0]["graceful_stop_ns"] = 0.into();
            let ran = run(&share);
            assert!(ran.count("begun") > 0);
            assert!(ran.samples("due_ns").iter().all(|due| *due < 100 * MS));
        }
    }
}

#[test]
fn checks_of_headers_bodies_and_digests_catch_what_is_wrong() {
    let server = shop(Arc::default());
    for (check, passes) in [
        (json!({"header": "X-Auth", "test": "present"}), true),
        (json!({"header": "X-Other", "test": "present"}), false),
        (
            json!({"header": "X-Auth", "test": {"equals": [{"text": "secret"}]}}),
            true,
        ),
        (
            json!({"header": "X-Auth", "test": {"equals": [{"text": "secre"}]}}),
            false,
        ),
        (
            json!({"header": "X-Auth", "test": {"matches": "^s.c"}}),
            true,
        ),
        (
            json!({"header": "X-Auth", "test": {"matches": "^c"}}),
            false,
        ),
        (json!({"body": {"contains": [{"text": "item=42"}]}}), true),
        (json!({"body": {"contains": [{"text": "item=43"}]}}), false),
        (json!({"body": {"matches": r"item=\d{2}"}}), true),
        (json!({"body": {"matches": r"item=\d{3}"}}), false),
        (
            json!({"digest": "md5", "equals": [{"text": "D41D8CD98F00B204E9800998ECF8427E"}]}),
            false,
        ),
    ] {
        let mut check = check;
        check["name"] = "c".into();
        let mut asked = request("login", text("/login"));
        asked["checks"] = json!([check]);
        let ran = run(&with(&server, json!([{"steps": [{"request": asked}]}])));
        if passes {
            ran.assert_all_ok();
        } else {
            ran.assert_all_fail_with("check");
            assert_eq!(ran.group()["checks_failed"]["c"], ran.count("failed"));
        }
    }
}

#[test]
fn digests_are_of_the_body_as_it_came() {
    let server = Server::answering(|_| ok("abc"));
    for (algorithm, digest) in [
        (
            "sha256",
            "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
        ),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
    ] {
        let mut asked = request("get", text("/"));
        asked["checks"] = json!([{"name": "d", "digest": algorithm, "equals": [{"text": digest}]}]);
        run(&with(&server, json!([{"steps": [{"request": asked}]}]))).assert_all_ok();
    }
}
