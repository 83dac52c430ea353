//! Redirects over HTTP/2: where they lead, what goes with them, what they cost, and where they may not lead.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::http2::{answer, frame_of, headers, leads_to, peer, serving, share_of, Asked};
use crate::common::{ok, run, Ran, Server, MS};
use serde_json::{json, Value};
use svload_engine::wire::http2::frame::{flag, kind};

/// A share of one user whose redirects are followed.
fn following(server: &Server, hops: u64, requests: u64) -> Value {
    let mut share = share_of(server.address, 1, 1, requests);
    share["groups"][0]["follow_redirects"] = hops.into();
    share
}

fn path(asked: &Asked) -> &str {
    &asked.fields[":path"]
}

fn counted(ran: &Ran, name: &str) -> u64 {
    ran.group()["http2"][name].as_u64().unwrap()
}

#[test]
fn hops_use_the_connection_and_are_counted_apart() {
    let server = serving(|asked, _| match path(asked) {
        "/" => leads_to(asked.stream, "302", "/a/b"),
        "/a/b" => leads_to(asked.stream, "308", "c?x=1"),
        "/a/c?x=1" => answer(asked.stream, "here"),
        _ => headers(asked.stream, flag::END_STREAM, &[(":status", "404")]),
    });
    let ran = run(&following(&server, 5, 10));
    ran.assert_all_ok();
    assert_eq!((ran.count("ok"), server.accepted()), (10, 1));
    assert_eq!(ran.count("redirect_hops"), 20);
    assert_eq!(ran.group()["hop_status"], json!({"302": 10, "308": 10}));
    assert_eq!(ran.group()["status"], json!({"200": 10}));
    assert_eq!(
        (counted(&ran, "requests"), counted(&ran, "connections")),
        (30, 1)
    );
    assert!(ran.samples("redirects").iter().all(|hops| *hops == 2));
    assert!(ran.samples("read_lag_ns").iter().any(|ns| *ns >= 0));
    let (redirect, written, begun) = (
        ran.samples("redirect_ns"),
        ran.samples("written_ns"),
        ran.samples("begun_ns"),
    );
    for row in 0..10 {
        // The last hop is written after the time that the hops before it took.
        assert!(redirect[row] > 0 && written[row] - begun[row] >= redirect[row]);
    }
    // All heads of all hops, and the body of the last answer alone.
    assert!(ran.samples("header_bytes").iter().all(|bytes| *bytes
        == (leads_to(1, "302", "/a/b").len()
            + leads_to(1, "308", "c?x=1").len()
            + headers(1, 0, &[(":status", "200"), ("server", "peer")]).len()) as i64));
    assert!(ran.samples("body_bytes").iter().all(|bytes| *bytes == 4));
}

#[test]
fn a_hop_carries_what_http1_would_carry() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let other = serving(move |asked, body| {
        let mut fields: Vec<String> = asked
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        fields.sort();
        kept.lock().unwrap().push((fields, body.to_vec()));
        answer(asked.stream, "")
    });
    let place = Arc::new(Mutex::new(String::new()));
    let (named, status) = (place.clone(), Arc::new(AtomicU32::new(307)));
    let code = status.clone();
    let server = serving(move |asked, body| {
        assert_eq!(body, b"n=0");
        assert_eq!(asked.fields["authorization"], "secret");
        assert_eq!(asked.fields["x-t"], "hush");
        let status = code.load(Ordering::SeqCst).to_string();
        leads_to(asked.stream, &status, &named.lock().unwrap())
    });
    let mut share = following(&server, 1, 1);
    share["endpoints"]["http://other"] = json!({"address": other.address.to_string(), "tls": null});
    let request = &mut share["groups"][0]["request"];
    request["method"] = "POST".into();
    request["headers"] = json!([["Authorization", [{"text": "secret"}]], ["X-T", [{"secret": "hush"}]], ["X-One", [{"text": "1"}]]]);
    request["body"] = json!({"text": [{"text": "n="}, {"var": "iteration"}]});
    *place.lock().unwrap() = "http://other/x".into();
    let ran = run(&share);
    ran.assert_all_ok();
    let (fields, body) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(
        fields,
        [
            ":authority: other",
            ":method: POST",
            ":path: /x",
            ":scheme: http",
            "accept: */*",
            "content-length: 3",
            "user-agent: svload",
            "x-one: 1"
        ]
    );
    assert_eq!(body, b"n=0");
    assert_eq!((server.accepted(), other.accepted()), (1, 1));
    // After 303 it is a GET without the body.
    status.store(303, Ordering::SeqCst);
    run(&share).assert_all_ok();
    let (fields, body) = seen.lock().unwrap().pop().unwrap();
    assert!(fields.contains(&":method: GET".to_owned()) && body.is_empty());
    assert!(!fields.iter().any(|field| field.starts_with("content-")));
    // A body with a secret goes nowhere else.
    status.store(307, Ordering::SeqCst);
    share["groups"][0]["request"]["body"] = json!({"text": [{"text": "n="}, {"secret": "0"}]});
    run(&share).assert_all_fail_with("secret_redirect");
    assert_eq!(other.accepted(), 2);
}

#[test]
fn a_streamed_body_goes_with_its_hop() {
    let server = serving(|asked, body| {
        assert_eq!(body.len(), 100_000);
        match path(asked) {
            "/" => leads_to(asked.stream, "308", "/there"),
            _ => answer(asked.stream, "taken"),
        }
    });
    let mut share = following(&server, 1, 3);
    share["groups"][0]["request"]["method"] = "PUT".into();
    share["groups"][0]["request"]["body"] = json!({"random": {"bytes": 100_000}});
    let ran = run(&share);
    ran.assert_all_ok();
    assert!(ran.count("bytes_sent") > 600_000);
}

#[test]
fn users_of_one_connection_are_led_each_their_own_way() {
    let server = serving(|asked, _| {
        let path = path(asked);
        match path.strip_prefix("/hop") {
            Some(rest) => answer(asked.stream, rest),
            None => leads_to(asked.stream, "302", &format!("/hop{path}")),
        }
    });
    let mut share = share_of(server.address, 32, 16, 320);
    let group = &mut share["groups"][0];
    group["follow_redirects"] = 1.into();
    group["request"]["path"] =
        json!([{"text": "/"}, {"var": "vu"}, {"text": "/"}, {"var": "iteration"}]);
    group["request"]["checks"] = json!([{"name": "own", "body": {"equals": [{"text": "/"}, {"var": "vu"}, {"text": "/"}, {"var": "iteration"}]}}]);
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((ran.count("ok"), server.accepted()), (320, 2));
}

#[test]
fn a_new_connection_carries_its_requests_hops_and_ends() {
    let server = serving(|asked, _| match path(asked) {
        "/" => leads_to(asked.stream, "302", "/there"),
        _ => answer(asked.stream, "x"),
    });
    let mut share = following(&server, 1, 5);
    share["groups"][0]["connection"] = "new".into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!((ran.count("ok"), server.accepted()), (5, 5));
}

#[test]
fn a_connection_that_only_hops_have_used_ends_with_them() {
    let other = serving(|asked, _| answer(asked.stream, "x"));
    let place = format!("http://127.0.0.1:{}/", other.address.port());
    let server = serving(move |asked, _| leads_to(asked.stream, "302", &place));
    let ran = run(&following(&server, 1, 5));
    ran.assert_all_ok();
    assert_eq!((server.accepted(), other.accepted()), (1, 5));
}

#[test]
fn no_loop_goes_on_and_nonsense_is_named() {
    for (location, error) in [
        ("/", "too_many_redirects"),
        ("http://host/", "too_many_redirects"),
        ("gopher://host/", "bad_redirect"),
        ("", "bad_redirect"),
        ("http://unknown.test/", "unauthorised_target"),
        ("https://host/", "unauthorised_target"),
    ] {
        let server = serving(move |asked, _| leads_to(asked.stream, "302", location));
        let ran = run(&following(&server, 3, 4));
        ran.assert_all_fail_with(error);
        let hops = if error == "too_many_redirects" { 12 } else { 0 };
        assert_eq!(ran.count("redirect_hops"), hops, "{location}");
    }
    // A redirect without a place, and one that nobody asked to follow.
    let server = serving(|asked, _| headers(asked.stream, flag::END_STREAM, &[(":status", "302")]));
    run(&following(&server, 3, 2)).assert_all_fail_with("bad_redirect");
    run(&following(&server, 0, 2)).assert_all_ok();
}

#[test]
fn no_packet_goes_where_the_load_may_not() {
    let stranger = serving(|asked, _| answer(asked.stream, "never"));
    let port = stranger.address.port();
    for place in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.2:{port}/"),
        format!("http://stranger.test:{port}/"),
        format!("//127.0.0.1:{port}/"),
    ] {
        let server = serving({
            let place = place.clone();
            move |asked, _| leads_to(asked.stream, "302", &place)
        });
        let mut share = following(&server, 3, 4);
        // All of loopback but this address.
        share["endpoints"]["http://host"]["address"] = server.address.to_string().into();
        share["allowed"] = json!(["127.0.0.1/32"]);
        if place.contains("127.0.0.1") {
            // Named by the share, and not allowed by it.
            share["endpoints"][format!("http://127.0.0.1:{port}")] =
                json!({"address": format!("127.0.0.3:{port}"), "tls": null});
        }
        let ran = run(&share);
        ran.assert_all_fail_with("unauthorised_target");
        assert!(!ran.summary["unauthorised"].as_array().unwrap().is_empty());
    }
    assert_eq!(stranger.accepted(), 0);
}

#[test]
fn a_hop_without_tls_goes_by_prior_knowledge_too() {
    let old = Server::answering(|_| ok("old"));
    let place = format!("http://127.0.0.1:{}/", old.address.port());
    let server = serving(move |asked, _| leads_to(asked.stream, "302", &place));
    run(&following(&server, 1, 2)).assert_all_fail_with("http2_not_negotiated");
}

#[test]
fn hostile_hops_end_by_their_names() {
    type Make = fn(u32) -> Vec<u8>;
    let bombs: &[(&str, Make)] = &[
        ("header_too_large", |id| {
            let mut bytes = frame_of(kind::HEADERS, 0, id, &[0x48, 3, b'3', b'0', b'2']);
            bytes.extend(frame_of(kind::CONTINUATION, 0, id, &[0xbe; 16_000]).repeat(6));
            bytes
        }),
        ("header_too_large", |id| {
            let large = format!("/{}", "y".repeat(16_000));
            let mut bytes = headers(id, 0, &[(":status", "103"), ("link", &large)]).repeat(5);
            bytes.extend(leads_to(id, "302", &large));
            bytes
        }),
        ("http2_malformed", |id| {
            headers(
                id,
                flag::END_STREAM,
                &[(":status", "302"), ("location", "/a\r\nx: y")],
            )
        }),
        ("http2_reset_cancel", |id| {
            let mut bytes = headers(id, 0, &[(":status", "302"), ("location", "/a")]);
            bytes.extend(frame_of(kind::RST_STREAM, 0, id, &8u32.to_be_bytes()));
            bytes
        }),
        ("timeout_body", |id| {
            headers(id, 0, &[(":status", "302"), ("location", "/a")])
        }),
        ("header_too_large", |id| {
            // Hints without end, a byte each.
            let mut bytes = frame_of(
                kind::HEADERS,
                flag::END_HEADERS,
                id,
                &[0x48, 3, b'1', b'0', b'3'],
            );
            bytes.extend(frame_of(kind::HEADERS, flag::END_HEADERS, id, &[0xbe]).repeat(9_000));
            bytes
        }),
    ];
    for (error, make) in bombs {
        let server = peer(move |mut peer| {
            let asked = peer.request()?;
            peer.send(&make(asked.stream))?;
            peer.drain();
            None
        });
        let mut share = following(&server, 5, 2);
        share["groups"][0]["connection"] = "new".into();
        share["groups"][0]["request"]["timeout_ns"] = (300 * MS).into();
        run(&share).assert_all_fail_with(error);
    }
}

#[test]
fn a_server_that_leaves_as_it_redirects_is_asked_on_a_new_connection() {
    let server = peer(|mut peer| {
        while let Some(asked) = peer.request() {
            let last = asked.stream.to_be_bytes();
            if asked.fields[":path"] == "/" {
                let goaway = frame_of(kind::GOAWAY, 0, 0, &[last, [0; 4]].concat());
                let bytes = [leads_to(asked.stream, "302", "/b"), goaway].concat();
                peer.send(&bytes)?;
            } else {
                peer.answer(asked.stream, "x")?;
            }
        }
        None
    });
    let ran = run(&following(&server, 1, 4));
    ran.assert_all_ok();
    assert_eq!(ran.count("redirect_hops"), 4);
}
