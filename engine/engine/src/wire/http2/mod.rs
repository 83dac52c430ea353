//! HTTP/2 (RFC 9113) as a client speaks it, without I/O: bytes in, events out, bytes to write beside.

pub mod answer;
pub mod frame;
pub mod hpack;
#[cfg(test)]
mod kept_tests;
pub mod reader;
pub mod session;
pub mod settings;
pub mod streams;
#[cfg(test)]
mod testing;

use crate::error::ErrorKind;

/// Error codes (RFC 9113 §7).
pub mod code {
    pub const NO_ERROR: u32 = 0x0;
    pub const PROTOCOL_ERROR: u32 = 0x1;
    pub const INTERNAL_ERROR: u32 = 0x2;
    pub const FLOW_CONTROL_ERROR: u32 = 0x3;
    pub const FRAME_SIZE_ERROR: u32 = 0x6;
    pub const REFUSED_STREAM: u32 = 0x7;
    pub const CANCEL: u32 = 0x8;
    pub const COMPRESSION_ERROR: u32 = 0x9;
    pub const ENHANCE_YOUR_CALM: u32 = 0xb;
}

/// Names of the error codes, by code.
pub const CODE_NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// What ends a stream, or the connection with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer breaks a rule of HTTP/2.
    Protocol,
    /// It sends more than a window, or opens one beyond its limit.
    FlowControl,
    FrameSize,
    Compression,
    /// Frames without end that bring no answer on.
    Flood,
    /// It speaks HTTP/1, or something else, from its first byte.
    NotHttp2,
    /// The peer will not take the request: GOAWAY names an earlier one as its last.
    Goaway,
    /// RST_STREAM, with its code.
    Reset(u32),
    /// The answer's fields make no sense.
    Malformed,
    HeaderTooLarge,
    /// The body is shorter than its Content-Length.
    ShortBody,
    /// The body is longer, or there should be none.
    UnexpectedData,
}

impl Fault {
    /// The code that the peer is told.
    pub fn code(self) -> u32 {
        match self {
            Fault::Goaway | Fault::Reset(_) => code::NO_ERROR,
            Fault::FlowControl => code::FLOW_CONTROL_ERROR,
            Fault::FrameSize => code::FRAME_SIZE_ERROR,
            Fault::Compression => code::COMPRESSION_ERROR,
            Fault::Flood | Fault::HeaderTooLarge => code::ENHANCE_YOUR_CALM,
            Fault::Protocol
            | Fault::NotHttp2
            | Fault::Malformed
            | Fault::ShortBody
            | Fault::UnexpectedData => code::PROTOCOL_ERROR,
        }
    }
}

impl From<Fault> for ErrorKind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Protocol => ErrorKind::Http2Protocol,
            Fault::FlowControl => ErrorKind::Http2FlowControl,
            Fault::FrameSize => ErrorKind::Http2FrameSize,
            Fault::Compression => ErrorKind::Http2Compression,
            Fault::Flood => ErrorKind::Http2Flood,
            Fault::NotHttp2 => ErrorKind::Http2NotNegotiated,
            Fault::Goaway => ErrorKind::Http2Goaway,
            Fault::Reset(code::PROTOCOL_ERROR) => ErrorKind::Http2ResetProtocolError,
            Fault::Reset(code::INTERNAL_ERROR) => ErrorKind::Http2ResetInternalError,
            Fault::Reset(code::FLOW_CONTROL_ERROR) => ErrorKind::Http2ResetFlowControlError,
            Fault::Reset(code::REFUSED_STREAM) => ErrorKind::Http2RefusedStream,
            Fault::Reset(code::CANCEL) => ErrorKind::Http2ResetCancel,
            Fault::Reset(code::ENHANCE_YOUR_CALM) => ErrorKind::Http2ResetEnhanceYourCalm,
            Fault::Reset(_) => ErrorKind::Http2Reset,
            Fault::Malformed => ErrorKind::Http2Malformed,
            Fault::HeaderTooLarge => ErrorKind::HeaderTooLarge,
            Fault::ShortBody => ErrorKind::ShortBody,
            Fault::UnexpectedData => ErrorKind::UnexpectedData,
        }
    }
}
