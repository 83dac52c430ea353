//! One stream's answer as its frames come: heads and trailers judged, the body counted.

use super::frame::HEAD_BYTES;
use super::hpack::decoder::Field;
use super::hpack::table::Meaning;
use super::Fault;
use crate::wire::HEADER_LIMIT_BYTES;

/// What an answer amounts to, whole or in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Of the final head; 0 before it.
    pub status: u16,
    /// Frames of heads and trailers, interim ones included.
    pub header_bytes: usize,
    pub body_bytes: u64,
    /// All frames of the stream.
    pub received_bytes: u64,
}

/// The fields of one block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields {
    status: Option<u16>,
    length: Option<u64>,
    list_bytes: usize,
    plain: bool,
    malformed: bool,
}

impl Fields {
    pub fn add(&mut self, field: Field<'_>) {
        self.list_bytes += field.list_bytes();
        match field.meaning {
            Meaning::Status(Some(status)) if self.status.is_none() && !self.plain => {
                self.status = Some(status);
            }
            Meaning::Status(_) | Meaning::Forbidden => self.malformed = true,
            Meaning::ContentLength(length) => {
                let same = self.length.is_none() || self.length == length;
                self.malformed |= length.is_none() || !same;
                self.length = length;
                self.plain = true;
            }
            Meaning::Location | Meaning::Plain => self.plain = true,
        }
    }

    /// Whether they are those of 100 Continue.
    pub fn says_continue(&self) -> bool {
        self.status == Some(100)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes are announced and still to come, if any were.
    Body(Option<u64>),
}

/// An answer that is being read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub answer: Answer,
    state: State,
    to_head_request: bool,
}

impl Reading {
    pub fn new(to_head_request: bool) -> Self {
        Reading {
            answer: Answer::default(),
            state: State::Head,
            to_head_request,
        }
    }

    /// Whether the next fields are a head's.
    pub fn awaits_head(&self) -> bool {
        self.state == State::Head
    }

    /// A head or a trailer; `frame_bytes` on the wire. True once the answer is complete.
    pub fn fields(
        &mut self,
        fields: Fields,
        frame_bytes: usize,
        ends: bool,
    ) -> Result<bool, Fault> {
        self.answer.header_bytes += frame_bytes;
        if self.answer.header_bytes > HEADER_LIMIT_BYTES || fields.list_bytes > HEADER_LIMIT_BYTES {
            return Err(Fault::HeaderTooLarge);
        }
        match (self.state, fields.status) {
            _ if fields.malformed => Err(Fault::Malformed),
            // An interim answer: the real one follows. Nobody asked to switch protocols.
            (State::Head, Some(100..=199)) if ends || fields.status == Some(101) => {
                Err(Fault::Malformed)
            }
            (State::Head, Some(100..=199)) => Ok(false),
            (State::Head, Some(status)) => {
                self.answer.status = status;
                let bodiless = self.to_head_request || status == 204 || status == 304;
                self.state = State::Body(if bodiless { Some(0) } else { fields.length });
                self.complete(ends)
            }
            (State::Body(_), None) if ends => self.complete(true),
            _ => Err(Fault::Malformed),
        }
    }

    /// Body bytes, without padding; `begins`: a frame's header stood before them.
    pub fn data(&mut self, bytes: usize, begins: bool, ends: bool) -> Result<bool, Fault> {
        let State::Body(left) = &mut self.state else {
            return Err(Fault::Malformed);
        };
        if let Some(left) = left {
            *left = left
                .checked_sub(bytes as u64)
                .ok_or(Fault::UnexpectedData)?;
        }
        self.answer.received_bytes += (bytes + if begins { HEAD_BYTES } else { 0 }) as u64;
        self.answer.body_bytes += bytes as u64;
        self.complete(ends)
    }

    fn complete(&self, ends: bool) -> Result<bool, Fault> {
        match self.state {
            State::Body(Some(1..)) if ends => Err(Fault::ShortBody),
            _ => Ok(ends),
        }
    }
}
