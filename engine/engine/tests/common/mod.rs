//! A tiny server whose behaviour a test writes down, and shares against it.

#![allow(dead_code)]

pub mod http2;
pub mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use indexmap::IndexMap;
use serde_json::{json, Value};
use svload_engine::{run_share, Column, RunError, Table};

pub const MS: i64 = 1_000_000;

/// A listening server; each connection runs the test's behaviour on its own thread.
pub struct Server {
    pub address: SocketAddr,
    pub accepted: Arc<AtomicUsize>,
}

pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Server {
    pub fn start(behaviour: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (behaviour, count) = (Arc::new(behaviour), accepted.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let behaviour = behaviour.clone();
                thread::spawn(move || behaviour(stream));
            }
        });
        Server { address, accepted }
    }

    /// Answers every request of a connection with the bytes that `answer` gives for its head.
    pub fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start(move |stream| serve(stream, &answer))
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Answers requests until the peer goes away or the answer says "close".
pub fn serve(stream: impl Stream, answer: &(impl Fn(&str) -> Vec<u8> + ?Sized)) {
    let mut stream = BufReader::new(stream);
    while let Some(head) = read_head(&mut stream) {
        let bytes = answer(&head);
        let closes = String::from_utf8_lossy(&bytes).contains("Connection: close");
        if stream.get_mut().write_all(&bytes).is_err() || closes || bytes.is_empty() {
            return;
        }
        let _ = stream.get_mut().flush();
    }
}

/// A request's head; `None` at the end of the stream.
pub fn read_head(stream: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if &head[before..] == "\r\n" {
            return Some(head);
        }
    }
}

pub fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A share with one group "load" of closed-loop VUs that think 5 ms, for 100 ms, against `http://host` = `address`.
pub fn share(address: SocketAddr) -> Value {
    json!({
        "format": 1, "id": "load.0", "seed": 7, "start_at_ns": 0, "interval_ns": 10 * MS, "window_ns": [0, 100 * MS],
        "endpoints": {"http://host": {"address": address.to_string(), "tls": null}}, "allowed": ["127.0.0.0/8"],
        "groups": [{
            "name": "load", "client": "engine", "connection": "keep-alive", "record": "rows",
            "stop_offset_ns": 100 * MS, "graceful_stop_ns": 2_000 * MS,
            "executor": {"kind": "constant-vus", "vus": 2, "think_time": {"constant_ns": 5 * MS}},
            "request": {"name": "get", "method": "GET", "endpoint": "http://host", "path": [{"text": "/"}], "timeout_ns": 2_000 * MS},
        }],
    })
}

/// An open loop at `rate_rps` in place of the closed one.
pub fn open(share: &mut Value, rate_rps: f64, max_vus: u64) {
    share["groups"][0]["executor"] =
        json!({"kind": "constant-arrival-rate", "rate_rps": rate_rps, "max_vus": max_vus});
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub tables: IndexMap<String, Table>,
    pub summary: Value,
}

impl Ran {
    pub fn group(&self) -> &Value {
        &self.summary["groups"][0]
    }

    pub fn count(&self, name: &str) -> u64 {
        self.group()[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} of {}", self.group()))
    }

    pub fn errors(&self) -> IndexMap<String, u64> {
        serde_json::from_value(self.group()["errors"].clone()).unwrap()
    }

    /// A column as whole numbers.
    pub fn column(&self, table: &str, name: &str) -> Vec<i64> {
        match &self.tables[table][name] {
            Column::U64(values) => values.iter().map(|v| *v as i64).collect(),
            Column::I64(values) => values.clone(),
            Column::U32(values) => values.iter().map(|v| i64::from(*v)).collect(),
            Column::U16(values) => values.iter().map(|v| i64::from(*v)).collect(),
            Column::U8(values) => values.iter().map(|v| i64::from(*v)).collect(),
            Column::Utf8(_) => panic!("{name} is text"),
        }
    }

    pub fn samples(&self, name: &str) -> Vec<i64> {
        self.column("samples", name)
    }

    /// Every request is of this one error.
    pub fn assert_all_fail_with(&self, error: &str) {
        let errors = self.errors();
        assert_eq!(
            errors.keys().collect::<Vec<_>>(),
            [error],
            "{}",
            self.group()
        );
        assert!(self.count("failed") > 0 && self.count("ok") == 0);
    }

    pub fn assert_all_ok(&self) {
        assert!(self.errors().is_empty(), "{}", self.group());
        assert!(self.count("ok") > 0 && self.count("failed") == 0);
    }
}

pub fn run(share: &Value) -> Ran {
    run_with(share, &IndexMap::new())
}

/// Runs a share and holds the tables to what every run owes.
pub fn run_with(share: &Value, inputs: &IndexMap<String, Table>) -> Ran {
    let mut reports = Vec::new();
    let mut sink = |text: &str| -> Result<(), ()> {
        reports.push(serde_json::from_str::<Value>(text).unwrap());
        Ok(())
    };
    let tables = match run_share(&share.to_string(), inputs, &mut sink) {
        Ok(tables) => tables,
        Err(error) => panic!("{error}"),
    };
    let Column::Utf8(text) = &tables["summary"]["json"] else {
        panic!("no summary")
    };
    let summary = serde_json::from_str(&text[0]).unwrap();
    let ran = Ran { tables, summary };
    check_identities(&ran, share);
    let last = reports.last().expect("a progress report");
    assert_eq!(last["groups"][0]["begun"], ran.group()["begun"]);
    let led_on = ran.group()["hop_status"].as_object().unwrap().values();
    let led_on: u64 = led_on.filter_map(Value::as_u64).sum();
    assert_eq!(last["groups"][0]["redirects"], led_on);
    ran
}

/// The error of a share that can't be run.
pub fn refusal(share: &Value) -> String {
    match run_share(
        &share.to_string(),
        &IndexMap::new(),
        &mut |_: &str| -> Result<(), ()> { Ok(()) },
    ) {
        Err(error @ RunError::Share { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it ran"),
    }
}

fn check_identities(ran: &Ran, share: &Value) {
    for (at, group) in ran.summary["groups"].as_array().unwrap().iter().enumerate() {
        let n = |name: &str| group[name].as_u64().unwrap();
        assert_eq!(
            n("due"),
            n("begun") + n("waiting") + n("dropped"),
            "{group}"
        );
        assert_eq!(
            n("begun"),
            n("ok") + n("failed") + n("in_flight"),
            "{group}"
        );
        let of_group = |table: &str, column: &str| -> u64 {
            let groups = ran.column(table, "group");
            let values = ran.column(table, column);
            groups
                .iter()
                .zip(values)
                .filter(|(g, _)| **g == at as i64)
                .map(|(_, v)| v as u64)
                .sum()
        };
        for name in ["due", "begun", "ok", "failed", "dropped"] {
            assert_eq!(of_group("intervals", name), n(name), "{name} of intervals");
        }
        // A dialogue that awaits nothing is ok without a first byte.
        let unanswered = ran
            .samples("group")
            .iter()
            .zip(ran.samples("first_byte_ns"))
            .zip(ran.samples("error"))
            .filter(|((g, first), error)| **g == at as i64 && *first < 0 && *error == 0)
            .count() as u64;
        assert_eq!(of_group("intervals", "completed_ok"), n("ok"));
        assert_eq!(of_group("intervals", "completed_failed"), n("failed"));
        for (metric, expected) in [
            (0, n("ok")),
            (1, n("failed")),
            (2, n("ok")),
            (3, n("begun")),
            (4, n("begun")),
            (5, n("ok")),
            (7, n("ok") - unanswered),
        ] {
            let metrics = ran.column("histograms", "metric");
            let groups = ran.column("histograms", "group");
            let counts = ran.column("histograms", "count");
            let rows = metrics
                .iter()
                .zip(groups)
                .zip(counts)
                .filter(|((m, g), _)| **m == metric && *g == at as i64);
            assert_eq!(
                rows.map(|(_, count)| count as u64).sum::<u64>(),
                expected,
                "metric {metric}"
            );
        }
        let errors: IndexMap<String, u64> =
            serde_json::from_value(group["errors"].clone()).unwrap();
        assert_eq!(errors.values().sum::<u64>(), n("failed"));
        // Little's law, exactly: the VUs' time, and the gauge against the residences.
        let time = |name: &str| group["vu_time"][name].as_i64().unwrap();
        let kind = share["groups"][at]["executor"]["kind"].as_str().unwrap();
        if !kind.ends_with("arrival-rate") {
            let parts = time("request_ns") + time("think_ns") + time("lag_ns") + time("wait_ns");
            assert_eq!(parts, time("active_ns"), "{group}");
        }
        let window: (i64, i64) = serde_json::from_value(share["window_ns"].clone()).unwrap();
        let area = group["in_flight_mean"].as_f64().unwrap() * (window.1 - window.0) as f64;
        let residence = group["residence_ns"].as_f64().unwrap();
        assert!(
            (area - residence).abs() <= 1.0 + residence * 1e-9,
            "{area} {residence}"
        );
    }
    check_stamps(ran);
}

fn check_stamps(ran: &Ran) {
    let columns: Vec<Vec<i64>> = [
        "due_ns",
        "ready_ns",
        "begun_ns",
        "written_ns",
        "first_byte_ns",
        "done_ns",
    ]
    .iter()
    .map(|name| ran.samples(name))
    .collect();
    for row in 0..columns[0].len() {
        let stamps: Vec<i64> = columns
            .iter()
            .map(|column| column[row])
            .filter(|stamp| *stamp >= 0)
            .collect();
        assert!(
            stamps.windows(2).all(|pair| pair[0] <= pair[1]),
            "{stamps:?}"
        );
    }
}
