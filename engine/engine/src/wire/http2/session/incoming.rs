//! What the peer's frames do to a connection (RFC 9113 §5, §6).

use super::super::answer::Fields;
use super::super::frame::{self, flag, kind, number, Head, HEAD_BYTES};
use super::super::hpack::TABLE_BYTES;
use super::super::reader::Piece;
use super::super::settings::{WINDOW_FIRST, WINDOW_MAX};
use super::super::streams::{Standing, Stream, Streams};
use super::super::{code, Fault};
use super::{slot_of, Event, Heard, Open, Session};
use crate::wire::HEADER_LIMIT_BYTES;

/// The number of frames in a row, without progress of a response or a request's body, that is a flood (§10.5).
const IDLE_MAX: u32 = 10_000;
/// The most fragments of one header block.
const FRAGMENTS_MAX: u32 = 64;
/// The most unsent bytes while the peer requests replies: several times what requests alone may leave unsent.
const UNTAKEN_MAX: usize = 1 << 20;

impl Session {
    pub(super) fn take(&mut self, piece: Piece<'_>, heard: &mut Heard<'_>) -> Result<(), Fault> {
        self.idle += 1;
        if self.idle > IDLE_MAX {
            return Err(Fault::Flood);
        }
        let (Piece::Frame(head, _) | Piece::Data { head, .. }) = &piece;
        if let Some(open) = &self.open_block {
            // Nothing may stand between the fragments of a block (§6.2).
            if head.kind != kind::CONTINUATION || head.stream != open.stream {
                return Err(Fault::Protocol);
            }
        }
        match piece {
            Piece::Data {
                head,
                bytes,
                begins,
                ends,
            } => {
                if begins {
                    self.account(head, heard)?;
                } else {
                    self.idle = 0;
                }
                let last = ends && head.has(flag::END_STREAM);
                self.data(head.stream, bytes, begins, last, heard)
            }
            Piece::Frame(head, payload) => self.frame(head, payload, heard),
        }
    }

    fn frame(&mut self, head: Head, payload: &[u8], heard: &mut Heard<'_>) -> Result<(), Fault> {
        match head.kind {
            kind::DATA => {
                self.account(head, heard)?;
                let data = frame::unpadded(head, payload).ok_or(Fault::Protocol)?;
                let last = head.has(flag::END_STREAM);
                self.data(head.stream, data, true, last, heard)
            }
            kind::HEADERS => self.headers(head, payload, heard),
            kind::CONTINUATION => self.continuation(head, payload, heard),
            _ => {
                check_shape(head)?;
                self.control(head, payload, heard)
            }
        }
    }

    /// A frame that brings no part of an answer; its shape is right.
    fn control(&mut self, head: Head, payload: &[u8], heard: &mut Heard<'_>) -> Result<(), Fault> {
        match head.kind {
            kind::RST_STREAM => self.reset_by_peer(head, payload, heard),
            kind::SETTINGS => self.settings(head, payload),
            kind::PING => self.ping(head, payload),
            kind::GOAWAY => self.goaway(payload, heard),
            kind::WINDOW_UPDATE => self.window_update(head, payload, heard),
            // We have switched it off.
            kind::PUSH_PROMISE => Err(Fault::Protocol),
            // Priorities are no affair of a client's, unknown kinds say nothing (§5.5).
            _ => Ok(()),
        }
    }

    /// Counts a DATA frame against both windows, padding included (§6.9.1).
    fn account(&mut self, head: Head, heard: &mut Heard<'_>) -> Result<(), Fault> {
        if head.stream == 0 || self.streams.standing(head.stream) == Standing::Idle {
            return Err(Fault::Protocol);
        }
        let bytes = head.length as i64;
        if bytes > 0 {
            self.idle = 0;
        }
        self.receive_window -= bytes;
        if self.receive_window < 0 {
            return Err(Fault::FlowControl);
        }
        let full = self.windows.connection.max(WINDOW_FIRST);
        if self.receive_window < full / 2 {
            frame::window_update(&mut self.out, 0, (full - self.receive_window) as u32);
            self.receive_window = full;
        }
        let full = self.windows.stream;
        let Some(stream) = self.streams.get_mut(head.stream) else {
            return Ok(());
        };
        stream.receive_window -= bytes;
        if stream.receive_window < 0 {
            self.fail(head.stream, Fault::FlowControl, heard);
        } else if stream.receive_window < full / 2 && !head.has(flag::END_STREAM) {
            let by = full - stream.receive_window;
            stream.receive_window = full;
            frame::window_update(&mut self.out, head.stream, by as u32);
        }
        Ok(())
    }

    fn data(
        &mut self,
        id: u32,
        bytes: &[u8],
        begins: bool,
        ends: bool,
        heard: &mut Heard<'_>,
    ) -> Result<(), Fault> {
        if self.streams.standing(id) == Standing::Ended {
            return Err(Fault::Protocol);
        }
        let Some(stream) = touch(&mut self.streams, id, heard) else {
            return Ok(());
        };
        let verdict = stream.reading.data(bytes.len(), begins, ends);
        if stream.keeps && verdict.is_ok() {
            if let Some(kept) = heard.keeper.kept(stream.key) {
                kept.take_body(bytes);
            }
        }
        self.judge(id, verdict, heard);
        Ok(())
    }

    fn headers(&mut self, head: Head, payload: &[u8], heard: &mut Heard<'_>) -> Result<(), Fault> {
        if matches!(
            self.streams.standing(head.stream),
            Standing::Idle | Standing::Ended
        ) {
            return Err(Fault::Protocol);
        }
        let mut fragment = frame::unpadded(head, payload).ok_or(Fault::Protocol)?;
        if head.has(flag::PRIORITY) {
            fragment = fragment.get(5..).ok_or(Fault::FrameSize)?;
        }
        self.idle = 0;
        let open = Open {
            stream: head.stream,
            ends: head.has(flag::END_STREAM),
            frame_bytes: head.length + HEAD_BYTES,
            fragments: 1,
        };
        if head.has(flag::END_HEADERS) {
            return self.block(&open, fragment, heard);
        }
        self.block.clear();
        self.block.extend_from_slice(fragment);
        self.open_block = Some(open);
        Ok(())
    }

    fn continuation(
        &mut self,
        head: Head,
        payload: &[u8],
        heard: &mut Heard<'_>,
    ) -> Result<(), Fault> {
        let mut open = self.open_block.take().ok_or(Fault::Protocol)?;
        open.fragments += 1;
        open.frame_bytes += head.length + HEAD_BYTES;
        self.block.extend_from_slice(payload);
        if open.fragments > FRAGMENTS_MAX {
            return Err(Fault::Flood);
        }
        if self.block.len() > HEADER_LIMIT_BYTES {
            return Err(Fault::HeaderTooLarge);
        }
        if !head.has(flag::END_HEADERS) {
            self.open_block = Some(open);
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let result = self.block(&open, &block, heard);
        self.block = block;
        result
    }

    /// A whole header block. It is decoded for streams that are gone, too: the table depends on it.
    fn block(&mut self, open: &Open, block: &[u8], heard: &mut Heard<'_>) -> Result<(), Fault> {
        let mut fields = Fields::default();
        let stream = touch(&mut self.streams, open.stream, heard);
        let keeping = stream
            .as_ref()
            .filter(|stream| stream.keeps && stream.reading.awaits_head());
        let decoded = match keeping.and_then(|stream| heard.keeper.kept(stream.key)) {
            None => self.decoder.decode(block, |field| fields.add(field)),
            Some(kept) => {
                kept.begin_head();
                self.decoder.decode(block, |field| {
                    kept.take_field(&field);
                    fields.add(field);
                })
            }
        };
        decoded.map_err(|_| Fault::Compression)?;
        let Some(stream) = stream else {
            return Ok(());
        };
        if !stream.sent && fields.says_continue() {
            heard.events.push(Event::Continued { key: stream.key });
        }
        stream.reading.answer.received_bytes += open.frame_bytes as u64;
        let verdict = stream.reading.fields(fields, open.frame_bytes, open.ends);
        self.judge(open.stream, verdict, heard);
        Ok(())
    }

    /// What a stream's next bytes have made of it.
    fn judge(&mut self, id: u32, verdict: Result<bool, Fault>, heard: &mut Heard<'_>) {
        match verdict {
            Ok(false) => {}
            Ok(true) => {
                // An answer that comes before the request has left: the rest of it is not sent.
                let sent = self.streams.get(id).is_none_or(|stream| stream.sent);
                let stream = if sent {
                    self.streams.close(id)
                } else {
                    self.reset(id, code::NO_ERROR)
                };
                ended(stream, Ok(()), heard);
            }
            Err(fault) => self.fail(id, fault, heard),
        }
    }

    /// A stream ends by its own fault; the connection goes on.
    fn fail(&mut self, id: u32, fault: Fault, heard: &mut Heard<'_>) {
        let stream = self.reset(id, fault.code());
        ended(stream, Err(fault), heard);
    }

    fn reset_by_peer(
        &mut self,
        head: Head,
        payload: &[u8],
        heard: &mut Heard<'_>,
    ) -> Result<(), Fault> {
        if self.streams.standing(head.stream) == Standing::Idle {
            return Err(Fault::Protocol);
        }
        if let Some(mut stream) = self.streams.close(head.stream) {
            let code = number(payload);
            self.notices.resets[slot_of(code)] += 1;
            self.idle = 0;
            stream.reading.answer.received_bytes += (payload.len() + HEAD_BYTES) as u64;
            ended(Some(stream), Err(Fault::Reset(code)), heard);
        }
        Ok(())
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Fault> {
        if head.has(flag::ACK) {
            return match payload {
                _ if !self.greeted => Err(Fault::Protocol),
                [] => Ok(()),
                _ => Err(Fault::FrameSize),
            };
        }
        let before = self.peer.window;
        let change = &mut self.table_change;
        if !std::mem::replace(&mut self.greeted, true) {
            // No number stands for "no limit" (§6.5.2); 100 was a guess.
            self.peer.streams = u32::MAX;
        }
        self.peer.take(payload, |bytes| {
            // We never use more than the first size; less is announced (RFC 7541 §4.2).
            let bytes = bytes.min(TABLE_BYTES);
            let (least, last) = change.unwrap_or((TABLE_BYTES, TABLE_BYTES));
            if bytes < TABLE_BYTES || last < TABLE_BYTES {
                *change = Some((least.min(bytes), bytes));
            }
        })?;
        let by = self.peer.window - before;
        for stream in self.streams.iter_mut() {
            stream.send_window += by;
            if stream.send_window > WINDOW_MAX {
                return Err(Fault::FlowControl);
            }
        }
        frame::head(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
        self.replied()
    }

    fn ping(&mut self, head: Head, payload: &[u8]) -> Result<(), Fault> {
        if head.has(flag::ACK) {
            return Ok(());
        }
        frame::head(&mut self.out, 8, kind::PING, flag::ACK, 0);
        self.out.extend_from_slice(payload);
        self.replied()
    }

    /// A reply that the peer has called for waits to be sent.
    fn replied(&self) -> Result<(), Fault> {
        if self.out.len() > UNTAKEN_MAX {
            return Err(Fault::Flood);
        }
        Ok(())
    }

    fn goaway(&mut self, payload: &[u8], heard: &mut Heard<'_>) -> Result<(), Fault> {
        let last = number(payload) & 0x7fff_ffff;
        // It may take back, never add (§6.8).
        if self.last_stream.is_some_and(|before| last > before) {
            return Err(Fault::Protocol);
        }
        self.notices.goaways[slot_of(number(&payload[4..]))] += 1;
        self.last_stream = Some(last);
        for (_, stream) in self.streams.close_above(last) {
            ended(Some(stream), Err(Fault::Goaway), heard);
        }
        Ok(())
    }

    fn window_update(
        &mut self,
        head: Head,
        payload: &[u8],
        heard: &mut Heard<'_>,
    ) -> Result<(), Fault> {
        let by = i64::from(number(payload) & 0x7fff_ffff);
        if head.stream == 0 {
            self.send_window += by;
            return match by {
                0 => Err(Fault::Protocol),
                _ if self.send_window > WINDOW_MAX => Err(Fault::FlowControl),
                _ => Ok(()),
            };
        }
        match self.streams.standing(head.stream) {
            Standing::Idle => return Err(Fault::Protocol),
            Standing::Reset | Standing::Ended => return Ok(()),
            Standing::Open => {}
        }
        if let Some(stream) = self.streams.get_mut(head.stream) {
            stream.send_window += by;
            if by == 0 {
                self.fail(head.stream, Fault::Protocol, heard);
            } else if stream.send_window > WINDOW_MAX {
                self.fail(head.stream, Fault::FlowControl, heard);
            }
        }
        Ok(())
    }
}

/// Whose a frame of this kind is, and how long (§6); of kinds that are not named here nothing is asked.
fn check_shape(head: Head) -> Result<(), Fault> {
    let of_connection = head.stream == 0;
    let (whose, long) = match head.kind {
        kind::PRIORITY => (!of_connection, head.length == 5),
        kind::RST_STREAM => (!of_connection, head.length == 4),
        kind::SETTINGS => (of_connection, head.length.is_multiple_of(6)),
        kind::PING => (of_connection, head.length == 8),
        kind::GOAWAY => (of_connection, head.length >= 8),
        kind::WINDOW_UPDATE => (true, head.length == 4),
        _ => (true, true),
    };
    match (whose, long) {
        (false, _) => Err(Fault::Protocol),
        (true, false) => Err(Fault::FrameSize),
        (true, true) => Ok(()),
    }
}

/// A stream to which bytes of its answer have come.
fn touch<'s>(streams: &'s mut Streams, id: u32, heard: &mut Heard<'_>) -> Option<&'s mut Stream> {
    let stream = streams.get_mut(id)?;
    if !std::mem::replace(&mut stream.touched, true) {
        heard.events.push(Event::Touched { key: stream.key });
    }
    Some(stream)
}

fn ended(stream: Option<Stream>, outcome: Result<(), Fault>, heard: &mut Heard<'_>) {
    heard.events.extend(stream.map(|stream| Event::Ended {
        key: stream.key,
        answer: stream.reading.answer,
        outcome,
    }));
}
