//! HTTP/2: connections that several slots share. A line is so many slots as the group has streams for a connection; each line
//! has one connection to an endpoint for new requests at a time, and older ones until their last answer.
//!
//! `open` brings requests to connections, `write` moves what leaves, `read` what comes.

mod open;
mod read;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;

use rustls::ClientConfig;

use super::Worker;
use crate::conn::ConnKey;
use crate::error::ErrorKind;
use crate::http2_spec::Http2Spec;
use crate::wire::http2::session::{Event, Session};
use crate::wire::http2::settings::Windows;

/// Bytes that wait to be written at which a connection takes no more requests: its peer does not read.
const BACKLOG_MAX: usize = 256 * 1024;

/// The slots that share a connection.
#[derive(Default)]
struct Line {
    /// Where new requests go, by endpoint.
    links: Vec<(usize, ConnKey)>,
    /// By endpoint, with this line's TLS sessions.
    tls: Vec<(usize, Arc<ClientConfig>)>,
}

impl Line {
    /// The connection to an endpoint.
    fn link_to(&self, endpoint: usize) -> Option<ConnKey> {
        let mut links = self.links.iter();
        links.find(|(at, _)| *at == endpoint).map(|(_, key)| *key)
    }

    /// The TLS configuration for an endpoint; `make` makes it once.
    fn tls_to(
        &mut self,
        endpoint: usize,
        make: impl FnOnce() -> Arc<ClientConfig>,
    ) -> Arc<ClientConfig> {
        if let Some((_, tls)) = self.tls.iter().find(|(at, _)| *at == endpoint) {
            return tls.clone();
        }
        let tls = make();
        self.tls.push((endpoint, tls.clone()));
        tls
    }
}

/// The lines of a group on this thread.
#[derive(Default)]
pub(super) struct Lines {
    streams: u32,
    lines: Vec<Line>,
}

impl Lines {
    pub fn new(http2: Option<Http2Spec>) -> Self {
        Lines {
            streams: http2.map_or(0, |http2| http2.streams as u32),
            lines: Vec::new(),
        }
    }

    fn number(&self, slot: u32) -> usize {
        slot.checked_div(self.streams).unwrap_or(0) as usize
    }

    fn of(&mut self, slot: u32) -> &mut Line {
        let number = self.number(slot);
        if self.lines.len() <= number {
            self.lines.resize_with(number + 1, Line::default);
        }
        &mut self.lines[number]
    }

    /// Whether the slot has a live connection to share.
    pub fn is_live(&self, slot: u32) -> bool {
        let line = self.lines.get(self.number(slot));
        line.is_some_and(|line| !line.links.is_empty())
    }
}

/// A request whose head has not left: where it begins among all bytes of the connection.
struct Unwritten {
    place: u64,
    slot: u32,
    stream: u32,
}

/// A body on its way out.
#[derive(Clone, Copy)]
struct Upload {
    slot: u32,
    stream: u32,
}

/// A connection that carries several requests at once.
struct Multiplex {
    session: Session,
    group: usize,
    /// One of its line's slots: the one whose request opened it.
    opener: u32,
    endpoint: usize,
    /// Redirect hops alone have used it: it ends with the last of them.
    passing: bool,
    /// It stands, and HTTP/2 may be spoken.
    ready: bool,
    /// Requests that wait for it to stand, or for a stream.
    waiting: VecDeque<u32>,
    unwritten: VecDeque<Unwritten>,
    uploads: VecDeque<Upload>,
    /// How much of the session's bytes has left, and how many bytes stood before them.
    written: usize,
    before: u64,
    /// The socket, or TLS, holds something back.
    blocked: bool,
    /// Why nothing can be written any more.
    broken: Option<ErrorKind>,
    /// Its turn of reading was over.
    unread: bool,
    /// It is on the list of those that can go on.
    marked: bool,
    /// How many of its streams have their read lag measured.
    sampled: u32,
    /// At least one request was answered.
    answered: bool,
    /// Something of an answer came since it was last idle.
    heard: bool,
}

impl Multiplex {
    fn new(group: usize, opener: u32, endpoint: usize) -> Self {
        Multiplex {
            session: Session::new(Windows::default()),
            group,
            opener,
            endpoint,
            passing: true,
            ready: false,
            waiting: VecDeque::new(),
            unwritten: VecDeque::new(),
            uploads: VecDeque::new(),
            written: 0,
            before: 0,
            blocked: false,
            broken: None,
            unread: false,
            marked: false,
            sampled: 0,
            answered: false,
            heard: false,
        }
    }

    /// Bytes that wait to be written.
    fn backlog(&self) -> usize {
        self.session.out.len() - self.written
    }

    /// Whether a request may be put on it now.
    fn has_room(&self) -> bool {
        self.ready && self.session.has_room() && self.backlog() < BACKLOG_MAX
    }
}

/// The shared connections of a thread, by their key.
#[derive(Default)]
pub(super) struct Multiplexes {
    by_key: Vec<Option<Box<Multiplex>>>,
    /// Those that have something to write, or could be read on.
    unflushed: Vec<ConnKey>,
    events: Vec<Event>,
    /// Requests whose answer is to be followed, by group and slot.
    redirected: Vec<(usize, u32)>,
}

impl Multiplexes {
    /// Whether something could be written or read at once.
    pub fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    fn put(&mut self, key: ConnKey, link: Box<Multiplex>) {
        if self.by_key.len() <= key {
            self.by_key.resize_with(key + 1, || None);
        }
        self.by_key[key] = Some(link);
    }

    fn take(&mut self, key: ConnKey) -> Option<Box<Multiplex>> {
        self.by_key.get_mut(key)?.take()
    }

    /// Puts a connection on the list of those that can go on.
    fn mark(&mut self, key: ConnKey, link: &mut Multiplex) {
        if !std::mem::replace(&mut link.marked, true) {
            self.unflushed.push(key);
        }
    }
}

impl Worker<'_> {
    /// Whether several requests share a connection.
    pub(super) fn is_multiplexed(&self, key: ConnKey) -> bool {
        self.multiplexes
            .by_key
            .get(key)
            .is_some_and(Option::is_some)
    }

    /// How an endpoint is asked over HTTP/2; `None`: it is asked over HTTP/1.1.
    #[inline]
    pub(super) fn http2_at(&self, g: usize, endpoint: usize) -> Option<Http2Spec> {
        let group = &self.groups[g];
        let http2 = group.plan.spec.http2?;
        // Without TLS nothing can choose.
        let chosen = !http2.fallback
            || (self.endpoints[endpoint].tls.is_some() && !group.without_http2.contains(&endpoint));
        chosen.then_some(http2)
    }

    /// A line has lost its connection: new requests open another.
    fn leave_line(&mut self, link: &Multiplex, key: ConnKey) {
        let group = &mut self.groups[link.group];
        let line = group.lines.of(link.opener);
        let Some(at) = line.links.iter().position(|(_, known)| *known == key) else {
            return;
        };
        line.links.swap_remove(at);
        if !line.links.is_empty() {
            return;
        }
        let number = group.lines.number(link.opener) as u32;
        let slots = number * group.lines.streams..(number + 1) * group.lines.streams;
        if let Some(executor) = &mut group.executor {
            for s in slots {
                if group
                    .slots
                    .get(s as usize)
                    .is_some_and(|slot| !slot.active())
                {
                    executor.cooled(s);
                }
            }
        }
    }

    /// Ends a connection that carries nothing.
    fn drop_multiplex(&mut self, key: ConnKey, link: &Multiplex) {
        self.leave_line(link, key);
        let record = &mut self.groups[link.group].record;
        record.http2_notices.add(&link.session.notices);
        self.close_later(key);
    }

    /// The group's load has ended: so do its connections, whatever they carry.
    pub(super) fn close_multiplexes(&mut self, g: usize) {
        for key in 0..self.multiplexes.by_key.len() {
            if let Some(link) = self.multiplexes.by_key[key].take_if(|link| link.group == g) {
                let record = &mut self.groups[g].record;
                record.http2_notices.add(&link.session.notices);
                self.conns.close(key);
            }
        }
    }
}
