//! One HTTP/2 connection from the client's side: requests become frames in `out`, bytes that come become events.
//!
//! It keeps no bodies and no headers: what is wanted of them goes to a [`Keeper`]. What a hostile peer can make it hold is
//! bounded: one frame (16 KiB), one header block (64 KiB), its table (4 KiB), the replies to its pings and settings until they
//! are sent (1 MiB).

mod incoming;

use super::answer::{Answer, Reading};
use super::frame::{self, flag, kind, HEAD_BYTES};
use super::hpack::decoder::Decoder;
use super::hpack::TABLE_BYTES;
use super::reader::Reader;
use super::settings::{self, Peer, Windows, WINDOW_FIRST};
use super::streams::{Stream, Streams};
use super::{code, Fault};
use crate::wire::keep::Kept;

/// What has happened to a stream, by the caller's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first bytes of its answer are here.
    Touched { key: u32 },
    /// The peer has said 100 Continue while the request's body was not all sent.
    Continued { key: u32 },
    /// It is over: a whole answer, or why not. The caller's key may be used again.
    Ended {
        key: u32,
        answer: Answer,
        outcome: Result<(), Fault>,
    },
}

/// Who keeps what is wanted of answers.
pub trait Keeper {
    /// Where the answer is kept that the caller's key stands for, if something of it is wanted.
    fn kept(&mut self, key: u32) -> Option<&mut Kept>;
}

/// Where what comes goes.
struct Heard<'a> {
    events: &'a mut Vec<Event>,
    keeper: &'a mut dyn Keeper,
}

/// A stream to be opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// The caller's name for it.
    pub key: u32,
    pub to_head_request: bool,
    /// No body follows.
    pub ends: bool,
    /// Something of its answer is kept.
    pub keeps: bool,
    /// What its block can teach the peer's table.
    pub lesson: Option<Lesson>,
}

/// The fields that requests of one kind have in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lesson {
    /// The kind: a step of a scenario.
    pub owner: u16,
    /// How many they are.
    pub fields: usize,
    /// The room that they need in the table.
    pub bytes: usize,
}

/// Whether the peer's table holds the fields that requests of a kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dictionary {
    /// Not yet: the next block teaches them.
    Empty,
    /// Yes, below so many newer fields of other kinds.
    Taught { newer: usize },
    /// It has no room for them.
    Off,
}

/// What the peer has made us notice, by error code (the last one: codes without a name).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    pub resets: [u64; 15],
    pub goaways: [u64; 15],
}

impl Notices {
    pub fn add(&mut self, other: &Notices) {
        let add = |sums: &mut [u64], more: &[u64]| {
            sums.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
        };
        add(&mut self.resets, &other.resets);
        add(&mut self.goaways, &other.goaways);
    }
}

fn slot_of(code: u32) -> usize {
    (code as usize).min(14)
}

/// The block that HEADERS and CONTINUATION frames are bringing.
#[derive(Debug)]
struct Open {
    stream: u32,
    ends: bool,
    frame_bytes: usize,
    fragments: u32,
}

/// A connection.
#[derive(Debug)]
pub struct Session {
    /// Bytes to be written.
    pub out: Vec<u8>,
    pub notices: Notices,
    reader: Reader,
    decoder: Decoder,
    block: Vec<u8>,
    open_block: Option<Open>,
    peer: Peer,
    /// The peer's SETTINGS have come.
    greeted: bool,
    /// What the very first bytes were, to tell a server that speaks something else.
    first: Vec<u8>,
    streams: Streams,
    /// What the peer's table holds, the oldest first. Nothing is taught that would push another out.
    taught: Vec<Lesson>,
    /// How much of the peer's table may be taught, in bytes: as much as the smallest it ever had, and nothing more once it
    /// has pushed out what was.
    teachable: usize,
    /// The smallest table that the peer has asked for since our last block, and the last.
    table_change: Option<(usize, usize)>,
    windows: Windows,
    send_window: i64,
    receive_window: i64,
    last_stream: Option<u32>,
    idle: u32,
}

impl Session {
    /// Starts a connection: preface and SETTINGS stand in `out`.
    pub fn new(windows: Windows) -> Self {
        let mut out = frame::PREFACE.to_vec();
        settings::announce(&mut out, windows);
        Session {
            out,
            notices: Notices::default(),
            reader: Reader::default(),
            decoder: Decoder::new(TABLE_BYTES),
            block: Vec::new(),
            open_block: None,
            peer: Peer::default(),
            greeted: false,
            first: Vec::new(),
            streams: Streams::new(),
            taught: Vec::new(),
            teachable: TABLE_BYTES,
            table_change: None,
            windows,
            send_window: WINDOW_FIRST,
            receive_window: windows.connection.max(WINDOW_FIRST),
            last_stream: None,
            idle: 0,
        }
    }

    /// Whether another stream may be opened now.
    pub fn has_room(&self) -> bool {
        self.takes_streams() && self.streams.len() < self.peer.streams as usize
    }

    /// Whether streams may be opened at all, now or later.
    pub fn takes_streams(&self) -> bool {
        self.last_stream.is_none() && self.streams.has_ids()
    }

    /// Streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the peer will end the connection.
    pub fn leaving(&self) -> bool {
        self.last_stream.is_some()
    }

    /// Opens a stream: `write` appends the header block that the dictionary asks for. Returns its id and the bytes of its
    /// frames.
    pub fn open(
        &mut self,
        opening: Opening,
        write: impl FnOnce(Dictionary, &mut Vec<u8>),
    ) -> (u32, usize) {
        let id = self.streams.open(Stream {
            key: opening.key,
            reading: Reading::new(opening.to_head_request),
            send_window: self.peer.window,
            receive_window: self.windows.stream,
            sent: opening.ends,
            keeps: opening.keeps,
            touched: false,
        });
        let at = self.out.len();
        let flags = flag::END_HEADERS | if opening.ends { flag::END_STREAM } else { 0 };
        frame::head(&mut self.out, 0, kind::HEADERS, flags, id);
        self.say_table_change();
        write(self.dictionary(opening.lesson), &mut self.out);
        let length = self.out.len() - at - HEAD_BYTES;
        if length <= self.peer.frame_bytes {
            frame::set_length(&mut self.out, at, length);
        } else {
            self.cut_block(at, id);
        }
        (id, self.out.len() - at)
    }

    /// A smaller table is announced in the next block, before its fields (RFC 7541 §4.2).
    fn say_table_change(&mut self) {
        let Some((least, last)) = self.table_change.take() else {
            return;
        };
        if least < last {
            super::hpack::encoder::table_size(&mut self.out, least);
        }
        super::hpack::encoder::table_size(&mut self.out, last);
        self.teachable = self.teachable.min(least);
        if self.taught_bytes() > self.teachable {
            // The oldest fields went (§4.3), and of some kinds only a part: what is left of them is not told apart.
            self.taught.clear();
            self.teachable = 0;
        }
    }

    fn taught_bytes(&self) -> usize {
        self.taught.iter().map(|lesson| lesson.bytes).sum()
    }

    /// How the next block is written, and what the table holds after it.
    fn dictionary(&mut self, lesson: Option<Lesson>) -> Dictionary {
        let Some(lesson) = lesson else {
            return Dictionary::Off;
        };
        let mut newer = 0;
        for taught in self.taught.iter().rev() {
            if taught.owner == lesson.owner {
                return Dictionary::Taught { newer };
            }
            newer += taught.fields;
        }
        if self.taught_bytes() + lesson.bytes > self.teachable {
            return Dictionary::Off;
        }
        self.taught.push(lesson);
        Dictionary::Empty
    }

    /// Cuts the block after the HEADERS at `at` into CONTINUATIONs.
    fn cut_block(&mut self, at: usize, id: u32) {
        let block = self.out.split_off(at + HEAD_BYTES);
        let flags = self.out[at + 4];
        let mut pieces = block.chunks(self.peer.frame_bytes).peekable();
        let first = pieces.next().unwrap_or_default();
        frame::set_length(&mut self.out, at, first.len());
        self.out[at + 4] = flags & !flag::END_HEADERS;
        self.out.extend_from_slice(first);
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() {
                flag::END_HEADERS
            } else {
                0
            };
            frame::head(&mut self.out, piece.len(), kind::CONTINUATION, flags, id);
            self.out.extend_from_slice(piece);
        }
    }

    /// How many body bytes of a stream may be sent now, in one frame.
    pub fn may_send(&self, id: u32) -> usize {
        let window = self.streams.get(id).map_or(0, |stream| stream.send_window);
        let bytes = window.min(self.send_window).max(0) as usize;
        bytes.min(self.peer.frame_bytes).min(frame::PAYLOAD_MAX)
    }

    /// Appends a DATA frame of `bytes` (at most [`may_send`](Self::may_send)), filled by `fill`; where that fails, nothing is sent.
    pub fn send<E>(
        &mut self,
        id: u32,
        bytes: usize,
        ends: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = self.out.len();
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::head(&mut self.out, bytes, kind::DATA, flags, id);
        self.out.resize(at + HEAD_BYTES + bytes, 0);
        if let Err(error) = fill(&mut self.out[at + HEAD_BYTES..]) {
            self.out.truncate(at);
            return Err(error);
        }
        // The windows that the peer gives for a long body are not idle frames, however small each is.
        self.idle = 0;
        self.send_window -= bytes as i64;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send_window -= bytes as i64;
            stream.sent = ends;
        }
        Ok(())
    }

    /// Gives a stream up (RST_STREAM, CANCEL); returns what has come of its answer.
    pub fn cancel(&mut self, id: u32) -> Answer {
        self.reset(id, code::CANCEL)
            .map(|stream| stream.reading.answer)
            .unwrap_or_default()
    }

    fn reset(&mut self, id: u32, code: u32) -> Option<Stream> {
        let stream = self.streams.reset(id)?;
        frame::rst_stream(&mut self.out, id, code);
        Some(stream)
    }

    /// Says goodbye, with the code of `fault`.
    pub fn goodbye(&mut self, fault: Option<Fault>) {
        frame::goaway(&mut self.out, fault.map_or(code::NO_ERROR, Fault::code));
    }

    /// The connection has ended: what came of every open stream, by key.
    pub fn end(&mut self) -> Vec<(u32, Answer)> {
        let streams = self.streams.close_above(0);
        streams
            .into_iter()
            .map(|(_, stream)| (stream.key, stream.reading.answer))
            .collect()
    }

    /// Takes the next bytes of the connection. An error ends it, with all streams.
    pub fn push(
        &mut self,
        mut input: &[u8],
        events: &mut Vec<Event>,
        keeper: &mut dyn Keeper,
    ) -> Result<(), Fault> {
        if !self.greeted {
            self.notice_other_protocols(input)?;
        }
        let mut heard = Heard { events, keeper };
        let mut reader = std::mem::take(&mut self.reader);
        let mut result = Ok(());
        while result.is_ok() {
            result = match reader.next(&mut input) {
                Ok(None) => break,
                Ok(Some(piece)) => self.take(piece, &mut heard),
                Err(fault) => Err(fault),
            };
        }
        self.reader = reader;
        result
    }

    /// Whether a header block of this stream has come in part.
    pub fn has_begun_head(&self, id: u32) -> bool {
        let open = self.open_block.as_ref();
        let begun = self.reader.begun();
        open.is_some_and(|open| open.stream == id)
            || begun.is_some_and(|head| head.kind == kind::HEADERS && head.stream == id)
    }

    /// Whether a frame or a header block has come in part.
    #[cfg(test)]
    pub fn within_frame(&self) -> bool {
        self.reader.within_frame() || self.open_block.is_some()
    }

    fn notice_other_protocols(&mut self, input: &[u8]) -> Result<(), Fault> {
        let room = 4usize.saturating_sub(self.first.len());
        self.first
            .extend_from_slice(&input[..input.len().min(room)]);
        // The first frame is SETTINGS; its fourth byte says so (§3.4).
        match self.first.get(3) {
            Some(_) if self.first == b"HTTP" => Err(Fault::NotHttp2),
            Some(kind) if *kind != kind::SETTINGS => Err(Fault::Protocol),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "session_block_tests.rs"]
mod block_tests;
