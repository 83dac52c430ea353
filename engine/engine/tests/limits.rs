//! The generator's own limits are told by name. One test alone, since it lowers the limit of its process.

mod common;

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use common::{ok, read_head, run, share, Server, MS};
use serde_json::json;

fn descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

/// Lowers or raises the soft limit of this process.
fn allow(descriptors: u64) {
    let limit = libc::rlimit {
        rlim_cur: descriptors,
        rlim_max: 20_000,
    };
    // SAFETY: passes a live rlimit; only the soft limit of this process changes.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

#[test]
fn running_out_of_descriptors_is_named_and_kept_closes_are_given_up_first() {
    let server = Server::answering(|_| ok("x"));
    let mut share = share(server.address);
    share["groups"][0]["executor"]["vus"] = 60.into();
    // The server lives in this process: each connection costs two descriptors.
    let before = descriptors();
    allow(before + 40);
    let ran = run(&share);
    assert!(ran.errors()["emfile"] > 0, "{}", ran.group());
    assert_eq!(
        ran.count("ok") + ran.count("failed"),
        ran.count("begun"),
        "{}",
        ran.group()
    );
    // What still waits to be accepted is accepted before this connection, and closed when its thread gets to run.
    allow(20_000);
    let mut last = TcpStream::connect(server.address).unwrap();
    last.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(last.read(&mut [0]).unwrap(), 1);
    drop(last);
    let ends = Instant::now() + Duration::from_secs(120);
    while descriptors() > before {
        assert!(Instant::now() < ends, "{} descriptors", descriptors());
        thread::sleep(Duration::from_millis(10));
    }
    allow(before + 40);
    // A server that says "close" and waits for ours: connections that linger for its FIN must not use up the limit.
    share["groups"][0]["connection"] = "new".into();
    share["groups"][0]["executor"] = json!({"kind": "constant-vus", "vus": 3, "limit": 200});
    share["groups"][0]["stop_offset_ns"] = (20_000 * MS).into();
    let closing = Server::start(|stream| {
        let mut stream = BufReader::new(stream);
        read_head(&mut stream);
        let answer = b"HTTP/1.1 200 OK
Content-Length: 2
Connection: close

ok";
        stream.get_mut().write_all(answer).unwrap();
        read_head(&mut stream);
    });
    share["endpoints"]["http://host"]["address"] = closing.address.to_string().into();
    let ran = run(&share);
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 200);
}
