//! When a request's time is over, and what that makes of it.

use std::cmp::Reverse;

use super::Worker;
use crate::conn::Stage;
use crate::error::ErrorKind;
use crate::record::NEVER;
use crate::vu::Phase;

impl Worker<'_> {
    /// Sets "begun" and the deadline at a request's first step, and the hop's own start.
    pub(super) fn begin_clock(&mut self, g: usize, s: u32, now_ns: i64) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.hop.begun_ns = now_ns;
        if slot.sample.begun_ns == NEVER {
            slot.sample.begun_ns = now_ns;
            slot.deadline_ns = now_ns.saturating_add(group.plan.step(slot.step).timeout_ns);
        }
        self.arm(g, s);
    }

    /// Fails requests whose time is over.
    pub(super) fn end_late(&mut self) {
        while let Some(Reverse((at_ns, g, s))) = self
            .deadlines
            .peek()
            .copied()
            .filter(|top| top.0 .0 <= self.now_ns)
        {
            self.deadlines.pop();
            let slot = &mut self.groups[g].slots[s as usize];
            if slot.armed_ns != Some(at_ns) {
                continue;
            }
            slot.armed_ns = None;
            if !slot.active() {
                continue;
            }
            if slot.deadline_ns <= self.now_ns {
                self.read_at_last(g, s);
                if self.groups[g].slots[s as usize].active() {
                    let kind = self.timeout_kind(g, s);
                    self.fail(g, s, kind);
                }
            } else if let Some(kind) = self.late_to_connect(g, s) {
                self.give_up_connecting(g, s, kind);
            } else {
                self.arm(g, s);
            }
        }
    }

    /// Reads the answer of a request whose time is over: where many sockets have news, it may have come long before its turn.
    fn read_at_last(&mut self, g: usize, s: u32) {
        let slot = &self.groups[g].slots[s as usize];
        match slot.conn.filter(|_| slot.phase != Phase::Opening) {
            Some(key) if slot.exchange.stream().is_some() => self.read_multiplex(key),
            Some(key) => self.receive(g, s, key),
            None => {}
        }
    }

    /// Sees to it that the slot's deadline is noticed. One heap entry a slot: it is moved on when it comes up too early.
    fn arm(&mut self, g: usize, s: u32) {
        let connect_by_ns = self
            .connect_by_ns(g, s)
            .filter(|at_ns| *at_ns > self.now_ns);
        let slot = &mut self.groups[g].slots[s as usize];
        let at_ns = connect_by_ns.map_or(slot.deadline_ns, |at_ns| at_ns.min(slot.deadline_ns));
        if slot.armed_ns.is_none_or(|armed_ns| armed_ns > at_ns) {
            slot.armed_ns = Some(at_ns);
            self.deadlines.push(Reverse((at_ns, g, s)));
        }
    }

    /// When a connection that is being opened is to stand, where its group says so.
    fn connect_by_ns(&self, g: usize, s: u32) -> Option<i64> {
        let group = &self.groups[g];
        let slot = &group.slots[s as usize];
        let most_ns = group.plan.spec.connect_timeout_ns?;
        (slot.phase == Phase::Opening).then(|| slot.hop.begun_ns.saturating_add(most_ns))
    }

    /// What has taken too long of a connection that is being opened.
    fn late_to_connect(&self, g: usize, s: u32) -> Option<ErrorKind> {
        self.connect_by_ns(g, s)
            .filter(|at_ns| *at_ns <= self.now_ns)
            .and_then(|_| self.connecting(g, s))
    }

    /// The connection will not stand in time: its request fails, over HTTP/2 all that wait for it.
    fn give_up_connecting(&mut self, g: usize, s: u32, kind: ErrorKind) {
        let slot = &self.groups[g].slots[s as usize];
        match slot.conn.filter(|_| slot.exchange.stream().is_some()) {
            Some(key) => self.fail_multiplex(key, kind),
            None => self.fail(g, s, kind),
        }
    }

    /// What a connection is still to reach on which a request waits; `None`: it stands, or there is none.
    fn connecting(&self, g: usize, s: u32) -> Option<ErrorKind> {
        let conn = self.groups[g].slots[s as usize].conn;
        match conn.and_then(|key| self.conns.get(key))?.stage {
            Stage::Connecting => Some(ErrorKind::ConnectTimeout),
            Stage::Handshaking => Some(ErrorKind::TlsTimeout),
            Stage::Ready | Stage::Lingering => None,
        }
    }

    fn timeout_kind(&self, g: usize, s: u32) -> ErrorKind {
        let slot = &self.groups[g].slots[s as usize];
        let connecting = self.connecting(g, s);
        connecting.unwrap_or_else(|| slot.timeout())
    }
}
