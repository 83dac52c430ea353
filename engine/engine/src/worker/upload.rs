//! Bodies on their way out: filled piece by piece into the thread's buffer, never held whole, and never in the way of
//! other requests for long.

use super::Worker;
use crate::conn::ConnKey;
use crate::error::ErrorKind;
use crate::plan::GroupPlan;
use crate::vu::{Phase, Slot};

/// Bytes written of one body before other work gets its turn.
const TURN_BYTES: usize = 256 * 1024;
/// How long a body waits for the server's 100, as curl does.
const CONTINUE_NS: i64 = 1_000_000_000;

/// A slot whose connection this token names has bytes to go on with, out or in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    pub(super) group: usize,
    pub(super) slot: u32,
    pub(super) token: u64,
}

/// How far a turn of writing came.
enum Upload {
    Done,
    /// The socket takes no more now, or the server's 100 is awaited.
    Blocked,
    /// Its turn is over, it could go on.
    More,
}

impl Worker<'_> {
    /// Writes on a request with a streamed body.
    pub(super) fn upload(&mut self, g: usize, s: u32, key: ConnKey) {
        self.heard = None;
        let mut buf = std::mem::take(&mut self.buf);
        let result = self.upload_some(g, s, key, &mut buf);
        self.buf = buf;
        match result {
            Ok(Upload::Done) => self.groups[g].slots[s as usize].phase = Phase::Receiving,
            Ok(Upload::Blocked) => {}
            Ok(Upload::More) => {
                let slot = &mut self.groups[g].slots[s as usize];
                if !std::mem::replace(&mut slot.hop.queued, true) {
                    let unsent = self.unfinished_of(g, s, key);
                    self.unsent.extend(unsent);
                }
            }
            Err(kind) => self.cut_off(g, s, key, kind),
        }
    }

    fn upload_some(
        &mut self,
        g: usize,
        s: u32,
        key: ConnKey,
        buf: &mut [u8],
    ) -> Result<Upload, ErrorKind> {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let Some(conn) = self.conns.get_mut(key) else {
            return Ok(Upload::Blocked);
        };
        let head = slot.exchange.text().len();
        let all = head + slot.hop.body_bytes as usize;
        let mut budget = TURN_BYTES;
        loop {
            let until = if slot.hop.held { head } else { all };
            let length = buf.len().min(until - slot.hop.written);
            fill(slot, group.plan, &mut buf[..length])?;
            let mut taken = 0;
            let result = conn.write(&buf[..length], &mut taken);
            // What of it was body: all behind the head.
            let body = head.saturating_sub(slot.hop.written).min(taken);
            slot.sent.take_body(&buf[body..taken]);
            slot.hop.written += taken;
            group.record.totals.bytes_sent += taken as u64;
            if !result? {
                return Ok(Upload::Blocked);
            }
            if slot.hop.written == all {
                return Ok(Upload::Done);
            }
            if slot.hop.held {
                return Ok(Upload::Blocked);
            }
            budget = budget.saturating_sub(length);
            if budget == 0 {
                return Ok(Upload::More);
            }
        }
    }

    pub(super) fn unfinished_of(
        &self,
        group: usize,
        slot: u32,
        key: ConnKey,
    ) -> Option<Unfinished> {
        let token = self.conns.get(key)?.token;
        Some(Unfinished { group, slot, token })
    }

    /// The connection of an entry, if its request is still being written on it.
    fn still_sending(&self, unsent: Unfinished) -> Option<ConnKey> {
        let key = self.conns.find(unsent.token)?;
        let slot = &self.groups[unsent.group].slots[unsent.slot as usize];
        (slot.conn == Some(key) && slot.phase == Phase::Sending).then_some(key)
    }

    /// The connection of an entry, if its body, and no later one's, still waits for the server's 100.
    fn still_held(&self, at_ns: i64, unsent: Unfinished) -> Option<ConnKey> {
        let key = self.conns.find(unsent.token)?;
        let slot = &self.groups[unsent.group].slots[unsent.slot as usize];
        let waits = slot.hop.held && slot.hop.held_until_ns == at_ns;
        (slot.conn == Some(key) && waits).then_some(key)
    }

    /// Goes on with bodies that could be written on when their turn was over.
    pub(super) fn go_on(&mut self) {
        for _ in 0..self.unsent.len() {
            let Some(unsent) = self.unsent.pop_front() else {
                return;
            };
            if let Some(key) = self.still_sending(unsent) {
                self.groups[unsent.group].slots[unsent.slot as usize]
                    .hop
                    .queued = false;
                self.upload(unsent.group, unsent.slot, key);
            }
        }
        while let Some((at_ns, unsent)) = self
            .held
            .front()
            .copied()
            .filter(|(at_ns, _)| *at_ns <= self.now_ns)
        {
            self.held.pop_front();
            if let Some(key) = self.still_held(at_ns, unsent) {
                self.let_go(unsent.group, unsent.slot, key);
            }
        }
    }

    /// A body begins to wait for the server's 100.
    pub(super) fn hold(&mut self, g: usize, s: u32, key: ConnKey) {
        let at_ns = self.now_ns + CONTINUE_NS;
        self.groups[g].slots[s as usize].hop.held_until_ns = at_ns;
        let unsent = self.unfinished_of(g, s, key);
        self.held.extend(unsent.map(|unsent| (at_ns, unsent)));
    }

    /// The server has said 100, or nothing for long enough.
    pub(super) fn let_go(&mut self, g: usize, s: u32, key: ConnKey) {
        let slot = &mut self.groups[g].slots[s as usize];
        if std::mem::take(&mut slot.hop.held) {
            match slot.exchange.stream().map(|stream| stream.id) {
                Some(stream) => self.upload_on_stream(s, stream, key),
                None => self.upload(g, s, key),
            }
        }
    }
}

/// The request's bytes from what is written on: its head first, then its body.
fn fill(slot: &Slot, plan: &GroupPlan, out: &mut [u8]) -> Result<(), ErrorKind> {
    let (head, at) = (slot.exchange.text(), slot.hop.written);
    let left = &head[at.min(head.len())..];
    let (first, rest) = out.split_at_mut(left.len().min(out.len()));
    first.copy_from_slice(&left[..first.len()]);
    if rest.is_empty() {
        return Ok(());
    }
    let place = (at + first.len() - head.len()) as u64;
    let Some(template) = plan.template(slot.step) else {
        return Ok(());
    };
    template
        .fill_upload(slot.asker, place, rest)
        .map_err(|_| ErrorKind::Other)
}
