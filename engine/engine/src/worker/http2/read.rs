//! What comes on shared connections: answers, and the ways in which a connection ends.

use std::collections::VecDeque;

use super::super::Worker;
use super::{Multiplex, Upload};
use crate::conn::{ConnKey, Got, Stage};
use crate::error::ErrorKind;
use crate::record::NEVER;
use crate::redirect::is_redirect;
use crate::wire::http2::answer::Answer;
use crate::wire::http2::session::Event;
use crate::wire::http2::Fault;

/// Bytes read from one connection before others get their turn.
const TURN_BYTES: usize = 1024 * 1024;

/// How a connection ends from the other side.
#[derive(Clone, Copy)]
enum End {
    /// The end of the stream, in order or not.
    Closed,
    Broken(ErrorKind),
    Fault(Fault),
}

impl Worker<'_> {
    /// A shared connection's socket has news.
    pub(in crate::worker) fn on_multiplex_event(&mut self, key: ConnKey, hangup: bool) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        conn.hung_up |= hangup;
        match conn.stage {
            Stage::Connecting => match conn.finish_connect(hangup) {
                Ok(()) => self.line_connected(key),
                Err(kind) => {
                    self.tick();
                    self.fail_multiplex(key, kind);
                }
            },
            Stage::Handshaking => self.line_handshake(key),
            Stage::Ready | Stage::Lingering => self.read_multiplex(key),
        }
    }

    /// Reads what is there, and goes on with what that allows.
    pub(in crate::worker) fn read_multiplex(&mut self, key: ConnKey) {
        let Some(mut link) = self.multiplexes.take(key) else {
            return;
        };
        self.heard = None;
        let mut buf = std::mem::take(&mut self.buf);
        let mut events = std::mem::take(&mut self.multiplexes.events);
        let end = self.read_all(key, &mut link, &mut buf, &mut events);
        self.buf = buf;
        self.multiplexes.events = events;
        if let Some(end) = end {
            // A write that failed has taken the socket's error with it.
            let end = match (end, link.broken) {
                (End::Closed, Some(kind)) => End::Broken(kind),
                (end, _) => end,
            };
            self.end_link(key, *link, end);
            return self.follow_redirects();
        }
        self.open_waiting(key, &mut link);
        // The socket may take more now, or a window be open.
        if link.blocked || link.unread || link.backlog() > 0 || !link.uploads.is_empty() {
            self.multiplexes.mark(key, &mut link);
        }
        let (g, answered) = (link.group, link.answered);
        let mut homeless = VecDeque::new();
        if !link.session.takes_streams() {
            self.leave_line(&link, key);
            homeless = std::mem::take(&mut link.waiting);
        }
        self.multiplexes.put(key, link);
        // A hop to the same place finds the connection that would end now.
        self.follow_redirects();
        self.tidy(key);
        for s in homeless {
            // A server that answers nothing before it leaves would be asked for ever.
            if answered {
                self.move_on(g, s);
            } else {
                self.end_request(g, s, Answer::default(), ErrorKind::Http2Goaway);
            }
        }
    }

    /// Goes on with requests whose answers lead elsewhere: no connection is being read now, so that any may be used.
    fn follow_redirects(&mut self) {
        while let Some((g, s)) = self.multiplexes.redirected.pop() {
            self.redirect(g, s);
        }
    }

    fn read_all(
        &mut self,
        key: ConnKey,
        link: &mut Multiplex,
        buf: &mut [u8],
        events: &mut Vec<Event>,
    ) -> Option<End> {
        let mut budget = TURN_BYTES;
        loop {
            let conn = self.conns.get_mut(key)?;
            let mut lag_ns = NEVER;
            let got = conn.read(buf, (link.sampled > 0).then_some(&mut lag_ns));
            self.tick();
            let (bytes, drained) = match got {
                Ok(Got::Data { bytes, drained }) => (bytes, drained),
                Ok(Got::Blocked) => return None,
                Ok(Got::End { .. }) => return Some(End::Closed),
                Err(kind) => return Some(End::Broken(kind)),
            };
            self.groups[link.group].record.totals.bytes_received += bytes as u64;
            let slots = &mut self.groups[link.group].slots;
            let pushed = link.session.push(&buf[..bytes], events, slots);
            for event in events.drain(..) {
                self.on_stream_event(link, event, lag_ns);
            }
            if let Err(fault) = pushed {
                return Some(End::Fault(fault));
            }
            if drained {
                return None;
            }
            budget = budget.saturating_sub(bytes);
            if budget == 0 {
                link.unread = true;
                return None;
            }
        }
    }

    fn on_stream_event(&mut self, link: &mut Multiplex, event: Event, lag_ns: i64) {
        match event {
            Event::Touched { key: s } => {
                link.heard = true;
                let slot = &mut self.groups[link.group].slots[s as usize];
                slot.sample.first_byte_ns = self.now_ns;
            }
            Event::Continued { key: s } => {
                let slot = &mut self.groups[link.group].slots[s as usize];
                if std::mem::take(&mut slot.hop.held) {
                    let stream = slot.exchange.stream().map_or(0, |stream| stream.id);
                    link.uploads.push_back(Upload { slot: s, stream });
                }
            }
            Event::Ended {
                key: s,
                answer,
                outcome,
            } => {
                link.answered |= outcome.is_ok();
                link.heard = true;
                let slot = &mut self.groups[link.group].slots[s as usize];
                if std::mem::take(&mut slot.stamped) {
                    link.sampled -= 1;
                    slot.sample.read_lag_ns = lag_ns;
                }
                let kind = outcome.map_or_else(ErrorKind::from, |()| ErrorKind::None);
                let follows = self.groups[link.group].plan.spec.follow_redirects > 0;
                if follows && kind == ErrorKind::None && is_redirect(answer.status) {
                    self.groups[link.group].slots[s as usize].leave_stream(answer);
                    self.multiplexes.redirected.push((link.group, s));
                } else {
                    self.end_request(link.group, s, answer, kind);
                }
            }
        }
    }

    /// A request on a shared connection is over.
    pub(super) fn end_request(&mut self, g: usize, s: u32, answer: Answer, kind: ErrorKind) {
        self.groups[g].slots[s as usize].leave_stream(answer);
        self.finish(g, s, kind);
    }

    /// A request is given up from our side: its stream is reset, or it waits no more.
    pub(in crate::worker) fn give_up(&mut self, g: usize, s: u32, key: ConnKey, kind: ErrorKind) {
        let slot = &self.groups[g].slots[s as usize];
        let id = slot.exchange.stream().map_or(0, |stream| stream.id);
        let (mut answer, mut head_begun) = (Answer::default(), false);
        if let Some(mut link) = self.multiplexes.take(key) {
            if id == 0 {
                link.waiting.retain(|waiting| *waiting != s);
            } else {
                head_begun = link.session.has_begun_head(id);
                answer = link.session.cancel(id);
                let slot = &mut self.groups[g].slots[s as usize];
                link.sampled -= u32::from(std::mem::take(&mut slot.stamped));
                self.multiplexes.mark(key, &mut link);
            }
            self.multiplexes.put(key, link);
        }
        let kind = match kind {
            ErrorKind::TimeoutBody if answer.status == 0 => ErrorKind::TimeoutHead,
            ErrorKind::TimeoutFirstByte if head_begun => ErrorKind::TimeoutHead,
            kind => kind,
        };
        self.end_request(g, s, answer, kind);
        self.tidy(key);
    }

    /// Ends a connection that nothing needs any more.
    fn tidy(&mut self, key: ConnKey) {
        let Some(link) = self.multiplexes.take(key) else {
            return;
        };
        let new = self.groups[link.group].plan.new_connections;
        let carries = link.session.open_streams() > 0 || !link.waiting.is_empty();
        let over = !link.ready || new || link.passing || !link.session.takes_streams();
        if carries || !over {
            return self.multiplexes.put(key, link);
        }
        self.drop_multiplex(key, &link);
    }

    /// A connection has failed, for a reason that is no frame of the peer's.
    pub(in crate::worker) fn fail_multiplex(&mut self, key: ConnKey, kind: ErrorKind) {
        if let Some(link) = self.multiplexes.take(key) {
            self.end_link(key, *link, End::Broken(kind));
        }
    }

    /// Ends a connection and every request on it; those that wait for a stream may go to another one.
    fn end_link(&mut self, key: ConnKey, mut link: Multiplex, end: End) {
        if let End::Fault(fault) = end {
            link.session.goodbye(Some(fault));
            if let Some(conn) = self.conns.get_mut(key) {
                // Whether it hears that is its own affair.
                let _ = conn.write(&link.session.out, &mut link.written);
            }
        }
        self.drop_multiplex(key, &link);
        let leaving = link.session.leaving();
        for (s, answer) in link.session.end() {
            let kind = self.kind_of_end(&link, s, answer, end, leaving);
            self.end_request(link.group, s, answer, kind);
        }
        // What waits was not sent. As after a GOAWAY, a server that answers nothing is not asked for ever.
        let moves = link.answered && !matches!(end, End::Fault(_));
        for s in std::mem::take(&mut link.waiting) {
            if moves {
                self.move_on(link.group, s);
                continue;
            }
            let answer = Answer::default();
            let kind = self.kind_of_end(&link, s, answer, end, leaving);
            self.end_request(link.group, s, answer, kind);
        }
    }

    /// What the end of its connection is for a request.
    fn kind_of_end(
        &self,
        link: &Multiplex,
        s: u32,
        answer: Answer,
        end: End,
        leaving: bool,
    ) -> ErrorKind {
        let slot = &self.groups[link.group].slots[s as usize];
        let sample = &slot.sample;
        let touched = sample.first_byte_ns != NEVER;
        let left = sample.written_ns != NEVER && slot.hop.written as u64 >= slot.hop.body_bytes;
        let kind = match end {
            End::Fault(fault) => return fault.into(),
            End::Closed if answer.status > 0 => return ErrorKind::ShortBody,
            End::Closed if touched => return ErrorKind::ShortHead,
            // It was at work on others, and neither new nor idle.
            End::Closed if link.heard => ErrorKind::ReadReset,
            End::Closed => ErrorKind::EmptyAnswer,
            End::Broken(ErrorKind::WriteReset) if left => ErrorKind::ReadReset,
            End::Broken(kind) => kind,
        };
        let reset = matches!(
            kind,
            ErrorKind::ReadReset | ErrorKind::WriteReset | ErrorKind::EmptyAnswer
        );
        match kind {
            _ if touched || !reset => kind,
            _ if leaving => ErrorKind::Http2Goaway,
            _ if sample.reused && link.answered && !link.heard => ErrorKind::StaleConnection,
            _ => kind,
        }
    }
}
