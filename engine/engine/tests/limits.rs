//! The generator's own limits are told by name. One test alone, since it lowers the limit of its process.

mod common;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{ok, read_head, run, share, Server, MS};
use serde_json::json;

const SERVES: &str = "SERVES";

fn descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

/// Two servers in this test's own program, in another process: their descriptors are not the load's. They end with its input.
fn serving() -> (Child, Lines<BufReader<ChildStdout>>, Vec<String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(SERVES, "1")
        .args(["--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let addresses = lines
        .by_ref()
        .filter_map(|line| Some(line.unwrap().split_once("serves at ")?.1.to_string()))
        .take(2)
        .collect();
    (child, lines, addresses)
}

fn serve() {
    let plain = Server::answering(|_| ok("x"));
    // It says "close" and waits for ours: connections that linger for its FIN must not use up the limit.
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
    for server in [&plain, &closing] {
        println!("\nserves at {}", server.address);
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn running_out_of_descriptors_is_named_and_kept_closes_are_given_up_first() {
    if std::env::var_os(SERVES).is_some() {
        return serve();
    }
    let (mut server, lines, addresses) = serving();
    let mut share = share(addresses[0].parse().unwrap());
    share["groups"][0]["executor"]["vus"] = 60.into();
    let limit = libc::rlimit {
        rlim_cur: descriptors() + 20,
        rlim_max: 20_000,
    };
    // SAFETY: passes a live rlimit; only the soft limit of this process changes.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let ran = run(&share);
    assert!(ran.errors()["emfile"] > 0, "{}", ran.group());
    share["groups"][0]["connection"] = "new".into();
    share["groups"][0]["executor"] = json!({"kind": "constant-vus", "vus": 3, "limit": 200});
    share["groups"][0]["stop_offset_ns"] = (120_000 * MS).into();
    share["groups"][0]["request"]["timeout_ns"] = (120_000 * MS).into();
    share["endpoints"]["http://host"]["address"] = addresses[1].clone().into();
    let ran = run(&share);
    drop(server.stdin.take());
    lines.for_each(drop);
    server.wait().unwrap();
    ran.assert_all_ok();
    assert_eq!(ran.count("ok"), 200);
}
