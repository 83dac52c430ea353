//! One client's connection: what was read, which request is open, what is being written.

use std::rc::Rc;

use crate::body::{BodyDecoder, Malformed};
use crate::counters::Mark;
use crate::http::{parse_request, Answer, Body, Request};
use crate::wire::Wire;

/// Bytes read ahead while a request is being answered.
pub const READ_AHEAD: usize = 64 * 1024;

/// Who is counted for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Service,
    Health,
    /// Admin requests, and the last words to a peer that does not speak HTTP.
    Nobody,
}

/// What is known of a request while it is served, for counters and log.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub seq: u64,
    pub received_ns: u64,
    pub served_ns: u64,
    /// When its answer was due; None for what is answered as soon as possible.
    pub due_ns: Option<u64>,
    pub target: Rc<str>,
    pub mark: Mark,
    pub tls: bool,
}

/// An answer on its way out.
#[derive(Debug)]
pub struct Output {
    head: Vec<u8>,
    body: Body,
    sent: usize,
    pub status: u16,
    pub keep_alive: bool,
    pub counted: Counted,
    pub ticket: Option<Ticket>,
    /// Just before the first write.
    pub begun_ns: Option<u64>,
}

impl Output {
    #[must_use]
    pub fn new(answer: Answer, keep_alive: bool, counted: Counted, ticket: Option<Ticket>) -> Self {
        let mut head = Vec::with_capacity(answer.lines.len() + 96);
        answer.write_head(keep_alive, &mut head);
        let (status, body) = (answer.status, answer.body);
        Self {
            head,
            body,
            sent: 0,
            status,
            keep_alive,
            counted,
            ticket,
            begun_ns: None,
        }
    }

    /// What is still to be sent of head and body.
    #[must_use]
    pub fn rest(&self) -> (&[u8], &[u8]) {
        let of_body = self.sent.saturating_sub(self.head.len());
        (
            self.head.get(self.sent..).unwrap_or(&[]),
            &self.body[of_body..],
        )
    }

    /// Notes bytes as sent; returns how many of them were body.
    pub fn advance(&mut self, bytes: usize) -> usize {
        let of_head = bytes.min(self.head.len().saturating_sub(self.sent));
        self.sent += bytes;
        bytes - of_head
    }
}

/// Where a connection is.
#[derive(Debug)]
pub enum State {
    /// Between requests, or in the middle of a head.
    Head,
    Body {
        request: Request,
        decoder: BodyDecoder,
        body: Vec<u8>,
    },
    /// Its request is being served.
    Served,
    Writing(Output),
}

/// What the next bytes held.
#[derive(Debug)]
pub enum Taken {
    /// A complete head of so many bytes; its body comes next.
    Head { bytes: usize },
    /// The body of the head before is complete.
    Request { request: Request, body: Vec<u8> },
    /// Nothing complete.
    Nothing,
}

/// The connection.
#[derive(Debug)]
pub struct Connection {
    pub wire: Wire,
    /// Unique in the life of the server.
    pub id: u64,
    pub admin: bool,
    pub input: Vec<u8>,
    /// The kernel may have more to read.
    pub readable: bool,
    /// The kernel has seen the peer's end.
    pub hung_up: bool,
    /// The peer's end has been read.
    pub eof: bool,
    pub state: State,
    /// A counted request without a finished answer.
    pub open: Option<Counted>,
}

impl Connection {
    #[must_use]
    pub fn new(wire: Wire, id: u64, admin: bool) -> Self {
        Self {
            wire,
            id,
            admin,
            input: Vec::new(),
            readable: false,
            hung_up: false,
            eof: false,
            state: State::Head,
            open: None,
        }
    }

    /// Takes the next complete thing from the input; only in the states Head and Body.
    ///
    /// # Errors
    /// The input is not HTTP, or too large.
    pub fn take(&mut self) -> Result<Taken, Malformed> {
        match &mut self.state {
            State::Head => {
                let Some((request, bytes)) = parse_request(&self.input)? else {
                    return Ok(Taken::Nothing);
                };
                self.input.drain(..bytes);
                let decoder = BodyDecoder::new(request.body);
                self.state = State::Body {
                    request,
                    decoder,
                    body: Vec::new(),
                };
                Ok(Taken::Head { bytes })
            }
            State::Body { decoder, body, .. } => {
                let bytes = decoder.feed(&self.input, body)?;
                self.input.drain(..bytes);
                if !decoder.is_done() {
                    return Ok(Taken::Nothing);
                }
                match std::mem::replace(&mut self.state, State::Served) {
                    State::Body { request, body, .. } => Ok(Taken::Request { request, body }),
                    _ => unreachable!("matched above"),
                }
            }
            State::Served | State::Writing(_) => Ok(Taken::Nothing),
        }
    }

    /// The request whose head was just taken, until its body is complete.
    #[must_use]
    pub fn pending(&self) -> Option<&Request> {
        match &self.state {
            State::Body { request, .. } => Some(request),
            _ => None,
        }
    }
}
