//! HTTP on the wire, without I/O: bytes in, verdicts out. A next protocol is a new file beside `http1`.

pub mod chunked;
pub mod head;
pub mod http1;
pub mod keep;

use crate::error::ErrorKind;

/// What makes an answer unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    Malformed,
    HeaderTooLarge,
    /// The stream ended in the middle of an answer.
    Short,
}

impl From<WireError> for ErrorKind {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Malformed => ErrorKind::Malformed,
            WireError::HeaderTooLarge => ErrorKind::HeaderTooLarge,
            WireError::Short => ErrorKind::ShortBody,
        }
    }
}

/// Head and trailer bytes of one answer, interim answers included.
pub const HEADER_LIMIT_BYTES: usize = 64 * 1024;
