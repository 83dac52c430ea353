//! A server on a thread, and a small client.
#![allow(dead_code)] // each test file uses its own part

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// No wait in these tests is longer.
pub const LIMIT: Duration = Duration::from_secs(120);

pub struct Running {
    pub http: u16,
    pub https: u16,
    pub admin: u16,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<Result<String, String>>>,
}

/// Starts a server: `role`, ports chosen by the kernel, and what `more` says.
pub fn start(role: &str, more: Value) -> Running {
    let mut config = json!({"role": role, "http_port": 0});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let (ready_read, ready_write) = rustix::pipe::pipe().unwrap();
    let (stop_read, stop_write) = rustix::pipe::pipe().unwrap();
    let thread = std::thread::spawn(move || {
        let ready_write = ready_write; // closed when serve returns, so that a refusal ends the wait below
        svload_truth::serve(
            &config.to_string(),
            ready_write.as_raw_fd(),
            stop_read.as_raw_fd(),
        )
    });
    let mut line = String::new();
    BufReader::new(File::from(ready_read))
        .read_line(&mut line)
        .unwrap();
    assert!(!line.is_empty(), "not started: {:?}", thread.join());
    let ready: Value = serde_json::from_str(&line).unwrap();
    let port = |name: &str| ready[name].as_u64().unwrap_or(0) as u16;
    Running {
        http: port("http_port"),
        https: port("https_port"),
        admin: port("admin_port"),
        stop: Some(stop_write),
        thread: Some(thread),
    }
}

impl Running {
    pub fn connect(&self) -> Client {
        Client::new(connect(self.http))
    }
    pub fn counters(&self) -> Value {
        json_of(&ask(self.admin, "GET", "/counters", b""))
    }
    pub fn count(&self, name: &str) -> u64 {
        self.counters()[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name}"))
    }
    pub fn configure(&self, change: Value) -> Reply {
        ask(self.admin, "POST", "/config", change.to_string().as_bytes())
    }
    pub fn reset(&self, what: &str) {
        assert_eq!(
            ask(self.admin, "POST", &format!("/reset?what={what}"), b"").status,
            200
        );
    }
    /// The request log: [seq, received, answered, served_ns, path, status, hit, tls] a row.
    pub fn log(&self) -> Vec<Value> {
        let reply = ask(self.admin, "GET", "/log?from=0", b"");
        reply
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
    /// Polls until a counter has a value.
    pub fn wait_for(&self, name: &str, value: u64) {
        let until = Instant::now() + LIMIT;
        while self.count(name) != value {
            assert!(
                Instant::now() < until,
                "{name} is {}, not {value}",
                self.count(name)
            );
        }
    }
    /// Makes account a, container c and one object a name.
    pub fn fill(&self, names: &[&str], body: &[u8]) {
        let mut client = self.connect();
        assert_eq!(client.ask("PUT", "/v1/a/c", b"").status, 201);
        for name in names {
            assert_eq!(
                client.ask("PUT", &format!("/v1/a/c/{name}"), body).status,
                201
            );
        }
        drop(client);
        self.wait_for("connections_open", 0);
        self.reset("counters,log");
    }
    pub fn stop(mut self) -> Value {
        drop(self.stop.take());
        let counters = self.thread.take().unwrap().join().unwrap().unwrap();
        serde_json::from_str(&counters).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// One request on a connection of its own.
pub fn ask(port: u16, method: &str, target: &str, body: &[u8]) -> Reply {
    Client::new(connect(port)).ask(method, target, body)
}

pub fn json_of(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("not JSON: {}", reply.text()))
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: String,
    pub body: Vec<u8>,
    pub bytes: usize,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A keep-alive client over any stream.
pub struct Client<S: Read + Write = TcpStream> {
    pub stream: BufReader<S>,
    pub sent: usize,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
            sent: 0,
        }
    }
    pub fn send(&mut self, bytes: &[u8]) {
        self.sent += bytes.len();
        self.stream.get_mut().write_all(bytes).unwrap();
        self.stream.get_mut().flush().unwrap();
    }
    pub fn get(&mut self, target: &str) -> Reply {
        self.ask("GET", target, b"")
    }
    pub fn get_cold(&mut self, target: &str, cold: &str) -> Reply {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Cold: {cold}\r\n\r\n").as_bytes());
        self.reply(false)
    }
    pub fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> Reply {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let mut bytes =
            format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{length}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.send(&bytes);
        self.reply(method == "HEAD")
    }
    pub fn reply(&mut self, to_head: bool) -> Reply {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            assert_ne!(
                self.stream.read_line(&mut headers).unwrap(),
                0,
                "closed after {headers:?}"
            );
        }
        let status = headers[9..12].parse().unwrap();
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
            bytes: 0,
        };
        let length = reply
            .header("content-length")
            .map_or(0, |text| text.parse().unwrap());
        reply.body.resize(if to_head { 0 } else { length }, 0);
        self.stream.read_exact(&mut reply.body).unwrap();
        reply.bytes = reply.headers.len() + reply.body.len();
        reply
    }
    /// True if the server has closed the connection.
    pub fn closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0) | Err(_))
    }
}

pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
