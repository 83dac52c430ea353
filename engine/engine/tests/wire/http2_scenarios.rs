//! What HTTP/1.1's users can say is said over HTTP/2 too: steps and variables, checks of what answers hold, bodies of unknown
//! length, and bodies that wait for leave.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::common::http2::{answer, frame_of, headers, serve, serving, share_of, Asked, Peer};
use crate::common::tls::lab;
use crate::common::{run, Server, MS};
use flate2::write::GzEncoder;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{json, Value};
use svload_engine::wire::http2::frame::{flag, kind};

fn request(name: &str, path: Value) -> Value {
    json!({"name": name, "method": "GET", "endpoint": "http://host", "path": path, "timeout_ns": 2_000 * MS})
}

fn text(path: &str) -> Value {
    json!([{"text": path}])
}

/// A share of `vus` users whose iterations are these steps.
fn with(server: &Server, vus: u64, streams: u64, limit: u64, steps: Value) -> Value {
    let mut share = share_of(server.address, vus, streams, limit);
    let group = share["groups"][0].as_object_mut().unwrap();
    group.remove("request");
    group.insert("scenarios".into(), json!([{"steps": steps}]));
    share
}

/// An answer with these fields and this body.
fn told(stream: u32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let all = [&[(":status", "200")], fields].concat();
    let mut bytes = headers(stream, 0, &all);
    bytes.extend(frame_of(kind::DATA, flag::END_STREAM, stream, body));
    bytes
}

/// Gives a token, and what was asked with it.
fn shop(asked: &Asked, _: &[u8]) -> Vec<u8> {
    match &*asked.fields[":path"] {
        "/login" => told(
            asked.stream,
            &[("x-auth", "secret")],
            br#"{"access": {"token": "t 1", "id": 18446744073709551616}, "next": "/shop?item=42"}"#,
        ),
        path if asked.fields.get("authorization").map(String::as_str) == Some("Bearer secret") => {
            answer(asked.stream, path)
        }
        _ => headers(asked.stream, flag::END_STREAM, &[(":status", "401")]),
    }
}

fn login() -> Value {
    let mut login = request("login", text("/login"));
    login["take"] = json!([{"name": "token", "json": "access.token"}, {"name": "key", "header": "X-Auth"},
        {"name": "item", "regex": r"item=(\d+)"}, {"name": "id", "json": "access.id"}]);
    login
}

fn buy() -> Value {
    let mut buy = request(
        "buy",
        json!([{"text": "/shop/"}, {"taken": "item"}, {"text": "/"}, {"taken": "token"}, {"text": "/"}, {"taken": "id"}]),
    );
    buy["headers"] = json!([["Authorization", [{"text": "Bearer "}, {"taken": "key"}]]]);
    buy["checks"] = json!([{"name": "own", "body": {"equals": [{"text": "/shop/42/t%201/18446744073709551616"}]}}]);
    buy
}

#[test]
fn steps_follow_each_other_with_what_answers_gave() {
    let server = serving(shop);
    let steps =
        json!([{"request": login(), "think_time": {"constant_ns": MS}}, {"request": buy()}]);
    let ran = run(&with(&server, 8, 4, 40, steps));
    ran.assert_all_ok();
    let steps = &ran.group()["steps"];
    assert_eq!(
        (&steps[0]["ok"], &steps[1]["ok"], server.accepted()),
        (&json!(40), &json!(40), 2)
    );
    assert_eq!(ran.group()["http2"]["requests"], 80);
}

#[test]
fn every_endpoint_has_its_own_connection_on_a_line() {
    let (one, two) = (serving(shop), serving(shop));
    let mut other = buy();
    other["endpoint"] = "http://other".into();
    let steps = json!([{"request": login()}, {"request": other}]);
    let mut share = with(&one, 8, 4, 40, steps);
    share["endpoints"]["http://other"] = json!({"address": two.address.to_string(), "tls": null});
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((one.accepted(), two.accepted()), (2, 2));
    assert_eq!(ran.count("connections_opened"), 4);
}

#[test]
fn an_address_made_of_a_variable_is_asked_over_http2() {
    let storage = serving(|asked, body| {
        assert_eq!(asked.fields[":authority"], "store");
        assert_eq!(
            (asked.fields[":method"].as_str(), body),
            ("PUT", &b"n=7"[..])
        );
        answer(asked.stream, &asked.fields[":path"])
    });
    let server = serving(|asked, _| told(asked.stream, &[("x-storage", "http://store/v1")], b""));
    let mut auth = request("auth", text("/auth"));
    auth["take"] = json!([{"name": "storage", "header": "x-storage"}]);
    let put = json!({"name": "put", "method": "PUT", "url": [{"taken": "storage"}, {"text": "/o?"}, {"var": "vu"}],
        "timeout_ns": 2_000 * MS, "body": {"text": [{"text": "n=7"}]},
        "checks": [{"name": "path", "body": {"equals": [{"text": "/v1/o?"}, {"var": "vu"}]}}]});
    let steps = json!([{"request": auth}, {"request": put}]);
    let mut share = with(&server, 4, 4, 20, steps);
    share["endpoints"]["http://store"] =
        json!({"address": storage.address.to_string(), "tls": null});
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((server.accepted(), storage.accepted()), (1, 1));
}

#[test]
fn a_variable_may_not_lead_where_the_load_may_not_go() {
    let stranger = serving(shop);
    let place = format!("http://unknown.test:{}/v1", stranger.address.port());
    let server = serving(move |asked, _| told(asked.stream, &[("x-storage", &place)], b""));
    let mut auth = request("auth", text("/auth"));
    auth["take"] = json!([{"name": "storage", "header": "x-storage"}]);
    let fetch = json!({"name": "fetch", "method": "GET", "url": [{"taken": "storage"}], "timeout_ns": 2_000 * MS});
    let ran = run(&with(
        &server,
        1,
        1,
        3,
        json!([{"request": auth}, {"request": fetch}]),
    ));
    assert_eq!(
        ran.errors().into_iter().collect::<Vec<_>>(),
        [("unauthorised_target".to_owned(), 3)]
    );
    assert_eq!(stranger.accepted(), 0);
}

#[test]
fn checks_look_at_headers_bodies_and_digests() {
    let server = serving(|asked, _| told(asked.stream, &[("x-auth", "secret")], b"abc"));
    let sha = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
    for (check, passes) in [
        (json!({"header": "X-Auth", "test": "present"}), true),
        (json!({"header": "X-Other", "test": "present"}), false),
        (
            json!({"header": "x-auth", "test": {"equals": [{"text": "secret"}]}}),
            true,
        ),
        (json!({"body": {"matches": "^a.c$"}}), true),
        (json!({"body": {"contains": [{"text": "cb"}]}}), false),
        (json!({"digest": "sha256", "equals": [{"text": sha}]}), true),
        (
            json!({"digest": "md5", "equals": [{"text": "900150983cd24fb0d6963f7d28e17f72"}]}),
            true,
        ),
        (json!({"digest": "md5", "equals": [{"text": sha}]}), false),
    ] {
        let mut share = share_of(server.address, 4, 2, 12);
        let mut check = check;
        check["name"] = "c".into();
        share["groups"][0]["request"]["checks"] = json!([check]);
        let ran = run(&share);
        if passes {
            ran.assert_all_ok();
        } else {
            ran.assert_all_fail_with("check");
            assert_eq!(ran.group()["checks_failed"]["c"], 12);
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_answers_are_looked_into_and_bombs_are_not_unpacked() {
    let plain = br#"{"token": "t"}"#;
    let bomb = gzip(&gzip(&vec![b'x'; 20_000_000]));
    let server = serving(move |asked, _| match &*asked.fields[":path"] {
        "/bomb" => told(asked.stream, &[("content-encoding", "gzip, gzip")], &bomb),
        _ => told(asked.stream, &[("content-encoding", "gzip")], &gzip(plain)),
    });
    for (path, pattern) in [("/", r#"^\{"token": "t"\}$"#), ("/bomb", "^x{500}")] {
        let mut share = share_of(server.address, 2, 2, 4);
        let request = &mut share["groups"][0]["request"];
        request["path"] = text(path);
        request["checks"] = json!([{"name": "c", "body": {"matches": pattern}}]);
        request["timeout_ns"] = (20_000 * MS).into();
        run(&share).assert_all_ok();
    }
}

#[test]
fn a_body_of_unknown_length_leaves_in_data_alone() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = bodies.clone();
    let server = serving(move |asked, body| {
        for name in ["content-length", "transfer-encoding"] {
            assert!(!asked.fields.contains_key(name), "{name}");
        }
        seen.lock().unwrap().push(body.len());
        answer(asked.stream, "taken")
    });
    let mut share = share_of(server.address, 2, 2, 6);
    let request = &mut share["groups"][0]["request"];
    request["method"] = "PUT".into();
    request["body"] = json!({"random": {"bytes": 70_001}});
    request["chunked"] = true.into();
    run(&share).assert_all_ok();
    assert_eq!(*bodies.lock().unwrap(), [70_001; 6]);
}

/// Takes PUTs; says 100 where the path asks for it, or refuses.
fn gate<S: std::io::Read + Write>(mut peer: Peer<S>) -> Option<()> {
    while let Some(asked) = peer.request() {
        assert_eq!(asked.fields["expect"], "100-continue");
        // Nothing of the body has come with the head.
        assert!(!peer.others.iter().any(|(head, _)| head.kind == kind::DATA));
        match &*asked.fields[":path"] {
            "/refuse" => {
                let no = [(":status", "417")];
                peer.send(&headers(asked.stream, flag::END_STREAM, &no))?;
                continue;
            }
            "/leave" => peer.send(&headers(asked.stream, 0, &[(":status", "100")]))?,
            _ => {}
        }
        let mut bytes = 0;
        loop {
            let (head, payload) = peer.frame()?;
            if head.kind == kind::DATA {
                bytes += payload.len();
            }
            if head.has(flag::END_STREAM) && head.kind == kind::DATA {
                break;
            }
        }
        assert_eq!(bytes, 5_000);
        peer.answer(asked.stream, "x")?;
    }
    None
}

#[test]
fn a_body_waits_for_leave() {
    let server = crate::common::http2::peer(gate);
    let ask = |path: &str, requests: u64| {
        let mut share = share_of(server.address, 1, 1, requests);
        let request = &mut share["groups"][0]["request"];
        request["method"] = "PUT".into();
        request["path"] = text(path);
        request["body"] = json!({"random": {"bytes": 5_000}});
        request["expect_continue"] = true.into();
        request["expect_status"] = json!([[200, 499]]);
        run(&share)
    };
    let ran = ask("/leave", 5);
    ran.assert_all_ok();
    assert!(ran.count("bytes_sent") > 25_000);
    let ran = ask("/refuse", 5);
    ran.assert_all_ok();
    assert_eq!(ran.group()["status"], json!({"417": 5}));
    assert!(ran.count("bytes_sent") < 5_000);
    // A server that says nothing gets it after a second, as from curl.
    let ran = ask("/silent", 1);
    ran.assert_all_ok();
    let waited = ran.samples("done_ns")[0] - ran.samples("written_ns")[0];
    assert!(waited >= 1_000 * MS, "{waited}");
}

#[test]
fn a_scenario_goes_on_over_http1_with_a_server_that_chooses_it() {
    let lab = lab("cache.test");
    let server = |protocol: &'static [u8]| {
        let mut config = (*lab.config).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let config = Arc::new(config);
        Server::start(move |mut stream| {
            let mut session = ServerConnection::new(config.clone()).unwrap();
            if session.complete_io(&mut stream).is_err() {
                return;
            }
            let stream = StreamOwned::new(session, stream);
            if protocol == b"h2" {
                Peer::greet(stream, &[]).and_then(|peer| {
                    serve(peer, &|asked, _| {
                        told(asked.stream, &[("x-n", "5")], b"new")
                    })
                });
                return;
            }
            crate::common::serve(stream, &|head: &str| match head.split(' ').nth(1) {
                Some("/old") => crate::common::ok("old"),
                _ => b"HTTP/1.1 302 Found\r\nLocation: /old\r\nContent-Length: 0\r\n\r\n".to_vec(),
            });
        })
    };
    let (new, old) = (server(b"h2"), server(b"http/1.1"));
    let step = |name: &str, host: &str, body: &str| {
        let mut step = request(name, text("/"));
        step["endpoint"] = format!("https://{host}").into();
        step["checks"] = json!([{"name": name, "body": {"equals": [{"text": body}]}}]);
        step
    };
    let mut first = step("new", "new.test", "new");
    first["take"] = json!([{"name": "n", "header": "x-n"}]);
    let mut second = step("old", "old.test", "old");
    second["headers"] = json!([["X-N", [{"taken": "n"}]]]);
    let steps = json!([{"request": first}, {"request": second}]);
    let mut share = with(&new, 6, 3, 30, steps);
    let tls = json!({"server_name": "cache.test", "ca_pem": lab.ca_pem});
    share["endpoints"] = json!({
        "https://new.test": {"address": new.address.to_string(), "tls": tls},
        "https://old.test": {"address": old.address.to_string(), "tls": tls},
    });
    share["groups"][0]["http2"]["fallback"] = true.into();
    share["groups"][0]["follow_redirects"] = 1.into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.group()["http2"]["requests"], 30);
    assert_eq!(ran.count("redirect_hops"), 30);
    // Two connections of three streams there, one a user here.
    assert_eq!((new.accepted(), old.accepted()), (2, 6));
}
