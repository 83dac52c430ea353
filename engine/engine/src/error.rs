//! Every way in which a request can fail, and every way in which a share can.

use std::fmt;
use std::io;

macro_rules! error_kinds {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// Why a request failed. The code (`as u16`) and the name are stable; 0 is "no error".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ErrorKind { None = 0, $($variant),+ }

        impl ErrorKind {
            /// All kinds in code order.
            pub const ALL: &'static [ErrorKind] = &[ErrorKind::None, $(ErrorKind::$variant),+];

            /// The stable snake_case name ("" for none).
            pub fn name(self) -> &'static str {
                match self { ErrorKind::None => "", $(ErrorKind::$variant => $name),+ }
            }
        }
    };
}

error_kinds! {
    ConnectRefused = "connect_refused",
    ConnectTimeout = "connect_timeout",
    ConnectReset = "connect_reset",
    ConnectUnreachable = "connect_unreachable",
    Emfile = "emfile",
    Eaddrnotavail = "eaddrnotavail",
    Enobufs = "enobufs",
    TlsHandshake = "tls_handshake",
    TlsCertificate = "tls_certificate",
    TlsTimeout = "tls_timeout",
    WriteReset = "write_reset",
    ReadReset = "read_reset",
    StaleConnection = "stale_connection",
    TimeoutFirstByte = "timeout_first_byte",
    TimeoutBody = "timeout_body",
    Malformed = "malformed",
    HeaderTooLarge = "header_too_large",
    ShortBody = "short_body",
    UnexpectedData = "unexpected_data",
    Status = "status",
    Check = "check",
    UnauthorisedTarget = "unauthorised_target",
    TooManyRedirects = "too_many_redirects",
    Lookup = "lookup",
    Other = "other",
    TimeoutSend = "timeout_send",
    TimeoutHead = "timeout_head",
    MalformedHeader = "malformed_header",
    MalformedLength = "malformed_length",
    MalformedChunk = "malformed_chunk",
    ShortHead = "short_head",
    EmptyAnswer = "empty_answer",
    BadRedirect = "bad_redirect",
    TlsExpired = "tls_expired",
    TlsNotYetValid = "tls_not_yet_valid",
    TlsWrongName = "tls_wrong_name",
    TlsUntrusted = "tls_untrusted",
    TlsIncompatible = "tls_incompatible",
    TlsAlert = "tls_alert",
    TlsMalformed = "tls_malformed",
    TlsClosed = "tls_closed",
    Capture = "capture",
    NoMatch = "no_match",
    Http2NotNegotiated = "http2_not_negotiated",
    Http2Goaway = "http2_goaway",
    Http2RefusedStream = "http2_refused_stream",
    Http2ResetCancel = "http2_reset_cancel",
    Http2ResetProtocolError = "http2_reset_protocol_error",
    Http2ResetInternalError = "http2_reset_internal_error",
    Http2ResetFlowControlError = "http2_reset_flow_control_error",
    Http2ResetEnhanceYourCalm = "http2_reset_enhance_your_calm",
    Http2Reset = "http2_reset",
    Http2Protocol = "http2_protocol",
    Http2FlowControl = "http2_flow_control",
    Http2FrameSize = "http2_frame_size",
    Http2Compression = "http2_compression",
    Http2Flood = "http2_flood",
    Http2Malformed = "http2_malformed",
    TlsUnfit = "tls_unfit",
    ReplyError = "reply_error",
    NoRow = "no_row",
    SecretRedirect = "secret_redirect",
}

impl ErrorKind {
    pub const COUNT: usize = Self::ALL.len();

    pub fn code(self) -> u16 {
        self as u16
    }

    /// The kind of an error met while a socket is made or connected.
    pub fn of_connect(error: &io::Error) -> Self {
        match error.raw_os_error() {
            // Of a Unix socket: none there, or its queue is full.
            Some(libc::ECONNREFUSED | libc::ENOENT | libc::EAGAIN) => Self::ConnectRefused,
            Some(libc::ETIMEDOUT) => Self::ConnectTimeout,
            Some(libc::ECONNRESET | libc::ECONNABORTED) => Self::ConnectReset,
            Some(
                libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::EHOSTDOWN
                | libc::EACCES
                | libc::EPERM,
            ) => Self::ConnectUnreachable,
            Some(libc::EMFILE | libc::ENFILE) => Self::Emfile,
            Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => Self::Eaddrnotavail,
            Some(libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC) => Self::Enobufs,
            _ => Self::Other,
        }
    }

    /// The kind of an error met while a request is written.
    pub fn of_write(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET | libc::ETIMEDOUT) => Self::WriteReset,
            Some(libc::ENOBUFS | libc::ENOMEM) => Self::Enobufs,
            _ => Self::Other,
        }
    }

    /// The kind of an error met while an answer is read.
    pub fn of_read(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET | libc::ETIMEDOUT) => Self::ReadReset,
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => Self::ReadReset,
            Some(libc::ENOBUFS | libc::ENOMEM) => Self::Enobufs,
            _ => Self::Other,
        }
    }

    /// The kind of an error of the TLS layer.
    pub fn of_tls(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription, Error, InvalidMessage};
        match error {
            Error::InvalidCertificate(flaw) => Self::of_certificate(flaw),
            // rustls reads no message of a handshake beyond 64 KiB; only a chain of certificates gets that long.
            Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge)
            | Error::NoCertificatesPresented => Self::TlsCertificate,
            Error::PeerIncompatible(_)
            | Error::AlertReceived(AlertDescription::ProtocolVersion) => Self::TlsIncompatible,
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                Self::Http2NotNegotiated
            }
            Error::AlertReceived(_) => Self::TlsAlert,
            Error::InvalidMessage(_)
            | Error::DecryptError
            | Error::PeerSentOversizedRecord
            | Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => Self::TlsMalformed,
            _ => Self::TlsHandshake,
        }
    }

    fn of_certificate(flaw: &rustls::CertificateError) -> Self {
        use rustls::CertificateError as Flaw;
        match flaw {
            Flaw::Expired | Flaw::ExpiredContext { .. } => Self::TlsExpired,
            Flaw::NotValidYet | Flaw::NotValidYetContext { .. } => Self::TlsNotYetValid,
            Flaw::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                Self::TlsUnfit
            }
            Flaw::NotValidForName | Flaw::NotValidForNameContext { .. } => Self::TlsWrongName,
            // Signed by somebody unknown, or by somebody else of a known name.
            Flaw::UnknownIssuer | Flaw::BadSignature => Self::TlsUntrusted,
            // What our own verifier says of it (see tls.rs).
            Flaw::ApplicationVerificationFailure => Self::TlsUnfit,
            _ => Self::TlsCertificate,
        }
    }
}

/// Why a share was not run, or not to its end.
#[derive(Debug)]
pub enum RunError<S> {
    /// The share can't be run: the field and what is wrong with it.
    Share { field: String, problem: String },
    /// The machine refused.
    Os {
        doing: &'static str,
        source: io::Error,
    },
    /// The progress sink wants the load stopped.
    Sink(S),
    /// A defect of the engine: a thread panicked.
    Defect(String),
}

impl<S> RunError<S> {
    pub fn share(field: impl Into<String>, problem: impl Into<String>) -> Self {
        RunError::Share {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

impl<S> fmt::Display for RunError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Share { field, problem } => write!(f, "{field}: {problem}"),
            RunError::Os { doing, source } => write!(f, "{doing}: {source}"),
            RunError::Sink(_) => write!(f, "stopped by the progress sink"),
            RunError::Defect(text) => write!(f, "defect in the engine: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_stable() {
        let names: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names[0], "");
        assert_eq!(names[1], "connect_refused");
        assert_eq!(names[13], "stale_connection");
        assert_eq!(names[22], "unauthorised_target");
        assert_eq!(names[25], "other");
        assert_eq!(names[26], "timeout_send");
        assert_eq!(names[41], "tls_closed");
        assert_eq!(names[42], "capture");
        assert_eq!(names[43], "no_match");
        assert_eq!(names.len(), 63);
        assert_eq!(
            (names[44], names[57]),
            ("http2_not_negotiated", "http2_flood")
        );
        assert_eq!((names[58], names[59]), ("http2_malformed", "tls_unfit"));
        assert_eq!(names[62], "secret_redirect");
        assert_eq!(names[60], "reply_error");
        assert_eq!(names[61], "no_row");
        for (code, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(usize::from(kind.code()), code);
        }
    }

    #[test]
    fn the_generators_own_limits_have_names() {
        let kind = |errno| ErrorKind::of_connect(&io::Error::from_raw_os_error(errno));
        assert_eq!(kind(libc::EMFILE), ErrorKind::Emfile);
        assert_eq!(kind(libc::ENFILE), ErrorKind::Emfile);
        assert_eq!(kind(libc::EADDRNOTAVAIL), ErrorKind::Eaddrnotavail);
        assert_eq!(kind(libc::ENOBUFS), ErrorKind::Enobufs);
        assert_eq!(kind(libc::EHOSTUNREACH), ErrorKind::ConnectUnreachable);
        assert_eq!(kind(libc::EINVAL), ErrorKind::Other);
        let write = |errno| ErrorKind::of_write(&io::Error::from_raw_os_error(errno));
        assert_eq!(
            (write(libc::EPIPE), write(libc::ENOMEM)),
            (ErrorKind::WriteReset, ErrorKind::Enobufs)
        );
    }
}
