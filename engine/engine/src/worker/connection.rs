//! A connection's life: opened, its handshake, what comes when nothing was asked, kept for the next request or closed.
//! What is said on it, and what that means, is its exchange's.

use std::sync::Arc;

use rustls::ClientConfig;

use super::{Worker, LINGER_MAX, LINGER_NS};
use crate::conn::{Conn, ConnKey, Got, Owner, Stage};
use crate::error::ErrorKind;
use crate::plan::Endpoint;
use crate::sys::Event;
use crate::vu::Phase;

impl Worker<'_> {
    /// Opens a connection for the slot's current hop.
    pub(super) fn open(&mut self, g: usize, s: u32) {
        let now_ns = self.tick();
        self.groups[g].slots[s as usize].phase = Phase::Opening;
        self.begin_clock(g, s, now_ns);
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
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
                let exchange = &self.groups[g].slots[s as usize].exchange;
                let early = !exchange.takes_turns() && conn.has_leftover();
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
                Ok(()) if event.readable && !slot.exchange.takes_turns() => {
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

    /// Whether the connection of an answered hop may carry another request.
    pub(super) fn reusable(&self, g: usize, s: u32, key: ConnKey) -> bool {
        let slot = &self.groups[g].slots[s as usize];
        let open = self.conns.get(key).is_some_and(|conn| !conn.hung_up);
        open && slot.exchange.keeps_connection() && slot.phase == Phase::Receiving
    }

    /// What becomes of the connection of a complete answer: kept, or closed with a normal close.
    pub(super) fn settle(&mut self, g: usize, s: u32, key: ConnKey) {
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
        let server_closes = !slot.exchange.keeps_connection();
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
