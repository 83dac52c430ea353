//! The store over real sockets: HTTP as it may be spoken, counters, timing.

mod common;

use std::io::Write as _;
use std::time::{Duration, Instant};

use common::{ask, connect, json_of, monotonic_ns, start, Client, LIMIT};
use serde_json::{json, Value};

#[test]
fn counters_are_exact_the_moment_an_answer_is_read() {
    let server = start("store", json!({"log": true}));
    server.fill(&["o"], b"hello");
    let mut client = server.connect();
    let first = client.get("/v1/a/c/o");
    assert_eq!((first.status, first.text().as_str()), (200, "hello"));
    assert_eq!(
        first.header("etag"),
        Some("5d41402abc4b2a76b9719d911017c592")
    );
    let head = client.ask("HEAD", "/v1/a/c/o", b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("5"))
    );
    let missing = client.get("/v1/a/c/none");
    assert_eq!(missing.status, 404);
    let sent = client.sent;
    // a health check is counted apart, bytes and all
    assert_eq!(client.get("/healthcheck").text(), "OK");

    let counters = server.counters();
    let expected = json!({
        "connections_accepted": 1, "connections_open": 1, "requests": 3, "answers": 3, "health_requests": 1,
        "unfinished": 0, "abandoned": 0, "bytes_in": sent, "bytes_out": first.bytes + head.bytes + missing.bytes,
        "body_bytes_out": first.body.len() + missing.body.len(), "status": {"200": 2, "404": 1},
        "distinct_urls": 2, "url_max_count": 2, "tls_handshakes": 0, "requests_tls": 0, "workers": 8, "in_service": 0,
        "queued_max": 0, "queue_dropped": 0, "hits": 0, "misses": 0, "store_objects": 1, "store_bytes": 5,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&counters[name], value, "{name}");
    }
    let rows = server.log();
    assert_eq!(rows.len(), 3);
    assert_eq!(
        (&rows[2][4], &rows[2][5], &rows[2][6]),
        (&json!("/v1/a/c/none"), &json!(404), &Value::Null)
    );

    server.reset("counters,log");
    let counters = server.counters();
    assert_eq!(
        (&counters["requests"], &counters["connections_open"]),
        (&json!(0), &json!(1))
    );
    assert!(server.log().is_empty());
    let last = server.stop();
    assert_eq!(last["requests"], 0);
}

#[test]
fn uploads_may_be_chunked_or_announced_and_large() {
    let server = start("store", json!({}));
    server.fill(&[], b"");
    let mut client = server.connect();
    client.send(b"PUT /v1/a/c/chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n");
    assert_eq!(client.reply(false).status, 201);
    assert_eq!(client.get("/v1/a/c/chunked").text(), "Wikipedia");

    client.send(b"PUT /v1/a/c/announced HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.reply(false).status, 100);
    client.send(b"abc");
    assert_eq!(client.reply(false).status, 201);

    let large: Vec<u8> = (0..5_000_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    assert_eq!(client.ask("PUT", "/v1/a/c/large", &large).status, 201);
    assert_eq!(client.get("/v1/a/c/large").body, large);

    client.send(b"PUT /v1/a/c/huge HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n");
    assert_eq!(client.reply(false).status, 413);
    assert!(client.closed());
    let mut broken = server.connect();
    broken.send(
        b"PUT /v1/a/c/broken HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    );
    assert_eq!(broken.reply(false).status, 400);
    server.wait_for("connections_open", 0);
    let counters = server.counters();
    // a refused head is no request; a body that breaks off after its head is one without an answer
    for (name, value) in [
        ("requests", 6),
        ("answers", 5),
        ("abandoned", 1),
        ("malformed", 2),
        ("unfinished", 0),
    ] {
        assert_eq!(counters[name], value, "{name}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = start(
        "store",
        json!({"service_time": {"uniform_ns": [0, 3_000_000]}}),
    );
    server.fill(&["a", "b", "c"], b"x");
    let mut client = server.connect();
    let one = |name: &str| format!("GET /v1/a/c/{name}?n=1 HTTP/1.1\r\nHost: h\r\n\r\n");
    client.send((one("a") + &one("none") + &one("c")).as_bytes());
    let statuses: Vec<u16> = (0..3).map(|_| client.reply(false).status).collect();
    assert_eq!(statuses, [200, 404, 200]);
    assert_eq!(server.count("answers"), 3);
}

#[test]
fn connections_end_when_they_should_and_only_then() {
    let server = start("store", json!({}));
    let mut client = server.connect();
    client.send(b"GET /v1/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let reply = client.reply(false);
    assert_eq!(
        (reply.status, reply.header("connection")),
        (404, Some("close"))
    );
    assert!(client.closed());

    let mut rubbish = server.connect();
    rubbish.send(b"rubbish\r\n\r\n");
    assert_eq!(rubbish.reply(false).status, 400);
    assert!(rubbish.closed());

    let mut large = server.connect();
    large.send(format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}", "x".repeat(40_000)).as_bytes());
    assert_eq!(large.reply(false).status, 431);

    // byte by byte, and half closed
    let mut slow = server.connect();
    for byte in b"GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n" {
        slow.send(&[*byte]);
    }
    slow.stream
        .get_ref()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    assert_eq!(slow.reply(false).status, 404);
    assert!(slow.closed());
    server.wait_for("connections_open", 0);
    let counters = server.counters();
    assert_eq!(
        (&counters["requests"], &counters["malformed"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(counters["connections_accepted"], 4);
}

#[test]
fn a_client_that_leaves_is_counted_as_abandoned() {
    let server = start(
        "store",
        json!({"workers": 1, "service_time": {"constant_ns": 1_000_000_000u64}, "log": true}),
    );
    let mut client = server.connect();
    client.send(b"GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_for("in_service", 1);
    assert_eq!(server.count("unfinished"), 1);
    let linger =
        rustix::net::sockopt::set_socket_linger(client.stream.get_ref(), Some(Duration::ZERO));
    linger.unwrap(); // a reset, as from a client that timed out
    drop(client);
    server.wait_for("abandoned", 1);
    // its worker goes on with it
    assert_eq!(server.count("in_service"), 1);
    server.wait_for("log_rows", 1);
    assert_eq!(server.log()[0][2], -1);
    let counters = server.counters();
    assert_eq!(
        (&counters["answers"], &counters["unfinished"]),
        (&json!(0), &json!(0))
    );
}

#[test]
fn a_constant_service_time_is_kept() {
    let server = start(
        "store",
        json!({"service_time": {"constant_ns": 2_000_000}, "spin_ns": 60_000, "log": true}),
    );
    server.fill(&["o"], b"x");
    let mut client = server.connect();
    let mut seen_ns = Vec::new();
    for _ in 0..100 {
        let before_ns = monotonic_ns();
        client.get("/v1/a/c/o");
        seen_ns.push(monotonic_ns() - before_ns);
    }
    let rows = server.log();
    let took_ns: Vec<u64> = rows
        .iter()
        .map(|r| r[2].as_u64().unwrap() - r[1].as_u64().unwrap())
        .collect();
    assert!(
        took_ns.iter().all(|ns| *ns >= 2_000_000),
        "never early: {took_ns:?}"
    );
    assert!(seen_ns
        .iter()
        .zip(&took_ns)
        .all(|(seen, took)| seen >= took));
    assert!(rows.iter().all(|row| row[3] == 2_000_000));
    let counters = server.counters();
    assert_eq!(counters["busy_ns_sum"], 200_000_000);
    assert_eq!(counters["late_answers"], 100);
}

#[test]
fn workers_and_queue_limit_shape_what_many_clients_see() {
    let service_ns = 2_000_000_000; // all four arrive before the first is answered
    let config = json!({"workers": 2, "queue_limit": 1, "service_time": {"constant_ns": service_ns}, "log": true});
    let server = start("store", config);
    server.fill(&["o"], b"x");
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(b"GET /v1/a/c/o HTTP/1.1\r\nHost: h\r\n\r\n");
        server.wait_for("requests", at as u64 + 1);
    }
    let statuses: Vec<u16> = clients
        .iter_mut()
        .map(|client| client.reply(false).status)
        .collect();
    assert_eq!(statuses, [200, 200, 200, 503]);
    let counters = server.counters();
    assert_eq!(
        (&counters["queued_max"], &counters["queue_dropped"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(counters["busy_ns_sum"], 3 * service_ns);
    let rows = server.log();
    let third = rows.iter().find(|row| row[0] == 4).unwrap(); // two requests filled the store
    let first = rows.iter().find(|row| row[0] == 2).unwrap();
    // it started the instant the first one ended
    let (first_end, third_end) = (
        first[1].as_u64().unwrap() + service_ns,
        third[2].as_u64().unwrap(),
    );
    assert!(
        third_end >= first_end + service_ns,
        "{third_end} {first_end}"
    );
}

#[test]
fn draws_follow_arrivals_not_the_clock() {
    let planned = |seed: u64| {
        let service = json!({"exponential_ns": 200_000});
        let server = start(
            "store",
            json!({"seed": seed, "service_time": service, "error_rate": 0.3, "log": true}),
        );
        let mut client = server.connect();
        let statuses: Vec<u16> = (0..60).map(|_| client.get("/v1/a?x=1").status).collect();
        let counters = server.counters();
        assert_eq!(
            counters["errors_injected"],
            statuses.iter().filter(|s| **s == 500).count()
        );
        assert_eq!(counters["status"]["500"], counters["errors_injected"]);
        let rows = server.log();
        (
            statuses,
            rows.iter()
                .map(|row| row[3].as_u64().unwrap())
                .collect::<Vec<u64>>(),
        )
    };
    let first = planned(1);
    assert_eq!(first, planned(1));
    assert_ne!(first.1, planned(2).1);
    let broken = first.0.iter().filter(|status| **status == 500).count();
    assert!((6..=32).contains(&broken), "{broken} of 60");
}

#[test]
fn a_stall_holds_answers_until_its_end() {
    let server = start("store", json!({"log": true}));
    let stall = json!({"stall": {"every_ns": 3_600_000_000_000u64, "for_ns": 200_000_000}});
    let config = json_of(&server.configure(stall));
    let ends_ns = config["stall_epoch_ns"].as_u64().unwrap() + 200_000_000;
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.send(b"GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n"));
    clients
        .iter_mut()
        .for_each(|client| assert_eq!(client.reply(false).status, 404));
    let rows = server.log();
    assert_eq!(rows.len(), 5);
    for row in rows {
        let (received, answered) = (row[1].as_u64().unwrap(), row[2].as_u64().unwrap());
        assert!(
            received > ends_ns || answered >= ends_ns,
            "{received} {answered} {ends_ns}"
        );
    }
}

#[test]
fn a_link_spaces_bodies_out() {
    let server = start("store", json!({"rate_limit_bytes_per_s": 1_000_000}));
    server.fill(&["o"], &vec![7; 20_000]);
    let mut client = server.connect();
    let before = Instant::now();
    for _ in 0..5 {
        assert_eq!(client.get("/v1/a/c/o").body.len(), 20_000);
    }
    assert!(
        before.elapsed() >= Duration::from_millis(100),
        "{:?}",
        before.elapsed()
    );
    assert!(server.counters()["link_held_ns_sum"].as_u64() >= Some(100_000_000));
}

#[test]
fn above_max_connections_clients_wait_in_the_backlog() {
    let server = start("store", json!({"max_connections": 2}));
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!(
        (first.get("/v1/x").status, second.get("/v1/x").status),
        (404, 404)
    );
    let mut third = Client::new(connect(server.http));
    third.send(b"GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_for("accept_pauses", 1);
    assert_eq!(server.count("connections_accepted"), 2);
    drop(first);
    assert_eq!(third.reply(false).status, 404);
    assert_eq!(server.count("connections_open_max"), 2);
}

#[test]
fn live_changes_take_effect_and_wrong_ones_change_nothing() {
    let server = start("store", json!({"service_time": {"constant_ns": 5_000_000}}));
    let refused = server.configure(json!({"workers": 0}));
    assert_eq!(
        (refused.status, refused.text().starts_with("workers: ")),
        (400, true)
    );
    assert_eq!(server.configure(json!({"http_port": 5})).status, 400);
    let changed = json_of(&server.configure(json!({"workers": 3, "error_rate": 1.0})));
    assert_eq!(
        (&changed["workers"], &changed["service_time"]),
        (&json!(3), &json!({"constant_ns": 5_000_000}))
    );
    assert_eq!(server.connect().get("/v1/x").status, 500);
    assert_eq!(server.count("workers"), 3);
    assert_eq!(
        ask(server.admin, "POST", "/reset?what=everything", b"").status,
        400
    );
    assert_eq!(ask(server.admin, "GET", "/log?from=x", b"").status, 400);
    assert_eq!(ask(server.admin, "DELETE", "/counters", b"").status, 405);
    assert_eq!(ask(server.admin, "GET", "/", b"").status, 404);
}

#[test]
fn a_bad_configuration_or_a_taken_port_is_one_line() {
    let refused = svload_truth::serve(r#"{"role": "store", "http_port": 0, "workers": 0}"#, -1, -1)
        .unwrap_err();
    assert!(refused.starts_with("workers: "), "{refused}");
    let server = start("store", json!({}));
    let config = json!({"role": "store", "http_port": server.http}).to_string();
    let refused = svload_truth::serve(&config, -1, -1).unwrap_err();
    assert!(
        refused.starts_with("http_port: cannot listen on"),
        "{refused}"
    );
}

#[test]
fn it_stops_at_once_with_requests_under_way() {
    let server = start(
        "store",
        json!({"service_time": {"constant_ns": 3_600_000_000_000u64}}),
    );
    let mut client = server.connect();
    client.send(b"GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_for("in_service", 1);
    let before = Instant::now();
    let counters = server.stop();
    assert!(before.elapsed() < LIMIT / 4);
    assert_eq!(
        (&counters["unfinished"], &counters["answers"]),
        (&json!(1), &json!(0))
    );
    assert!(client.closed());
}

#[test]
fn a_thousand_connections_are_all_served() {
    let server = start(
        "store",
        json!({"service_time": {"constant_ns": 1_000_000}, "workers": 2000}),
    );
    server.fill(&["o"], b"x");
    let mut clients: Vec<Client> = (0..1000).map(|_| server.connect()).collect();
    for _ in 0..2 {
        clients
            .iter_mut()
            .for_each(|client| client.send(b"GET /v1/a/c/o HTTP/1.1\r\nHost: h\r\n\r\n"));
        clients
            .iter_mut()
            .for_each(|client| assert_eq!(client.reply(false).status, 200));
    }
    let counters = server.counters();
    assert_eq!(
        (&counters["answers"], &counters["connections_open"]),
        (&json!(2000), &json!(1000))
    );
    drop(clients);
    server.wait_for("connections_open", 0);
}

#[test]
fn a_slow_reader_gets_its_whole_body() {
    let server = start("store", json!({}));
    let body: Vec<u8> = (0..8_000_000u32).map(|i| (i >> 5) as u8).collect();
    server.fill(&["o"], &body);
    let mut slow = server.connect();
    slow.send(b"GET /v1/a/c/o HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_for("requests", 1);
    // another client is served meanwhile
    assert_eq!(server.connect().get("/v1/a/c/none").status, 404);
    assert_eq!(server.count("answers"), 1);
    assert_eq!(slow.reply(false).body, body);
    slow.stream.get_mut().flush().unwrap();
    assert_eq!(server.count("answers"), 2);
}

#[test]
fn a_seed_set_live_starts_the_draws_again_and_a_reset_does_not() {
    let server = start(
        "store",
        json!({"seed": 3, "service_time": {"uniform_ns": [0, 1_000_000]}, "log": true}),
    );
    let mut client = server.connect();
    let mut planned = || -> Vec<u64> {
        (0..5).for_each(|_| drop(client.get("/v1/x")));
        let served = server
            .log()
            .iter()
            .map(|row| row[3].as_u64().unwrap())
            .collect();
        assert_eq!(ask(server.admin, "POST", "/reset", b"{}").status, 200);
        served
    };
    let first = planned();
    let later = planned();
    assert_ne!(first, later);
    assert_eq!(server.configure(json!({"seed": 3})).status, 200);
    assert_eq!(planned(), first);
}

#[test]
fn an_answer_to_head_never_has_a_body() {
    let server = start("store", json!({"error_rate": 0.5, "seed": 1}));
    let mut client = server.connect();
    // a body would be read as the next answer's head
    let statuses: Vec<u16> = (0..20)
        .map(|_| client.ask("HEAD", "/info?", b"").status)
        .collect();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let statuses: Vec<u16> = (0..20)
        .map(|_| client.ask("HEAD", "/v1/x", b"").status)
        .collect();
    assert!(
        statuses.contains(&404) && statuses.contains(&500),
        "{statuses:?}"
    );
    assert_eq!(client.ask("HEAD", "/healthcheck", b"").status, 200);
}

#[test]
fn burnt_cpu_time_and_the_lock_come_on_top_of_the_service_time() {
    let server = start(
        "store",
        json!({"cpu_burn_ns": 2_000_000, "serial_lock_ns": 1_000_000, "service_time": {"constant_ns": 1_000_000}, "log": true}),
    );
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/v1/x").status, 404);
    }
    for row in server.log() {
        let took_ns = row[2].as_u64().unwrap() - row[1].as_u64().unwrap();
        assert!(took_ns >= 4_000_000, "{took_ns}");
    }
    // what is burnt is the host's time, not the worker's
    assert_eq!(server.count("busy_ns_sum"), 5 * 2_000_000);
}
