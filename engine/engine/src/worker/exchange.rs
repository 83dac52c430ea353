//! One request from its first step to its record: the glue between VU, connection and codec.

use std::sync::Arc;

use rustls::ClientConfig;

use super::{Worker, LINGER_MAX, LINGER_NS, READ_TURN_BYTES};
use crate::conn::{Conn, ConnKey, Got, Owner, Stage};
use crate::error::ErrorKind;
use crate::plan::{Endpoint, GroupPlan};
use crate::record::{Failure, NEVER};
use crate::redirect::is_redirect;
use crate::sys::Event;
use crate::vu::{Phase, Slot};
use crate::wire::dialogue::{Next, Script};
use crate::wire::http1::Step;
use crate::wire::WireError;

impl Worker<'_> {
    /// Opens a connection for the slot's current hop.
    pub(super) fn open(&mut self, g: usize, s: u32) {
        let now_ns = self.tick();
        self.begin_clock(g, s, now_ns);
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.phase = Phase::Opening;
        let endpoint = &self.endpoints[slot.hop.endpoint];
        let config = endpoint.tls.as_ref().map(|tls| {
            if slot.tls.len() <= slot.hop.endpoint {
                slot.tls.resize(slot.hop.endpoint + 1, None);
            }
            let resumes = group.plan.resumes();
            slot.tls[slot.hop.endpoint]
                .get_or_insert_with(|| tls.for_user(resumes))
                .clone()
        });
        let owner = Owner { group: g, slot: s };
        slot.sample.lookup_ns += self.clock.now_ns() - now_ns;
        let endpoint = slot.hop.endpoint;
        match self.dial(endpoint, config, owner) {
            Ok(conn) => self.opened(g, s, conn),
            Err(kind) => {
                self.tick();
                self.fail(g, s, kind);
            }
        }
    }

    /// Starts to connect.
    pub(super) fn dial(
        &mut self,
        endpoint: usize,
        config: Option<Arc<ClientConfig>>,
        owner: Owner,
    ) -> Result<Conn, ErrorKind> {
        let (plan, group) = (self.plan, self.groups[owner.group].plan);
        let source = self.conns.next_source(&group.sources);
        let open = |endpoint: &Endpoint, config| {
            let conn = Conn::open(&plan.allowed, endpoint, source, config, owner)?;
            if group.spec.close_by_reset {
                conn.close_by_reset();
            }
            Ok(conn)
        };
        let opened = open(&self.endpoints[endpoint], config.clone());
        if matches!(opened, Err(ErrorKind::Emfile)) && self.free_descriptors() {
            return open(&self.endpoints[endpoint], config);
        }
        opened
    }

    fn opened(&mut self, g: usize, s: u32, conn: Conn) {
        let slot = &mut self.groups[g].slots[s as usize];
        let key = self.conns.insert(conn);
        slot.conn = Some(key);
        let Some(conn) = self.conns.get(key) else {
            return;
        };
        slot.sample.connection = conn.id;
        let stage = conn.stage;
        if let Err(error) = self.epoll.add(conn.fd(), conn.token) {
            self.tick();
            self.fail(g, s, ErrorKind::of_connect(&error));
        } else if stage != Stage::Connecting {
            self.connected(g, s, key);
        }
    }

    /// Closes every connection that is only kept for a better close. True if there was any.
    fn free_descriptors(&mut self) -> bool {
        let lingering = self.lingering.drain(..).map(|(_, token)| token);
        self.leaving.extend(lingering);
        let any = !self.leaving.is_empty();
        self.close_leaving();
        any
    }

    pub(super) fn note_unauthorised(&mut self, target: String) {
        if self.unauthorised.len() < 1_000 {
            self.unauthorised.insert(target);
        }
    }

    /// Sets "begun" and the deadline at a request's first step, and the hop's own start.
    pub(super) fn begin_clock(&mut self, g: usize, s: u32, now_ns: i64) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.hop.begun_ns = now_ns;
        if slot.sample.begun_ns == NEVER {
            slot.sample.begun_ns = now_ns;
            slot.deadline_ns = now_ns.saturating_add(group.plan.step(slot.step).timeout_ns);
            self.arm(g, s);
        }
    }

    fn connected(&mut self, g: usize, s: u32, key: ConnKey) {
        let now_ns = self.tick();
        let group = &mut self.groups[g];
        group.record.totals.connections_opened += 1;
        let slot = &mut group.slots[s as usize];
        slot.sample.connect_ns += now_ns - slot.hop.begun_ns;
        self.shake_hands(g, s, key);
    }

    fn shake_hands(&mut self, g: usize, s: u32, key: ConnKey) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        match conn.handshake() {
            Ok(true) => {
                let kind = conn.tls_kind;
                let group = &self.groups[g];
                let silent = group.slots[s as usize].script(group.plan).is_none();
                let early = silent && conn.has_leftover();
                let now_ns = self.tick();
                let group = &mut self.groups[g];
                let slot = &mut group.slots[s as usize];
                if kind > 0 {
                    slot.sample.appconnect_ns += now_ns - slot.hop.begun_ns;
                    group.record.totals.tls_full += u64::from(kind == 1);
                    group.record.totals.tls_resumed += u64::from(kind == 2);
                }
                if early {
                    return self.fail(g, s, ErrorKind::UnexpectedData);
                }
                self.send(g, s, key);
            }
            Ok(false) => {}
            Err(kind) => {
                self.tick();
                self.fail(g, s, kind);
            }
        }
    }

    /// Writes the request on a connection that stands.
    pub(super) fn send(&mut self, g: usize, s: u32, key: ConnKey) {
        let stamped = self.groups[g].stamping.takes(self.now_ns);
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
        let template = &group.plan.step(slot.step).template;
        let length = template.head_bytes(slot.request(group.plan));
        let sample = &mut slot.sample;
        sample.connection = id;
        sample.reused = reused;
        sample.tls = tls;
        sample.written_ns = now_ns;
        sample.pretransfer_ns += now_ns - slot.hop.begun_ns;
        sample.request_bytes += length as u32;
        group.record.written(!slot.ever_written);
        slot.ever_written = true;
        let listens = !reused && slot.script(group.plan).is_some();
        if slot.hop.held {
            self.hold(g, s, key);
        }
        self.flush(g, s, key);
        if listens && self.groups[g].slots[s as usize].conn == Some(key) {
            self.listen(g, s, key);
        }
    }

    /// A dialogue begins, and the server may speak first: only once it has all of our handshake, whose last bytes otherwise
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

    fn flush(&mut self, g: usize, s: u32, key: ConnKey) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        if slot.hop.body_bytes > 0 {
            return self.upload(g, s, key);
        }
        if slot.script(group.plan).is_some() {
            return self.converse(g, s, key);
        }
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let before = slot.hop.written;
        let bytes = match group.plan.step(slot.step).template.fixed() {
            Some(fixed) if slot.out_is_fixed => fixed,
            _ => &slot.out,
        };
        let result = conn.write(bytes, &mut slot.hop.written);
        group.record.totals.bytes_sent += (slot.hop.written - before) as u64;
        match result {
            Ok(true) => slot.phase = Phase::Receiving,
            Ok(false) => {}
            Err(kind) => {
                self.tick();
                self.fail(g, s, kind);
            }
        }
    }

    /// A socket or the bell has news.
    pub(super) fn on_event(&mut self, event: Event) {
        // The bell has no connection: it only ends the wait.
        let Some(key) = self.conns.find(event.token) else {
            return;
        };
        if self.is_multiplexed(key) {
            return self.on_multiplex_event(key, event.hangup);
        }
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        conn.hung_up |= event.hangup;
        let (Owner { group: g, slot: s }, stage) = (conn.owner, conn.stage);
        if stage == Stage::Lingering {
            return self.watch_idle(key, None);
        }
        let slot = &self.groups[g].slots[s as usize];
        if slot.conn != Some(key) || !slot.active() {
            return self.watch_idle(key, Some((g, s)));
        }
        match slot.phase {
            Phase::Idle => {}
            Phase::Opening if stage == Stage::Connecting => match conn.finish_connect(event.hangup)
            {
                Ok(()) if event.readable && slot.script(self.groups[g].plan).is_none() => {
                    self.greeted(g, s, key);
                }
                Ok(()) => self.connected(g, s, key),
                Err(kind) => {
                    self.tick();
                    self.fail(g, s, kind);
                }
            },
            Phase::Opening => self.shake_hands(g, s, key),
            Phase::Sending => {
                self.flush(g, s, key);
                if self.groups[g].slots[s as usize].conn == Some(key) {
                    self.receive(g, s, key);
                }
            }
            Phase::Receiving => self.receive(g, s, key),
        }
    }

    /// A connection stands, and there is something to read on it already. With TLS that is the handshake's affair; else it
    /// is an answer nobody asked for, or the end of a server that will give none.
    fn greeted(&mut self, g: usize, s: u32, key: ConnKey) {
        let tls = self.conns.get(key).is_some_and(Conn::has_tls);
        let (bytes, kind) = match (!tls).then(|| self.peek(key)).flatten() {
            Some(Ok(Got::Data { bytes, .. })) if bytes > 0 => (bytes, ErrorKind::UnexpectedData),
            Some(Ok(Got::End { .. })) => (0, ErrorKind::EmptyAnswer),
            Some(Err(kind)) => (0, kind),
            _ => return self.connected(g, s, key),
        };
        let totals = &mut self.groups[g].record.totals;
        totals.connections_opened += 1;
        totals.bytes_received += bytes as u64;
        self.tick();
        self.fail(g, s, kind);
    }

    /// Reads from a connection that should hold nothing.
    fn peek(&mut self, key: ConnKey) -> Option<Result<Got, ErrorKind>> {
        self.heard = None;
        self.conns
            .get_mut(key)
            .map(|conn| conn.read(&mut self.buf, None))
    }

    /// News on a connection without a request: tickets are taken, anything else ends it.
    fn watch_idle(&mut self, key: ConnKey, slot: Option<(usize, u32)>) {
        let got = self.peek(key);
        if got == Some(Ok(Got::Blocked)) {
            return;
        }
        self.conns.close(key);
        if let Some((g, s)) = slot {
            let group = &mut self.groups[g];
            let unasked = matches!(got, Some(Ok(Got::Data { bytes: 1.., .. })));
            group.record.totals.unasked_data += u64::from(unasked);
            group.idle.retain(|(_, idle)| *idle != key);
            let slot = &mut group.slots[s as usize];
            if slot.forget(key) {
                if let Some(executor) = group.executor.as_mut().filter(|_| !slot.active()) {
                    executor.cooled(s);
                }
            }
        }
    }

    fn receive(&mut self, g: usize, s: u32, key: ConnKey) {
        let mut buf = std::mem::take(&mut self.buf);
        let verdict = self.read_answer(g, s, key, &mut buf);
        self.buf = buf;
        match verdict {
            None => {
                let slot = &self.groups[g].slots[s as usize];
                let awaited = slot.phase == Phase::Receiving;
                if slot.hop.held && slot.decoder.continued() {
                    self.let_go(g, s, key);
                } else if awaited && slot.script(self.groups[g].plan).is_some() {
                    self.converse(g, s, key);
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
                Ok(Got::End { clean }) => return Some(ended(slot, group.plan, clean)),
                Err(kind) => return Some(Err(kind)),
            };
            if slot.sample.first_byte_ns == NEVER && bytes > 0 {
                slot.sample.first_byte_ns = self.now_ns;
            }
            self.heard = Some((g, s, bytes));
            budget = budget.saturating_sub(bytes.max(1));
            slot.sample.received_bytes += bytes as u64;
            group.record.totals.bytes_received += bytes as u64;
            let step = match slot.script(group.plan) {
                Some(script) => heard(slot, script, &buf[..bytes]),
                None => slot.decoder.push(&buf[..bytes]),
            };
            match step {
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
        let follow = group.plan.spec.follow_redirects > 0 && is_redirect(slot.decoder.status());
        if follow {
            self.redirect(g, s);
        } else {
            self.finish(g, s, ErrorKind::None);
        }
    }

    /// Whether the connection of an answered hop may carry another request.
    pub(super) fn reusable(&self, g: usize, s: u32, key: ConnKey) -> bool {
        let slot = &self.groups[g].slots[s as usize];
        let open = self.conns.get(key).is_some_and(|conn| !conn.hung_up);
        let keeps = slot.keeps_connection(self.groups[g].plan);
        open && keeps && slot.phase == Phase::Receiving
    }

    /// A request ends for a reason that is no answer.
    pub(super) fn fail(&mut self, g: usize, s: u32, kind: ErrorKind) {
        let slot = &mut self.groups[g].slots[s as usize];
        if let (Some(_), Some(key)) = (slot.stream, slot.conn) {
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
        let answer = slot.answer(group.plan);
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
        let sample = group.slots[s as usize].sample;
        if !sample.ok() && group.record.first_failure.is_none() {
            let whole = |bytes: usize| sample.received_bytes == bytes as u64;
            let answer = match self.heard {
                Some((of, slot, bytes)) if (of, slot) == (g, s) && whole(bytes) => {
                    &self.buf[..bytes]
                }
                _ => &[],
            };
            group.record.first_failure = Some(Failure::new(sample, answer));
        }
        group.record.finished(sample);
        self.after_step(g, s);
    }

    /// What becomes of the connection of a complete answer: kept, or closed with a normal close.
    fn settle(&mut self, g: usize, s: u32, key: ConnKey) {
        let reusable = self.reusable(g, s, key);
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.conn = None;
        if reusable && !group.plan.new_connections && slot.hop.endpoint == slot.own_endpoint {
            slot.home = Some(key);
            return;
        }
        if slot.home == Some(key) {
            slot.home = None;
        }
        let server_closes = !slot.keeps_connection(group.plan);
        self.retire(key, server_closes);
    }

    /// Closes a connection in order. Where the server closes too, its FIN is awaited for a while, so that the
    /// TIME_WAIT, and with it the local port, is not ours.
    pub(super) fn retire(&mut self, key: ConnKey, server_closes: bool) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if !server_closes || conn.hung_up || conn.stage != Stage::Ready {
            return self.close_later(key);
        }
        conn.say_goodbye();
        conn.stage = Stage::Lingering;
        self.lingering
            .push_back((self.now_ns + LINGER_NS, conn.token));
        if self.lingering.len() > LINGER_MAX {
            if let Some((_, token)) = self.lingering.pop_front() {
                self.leaving.push(token);
            }
        }
    }
}

/// What the next bytes make of a dialogue; what it says next is left to the end of the read.
fn heard(slot: &mut Slot, script: &Script, bytes: &[u8]) -> Result<Step, WireError> {
    Ok(match slot.talk.push(script, bytes)? {
        Next::Done => Step::Done { used: bytes.len() },
        Next::Hear | Next::Say => Step::More,
    })
}

/// The stream ended: what that makes of the answer.
fn ended(slot: &mut Slot, plan: &GroupPlan, clean: bool) -> Result<(), ErrorKind> {
    if !slot.touched() {
        return Err(ErrorKind::EmptyAnswer);
    }
    match slot.script(plan) {
        Some(script) => slot.talk.end_of_stream(script)?,
        None => slot.decoder.end_of_stream()?,
    }
    // TLS without its goodbye may have been cut off.
    if clean {
        Ok(())
    } else {
        Err(ErrorKind::ShortBody)
    }
}

/// After a complete answer: the connection must hold nothing more.
fn nothing_follows(conn: &mut Conn, drained: bool, buf: &mut [u8]) -> Result<(), ErrorKind> {
    if conn.has_tls() {
        return if conn.has_leftover() {
            Err(ErrorKind::UnexpectedData)
        } else {
            Ok(())
        };
    }
    if drained {
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
