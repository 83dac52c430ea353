//! Ways to a server: IPv6, Unix sockets, and addresses of one's own, each only where it is allowed; and how long one may take.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::common::http2::{polite, share_of};
use crate::common::tls::lab;
use crate::common::{ok, read_head, refusal, run, serve, share, Ran, Server, MS};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{json, Value};

/// A socket file of this test, gone with it.
struct Socket(PathBuf);

impl Socket {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("svload-{}-{name}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Socket(path)
    }

    fn address(&self) -> String {
        format!("unix:{}", self.0.display())
    }

    fn answering(name: &str) -> Self {
        let socket = Socket::new(name);
        let listener = UnixListener::bind(&socket.0).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream, &|_: &str| ok("hello")));
            }
        });
        socket
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn to(address: &str, allowed: &[&str]) -> Value {
    let mut share = share("127.0.0.1:1".parse().unwrap());
    share["endpoints"] = json!({"http://host": {"address": address, "tls": null}});
    share["allowed"] = json!(allowed);
    share
}

#[test]
fn ipv6_is_loaded_where_it_is_allowed() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, &|_: &str| ok("hello")));
        }
    });
    run(&to(&address.to_string(), &["::1/128"])).assert_all_ok();
    let forbidden = run(&to(&address.to_string(), &["127.0.0.0/8"]));
    forbidden.assert_all_fail_with("unauthorised_target");
    assert_eq!(forbidden.count("connections_opened"), 0);
}

#[test]
fn a_redirect_to_an_ipv6_address_is_followed() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let there = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, &|_: &str| ok("there")));
        }
    });
    let server = Server::answering(move |_| {
        format!("HTTP/1.1 302 Go\r\nLocation: http://{there}/x\r\nContent-Length: 0\r\n\r\n")
            .into_bytes()
    });
    let mut share = to(&server.address.to_string(), &["127.0.0.0/8", "::1/128"]);
    share["groups"][0]["follow_redirects"] = 1.into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert!(ran.count("redirect_hops") > 0);
}

#[test]
fn a_unix_socket_is_loaded_by_its_path() {
    let socket = Socket::answering("loaded");
    for connection in ["keep-alive", "new"] {
        let mut share = to(&socket.address(), &[&socket.address()]);
        share["groups"][0]["connection"] = connection.into();
        let ran = run(&share);
        ran.assert_all_ok();
        assert_eq!(ran.count("body_bytes"), 5 * ran.count("ok"));
    }
}

#[test]
fn a_unix_socket_that_is_not_named_is_not_connected_to() {
    let socket = Socket::answering("forbidden");
    let ran = run(&to(
        &socket.address(),
        &["127.0.0.0/8", "unix:/elsewhere.sock"],
    ));
    ran.assert_all_fail_with("unauthorised_target");
    assert_eq!(ran.summary["unauthorised"], json!(["http://host:80"]));
}

#[test]
fn a_unix_socket_that_is_not_there_refuses() {
    let socket = Socket::new("absent");
    run(&to(&socket.address(), &[&socket.address()])).assert_all_fail_with("connect_refused");
}

#[test]
fn connections_leave_from_the_given_addresses_in_turn() {
    let (peers, seen) = channel::<IpAddr>();
    let peers = Mutex::new(peers);
    let server = Server::start(move |stream| {
        let from = stream.peer_addr().unwrap().ip();
        peers.lock().unwrap().send(from).unwrap();
        serve(stream, &|_: &str| ok("x"));
    });
    let mut share = to(&server.address.to_string(), &["127.0.0.0/8"]);
    let group = &mut share["groups"][0];
    group["connection"] = "new".into();
    group["executor"] = json!({"kind": "constant-vus", "vus": 2, "limit": 30});
    group["source_addresses"] = json!(["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    let ran = run(&share);
    ran.assert_all_ok();
    let mut counts = BTreeMap::new();
    for from in seen.try_iter() {
        *counts.entry(from.to_string()).or_insert(0) += 1;
    }
    let each: u64 = ran.count("connections_opened") / 3;
    assert_eq!(counts.len(), 3, "{counts:?}");
    assert!(
        counts.values().all(|n: &u64| n.abs_diff(each) <= 1),
        "{counts:?}"
    );
}

#[test]
fn a_source_address_that_the_machine_lacks_is_refused() {
    let mut share = to("127.0.0.1:1", &["127.0.0.0/8"]);
    for (text, problem) in [
        ("192.0.2.9", "192.0.2.9 is no address of this machine"),
        ("here", "\"here\" is no IP address"),
    ] {
        share["groups"][0]["source_addresses"] = json!(["127.0.0.1", text]);
        let said = refusal(&share);
        assert_eq!(
            said,
            format!("share.groups[0].source_addresses[1]: {problem}")
        );
    }
}

#[test]
fn users_share_what_is_free() {
    let counted = |connection: &str| {
        let server = Server::answering(|_| ok("x"));
        let mut share = to(&server.address.to_string(), &["127.0.0.0/8"]);
        let group = &mut share["groups"][0];
        group["connection"] = connection.into();
        // Ten users an equal time apart: hardly ever two at once.
        group["executor"] = json!({"kind": "constant-vus", "vus": 10, "spread_ns": 500_000_000,
            "think_time": {"constant_ns": 500_000_000}, "limit": 30});
        group["stop_offset_ns"] = 60_000_000_000u64.into();
        let ran = run(&share);
        ran.assert_all_ok();
        assert_eq!(ran.count("ok"), 30);
        assert_eq!(
            ran.samples("reused")
                .iter()
                .filter(|one| **one == 0)
                .count() as u64,
            ran.count("connections_opened")
        );
        ran.count("connections_opened")
    };
    assert_eq!(counted("keep-alive"), 10);
    assert!(counted("shared") <= 5);
}

#[test]
fn a_shared_connection_that_ends_while_it_is_free_is_not_used() {
    let server = Server::start(|stream| {
        let answered = std::sync::atomic::AtomicBool::new(false);
        serve(stream, &move |_: &str| {
            // The second request on a connection ends it with its answer.
            if answered.swap(true, std::sync::atomic::Ordering::SeqCst) {
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx".to_vec()
            } else {
                ok("x")
            }
        });
    });
    let mut share = to(&server.address.to_string(), &["127.0.0.0/8"]);
    share["groups"][0]["connection"] = "shared".into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert!(ran.count("connections_opened") >= ran.count("ok") / 2);
}

#[test]
fn an_open_loop_has_no_users_to_share() {
    let mut share = to("127.0.0.1:1", &["127.0.0.0/8"]);
    crate::common::open(&mut share, 10.0, 4);
    share["groups"][0]["connection"] = "shared".into();
    assert!(refusal(&share).starts_with("share.groups[0].connection: shared belongs to closed"));
}

/// What is asked in it may last 5 s, a connection 50 ms to stand.
fn bounded(mut share: Value) -> Value {
    let group = &mut share["groups"][0];
    group["request"]["timeout_ns"] = (5_000 * MS).into();
    group["connect_timeout_ns"] = (50 * MS).into();
    share
}

/// Each request ended when its connection had not stood in time, long before its own time was over.
fn assert_given_up_in_time(ran: &Ran, error: &str) {
    ran.assert_all_fail_with(error);
    assert_eq!(ran.count("written"), 0);
    let took = ran
        .samples("done_ns")
        .into_iter()
        .zip(ran.samples("begun_ns"));
    for (done_ns, begun_ns) in took {
        assert!((50 * MS..4_000 * MS).contains(&(done_ns - begun_ns)));
    }
}

/// A server that takes connections and says nothing.
fn silent() -> Server {
    Server::start(|mut stream: TcpStream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

#[test]
fn a_connect_that_nobody_answers_is_given_up() {
    // A listener whose queue is full drops further SYNs.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    socket2::SockRef::from(&listener).listen(0).unwrap();
    let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(50));
    let fillers: Vec<_> = (0..4).map(fill).collect();
    assert!(fillers.iter().any(Result::is_err), "the queue takes all");
    let ran = run(&bounded(share(address)));
    assert_given_up_in_time(&ran, "connect_timeout");
}

#[test]
fn a_handshake_that_nobody_answers_is_given_up() {
    let (server, lab) = (silent(), lab("cache.test"));
    let tls = json!({"server_name": "cache.test", "ca_pem": lab.ca_pem});
    for http2 in [None, Some(json!({"streams": 4}))] {
        let mut share = bounded(share(server.address));
        share["endpoints"] =
            json!({"https://cache.test": {"address": server.address.to_string(), "tls": tls}});
        share["groups"][0]["request"]["endpoint"] = "https://cache.test".into();
        share["groups"][0]["executor"] = json!({"kind": "constant-vus", "vus": 4, "limit": 8});
        share["groups"][0]["stop_offset_ns"] = (5_000 * MS).into();
        share["groups"][0]["http2"] = http2.clone().unwrap_or(Value::Null);
        let before = server.accepted();
        let ran = run(&share);
        assert_given_up_in_time(&ran, "tls_timeout");
        assert_eq!(ran.count("failed"), 8);
        // Users of HTTP/2 share one connection at a time, and all that wait for it end with it.
        let opened = server.accepted() - before;
        assert_eq!(opened, if http2.is_some() { 2 } else { 8 });
    }
}

#[test]
fn an_answer_may_take_longer_than_its_connection() {
    let server = Server::answering(|_| {
        thread::sleep(Duration::from_millis(120));
        ok("late")
    });
    let mut share = bounded(share(server.address));
    share["groups"][0]["connection"] = "new".into();
    run(&share).assert_all_ok();
    let server = polite(&[]);
    let ran = run(&bounded(share_of(server.address, 4, 1, 40)));
    ran.assert_all_ok();
}

#[test]
fn no_time_at_all_is_refused() {
    let mut share = share("127.0.0.1:1".parse().unwrap());
    share["groups"][0]["connect_timeout_ns"] = 0.into();
    assert_eq!(
        refusal(&share),
        "share.groups[0].connect_timeout_ns: must be positive"
    );
}

#[test]
fn a_long_text_leaves_whole_over_tls_however_little_the_socket_takes() {
    const SIZES: usize = 12;
    let lab = lab("cache.test");
    let socket = Socket::new("text");
    let listener = UnixListener::bind(&socket.0).unwrap();
    let config = lab.config.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(session, stream));
            let head = read_head(&mut stream).unwrap();
            // The client fills the socket meanwhile.
            thread::sleep(Duration::from_millis(20));
            let length = head.split("Content-Length: ").nth(1).unwrap();
            let length = length.split("\r\n").next().unwrap().parse().unwrap();
            if stream.read_exact(&mut vec![0; length]).is_ok() {
                let _ = stream.get_mut().write_all(&ok("hello"));
            }
        }
    });
    let mut share = to(&socket.address(), &[&socket.address()]);
    let tls = json!({"server_name": "cache.test", "ca_pem": lab.ca_pem});
    share["endpoints"] = json!({"https://cache.test": {"address": socket.address(), "tls": tls}});
    let group = share["groups"][0].as_object_mut().unwrap();
    let mut request = group.remove("request").unwrap();
    request["endpoint"] = "https://cache.test".into();
    request["method"] = "PUT".into();
    // One of these sizes is what the socket takes, and a little more.
    let step = |number: usize| {
        request["body"] = json!({"text": [{"text": "y".repeat(number * 32 * 1024)}]});
        request["name"] = number.to_string().into();
        json!({"request": request})
    };
    let steps: Vec<Value> = (1..=SIZES).map(step).collect();
    group.insert("scenarios".to_owned(), json!([{"steps": steps}]));
    group.insert("connection".to_owned(), "new".into());
    group.insert("stop_offset_ns".to_owned(), (20_000 * MS).into());
    let once = json!({"kind": "per-vu-iterations", "vus": 1, "iterations": 1});
    group.insert("executor".to_owned(), once);
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), SIZES as u64);
}
