//! Frames as a peer would send them, for the tests of this folder.

use super::frame::{self, flag, kind};
use super::hpack::encoder::{self, Literal};

/// One frame.
pub fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::head(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

/// SETTINGS with these entries.
pub fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in entries {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame_of(kind::SETTINGS, 0, 0, &payload)
}

/// A header block of literals that the table is not taught.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    block_of(Literal::Plain, fields)
}

/// HEADERS with such a block.
pub fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let payload = block(fields);
    frame_of(kind::HEADERS, flag::END_HEADERS | flags, stream, &payload)
}

/// HEADERS whose fields the receiver's table learns.
pub fn teaching_head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let payload = block_of(Literal::Taught, fields);
    frame_of(kind::HEADERS, flag::END_HEADERS | flags, stream, &payload)
}

fn block_of(how: Literal, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        encoder::name(&mut out, how, name);
        encoder::string(&mut out, value.as_bytes());
    }
    out
}
