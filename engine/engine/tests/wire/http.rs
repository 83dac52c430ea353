//! The engine against a tiny plain-HTTP server: what works is counted as ok, what fails by its right name.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::common::{ok, open, read_head, refusal, run, run_with, share, Server, MS};
use indexmap::IndexMap;
use serde_json::{json, Value};
use svload_engine::{Column, Table};

#[test]
fn kept_connections_carry_all_requests() {
    let server = Server::answering(|_| ok("hello"));
    let ran = run(&share(server.address));
    ran.assert_all_ok();
    assert!(ran.count("ok") > 2, "{}", ran.group());
    assert_eq!(ran.count("connections_opened"), 2);
    assert_eq!(server.accepted(), 2);
    assert_eq!(ran.group()["status"]["200"], ran.group()["ok"]);
    assert_eq!(ran.count("body_bytes"), 5 * ran.count("ok"));
    assert_eq!(
        ran.count("bytes_received"),
        (ok("hello").len() as u64) * ran.count("ok")
    );
    let request = "GET / HTTP/1.1\r\nHost: host\r\nUser-Agent: svload\r\nAccept: */*\r\n\r\n";
    assert!(ran
        .samples("request_bytes")
        .iter()
        .all(|n| *n == request.len() as i64));
    assert_eq!(
        ran.count("bytes_sent"),
        request.len() as u64 * ran.count("written")
    );
    assert_eq!(
        ran.samples("reused")
            .iter()
            .filter(|reused| **reused == 0)
            .count(),
        2
    );
    assert_eq!(ran.samples("header_bytes")[0], 38);
    assert_eq!(ran.summary["stopped"], "end");
    // Kernel receive stamps.
    assert!(ran
        .samples("read_lag_ns")
        .iter()
        .any(|lag| (0..100 * MS).contains(lag)));
}

#[test]
fn a_new_connection_for_each_request() {
    let (heads, seen) = channel();
    let heads = Mutex::new(heads);
    let server = Server::answering(move |head| {
        heads.lock().unwrap().send(head.to_owned()).unwrap();
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_vec()
    });
    let mut share = share(server.address);
    share["groups"][0]["connection"] = "new".into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("connections_opened"), ran.count("begun"));
    assert_eq!(server.accepted() as u64, ran.count("begun"));
    assert!(ran.samples("reused").iter().all(|reused| *reused == 0));
    assert!(seen
        .try_iter()
        .all(|head| head.contains("Connection: close")));
    let (connect, pretransfer) = (ran.samples("connect_ns"), ran.samples("pretransfer_ns"));
    let lookup = ran.samples("lookup_ns");
    for row in 0..connect.len() {
        assert!(
            lookup[row] <= connect[row] && 0 < connect[row] && connect[row] <= pretransfer[row]
        );
    }
}

#[test]
fn every_framing_is_read_to_its_end() {
    for answer in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: r\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabcde",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
    ] {
        let server = Server::answering(move |_| answer.as_bytes().to_vec());
        let mut share = share(server.address);
        share["groups"][0]["request"]["checks"] = json!([{"name": "size", "size_bytes": 5}]);
        let ran = run(&share);
        ran.assert_all_ok();
        let closes = answer.contains("close");
        assert_eq!(ran.count("connections_opened") == ran.count("begun"), closes, "{answer}");
    }
}

#[test]
fn stalls_end_in_the_right_timeout() {
    for (answer, error) in [
        ("", "timeout_first_byte"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "timeout_body",
        ),
    ] {
        let server = Server::start(move |stream| {
            let mut stream = BufReader::new(stream);
            read_head(&mut stream);
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            read_head(&mut stream);
        });
        let mut share = share(server.address);
        share["groups"][0]["request"]["timeout_ns"] = (20 * MS).into();
        let ran = run(&share);
        ran.assert_all_fail_with(error);
        let (begun, done) = (ran.samples("begun_ns"), ran.samples("done_ns"));
        assert!(begun
            .iter()
            .zip(done)
            .all(|(begun, done)| done - begun >= 20 * MS));
    }
}

#[test]
fn a_connect_that_nobody_answers_times_out() {
    // A listener whose queue is full drops further SYNs.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = socket2::SockRef::from(&listener);
    socket.listen(0).unwrap();
    let fillers: Vec<_> = (0..4)
        .map(|_| {
            std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(50))
        })
        .collect();
    assert!(fillers.iter().any(Result::is_err), "the queue takes all");
    let mut share = share(address);
    share["groups"][0]["request"]["timeout_ns"] = (20 * MS).into();
    let ran = run(&share);
    ran.assert_all_fail_with("connect_timeout");
    assert_eq!(
        (ran.count("written"), ran.count("connections_opened")),
        (0, 0)
    );
}

#[test]
fn a_refused_vu_does_not_spin() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut share = share(address);
    share["groups"][0]["executor"]["think_time"] = json!({"constant_ns": 0});
    let ran = run(&share);
    ran.assert_all_fail_with("connect_refused");
    assert!((2..=20).contains(&ran.count("failed")), "{}", ran.group());
    assert!(ran.samples("written_ns").iter().all(|at| *at == -1));
    // 10 ms after each failure; the stop cuts the last pause of both users.
    let paused_ns = (i64::try_from(ran.count("failed")).unwrap() - 2) * 10 * MS;
    assert!(ran.group()["vu_time"]["think_ns"].as_i64().unwrap() >= paused_ns);
}

#[test]
fn resets_are_told_apart() {
    let reset = |after: usize| {
        let server = Server::start(move |stream| {
            let mut stream = BufReader::new(stream);
            for _ in 0..after {
                read_head(&mut stream);
                stream.get_mut().write_all(&ok("x")).unwrap();
            }
            read_head(&mut stream);
            socket2::SockRef::from(stream.get_ref())
                .set_linger(Some(std::time::Duration::ZERO))
                .unwrap();
        });
        let mut share = share(server.address);
        share["groups"][0]["executor"]["think_time"] = json!({"constant_ns": 0});
        share["groups"][0]["executor"]["limit"] = 8.into();
        run(&share)
    };
    reset(0).assert_all_fail_with("read_reset");
    let stale = reset(1);
    assert_eq!(
        stale.errors().keys().collect::<Vec<_>>(),
        ["stale_connection"]
    );
    assert_eq!((stale.count("ok"), stale.count("failed")), (4, 4));
}

#[test]
fn a_connection_closed_while_idle_is_no_error() {
    let server = Server::start(|stream| {
        let mut stream = BufReader::new(stream);
        read_head(&mut stream);
        stream.get_mut().write_all(&ok("x")).unwrap();
    });
    let mut share = share(server.address);
    share["groups"][0]["executor"]["think_time"] = json!({"constant_ns": 20 * MS});
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("connections_opened"), ran.count("begun"));
}

#[test]
fn statuses_and_checks_decide() {
    let server = Server::answering(|head| match head {
        head if head.starts_with("GET /missing") => {
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        _ => ok("abc"),
    });
    let table: Table = [
        (
            "path".to_owned(),
            Column::Utf8(vec!["/a".into(), "/missing".into(), "/b".into()]),
        ),
        ("size_bytes".to_owned(), Column::U64(vec![3, 0, 4])),
    ]
    .into_iter()
    .collect();
    let inputs: IndexMap<_, _> = [("objects".to_owned(), table)].into_iter().collect();
    let mut share = share(server.address);
    let group = &mut share["groups"][0];
    group["executor"] = json!({"kind": "constant-vus", "vus": 1, "limit": 6});
    group["feeders"] = json!({"object": {"table": "objects", "take": "walk"}});
    group["request"]["path"] = json!([{"feeder": "object", "column": "path"}]);
    group["request"]["checks"] =
        json!([{"name": "size", "size_bytes": {"feeder": "object", "column": "size_bytes"}}]);
    let ran = run_with(&share, &inputs);
    assert_eq!(ran.group()["errors"], json!({"status": 2, "check": 2}));
    assert_eq!(ran.count("ok"), 2);
    assert_eq!(ran.group()["checks_failed"], json!({"size": 2}));
    assert_eq!(ran.column("rows", "asked"), [2, 2, 2]);
    assert_eq!(ran.samples("row"), [0, 1, 2, 0, 1, 2]);
    assert_eq!(ran.count("early_repeats"), 0);
    share["groups"][0]["feeders"]["object"]["take"] = "first".into();
    let first = run_with(&share, &inputs);
    assert_eq!((first.count("ok"), first.count("early_repeats")), (6, 4));
}

#[test]
fn open_arrivals_are_due_whatever_the_server_does() {
    let server = Server::answering(|_| ok("x"));
    let mut share = share(server.address);
    open(&mut share, 500.0, 64);
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("due"), 50);
    assert_eq!((ran.count("dropped"), ran.count("waiting")), (0, 0));
    let dues = ran.samples("due_ns");
    share["threads"] = 2.into();
    let again = run(&share);
    assert_eq!(again.samples("due_ns"), dues);
    assert_eq!(again.samples("seq"), ran.samples("seq"));
    assert_eq!(again.summary["threads"].as_array().unwrap().len(), 2);
}

#[test]
fn a_full_pool_waits_or_drops() {
    let in_flight = Arc::new(AtomicUsize::new(0));
    let peak = Arc::new(AtomicUsize::new(0));
    let (level, highest) = (in_flight, peak.clone());
    let (release, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::answering(move |_| {
        highest.fetch_max(level.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Holds every answer for 20 ms: nobody ever sends.
        let _ = gate
            .lock()
            .unwrap()
            .recv_timeout(std::time::Duration::from_millis(20));
        level.fetch_sub(1, Ordering::SeqCst);
        ok("x")
    });
    let mut share = share(server.address);
    open(&mut share, 500.0, 2);
    share["groups"][0]["graceful_stop_ns"] = (100 * MS).into();
    let ran = run(&share);
    assert_eq!(ran.count("due"), 50);
    assert!(ran.count("waiting") > 20, "{}", ran.group());
    assert!(peak.load(Ordering::SeqCst) <= 2);
    assert!(ran.count("connections_opened") <= 2);
    let (due, ready) = (ran.samples("due_ns"), ran.samples("ready_ns"));
    assert!(due
        .iter()
        .zip(ready)
        .any(|(due, ready)| ready - due > 15 * MS));
    share["groups"][0]["executor"]["on_full"] = "drop".into();
    let dropping = run(&share);
    assert_eq!((dropping.count("due"), dropping.count("waiting")), (50, 0));
    assert!(dropping.count("dropped") > 20);
    drop(release);
}

#[test]
fn redirects_are_followed_as_children() {
    let server = Server::answering(|head| match head {
        head if head.starts_with("GET /go ") => {
            b"HTTP/1.1 302 Found\r\nLocation: there?x=1\r\nContent-Length: 4\r\n\r\nskip".to_vec()
        }
        head if head.starts_with("GET /there?x=1 ") => ok("arrived"),
        _ => b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let mut share = share(server.address);
    share["groups"][0]["request"]["path"] = json!([{"text": "/go"}]);
    let unfollowed = run(&share);
    unfollowed.assert_all_ok();
    assert_eq!(
        unfollowed.group()["status"]["302"],
        unfollowed.group()["ok"]
    );
    share["groups"][0]["follow_redirects"] = 3.into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("redirect_hops"), ran.count("ok"));
    assert_eq!(ran.group()["status"], json!({"200": ran.count("ok")}));
    assert_eq!(ran.group()["hop_status"], json!({"302": ran.count("ok")}));
    assert_eq!(ran.count("connections_opened"), 2);
    assert!(ran.samples("redirects").iter().all(|n| *n == 1));
    assert!(ran.samples("redirect_ns").iter().all(|ns| *ns > 0));
    assert!(ran.samples("read_lag_ns").iter().any(|ns| *ns >= 0));
    assert!(ran.samples("body_bytes").iter().all(|n| *n == 7));
}

#[test]
fn redirects_go_nowhere_they_may_not() {
    let elsewhere = Server::answering(|_| ok("secret"));
    let port = elsewhere.address.port();
    let target = format!("http://127.0.0.1:{port}/x");
    for (location, allowed, error, noted) in [
        (
            target.clone(),
            "127.0.0.2/32",
            "unauthorised_target",
            format!("http://127.0.0.1:{port}"),
        ),
        (
            "http://unknown.example/x".to_owned(),
            "127.0.0.0/8",
            "unauthorised_target",
            "http://unknown.example:80".to_owned(),
        ),
        (
            "/loop".to_owned(),
            "127.0.0.0/8",
            "too_many_redirects",
            String::new(),
        ),
    ] {
        let answer =
            format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = answer.clone();
                std::thread::spawn(move || {
                    crate::common::serve(stream, &move |_: &str| answer.clone().into_bytes())
                });
            }
        });
        let mut share = share(address);
        share["allowed"] = json!([allowed]);
        share["groups"][0]["follow_redirects"] = 2.into();
        let ran = run(&share);
        ran.assert_all_fail_with(error);
        let noted: Vec<String> = Some(noted)
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        assert_eq!(ran.summary["unauthorised"], json!(noted));
    }
    assert_eq!(elsewhere.accepted(), 0);
    let mut share = share(elsewhere.address);
    share["allowed"] = json!(["127.0.0.2/32"]);
    let ran = run(&share);
    ran.assert_all_fail_with("unauthorised_target");
    assert_eq!(ran.summary["unauthorised"], json!(["http://host:80"]));
    assert_eq!(elsewhere.accepted(), 0);
}

#[test]
fn a_redirect_to_an_allowed_address_is_followed() {
    let elsewhere = Server::answering(|_| ok("there"));
    let location = format!("http://{}/x", elsewhere.address);
    let server = Server::answering(move |_| {
        format!("HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let mut share = share(server.address);
    share["groups"][0]["follow_redirects"] = 1.into();
    let ran = run(&share);
    ran.assert_all_ok();
    // The connection to the group's own endpoint is kept, the other lives for its hop.
    assert_eq!(server.accepted(), 2);
    assert_eq!(elsewhere.accepted() as u64, ran.count("ok"));
}

/// A share whose only server redirects to another one (`OTHER` in `location`), and what that other one was asked.
fn to_another_host(status: u16, location: &str) -> (Value, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let other = Server::answering(move |head| {
        kept.lock().unwrap().push(head.to_owned());
        ok("arrived")
    });
    let location = location.replace("OTHER", &format!("http://{}", other.address));
    let first = Server::start(move |stream| {
        let mut stream = BufReader::new(stream);
        let answer =
            format!("HTTP/1.1 {status} Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        while let Some(head) = read_head(&mut stream) {
            let length = head.split("Content-Length: ").nth(1);
            let length = length.and_then(|rest| rest.split('\r').next()?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).unwrap();
            if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut share = share(first.address);
    share["groups"][0]["follow_redirects"] = 1.into();
    (share, seen)
}

#[test]
fn a_secret_in_a_header_follows_no_redirect_to_another_host() {
    let (mut share, seen) = to_another_host(302, "OTHER/x");
    share["groups"][0]["request"]["headers"] = json!([
        ["X-T", [{"secret": "hush"}]],
        ["X-Api-Key", [{"text": "hush"}]],
        ["X-Auth-Token", [{"text": "hush"}]],
        ["X-One", [{"text": "1"}]]
    ]);
    run(&share).assert_all_ok();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(seen
        .iter()
        .all(|head| head.contains("X-One: 1") && !head.contains("hush")));
}

#[test]
fn a_redirect_that_would_take_a_secret_to_another_host_is_not_followed() {
    let header = json!([["X-T", [{"secret": "hush-hush"}]]]);
    let body = json!({"text": [{"text": "t="}, {"secret": "hush-hush"}]});
    for (status, location, headers, body, follows) in [
        (302, "OTHER/x?t=hush%2Dhush", &header, &json!(null), false),
        (308, "OTHER/hush-hush/x", &header, &json!(null), false),
        (307, "OTHER/x", &json!([]), &body, false),
        (308, "OTHER/x", &json!([]), &body, false),
        (303, "OTHER/x", &json!([]), &body, true),
        (302, "OTHER/x?t=hush", &header, &json!(null), true),
    ] {
        let (mut share, seen) = to_another_host(status, location);
        let request = &mut share["groups"][0]["request"];
        request["method"] = "POST".into();
        request["headers"] = headers.clone();
        request["body"] = body.clone();
        let ran = run(&share);
        let seen = seen.lock().unwrap();
        if follows {
            ran.assert_all_ok();
            assert!(!seen.is_empty() && !seen.concat().contains("hush-"));
        } else {
            ran.assert_all_fail_with("secret_redirect");
            assert_eq!(seen.len(), 0);
        }
    }
}

#[test]
fn a_secret_follows_a_redirect_of_its_own_host() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let server = Server::answering(move |head| {
        kept.lock().unwrap().push(head.to_owned());
        match head.contains(" /here?t=hush-hush ") {
            true => ok("stayed"),
            false => b"HTTP/1.1 302 Go\r\nLocation: /here?t=hush-hush\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
        }
    });
    let mut share = share(server.address);
    share["groups"][0]["follow_redirects"] = 1.into();
    share["groups"][0]["request"]["headers"] =
        json!([["X-T", [{"secret": "hush-hush"}]], ["X-Api-Key", [{"text": "k"}]]]);
    run(&share).assert_all_ok();
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|head| head.contains(" /here?")));
    assert!(seen
        .iter()
        .all(|head| head.contains("X-T: hush-hush\r\nX-Api-Key: k\r\n")));
}

#[test]
fn a_redirect_to_localhost_is_one_to_the_loopback_that_sent_it() {
    let elsewhere = Server::answering(|_| ok("there"));
    let port = elsewhere.address.port();
    for (host, allowed, followed) in [
        ("localhost", "127.0.0.0/8", true),
        ("LOCALHOST.localdomain", "127.0.0.0/8", true),
        ("localhost", "127.0.0.2/32", false),
        ("localhost.example", "127.0.0.0/8", false),
    ] {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!(
            "HTTP/1.1 302 Go\r\nLocation: http://{host}:{port}/x\r\nContent-Length: 0\r\n\r\n"
        );
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = answer.clone();
                std::thread::spawn(move || {
                    crate::common::serve(stream, &move |_: &str| answer.clone().into_bytes())
                });
            }
        });
        let mut share = share(address);
        share["allowed"] = json!([allowed]);
        share["groups"][0]["follow_redirects"] = 1.into();
        let ran = run(&share);
        if followed {
            ran.assert_all_ok();
        } else {
            ran.assert_all_fail_with("unauthorised_target");
        }
    }
}

#[test]
fn a_redirect_to_another_port_of_a_named_host_goes_to_its_address() {
    let elsewhere = Server::answering(|_| ok("there"));
    let port = elsewhere.address.port();
    let server = Server::answering(move |_| {
        format!(
            "HTTP/1.1 302 Go\r\nLocation: http://shop.test:{port}/x\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    });
    let here = server.address.port();
    // A name that stands for a server of the lab, at a port that no URL of it says, tells nothing of its other ports.
    for (origin, followed) in [
        (format!("http://shop.test:{here}"), true),
        ("http://shop.test".to_owned(), false),
    ] {
        let mut share = share(server.address);
        share["endpoints"] = json!({&origin: {"address": server.address.to_string(), "tls": null}});
        share["groups"][0]["request"]["endpoint"] = origin.into();
        share["groups"][0]["follow_redirects"] = 1.into();
        let ran = run(&share);
        if followed {
            ran.assert_all_ok();
        } else {
            ran.assert_all_fail_with("unauthorised_target");
        }
    }
}

#[test]
fn a_stopped_load_keeps_both_identities() {
    for executor in [
        json!({"kind": "constant-vus", "vus": 5}),
        json!({"kind": "constant-arrival-rate", "rate_rps": 2000.0, "max_vus": 3}),
    ] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let served = AtomicUsize::new(0);
        let writer = Mutex::new(Some(writer));
        let server = Server::answering(move |_| {
            if served.fetch_add(1, Ordering::SeqCst) == 40 {
                writer.lock().unwrap().take();
            }
            ok("x")
        });
        let mut share = share(server.address);
        share["groups"][0]["stop_offset_ns"] = (60_000 * MS).into();
        share["groups"][0]["executor"] = executor;
        share["stop_fd"] = std::os::fd::AsRawFd::as_raw_fd(&reader).into();
        share["threads"] = 2.into();
        let ran = run(&share);
        assert_eq!(ran.summary["stopped"], "stop_fd");
        assert!(ran.count("begun") >= 40);
        assert!(ran.summary["threads"][0]["wall_ns"].as_i64().unwrap() < 30_000 * MS);
        std::io::Read::read(&mut reader, &mut [0]).unwrap();
    }
}

#[test]
fn a_share_in_the_past_is_refused() {
    let mut share = share("127.0.0.1:1".parse().unwrap());
    share["start_at_ns"] = 5.into();
    assert!(refusal(&share).starts_with("share.start_at_ns: "));
    share["start_at_ns"] = 0.into();
    share["allowed"] = json!(["everywhere"]);
    assert_eq!(
        refusal(&share),
        "share.allowed: \"everywhere\" is no CIDR block"
    );
}
