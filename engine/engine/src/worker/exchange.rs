//! One request from its first byte to its record, on a connection that it has for itself: bytes are moved between the two,
//! and the exchange says what they mean.

use super::{Worker, READ_TURN_BYTES};
use crate::conn::{Conn, ConnKey, Got};
use crate::error::ErrorKind;
use crate::exchange::Next;
use crate::record::{Failure, NEVER};
use crate::redirect::is_redirect;
use crate::vu::{Phase, Slot};
use crate::wire::http1::Step;

impl Worker<'_> {
    pub(super) fn note_unauthorised(&mut self, target: String) {
        if self.unauthorised.len() < 1_000 {
            self.unauthorised.insert(target);
        }
    }

    /// Writes the request on a connection that stands.
    pub(super) fn send(&mut self, g: usize, s: u32, key: ConnKey) {
        let stamped = self.groups[g].measures_read_lag(s, self.now_ns);
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if stamped {
            conn.stamp_receives();
        }
        let (id, reused, tls) = (conn.id, conn.requests > 0, conn.tls_kind);
        conn.requests += 1;
        let now_ns = self.tick();
        if reused {
            self.begin_clock(g, s, now_ns);
        }
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.stamped = stamped;
        slot.phase = Phase::Sending;
        let text = slot.exchange.text();
        let template = group.plan.template(slot.step);
        let length = template.map_or(text.len(), |template| template.head_bytes(text));
        let sample = &mut slot.sample;
        sample.connection = id;
        sample.reused = reused;
        sample.tls = tls;
        sample.written_ns = now_ns;
        sample.pretransfer_ns += now_ns - slot.hop.begun_ns;
        sample.request_bytes += length as u32;
        group.record.written(!slot.ever_written);
        slot.ever_written = true;
        let listens = !reused && slot.exchange.takes_turns();
        if slot.hop.held {
            self.hold(g, s, key);
        }
        self.flush(g, s, key);
        if listens && self.groups[g].slots[s as usize].conn == Some(key) {
            self.listen(g, s, key);
        }
    }

    /// Both sides speak in turns, and the server may begin: only once it has all of our handshake, whose last bytes otherwise
    /// leave with the request; and what came with that makes no event of its own.
    fn listen(&mut self, g: usize, s: u32, key: ConnKey) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        match conn.write(&[], &mut 0) {
            Ok(_) => self.receive(g, s, key),
            Err(kind) => {
                self.tick();
                self.fail(g, s, kind);
            }
        }
    }

    /// Says what is to be said now, until something must be heard or the connection takes no more.
    pub(super) fn flush(&mut self, g: usize, s: u32, key: ConnKey) {
        loop {
            let group = &mut self.groups[g];
            let slot = &mut group.slots[s as usize];
            if slot.hop.body_bytes > 0 {
                return self.upload(g, s, key);
            }
            let written = match slot.next(group.plan) {
                Err(error) => Err(error.into()),
                Ok(Next::Hear) => {
                    // TLS may hold back what it has taken.
                    let conn = self.conns.get_mut(key);
                    match conn.map_or(Ok(true), |conn| conn.write(&[], &mut 0)) {
                        Ok(false) => return,
                        Ok(true) => {
                            slot.phase = Phase::Receiving;
                            return;
                        }
                        Err(kind) => Err(kind),
                    }
                }
                Ok(Next::Done) => {
                    slot.phase = Phase::Receiving;
                    self.tick();
                    return self.answered(g, s);
                }
                Ok(Next::Say { until }) => {
                    let Some(conn) = self.conns.get_mut(key) else {
                        return;
                    };
                    slot.phase = Phase::Sending;
                    let before = slot.hop.written;
                    let text = &slot.exchange.text()[..until];
                    let written = conn.write(text, &mut slot.hop.written);
                    group.record.totals.bytes_sent += (slot.hop.written - before) as u64;
                    written
                }
            };
            match written {
                Ok(true) => slot.sample.request_bytes += slot.exchange.said() as u32,
                Ok(false) => return,
                Err(kind) => return self.cut_off(g, s, key, kind),
            }
        }
    }

    /// Nothing more of a request can be written. A server that wants no more may have answered before it closed.
    pub(super) fn cut_off(&mut self, g: usize, s: u32, key: ConnKey, kind: ErrorKind) {
        let mut buf = std::mem::take(&mut self.buf);
        let answer = match self.groups[g].slots[s as usize].exchange.takes_turns() {
            false => self.read_answer(g, s, key, &mut buf),
            true => None,
        };
        self.buf = buf;
        if answer == Some(Ok(())) {
            return self.answered(g, s);
        }
        self.tick();
        self.fail(g, s, kind);
    }

    pub(super) fn receive(&mut self, g: usize, s: u32, key: ConnKey) {
        let mut buf = std::mem::take(&mut self.buf);
        let verdict = self.read_answer(g, s, key, &mut buf);
        self.buf = buf;
        match verdict {
            None => {
                let slot = &self.groups[g].slots[s as usize];
                let awaited = slot.phase == Phase::Receiving;
                if slot.hop.held && slot.exchange.continued() {
                    self.let_go(g, s, key);
                } else if awaited && slot.exchange.takes_turns() {
                    self.flush(g, s, key);
                }
            }
            Some(Ok(())) => self.answered(g, s),
            Some(Err(kind)) => self.fail(g, s, kind),
        }
    }

    /// Reads what is there. `None`: the answer is not complete.
    pub(super) fn read_answer(
        &mut self,
        g: usize,
        s: u32,
        key: ConnKey,
        buf: &mut [u8],
    ) -> Option<Result<(), ErrorKind>> {
        let mut budget = READ_TURN_BYTES;
        loop {
            self.heard = None;
            let group = &mut self.groups[g];
            let slot = &mut group.slots[s as usize];
            if budget == 0 {
                if !std::mem::replace(&mut slot.hop.unread, true) {
                    let unread = self.unfinished_of(g, s, key);
                    self.unread.extend(unread);
                }
                return None;
            }
            let conn = self.conns.get_mut(key)?;
            let got = conn.read(buf, slot.stamped.then_some(&mut slot.sample.read_lag_ns));
            self.now_ns = self.clock.now_ns();
            let (bytes, drained) = match got {
                Ok(Got::Data { bytes, drained }) => (bytes, drained),
                Ok(Got::Blocked) => return None,
                Ok(Got::End { clean }) => return Some(ended(slot, clean)),
                Err(kind) => return Some(Err(kind)),
            };
            if slot.sample.first_byte_ns == NEVER && bytes > 0 {
                slot.sample.first_byte_ns = self.now_ns;
            }
            self.heard = Some((g, s, bytes));
            budget = budget.saturating_sub(bytes.max(1));
            slot.sample.received_bytes += bytes as u64;
            group.record.totals.bytes_received += bytes as u64;
            match slot.hear(group.plan, &buf[..bytes]) {
                Err(error) => return Some(Err(error.into())),
                Ok(Step::More) if drained => return None,
                Ok(Step::More) => {}
                Ok(Step::Done { used }) if used < bytes => {
                    return Some(Err(ErrorKind::UnexpectedData))
                }
                Ok(Step::Done { .. }) => {
                    let alone = nothing_follows(conn, drained, buf);
                    // What follows stands in its place.
                    self.heard = self.heard.filter(|_| alone.is_ok());
                    return Some(alone);
                }
            }
        }
    }

    /// Goes on with answers that could be read on when their turn was over.
    pub(super) fn read_on(&mut self) {
        for _ in 0..self.unread.len() {
            let Some(unread) = self.unread.pop_front() else {
                return;
            };
            let Some(key) = self.conns.find(unread.token) else {
                continue;
            };
            let slot = &mut self.groups[unread.group].slots[unread.slot as usize];
            if slot.conn == Some(key) && slot.active() {
                slot.hop.unread = false;
                self.receive(unread.group, unread.slot, key);
            }
        }
    }

    /// A complete answer: followed, or the request's end.
    pub(super) fn answered(&mut self, g: usize, s: u32) {
        let group = &self.groups[g];
        let slot = &group.slots[s as usize];
        let status = slot.exchange.answer().status;
        let follow = group.plan.spec.follow_redirects > 0 && is_redirect(status);
        if follow {
            self.redirect(g, s);
        } else {
            self.finish(g, s, ErrorKind::None);
        }
    }

    /// A request ends for a reason that is no answer.
    pub(super) fn fail(&mut self, g: usize, s: u32, kind: ErrorKind) {
        let slot = &mut self.groups[g].slots[s as usize];
        if let (Some(_), Some(key)) = (slot.exchange.stream(), slot.conn) {
            return self.give_up(g, s, key, kind);
        }
        let endpoint = slot.hop.endpoint;
        let untouched = !slot.touched() && slot.sample.reused && slot.sample.written_ns != NEVER;
        let stale = untouched
            && matches!(
                kind,
                ErrorKind::ReadReset | ErrorKind::WriteReset | ErrorKind::EmptyAnswer
            );
        if let Some(key) = slot.conn.take() {
            if slot.home == Some(key) {
                slot.home = None;
            }
            self.close_later(key);
        }
        if kind == ErrorKind::UnauthorisedTarget {
            self.note_unauthorised(self.endpoints[endpoint].origin.full());
        }
        let kind = if stale {
            ErrorKind::StaleConnection
        } else {
            kind
        };
        self.finish(g, s, kind);
    }

    /// Judges a request, records it, and frees its slot.
    pub(super) fn finish(&mut self, g: usize, s: u32, kind: ErrorKind) {
        if let Some(key) = self.groups[g].slots[s as usize].conn {
            self.settle(g, s, key);
        }
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        if group.plan.shared_connections {
            let home = slot.home.take().map(|home| (slot.own_endpoint, home));
            group.idle.extend(home);
        }
        slot.phase = Phase::Idle;
        slot.add_earlier_read_lag();
        let answer = slot.exchange.answer();
        let sample = &mut slot.sample;
        sample.done_ns = self.now_ns;
        sample.status = answer.status;
        sample.header_bytes += answer.header_bytes as u32;
        sample.body_bytes = answer.body_bytes;
        sample.received_bytes += answer.received_bytes;
        sample.error = kind;
        if kind == ErrorKind::None {
            let verdict = self.judge(g, s);
            self.groups[g].slots[s as usize].sample.error = verdict;
        }
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.exchange.shrink();
        if !group.plan.course.renews(slot.step) {
            slot.refused |= slot.sample.status == 401;
        } else if slot.sample.ok() {
            (slot.renewed_ns, slot.refused) = (self.now_ns, false);
        }
        let sample = group.slots[s as usize].sample;
        if !sample.ok() && group.record.first_failure.is_none() {
            let whole = |bytes: usize| sample.received_bytes == bytes as u64;
            let answer = match self.heard {
                Some((of, slot, bytes)) if (of, slot) == (g, s) && whole(bytes) => {
                    &self.buf[..bytes]
                }
                _ => &[],
            };
            group.record.first_failure = Some(Failure::new(
                sample.in_load_time(&group.plan.load_time),
                answer,
            ));
        }
        group.record.finished(sample);
        self.after_step(g, s);
    }
}

/// The stream ended: what that makes of the answer.
fn ended(slot: &mut Slot, clean: bool) -> Result<(), ErrorKind> {
    if !slot.touched() {
        return Err(ErrorKind::EmptyAnswer);
    }
    slot.exchange.end_of_stream()?;
    // TLS without its goodbye may have been cut off.
    if clean {
        Ok(())
    } else {
        Err(ErrorKind::ShortBody)
    }
}

/// After a complete answer: the connection must hold nothing more.
fn nothing_follows(conn: &mut Conn, drained: bool, buf: &mut [u8]) -> Result<(), ErrorKind> {
    let empty = match conn.has_tls() {
        true if conn.has_leftover() => return Err(ErrorKind::UnexpectedData),
        true => !conn.may_hold_more(),
        false => drained,
    };
    if empty {
        return Ok(());
    }
    match conn.read(buf, None) {
        Ok(Got::Data { bytes: 1.., .. }) => Err(ErrorKind::UnexpectedData),
        Ok(Got::Blocked) => Ok(()),
        // The answer was complete; what the connection does after it is its own affair.
        _ => {
            conn.hung_up = true;
            Ok(())
        }
    }
}
