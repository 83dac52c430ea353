//! The event loop: one thread, edge-triggered epoll, one step at a time.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, Event, EventFlags};
use slab::Slab;

use crate::body::Malformed;
use crate::cache::Cache;
use crate::clock::{now_ns, timespec};
use crate::config::Config;
use crate::connection::{Connection, Counted, Output, State, Taken, READ_AHEAD};
use crate::counters::{Counters, LogRow, Urls};
use crate::events::Source;
use crate::http::Answer;
use crate::pipeline::Job;
use crate::ports::{listen, Listener, Port};
use crate::store::Store;
use crate::timer::Timers;
use crate::upstream::{Name, Upstream};
use crate::workers::{JobId, Link, Workers};

const EVENTS: usize = 512;
const SCRATCH: usize = 64 * 1024;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a timer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    Release(JobId),
    AcceptAgain,
}

/// The server and all it knows.
#[derive(Debug)]
pub struct Server {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) urls: Urls,
    pub(crate) log: Vec<LogRow>,
    pub(crate) store: Store,
    pub(crate) cache: Cache,
    pub(crate) workers: Workers,
    pub(crate) link: Link,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) timers: Timers<Alarm>,
    pub(crate) jobs: Slab<Job>,
    /// Requests that a worker has finished with, and when.
    pub(crate) finished: Vec<(JobId, u64)>,
    /// Requests whose answer goes out now.
    pub(crate) ready: VecDeque<JobId>,
    pub(crate) arrivals: u64,
    /// Where stalls are counted from.
    pub(crate) stall_epoch_ns: u64,
    pub(crate) connections: Slab<Connection>,
    pub(crate) epoll: std::os::fd::OwnedFd,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) next_id: u64,
    pub(crate) paused: bool,
    scratch: Vec<u8>,
}

impl Server {
    /// Binds all ports.
    ///
    /// # Errors
    /// One line that names the field of the configuration that cannot be had.
    pub fn bind(config: Config) -> Result<Self, String> {
        let tls = config
            .tls
            .as_ref()
            .map(crate::tls::server_config)
            .transpose()?;
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(|error| format!("epoll: {error}"))?;
        let ports = [
            ("http_port", config.http_port, Port::Http),
            ("https_port", config.https_port, Port::Https),
            ("admin_port", Some(config.admin_port), Port::Admin),
        ];
        let mut listeners = Vec::new();
        for (field, number, port) in ports {
            let Some(number) = number else { continue };
            let address = SocketAddr::new(config.address, number);
            let socket = listen(address, config.backlog)
                .map_err(|e| format!("{field}: cannot listen on {address}: {e}"))?;
            epoll::add(
                &epoll,
                &socket,
                Source::Listener(listeners.len()).pack(),
                EventFlags::IN,
            )
            .map_err(|error| format!("epoll: {error}"))?;
            listeners.push(Listener { socket, port });
        }
        Ok(Self {
            counters: Counters::default(),
            urls: Urls::default(),
            log: Vec::new(),
            store: Store::new(config.memory_limit_bytes),
            cache: Cache::new(config.cache_objects_limit, config.memory_limit_bytes),
            workers: Workers::new(config.workers, config.queue_limit, config.serial_lock_ns),
            link: Link::default(),
            upstream: config
                .upstream
                .map(|address| Upstream::new(address, config.upstream_timeout_ns)),
            timers: Timers::default(),
            jobs: Slab::new(),
            finished: Vec::new(),
            ready: VecDeque::new(),
            arrivals: 0,
            stall_epoch_ns: now_ns(),
            connections: Slab::new(),
            epoll,
            listeners,
            tls,
            next_id: 0,
            paused: false,
            scratch: vec![0; SCRATCH],
            config,
        })
    }

    /// The line that says the server is ready.
    #[must_use]
    pub fn ready_line(&self) -> String {
        let port = |wanted| {
            let listener = self
                .listeners
                .iter()
                .find(|listener| listener.port == wanted)?;
            listener
                .socket
                .local_addr()
                .ok()
                .map(|address| address.port())
        };
        serde_json::json!({
            "ready": true,
            "role": self.config.role,
            "pid": std::process::id(),
            "address": self.config.address,
            "http_port": port(Port::Http),
            "https_port": port(Port::Https),
            "admin_port": port(Port::Admin),
        })
        .to_string()
    }

    /// Serves until `stop` is readable or at its end.
    ///
    /// # Errors
    /// epoll failed.
    pub fn run(&mut self, stop: Option<BorrowedFd<'_>>) -> Result<(), String> {
        let failed = |error: rustix::io::Errno| format!("epoll: {error}");
        if let Some(stop) = stop {
            epoll::add(&self.epoll, stop, Source::Stop.pack(), EventFlags::IN).map_err(failed)?;
        }
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.next_ns().map(|at_ns| {
                timespec(
                    at_ns
                        .saturating_sub(now_ns())
                        .saturating_sub(self.config.spin_ns),
                )
            });
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
            self.run_due();
            for event in &events {
                let (data, flags) = (event.data, event.flags);
                match Source::unpack(data) {
                    Source::Stop => return Ok(()),
                    Source::Listener(index) => self.accept(index),
                    Source::Client(name) => self.client_event(name, flags),
                    Source::Upstream(name) => self.upstream_event(name, flags),
                }
                self.run_due();
            }
        }
    }

    fn next_ns(&self) -> Option<u64> {
        let upstream = self.upstream.as_ref().and_then(Upstream::next_ns);
        [self.workers.next_ns(), self.timers.next_ns(), upstream]
            .into_iter()
            .flatten()
            .min()
    }

    fn client_event(&mut self, (key, id): Name, flags: EventFlags) {
        let Some(connection) = self
            .connections
            .get_mut(key)
            .filter(|c| c.id & 0xff_ffff == id)
        else {
            return;
        };
        connection.readable |= flags
            .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        connection.hung_up |=
            flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if connection.wire.write(b"", b"").is_err() || flags.contains(EventFlags::ERR) {
            return self.close(key); // a reset: whatever was open will never be read
        }
        self.drive(key);
    }

    fn upstream_event(&mut self, name: Name, flags: EventFlags) {
        let Some(upstream) = &mut self.upstream else {
            return;
        };
        let readable = flags.contains(EventFlags::IN);
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let happened = (readable, flags.contains(EventFlags::OUT), hung_up);
        let epoll = &self.epoll;
        let mut register =
            |stream: &TcpStream, name| register_upstream(epoll.as_fd(), stream, name);
        if let Some(outcome) =
            upstream.event(name, happened, &mut self.scratch, now_ns(), &mut register)
        {
            self.upstream_answered(outcome);
        }
    }

    /// Sends a job's request to the upstream.
    pub(crate) fn upstream_send(&mut self, job: JobId, outgoing: crate::upstream::Outgoing) {
        let Some(upstream) = &mut self.upstream else {
            return;
        };
        let epoll = &self.epoll;
        let mut register =
            |stream: &TcpStream, name| register_upstream(epoll.as_fd(), stream, name);
        if let Some(outcome) = upstream.send(job, outgoing, now_ns(), &mut register) {
            self.upstream_answered(outcome);
        }
    }

    /// Takes a connection as far as it goes without waiting.
    pub(crate) fn drive(&mut self, key: usize) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else {
                return;
            };
            let goes_on = match connection.state {
                State::Writing(_) => self.write(key),
                State::Served => {
                    let room = connection.input.len() < READ_AHEAD;
                    room && connection.readable && !connection.eof && self.read(key)
                }
                State::Head | State::Body { .. } => match connection.take() {
                    Ok(Taken::Nothing) => self.read_on(key),
                    Ok(Taken::Head { bytes }) => self.head_taken(key, bytes),
                    Ok(Taken::Request { request, body }) => {
                        self.dispatch(key, request, body);
                        true
                    }
                    Err(malformed) => {
                        self.refuse(key, malformed);
                        true
                    }
                },
            };
            if !goes_on {
                return;
            }
        }
    }

    fn read_on(&mut self, key: usize) -> bool {
        let connection = &self.connections[key];
        if connection.eof {
            self.close(key);
            return false;
        }
        connection.readable && self.read(key)
    }

    fn read(&mut self, key: usize) -> bool {
        let connection = &mut self.connections[key];
        let pass =
            connection
                .wire
                .read(&mut self.scratch, &mut connection.input, connection.hung_up);
        if let Some(resumed) = connection.wire.take_handshake() {
            self.counters.tls_handshakes += 1;
            self.counters.tls_resumed += u64::from(resumed);
        }
        let Ok(pass) = pass else {
            self.counters.tls_failed += u64::from(connection.wire.is_handshaking());
            self.close(key);
            return false;
        };
        connection.eof |= pass.eof;
        connection.readable = !pass.drained;
        if !connection.admin {
            self.counters.bytes_in += pass.bytes as u64;
        }
        pass.bytes > 0 || pass.eof || !pass.drained
    }

    fn head_taken(&mut self, key: usize, bytes: usize) -> bool {
        let connection = &mut self.connections[key];
        let Some(request) = connection.pending() else {
            return true;
        };
        let health = request.path() == "/healthcheck";
        let wants_continue = request.expects_continue && connection.input.is_empty();
        if !connection.admin {
            if health {
                self.counters.health_requests += 1;
                self.counters.bytes_in = self.counters.bytes_in.saturating_sub(bytes as u64);
                connection.open = Some(Counted::Health);
            } else {
                self.counters.requests += 1;
                self.counters.requests_tls += u64::from(connection.wire.is_tls());
                connection.open = Some(Counted::Service);
            }
        }
        if !wants_continue {
            return true;
        }
        // the socket's buffer is empty here, so a part of 25 bytes means that the peer is gone
        let written = connection.wire.write(CONTINUE, b"");
        if !written.is_ok_and(|pass| pass.bytes == CONTINUE.len()) {
            self.close(key);
            return false;
        }
        if connection.open == Some(Counted::Service) {
            self.counters.bytes_out += CONTINUE.len() as u64;
        }
        true
    }

    fn refuse(&mut self, key: usize, malformed: Malformed) {
        let connection = &mut self.connections[key];
        if !connection.admin {
            self.counters.malformed += 1;
        }
        // a body that went wrong belongs to a request that was counted: it gets no answer of its own
        let answer = Answer::text(malformed.status, malformed.why);
        connection.state = State::Writing(Output::new(answer, false, Counted::Nobody, None));
    }

    fn write(&mut self, key: usize) -> bool {
        let connection = &mut self.connections[key];
        let State::Writing(output) = &mut connection.state else {
            return true;
        };
        let before_ns = now_ns();
        output.begun_ns.get_or_insert(before_ns);
        let (head, body) = output.rest();
        let Ok(pass) = connection.wire.write(head, body) else {
            self.close(key);
            return false;
        };
        let of_body = output.advance(pass.bytes);
        if output.counted == Counted::Service
            || (output.counted == Counted::Nobody && !connection.admin)
        {
            self.counters.bytes_out += pass.bytes as u64;
            self.counters.body_bytes_out += of_body as u64;
        }
        if !pass.complete {
            return false;
        }
        let State::Writing(output) = std::mem::replace(&mut connection.state, State::Head) else {
            return true;
        };
        let ends = !output.keep_alive;
        if output.counted != Counted::Nobody {
            connection.open = None;
        }
        self.written(output, before_ns);
        if ends {
            self.close(key);
        }
        !ends
    }

    pub(crate) fn close(&mut self, key: usize) {
        let mut connection = self.connections.remove(key);
        if connection.admin {
            return;
        }
        self.counters.connections_open -= 1;
        if connection.open == Some(Counted::Service) {
            self.counters.abandoned += 1;
        }
        if let State::Writing(Output {
            ticket: Some(ticket),
            status,
            ..
        }) = connection.state
        {
            self.log_row(ticket, status, None);
        }
        connection.wire.say_goodbye();
        self.resume();
    }
}

fn register_upstream(epoll: BorrowedFd<'_>, stream: &TcpStream, name: Name) -> io::Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    Ok(epoll::add(
        epoll,
        stream,
        Source::Upstream(name).pack(),
        flags,
    )?)
}

/// Borrows a descriptor that the caller keeps open; a negative one is none.
///
/// # Safety
/// `fd` must stay open while the result lives.
#[must_use]
pub unsafe fn borrowed<'a>(fd: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: not negative, and open by the caller's promise
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}
