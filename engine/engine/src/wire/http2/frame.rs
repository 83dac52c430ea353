//! Frames on the wire (RFC 9113 §4, §6).

/// Bytes of a frame's header.
pub const HEAD_BYTES: usize = 9;
/// The largest payload that may be sent to us; we announce no other (§4.2).
pub const PAYLOAD_MAX: usize = 16_384;
/// What a client says first (§3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub mod kind {
    pub const DATA: u8 = 0x0;
    pub const HEADERS: u8 = 0x1;
    pub const PRIORITY: u8 = 0x2;
    pub const RST_STREAM: u8 = 0x3;
    pub const SETTINGS: u8 = 0x4;
    pub const PUSH_PROMISE: u8 = 0x5;
    pub const PING: u8 = 0x6;
    pub const GOAWAY: u8 = 0x7;
    pub const WINDOW_UPDATE: u8 = 0x8;
    pub const CONTINUATION: u8 = 0x9;
}

pub mod flag {
    /// Of SETTINGS and PING.
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// A frame's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        Head {
            length: usize::from(bytes[0]) << 16
                | usize::from(bytes[1]) << 8
                | usize::from(bytes[2]),
            kind: bytes[3],
            flags: bytes[4],
            stream: number(&bytes[5..]) & 0x7fff_ffff,
        }
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A number of 31 or 32 bits at the start of `bytes`; missing bytes count as 0.
pub fn number(bytes: &[u8]) -> u32 {
    let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or(0));
    byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3)
}

/// Writes a frame's header; `length` may be set later with [`set_length`].
pub fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let size = (length as u32).to_be_bytes();
    out.extend_from_slice(&[size[1], size[2], size[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Sets the length of the frame whose header stands at `at`.
pub fn set_length(out: &mut [u8], at: usize, length: usize) {
    out[at..at + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
}

pub fn rst_stream(out: &mut Vec<u8>, stream: u32, code: u32) {
    head(out, 4, kind::RST_STREAM, 0, stream);
    out.extend_from_slice(&code.to_be_bytes());
}

/// GOAWAY; as a client that takes no pushes, we have processed no stream.
pub fn goaway(out: &mut Vec<u8>, code: u32) {
    head(out, 8, kind::GOAWAY, 0, 0);
    out.extend_from_slice(&0u32.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
}

pub fn window_update(out: &mut Vec<u8>, stream: u32, by: u32) {
    head(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&by.to_be_bytes());
}

/// The payload without its padding; `None`: it is longer than the payload (§6.1).
pub fn unpadded(head: Head, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip() {
        let mut out = Vec::new();
        head(&mut out, 0x01_02_03, kind::PING, flag::ACK, 0x7fff_fffe);
        let bytes: [u8; HEAD_BYTES] = out.as_slice().try_into().unwrap();
        let read = Head::parse(&bytes);
        assert_eq!(
            (read.length, read.kind, read.stream),
            (0x01_02_03, kind::PING, 0x7fff_fffe)
        );
        assert!(read.has(flag::ACK));
        // The reserved bit says nothing.
        assert_eq!(Head::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn padding_has_room_or_is_refused() {
        let padded = |payload: &'static [u8]| {
            let head = Head {
                flags: flag::PADDED,
                ..Head::default()
            };
            unpadded(head, payload)
        };
        assert_eq!(padded(&[2, b'x', 0, 0]), Some(&b"x"[..]));
        assert_eq!(padded(&[3, b'x', 0, 0]), Some(&b""[..]));
        assert_eq!(padded(&[4, b'x', 0, 0]), None);
        assert_eq!(padded(&[]), None);
    }
}
