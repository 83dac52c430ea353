//! A single-process HTTP/1.1 server whose behaviour is known exactly: service times, workers, queue, stalls, hits and
//! misses are what its configuration says, and its counters are exact. It is the instrument by which svload's own
//! estimates are judged.
//!
//! One thread runs everything: an edge-triggered epoll loop ([`server`]) over HTTP without I/O ([`http`]), a request's
//! way ([`pipeline`]) through virtual workers ([`workers`]), and roles that decide purely ([`store`], [`cache`]).

mod admin;
mod body;
mod cache;
mod clock;
mod config;
mod connection;
mod counters;
mod draw;
mod events;
mod http;
mod pipeline;
mod ports;
mod server;
mod store;
mod timer;
mod tls;
mod upstream;
mod wire;
mod workers;

use std::io::Write as _;
use std::num::NonZeroU64;
use std::os::fd::RawFd;

use crate::config::Config;
use crate::server::{borrowed, Server};

/// Runs a server until `stop_fd` is readable or at its end; returns the final counters as JSON.
///
/// Once all ports listen, one JSON line is written to `ready_fd`:
/// `{"ready": true, "role", "pid", "address", "http_port", "https_port", "admin_port"}` (ports that are not served are null).
/// Both descriptors must stay open during the call and are not closed; a negative one is none.
/// SIGPIPE must be ignored, as it is in Rust and Python programs.
///
/// # Errors
/// One line: the field of `config` that is wrong, or what the machine refused.
pub fn serve(config: &str, ready_fd: RawFd, stop_fd: RawFd) -> Result<String, String> {
    let config = Config::parse(config)?;
    raise_descriptor_limit();
    // timers of this thread fire when they are due, not up to 50 µs later
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut server = Server::bind(config)?;
    // SAFETY: the caller keeps both open during this call
    let (ready, stop) = unsafe { (borrowed(ready_fd), borrowed(stop_fd)) };
    if let Some(ready) = ready {
        let own = ready
            .try_clone_to_owned()
            .map_err(|error| format!("ready_fd: {error}"))?;
        let line = server.ready_line() + "\n";
        std::fs::File::from(own)
            .write_all(line.as_bytes())
            .map_err(|error| format!("ready_fd: {error}"))?;
    }
    server.run(stop)?;
    Ok(server.counters_json().to_string())
}

fn raise_descriptor_limit() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}
