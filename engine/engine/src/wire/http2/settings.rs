//! SETTINGS: what we announce and what the peer does (RFC 9113 §6.5.2).

use super::frame::{self, kind, number};
use super::hpack::TABLE_BYTES;
use super::Fault;
use crate::wire::HEADER_LIMIT_BYTES;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// The largest window (§6.9.1).
pub const WINDOW_MAX: i64 = (1 << 31) - 1;
/// A window before anybody says otherwise.
pub const WINDOW_FIRST: i64 = 65_535;

/// What we let the peer send before it waits for us. Bodies are thrown away as they come, so that a window protects nothing
/// and would only slow a server down.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub connection: i64,
    pub stream: i64,
}

impl Default for Windows {
    fn default() -> Self {
        Windows {
            connection: WINDOW_MAX,
            stream: 1 << 30,
        }
    }
}

/// Writes our SETTINGS, and the update that brings the connection's window to its size.
pub fn announce(out: &mut Vec<u8>, windows: Windows) {
    let settings = [
        (ENABLE_PUSH, 0),
        (INITIAL_WINDOW_SIZE, windows.stream as u32),
        (MAX_HEADER_LIST_SIZE, HEADER_LIMIT_BYTES as u32),
    ];
    frame::head(out, settings.len() * 6, kind::SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    if windows.connection > WINDOW_FIRST {
        frame::window_update(out, 0, (windows.connection - WINDOW_FIRST) as u32);
    }
}

/// What the peer has announced so far.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub table_bytes: usize,
    pub streams: u32,
    pub window: i64,
    pub frame_bytes: usize,
}

impl Default for Peer {
    fn default() -> Self {
        Peer {
            table_bytes: TABLE_BYTES,
            // Until it says otherwise; RFC 9113 §6.5.2 asks for no fewer.
            streams: 100,
            window: WINDOW_FIRST,
            frame_bytes: frame::PAYLOAD_MAX,
        }
    }
}

impl Peer {
    /// Takes the payload of a SETTINGS frame, whole entries of six bytes. `table`: sees every table size, for the smallest counts too.
    pub fn take(&mut self, payload: &[u8], mut table: impl FnMut(usize)) -> Result<(), Fault> {
        for entry in payload.chunks_exact(6) {
            let value = number(&entry[2..]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                HEADER_TABLE_SIZE => {
                    self.table_bytes = value as usize;
                    table(self.table_bytes);
                }
                // A server may say 0 only (§6.5.2).
                ENABLE_PUSH if value != 0 => return Err(Fault::Protocol),
                MAX_CONCURRENT_STREAMS => self.streams = value,
                INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => {
                    return Err(Fault::FlowControl)
                }
                INITIAL_WINDOW_SIZE => self.window = i64::from(value),
                MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(Fault::Protocol)
                }
                MAX_FRAME_SIZE => self.frame_bytes = value as usize,
                _ => {}
            }
        }
        Ok(())
    }
}
