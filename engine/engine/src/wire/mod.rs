//! Protocols on the wire, without I/O: bytes in, verdicts out. What a worker makes of them is `exchange/`.

pub mod chunked;
mod content;
pub mod dialogue;
pub mod head;
pub mod http1;
pub mod http2;
pub mod keep;
#[cfg(test)]
mod properties;

use crate::error::ErrorKind;

/// What makes an answer unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// No HTTP/1 status line, or a status that makes no sense.
    Malformed,
    MalformedHeader,
    /// A Content-Length that is no number, or two that differ.
    MalformedLength,
    MalformedChunk,
    HeaderTooLarge,
    /// The stream ended in the middle of a head.
    ShortHead,
    /// The stream ended in the middle of a body, or of a dialogue.
    ShortBody,
    /// More came than was asked for.
    Unexpected,
    /// What a dialogue waits for was not in the first 64 KiB.
    NoMatch,
    /// What a dialogue takes is not there, or no number where one is needed.
    Capture,
}

impl From<WireError> for ErrorKind {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Malformed => ErrorKind::Malformed,
            WireError::MalformedHeader => ErrorKind::MalformedHeader,
            WireError::MalformedLength => ErrorKind::MalformedLength,
            WireError::MalformedChunk => ErrorKind::MalformedChunk,
            WireError::HeaderTooLarge => ErrorKind::HeaderTooLarge,
            WireError::ShortHead => ErrorKind::ShortHead,
            WireError::ShortBody => ErrorKind::ShortBody,
            WireError::Unexpected => ErrorKind::UnexpectedData,
            WireError::NoMatch => ErrorKind::NoMatch,
            WireError::Capture => ErrorKind::Capture,
        }
    }
}

/// Head and trailer bytes of one answer, interim answers included.
pub const HEADER_LIMIT_BYTES: usize = 64 * 1024;
