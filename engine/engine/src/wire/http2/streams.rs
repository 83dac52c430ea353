//! The open streams of a connection, by id and by the caller's key.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::answer::Reading;

/// A stream that is open.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The caller's name for it.
    pub key: u32,
    pub reading: Reading,
    /// How much of its body may be sent.
    pub send_window: i64,
    /// How much of its answer's body may still come.
    pub receive_window: i64,
    /// Our side is closed: all of the request has been handed over.
    pub sent: bool,
    /// Something of its answer is kept.
    pub keeps: bool,
    /// Bytes of its answer have come.
    pub touched: bool,
}

/// Ids count up by two: halved, a multiplication spreads them well enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id >> 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type ById<T> = HashMap<u32, T, BuildHasherDefault<IdHasher>>;

/// Ids of streams that we have reset and whose frames may still be under way: so many are told from streams that the peer
/// has ended itself.
const RESET_MAX: usize = 1024;

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Open,
    /// Reset by us: late frames are nobody's fault.
    Reset,
    /// Ended by the peer.
    Ended,
    /// Never used, or never ours to use.
    Idle,
}

/// The streams of a connection.
#[derive(Debug, Default)]
pub struct Streams {
    open: ById<Stream>,
    next: u32,
    reset: VecDeque<u32>,
    /// More streams were reset than `reset` can tell.
    forgot: bool,
}

impl Streams {
    pub fn new() -> Self {
        Streams {
            next: 1,
            ..Streams::default()
        }
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether an id is left.
    pub fn has_ids(&self) -> bool {
        self.next < 1 << 31
    }

    /// Opens the next stream.
    pub fn open(&mut self, stream: Stream) -> u32 {
        let id = self.next;
        self.next += 2;
        self.open.insert(id, stream);
        id
    }

    pub fn get(&self, id: u32) -> Option<&Stream> {
        self.open.get(&id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.open.get_mut(&id)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.values_mut()
    }

    /// Ends a stream.
    pub fn close(&mut self, id: u32) -> Option<Stream> {
        self.open.remove(&id)
    }

    /// Ends a stream from our side.
    pub fn reset(&mut self, id: u32) -> Option<Stream> {
        let stream = self.open.remove(&id)?;
        if self.reset.len() == RESET_MAX {
            self.reset.pop_front();
            self.forgot = true;
        }
        self.reset.push_back(id);
        Some(stream)
    }

    pub fn standing(&self, id: u32) -> Standing {
        if self.open.contains_key(&id) {
            Standing::Open
        } else if id.is_multiple_of(2) || id >= self.next {
            Standing::Idle
        } else if self.forgot || self.reset.contains(&id) {
            Standing::Reset
        } else {
            Standing::Ended
        }
    }

    /// Ends all streams above `last`, in order.
    pub fn close_above(&mut self, last: u32) -> Vec<(u32, Stream)> {
        let mut ids: Vec<u32> = self.open.keys().copied().filter(|id| *id > last).collect();
        ids.sort_unstable();
        let close = |id: u32| self.open.remove(&id).map(|stream| (id, stream));
        ids.into_iter().filter_map(close).collect()
    }

    #[cfg(test)]
    pub fn set_next(&mut self, id: u32) {
        self.next = id;
    }
}
