//! Cache and front before a store.

mod common;

use common::{json_of, start, Client, Running};
use serde_json::{json, Value};

fn lab(store: Value, cache: Value) -> (Running, Running) {
    let store = start("store", store);
    store.fill(&["o", "p"], b"hello");
    let mut config = json!({"upstream": format!("127.0.0.1:{}", store.http), "log": true});
    config
        .as_object_mut()
        .unwrap()
        .extend(cache.as_object().unwrap().clone());
    let cache = start("cache", config);
    (store, cache)
}

fn has(server: &Running, expected: Value) {
    let counters = server.counters();
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&counters[name], value, "{name} in {counters}");
    }
}

#[test]
fn the_first_request_misses_and_later_ones_hit() {
    let (store, cache) = lab(json!({}), json!({}));
    let mut client = cache.connect();
    let miss = client.get("/v1/a/c/o");
    assert_eq!(
        (miss.status, miss.text().as_str(), miss.header("x-cache")),
        (200, "hello", Some("MISS"))
    );
    assert_eq!(
        miss.header("etag"),
        Some("5d41402abc4b2a76b9719d911017c592")
    );
    let hit = client.get("/v1/a/c/o?n=2");
    assert_eq!(
        (hit.text().as_str(), hit.header("x-cache")),
        ("hello", Some("HIT"))
    );
    assert_eq!(client.get("/v1/a/c/o").header("x-cache"), Some("HIT"));
    has(
        &cache,
        json!({"hits": 2, "misses": 1, "passes": 0, "stored": 1, "upstream_requests": 1, "requests": 3}),
    );
    has(
        &cache,
        json!({"cache_objects": 1, "cache_bytes": 5, "distinct_urls": 2, "url_max_count": 2}),
    );
    has(&store, json!({"requests": 1}));
    let marks: Vec<Value> = cache.log().iter().map(|row| row[6].clone()).collect();
    assert_eq!(marks, ["miss", "hit", "hit"]);
    cache.reset("cache,counters");
    client.get("/v1/a/c/o");
    has(
        &cache,
        json!({"hits": 0, "misses": 1, "stored": 1, "upstream_requests": 1}),
    );
}

#[test]
fn a_cold_header_makes_a_miss_of_its_own_and_stays_here() {
    let (store, cache) = lab(json!({}), json!({}));
    let mut client = cache.connect();
    for cold in ["1", "2", "1"] {
        assert_eq!(client.get_cold("/v1/a/c/o", cold).text(), "hello");
    }
    has(
        &cache,
        json!({"hits": 1, "misses": 2, "cache_objects": 2, "cache_bytes": 5}),
    );
    has(&store, json!({"requests": 2, "distinct_urls": 1}));
}

#[test]
fn planted_faults_do_what_they_say() {
    let (_store, cache) = lab(json!({}), json!({"ignore_cold": true}));
    let mut client = cache.connect();
    for cold in ["1", "2", "3"] {
        client.get_cold("/v1/a/c/o", cold);
    }
    has(&cache, json!({"hits": 2, "misses": 1}));
    assert_eq!(
        cache
            .configure(json!({"ignore_cold": false, "never_store": true}))
            .status,
        200
    );
    cache.reset("counters");
    for _ in 0..3 {
        assert_eq!(client.get("/v1/a/c/o").status, 200);
    }
    has(
        &cache,
        json!({"hits": 0, "misses": 3, "stored": 0, "upstream_requests": 3}),
    );
}

#[test]
fn requests_for_an_object_under_way_wait_for_one_fetch() {
    let (store, cache) = lab(
        json!({"service_time": {"constant_ns": 500_000_000}}),
        json!({}),
    );
    let mut clients: Vec<Client> = (0..5).map(|_| cache.connect()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.send(b"GET /v1/a/c/o HTTP/1.1\r\nHost: h\r\n\r\n"));
    clients
        .iter_mut()
        .for_each(|client| assert_eq!(client.reply(false).text(), "hello"));
    has(
        &cache,
        json!({"hits": 4, "coalesced": 4, "misses": 1, "stored": 1, "upstream_requests": 1, "answers": 5}),
    );
    has(&store, json!({"requests": 1}));
}

#[test]
fn what_is_not_there_is_not_kept() {
    let (store, cache) = lab(json!({}), json!({}));
    let mut client = cache.connect();
    assert_eq!(
        (
            client.get("/v1/a/c/none").status,
            client.get("/v1/a/c/none").status
        ),
        (404, 404)
    );
    has(&cache, json!({"hits": 0, "misses": 2, "stored": 0}));
    has(&store, json!({"requests": 2, "connections_accepted": 1}));
}

#[test]
fn everything_else_passes() {
    let (store, cache) = lab(json!({}), json!({}));
    let mut client = cache.connect();
    assert_eq!(client.ask("PUT", "/v1/a/c/new", b"body").status, 201);
    let listing = json_of(&client.get("/v1/a/c?format=json"));
    assert_eq!(listing[0]["name"], "new");
    let head = client.ask("HEAD", "/v1/a/c/new", b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("4"))
    );
    assert_eq!(client.ask("DELETE", "/v1/a/c/new", b"").status, 204);
    assert_eq!(client.get("/healthcheck").text(), "OK");
    has(
        &cache,
        json!({"passes": 4, "hits": 0, "misses": 0, "requests": 4, "health_requests": 1}),
    );
    has(&store, json!({"requests": 4, "health_requests": 0}));
}

#[test]
fn misses_have_a_service_time_of_their_own() {
    let times = json!({"service_time": {"constant_ns": 1_000_000}, "miss_service_time": {"constant_ns": 4_000_000}});
    let (_store, cache) = lab(json!({}), times);
    let mut client = cache.connect();
    client.get("/v1/a/c/o");
    client.get("/v1/a/c/o");
    let served: Vec<Value> = cache.log().iter().map(|row| row[3].clone()).collect();
    assert_eq!(served, [4_000_000, 1_000_000]);
    has(&cache, json!({"busy_ns_sum": 5_000_000}));
}

#[test]
fn an_upstream_that_is_gone_or_silent_is_a_gateway_error() {
    let (store, cache) = lab(json!({}), json!({"upstream_timeout_ns": 500_000_000}));
    let mut client = cache.connect();
    assert_eq!(client.get("/v1/a/c/o").status, 200);
    store.configure(json!({"service_time": {"constant_ns": 3_600_000_000_000u64}}));
    assert_eq!(client.get("/v1/a/c/p").status, 504);
    store.stop();
    assert_eq!(client.get("/v1/a/c/p").status, 502);
    assert_eq!(client.get("/v1/a/c/o").status, 200); // still in memory
    has(
        &cache,
        json!({"upstream_errors": 2, "hits": 1, "misses": 3, "unfinished": 0}),
    );
}

#[test]
fn a_connection_kept_alive_too_long_is_replaced_without_an_error() {
    let store = start("store", json!({}));
    store.fill(&["o"], b"hello");
    let port = store.http;
    let upstream = format!("127.0.0.1:{port}");
    let front = start("front", json!({"upstream": upstream}));
    let mut client = front.connect();
    assert_eq!(client.get("/v1/a/c/o").status, 200);
    store.stop();
    let store = start("store", json!({"http_port": port}));
    assert_eq!(client.get("/v1/a/c/o").status, 404); // a new, empty store answered
    has(
        &front,
        json!({"passes": 2, "upstream_errors": 0, "upstream_requests": 2}),
    );
    has(&store, json!({"requests": 1}));
}

#[test]
fn large_bodies_and_uploads_go_through_a_front() {
    let (store, cache) = lab(json!({}), json!({}));
    let front = start(
        "front",
        json!({"upstream": format!("127.0.0.1:{}", cache.http)}),
    );
    let body: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 3) as u8).collect();
    let mut client = front.connect();
    assert_eq!(client.ask("PUT", "/v1/a/c/large", &body).status, 201);
    assert_eq!(client.get_cold("/v1/a/c/large", "7").body, body);
    assert_eq!(client.get_cold("/v1/a/c/large", "7").body, body);
    has(&cache, json!({"hits": 1, "misses": 1, "passes": 1}));
    has(&store, json!({"requests": 2}));
    has(&front, json!({"passes": 3, "requests": 3}));
}

#[test]
fn every_request_is_exactly_one_of_hit_miss_pass_injected_or_dropped() {
    let config = json!({"workers": 1, "queue_limit": 1, "error_rate": 0.2, "seed": 4,
                        "service_time": {"exponential_ns": 300_000}});
    let (store, cache) = lab(json!({"service_time": {"constant_ns": 500_000}}), config);
    let mut clients: Vec<Client> = (0..8).map(|_| cache.connect()).collect();
    for round in 0..40 {
        for (at, client) in clients.iter_mut().enumerate() {
            let path = [
                "/v1/a/c/o",
                "/v1/a/c/p",
                "/v1/a/c?format=json",
                "/v1/a/c/none",
            ][(round + at) % 4];
            client.send(
                format!(
                    "GET {path} HTTP/1.1\r\nHost: h\r\nX-Cold: {}\r\n\r\n",
                    round / 8
                )
                .as_bytes(),
            );
        }
        clients
            .iter_mut()
            .for_each(|client| drop(client.reply(false)));
    }
    let counters = cache.counters();
    let count = |name: &str| counters[name].as_u64().unwrap();
    let kinds = [
        "hits",
        "misses",
        "passes",
        "errors_injected",
        "queue_dropped",
    ]
    .map(count);
    assert!(kinds.iter().all(|kind| *kind > 0), "{kinds:?}");
    assert_eq!(kinds.iter().sum::<u64>(), 320);
    assert_eq!(
        (count("requests"), count("answers"), count("unfinished")),
        (320, 320, 0)
    );
    assert_eq!(
        count("upstream_requests"),
        count("misses") + count("passes")
    );
    assert_eq!(store.count("requests"), count("upstream_requests"));
    let by_status: u64 = counters["status"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(by_status, 320);
}
