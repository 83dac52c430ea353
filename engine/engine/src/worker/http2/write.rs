//! What leaves on shared connections: one write a pass for all requests that began in it; bodies in turns, as windows allow.

use super::super::Worker;
use super::{Multiplex, Upload};
use crate::conn::ConnKey;
use crate::error::ErrorKind;
use crate::record::NEVER;
use crate::request::Template;
use crate::vu::Slot;

/// Bytes of bodies made before they are written.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes written of bodies before other connections get their turn.
const TURN_BYTES: usize = 256 * 1024;

/// How far a turn of writing came.
enum Flush {
    /// Nothing is left, or nothing can leave now.
    Done,
    /// Its turn is over, it could go on.
    More,
}

impl Worker<'_> {
    /// Writes what connections have gathered.
    pub(in crate::worker) fn flush_multiplexes(&mut self) {
        let mut keys = std::mem::take(&mut self.multiplexes.unflushed);
        for key in keys.drain(..) {
            self.flush_multiplex(key);
        }
        // Those that could go on are next time's.
        keys.append(&mut self.multiplexes.unflushed);
        self.multiplexes.unflushed = keys;
    }

    fn flush_multiplex(&mut self, key: ConnKey) {
        let Some(mut link) = self.multiplexes.take(key) else {
            return;
        };
        link.marked = false;
        let unread = std::mem::take(&mut link.unread);
        let result = if link.ready {
            self.write_some(key, &mut link)
        } else {
            Ok(Flush::Done)
        };
        if matches!(result, Ok(Flush::More)) {
            self.multiplexes.mark(key, &mut link);
        }
        link.broken = result.as_ref().err().copied();
        self.multiplexes.put(key, link);
        if let Err(kind) = result {
            // A server that wants no more may have said so before it closed.
            self.read_multiplex(key);
            self.fail_multiplex(key, kind);
        } else if unread {
            self.read_multiplex(key);
        }
    }

    fn write_some(&mut self, key: ConnKey, link: &mut Multiplex) -> Result<Flush, ErrorKind> {
        let mut budget = TURN_BYTES;
        loop {
            // A stream that we gave up has left its place to a request that waits.
            self.open_waiting(key, link);
            self.fill_bodies(link);
            if link.backlog() == 0 && !link.blocked {
                return Ok(Flush::Done);
            }
            self.stamp_written(link);
            let Some(conn) = self.conns.get_mut(key) else {
                return Ok(Flush::Done);
            };
            let from = link.written;
            let result = conn.write(&link.session.out, &mut link.written);
            let bytes = link.written - from;
            self.groups[link.group].record.totals.bytes_sent += bytes as u64;
            forget_written(link);
            link.blocked = !result?;
            if link.blocked || link.uploads.is_empty() {
                return Ok(Flush::Done);
            }
            budget = budget.saturating_sub(bytes);
            if budget == 0 {
                return Ok(Flush::More);
            }
        }
    }

    /// Stamps requests whose heads are about to leave.
    fn stamp_written(&mut self, link: &mut Multiplex) {
        if link.unwritten.is_empty() {
            return;
        }
        let now_ns = self.tick();
        let group = &mut self.groups[link.group];
        for head in &link.unwritten {
            let slot = &mut group.slots[head.slot as usize];
            let stream = slot.exchange.stream();
            let Some(stream) = stream.filter(|stream| stream.id == head.stream) else {
                continue;
            };
            let waited = stream.begun;
            let mut from_ns = slot.sample.written_ns;
            if from_ns == NEVER {
                let first = !std::mem::replace(&mut slot.ever_written, true);
                group.record.written(first);
                group.record.totals.http2_requests += 1;
                if !waited {
                    slot.hop.begun_ns = now_ns;
                    if first {
                        slot.sample.begun_ns = now_ns;
                    }
                }
                from_ns = slot.hop.begun_ns;
            }
            slot.sample.written_ns = now_ns;
            slot.sample.pretransfer_ns += now_ns - from_ns;
        }
    }

    /// A body that waited for the server's 100 is sent.
    pub(in crate::worker) fn upload_on_stream(&mut self, slot: u32, stream: u32, key: ConnKey) {
        if let Some(mut link) = self.multiplexes.take(key) {
            link.uploads.push_back(Upload { slot, stream });
            self.multiplexes.mark(key, &mut link);
            self.multiplexes.put(key, link);
        }
    }

    /// Makes DATA of bodies, a frame each in turn.
    fn fill_bodies(&mut self, link: &mut Multiplex) {
        let mut stuck = 0;
        while stuck < link.uploads.len() && link.backlog() < PIECE_BYTES {
            let Some(upload) = link.uploads.pop_front() else {
                return;
            };
            let group = &mut self.groups[link.group];
            let (plan, slot) = (group.plan, &mut group.slots[upload.slot as usize]);
            let stream = slot.exchange.stream();
            if stream.is_none_or(|stream| stream.id != upload.stream) {
                continue;
            }
            let Some(template) = plan.template(slot.step) else {
                continue;
            };
            match make_data(link, template, slot, upload) {
                Ok(0) => {
                    stuck += 1;
                    link.uploads.push_back(upload);
                }
                Ok(_) => {
                    stuck = 0;
                    if (slot.hop.written as u64) < slot.hop.body_bytes {
                        link.uploads.push_back(upload);
                    }
                }
                Err(kind) => {
                    let answer = link.session.cancel(upload.stream);
                    self.tick();
                    self.end_request(link.group, upload.slot, answer, kind);
                }
            }
        }
    }
}

/// Appends a DATA frame of a body; returns its bytes, 0 where a window is shut.
fn make_data(
    link: &mut Multiplex,
    template: &Template,
    slot: &mut Slot,
    upload: Upload,
) -> Result<usize, ErrorKind> {
    let (at, all) = (slot.hop.written, slot.hop.body_bytes as usize);
    let bytes = (all - at).min(link.session.may_send(upload.stream));
    if bytes == 0 {
        return Ok(0);
    }
    let ends = at + bytes == all;
    link.session.send(upload.stream, bytes, ends, |out| {
        if template.has_text() {
            out.copy_from_slice(slot.exchange.content_of_text(at, bytes));
            return Ok(());
        }
        let filled = template.fill_content(slot.asker, at as u64, out);
        filled.map_err(|_| ErrorKind::Other)
    })?;
    slot.hop.written += bytes;
    Ok(bytes)
}

/// Lets go of what has left.
fn forget_written(link: &mut Multiplex) {
    let left = link.before + link.written as u64;
    while link.unwritten.front().is_some_and(|head| head.place < left) {
        link.unwritten.pop_front();
    }
    if link.backlog() == 0 {
        link.session.out.clear();
    } else if link.written > PIECE_BYTES {
        link.session.out.drain(..link.written);
    } else {
        return;
    }
    link.before = left;
    link.written = 0;
}
