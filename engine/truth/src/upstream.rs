//! Requests to the upstream over kept-alive connections, without blocking. A request on a reused connection that
//! ended before its first byte is sent once more on a new one; nothing else is repeated.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use slab::Slab;

use crate::body::{BodyDecoder, BodyLength};
use crate::http::{parse_response, Answer, Body, ResponseHead};
use crate::wire::Wire;
use crate::workers::JobId;

/// What is to be sent for a request.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub bytes: Vec<u8>,
    /// It is a HEAD: no body follows the answer.
    pub to_head: bool,
}

#[derive(Debug)]
struct Exchange {
    job: JobId,
    serial: u64,
    outgoing: Outgoing,
    sent: usize,
    head: Option<ResponseHead>,
    decoder: BodyDecoder,
    body: Vec<u8>,
    heard: bool,
}

#[derive(Debug)]
struct Line {
    wire: Wire,
    id: u64,
    connected: bool,
    /// It has carried an exchange before the present one.
    reused: bool,
    readable: bool,
    hung_up: bool,
    input: Vec<u8>,
    exchange: Option<Exchange>,
}

/// A finished exchange.
#[derive(Debug)]
pub struct Outcome {
    pub job: JobId,
    /// The upstream's answer, or 502 or 504.
    pub answer: Answer,
    pub failed: bool,
}

/// What the pool counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpstreamCounts {
    pub requests: u64,
    pub connections: u64,
    pub retries: u64,
}

/// The upstream's connections.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    timeout_ns: u64,
    lines: Slab<Line>,
    idle: Vec<usize>,
    deadlines: VecDeque<(u64, usize, u64)>,
    next_id: u64,
    serial: u64,
    pub counts: UpstreamCounts,
}

/// A registered socket is named by (slab key, id).
pub type Name = (usize, u64);

impl Upstream {
    #[must_use]
    pub fn new(address: SocketAddr, timeout_ns: u64) -> Self {
        Self {
            address,
            timeout_ns,
            lines: Slab::new(),
            idle: Vec::new(),
            deadlines: VecDeque::new(),
            next_id: 0,
            serial: 0,
            counts: UpstreamCounts::default(),
        }
    }

    /// Sends a request. `register` is called for a new connection, with its socket and name.
    pub fn send(
        &mut self,
        job: JobId,
        outgoing: Outgoing,
        now_ns: u64,
        register: &mut dyn FnMut(&TcpStream, Name) -> io::Result<()>,
    ) -> Option<Outcome> {
        let key = match self.idle.pop() {
            Some(key) => key,
            None => match self.open(register) {
                Ok(key) => key,
                Err(error) => return Some(failure(job, &outgoing, 502, &error.to_string())),
            },
        };
        self.begin(key, job, outgoing, now_ns);
        self.write(key, register, now_ns)
    }

    fn begin(&mut self, key: usize, job: JobId, outgoing: Outgoing, now_ns: u64) {
        self.serial += 1;
        self.counts.requests += 1;
        self.deadlines
            .push_back((now_ns + self.timeout_ns, key, self.serial));
        self.lines[key].exchange = Some(Exchange {
            job,
            serial: self.serial,
            outgoing,
            sent: 0,
            head: None,
            decoder: BodyDecoder::Done,
            body: Vec::new(),
            heard: false,
        });
    }

    fn open(
        &mut self,
        register: &mut dyn FnMut(&TcpStream, Name) -> io::Result<()>,
    ) -> io::Result<usize> {
        let socket = connect(self.address)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        self.next_id += 1;
        let id = self.next_id;
        let entry = self.lines.vacant_entry();
        register(&stream, (entry.key(), id))?;
        self.counts.connections += 1;
        let key = entry.key();
        entry.insert(Line {
            wire: Wire::Plain(stream),
            id,
            connected: false,
            reused: false,
            readable: false,
            hung_up: false,
            input: Vec::new(),
            exchange: None,
        });
        Ok(key)
    }

    /// Something happened on a connection. Events of connections that are gone do nothing.
    pub fn event(
        &mut self,
        (key, id): Name,
        (readable, writable, hung_up): (bool, bool, bool),
        scratch: &mut [u8],
        now_ns: u64,
        register: &mut dyn FnMut(&TcpStream, Name) -> io::Result<()>,
    ) -> Option<Outcome> {
        let line = self
            .lines
            .get_mut(key)
            .filter(|line| line.id & 0xff_ffff == id)?;
        line.readable |= readable || hung_up;
        line.hung_up |= hung_up;
        if !line.connected && (writable || hung_up) {
            line.connected = true;
            if let Ok(Some(error)) | Err(error) = line.wire.stream().take_error() {
                return self.fail(key, 502, &error.to_string());
            }
        }
        if let Some(outcome) = self.write(key, register, now_ns) {
            return Some(outcome);
        }
        self.read(key, scratch, now_ns, register)
    }

    fn write(
        &mut self,
        key: usize,
        register: &mut dyn FnMut(&TcpStream, Name) -> io::Result<()>,
        now_ns: u64,
    ) -> Option<Outcome> {
        let line = self.lines.get_mut(key)?;
        let exchange = line.exchange.as_mut().filter(|_| line.connected)?;
        if exchange.sent == exchange.outgoing.bytes.len() {
            return None;
        }
        match line
            .wire
            .write(&exchange.outgoing.bytes[exchange.sent..], b"")
        {
            Ok(pass) => {
                exchange.sent += pass.bytes;
                None
            }
            Err(error) => self.lost(key, &error.to_string(), register, now_ns),
        }
    }

    fn read(
        &mut self,
        key: usize,
        scratch: &mut [u8],
        now_ns: u64,
        register: &mut dyn FnMut(&TcpStream, Name) -> io::Result<()>,
    ) -> Option<Outcome> {
        loop {
            let line = self.lines.get_mut(key)?;
            if !line.readable {
                return None;
            }
            let pass = match line.wire.read(scratch, &mut line.input, line.hung_up) {
                Ok(pass) => pass,
                Err(error) => return self.lost(key, &error.to_string(), register, now_ns),
            };
            line.readable = !pass.drained;
            match take_answer(line, pass.eof) {
                Ok(Some((answer, keep))) => {
                    return Some(self.finish(key, answer, keep && !pass.eof))
                }
                Ok(None) if pass.eof => {
                    return self.lost(key, "the upstream closed the connection", register, now_ns);
                }
                Ok(None) => {}
                Err(why) => return self.fail(key, 502, why),
            }
        }
    }

    fn finish(&mut self, key: usize, answer: Answer, keep: bool) -> Outcome {
        let line = &mut self.lines[key];
        let job = line.exchange.take().map_or(0, |exchange| exchange.job);
        line.reused = true;
        if keep && line.input.is_empty() {
            self.idle.push(key);
        } else {
            self.lines.remove(key);
        }
        Outcome {
            job,
            answer,
            failed: false,
        }
    }

    /// A connection broke: an idle one is forgotten, a stale one's request is sent again, any other fails.
    fn lost(
        &mut self,
        key: usize,
        why: &str,
        register: &mut dyn FnMut(&TcpStream, Name) -> io::Result<()>,
        now_ns: u64,
    ) -> Option<Outcome> {
        let line = self.lines.get_mut(key)?;
        let stale = line.reused
            && line
                .exchange
                .as_ref()
                .is_some_and(|exchange| !exchange.heard);
        if !stale {
            return self.fail(key, 502, why);
        }
        let line = self.lines.remove(key);
        let Exchange { job, outgoing, .. } = line.exchange?;
        self.counts.retries += 1;
        self.counts.requests -= 1; // nobody read the first one
        match self.open(register) {
            Ok(key) => {
                self.begin(key, job, outgoing, now_ns);
                None
            }
            Err(error) => Some(failure(job, &outgoing, 502, &error.to_string())),
        }
    }

    fn fail(&mut self, key: usize, status: u16, why: &str) -> Option<Outcome> {
        let line = self.lines.remove(key);
        match line.exchange {
            Some(exchange) => Some(failure(exchange.job, &exchange.outgoing, status, why)),
            None => {
                self.idle.retain(|idle| *idle != key);
                None
            }
        }
    }

    /// When the oldest exchange times out.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.deadlines.front().map(|(at_ns, ..)| *at_ns)
    }

    /// Ends the oldest exchange if it has timed out; call until None.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Outcome> {
        while let Some((at_ns, key, serial)) = self.deadlines.front().copied() {
            let exchange = self.lines.get(key).and_then(|line| line.exchange.as_ref());
            let live = exchange.is_some_and(|exchange| exchange.serial == serial);
            if live && at_ns > now_ns {
                return None;
            }
            self.deadlines.pop_front();
            if live {
                return self.fail(key, 504, "the upstream did not answer in time");
            }
        }
        None
    }
}

/// Reads what there is of the answer: it and whether the connection may be kept.
fn take_answer(line: &mut Line, eof: bool) -> Result<Option<(Answer, bool)>, &'static str> {
    let Some(exchange) = line.exchange.as_mut() else {
        return if line.input.is_empty() {
            Ok(None)
        } else {
            Err("the upstream spoke without being asked")
        };
    };
    exchange.heard |= !line.input.is_empty();
    while exchange.head.is_none() {
        let parsed =
            parse_response(&line.input, exchange.outgoing.to_head).map_err(|error| error.why)?;
        let Some((head, bytes)) = parsed else {
            return Ok(None);
        };
        line.input.drain(..bytes);
        if head.status < 200 {
            continue;
        }
        exchange.decoder = BodyDecoder::new(head.body);
        exchange.head = Some(head);
    }
    let bytes = exchange
        .decoder
        .feed(&line.input, &mut exchange.body)
        .map_err(|error| error.why)?;
    line.input.drain(..bytes);
    let ended = exchange.decoder.is_done() || (eof && exchange.decoder == BodyDecoder::UntilClose);
    if !ended {
        return Ok(None);
    }
    let Some(head) = exchange.head.take() else {
        return Ok(None);
    };
    let body = std::mem::take(&mut exchange.body);
    let length = match head.status {
        204 | 304 => None,
        _ if exchange.outgoing.to_head => head.length,
        _ => Some(body.len() as u64),
    };
    let keep = head.keep_alive && head.body != BodyLength::UntilClose;
    Ok(Some((
        Answer {
            status: head.status,
            lines: head.lines,
            length,
            body: Body::new(body),
        },
        keep,
    )))
}

fn failure(job: JobId, outgoing: &Outgoing, status: u16, why: &str) -> Outcome {
    let answer = Answer::text(status, why);
    let answer = if outgoing.to_head {
        answer.without_body()
    } else {
        answer
    };
    Outcome {
        job,
        answer,
        failed: true,
    }
}

fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(socket.as_fd(), &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}
