//! The head of an answer: what it says about its body and its connection (RFC 9112 §6, §9).

use std::mem::MaybeUninit;

use super::WireError;

/// More than a head within its limit of bytes has in practice; their places are not initialised, so they cost nothing.
const HEADERS_MAX: usize = 2_048;

/// How long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Empty,
    Length(u64),
    Chunked,
    UntilClose,
}

/// What a parsed head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the head, the empty line included.
    pub bytes: usize,
    pub status: u16,
    pub framing: Framing,
    pub keep_alive: bool,
    /// An interim (1xx) answer: the real one follows.
    pub interim: bool,
}

/// Parses a head at the start of `input`; `Ok(None)` if it is not complete. `location` receives the Location header.
pub fn parse(
    input: &[u8],
    to_head_request: bool,
    location: &mut Vec<u8>,
) -> Result<Option<Head>, WireError> {
    let mut storage = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    // A user agent takes the line breaks of a folded field for spaces (RFC 9112 §5.2).
    config.allow_obsolete_multiline_headers_in_responses(true);
    let bytes = match config.parse_response_with_uninit_headers(&mut response, input, &mut storage)
    {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(WireError::HeaderTooLarge),
        Err(
            httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine,
        ) => return Err(WireError::MalformedHeader),
        Err(_) => return Err(WireError::Malformed),
    };
    let status = response.code.ok_or(WireError::Malformed)?;
    let http11 = response.version == Some(1);
    if !(100..=999).contains(&status) || status == 101 {
        // Nobody asked to switch protocols.
        return Err(WireError::Malformed);
    }
    let fields = Fields::read(response.headers, location)?;
    let interim = status < 200;
    let framing = if interim || to_head_request || status == 204 || status == 304 {
        Framing::Empty
    } else {
        fields.framing()
    };
    let keep_alive = framing != Framing::UntilClose
        && !fields.close
        && if http11 {
            true
        } else {
            fields.keep_alive && !fields.transfer_encoding
        };
    Ok(Some(Head {
        bytes,
        status,
        framing,
        keep_alive,
        interim,
    }))
}

#[derive(Default)]
struct Fields {
    length: Option<u64>,
    transfer_encoding: bool,
    chunked_last: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>], location: &mut Vec<u8>) -> Result<Self, WireError> {
        let mut fields = Fields::default();
        location.clear();
        for header in headers {
            // Lengths first: most headers are none of the four.
            match header.name.len() {
                8 if header.name.eq_ignore_ascii_case("location") => {
                    location.clear();
                    location.extend_from_slice(header.value);
                }
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    fields.connection(header.value)
                }
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    fields.content_length(header.value)?
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    fields.codings(header.value)
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn connection(&mut self, value: &[u8]) {
        for token in list(value) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), WireError> {
        for text in value.split(|byte| *byte == b',') {
            let length = digits(text.trim_ascii()).ok_or(WireError::MalformedLength)?;
            if self.length.is_some_and(|known| known != length) {
                return Err(WireError::MalformedLength);
            }
            self.length = Some(length);
        }
        Ok(())
    }

    fn codings(&mut self, value: &[u8]) {
        self.transfer_encoding = true;
        for coding in list(value) {
            self.chunked_last = coding.eq_ignore_ascii_case(b"chunked");
        }
    }

    /// RFC 9112 §6.3: Transfer-Encoding wins over Content-Length.
    fn framing(&self) -> Framing {
        match (self.transfer_encoding, self.chunked_last, self.length) {
            (true, true, _) => Framing::Chunked,
            (true, false, _) | (false, _, None) => Framing::UntilClose,
            (false, _, Some(0)) => Framing::Empty,
            (false, _, Some(length)) => Framing::Length(length),
        }
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<Head>, WireError> {
        parse(text.as_bytes(), false, &mut Vec::new())
    }

    fn framing(fields: &str) -> Result<Framing, WireError> {
        head(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).map(|head| head.unwrap().framing)
    }

    #[test]
    fn framing_follows_the_rfc() {
        assert_eq!(framing("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(
            framing("Content-Length: 5, 5\r\ncontent-length: 5\r\n"),
            Ok(Framing::Length(5))
        );
        assert_eq!(framing("Content-Length: 0\r\n"), Ok(Framing::Empty));
        assert_eq!(framing(""), Ok(Framing::UntilClose));
        assert_eq!(
            framing("Transfer-Encoding: gzip, Chunked\r\nContent-Length: 5\r\n"),
            Ok(Framing::Chunked)
        );
        assert_eq!(
            framing("Transfer-Encoding: chunked, gzip\r\n"),
            Ok(Framing::UntilClose)
        );
        for bad in [
            "5, 6",
            "5\r\nContent-Length: 6",
            "+5",
            "-1",
            "",
            "5x",
            "18446744073709551616",
            "5,",
        ] {
            assert_eq!(
                framing(&format!("Content-Length: {bad}\r\n")),
                Err(WireError::MalformedLength),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_folded_field_is_one_field() {
        assert_eq!(
            framing("X: a\r\n b\r\nContent-Length:\r\n 5\r\n"),
            Ok(Framing::Length(5))
        );
        assert_eq!(
            framing("Transfer-Encoding: gzip,\r\n\tchunked\r\n"),
            Ok(Framing::Chunked)
        );
        assert_eq!(
            framing("Content-Length: 5\r\n 6\r\n"),
            Err(WireError::MalformedLength)
        );
    }

    #[test]
    fn answers_without_body_have_none() {
        for status in [100, 103, 204, 304] {
            let head = head(&format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n"))
                .unwrap()
                .unwrap();
            assert_eq!(head.framing, Framing::Empty);
            assert_eq!(head.interim, status < 200);
        }
        let head = parse(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            true,
            &mut Vec::new(),
        );
        assert_eq!(head.unwrap().unwrap().framing, Framing::Empty);
    }

    #[test]
    fn connections_are_kept_as_the_version_says() {
        let kept = |version: &str, fields: &str| {
            let text = format!("HTTP/{version} 200 OK\r\nContent-Length: 1\r\n{fields}\r\n");
            head(&text).unwrap().unwrap().keep_alive
        };
        assert!(kept("1.1", ""));
        assert!(!kept("1.1", "Connection: close\r\n"));
        assert!(!kept("1.1", "Connection: x, Close\r\n"));
        assert!(!kept("1.0", ""));
        assert!(kept("1.0", "Connection: Keep-Alive\r\n"));
        assert!(!head("HTTP/1.1 200 OK\r\n\r\n").unwrap().unwrap().keep_alive);
    }

    #[test]
    fn nonsense_is_malformed() {
        assert_eq!(head("SSH-2.0-OpenSSH\r\n"), Err(WireError::Malformed));
        assert_eq!(
            head("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
            Err(WireError::Malformed)
        );
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent"), Ok(None));
        let enough = "X: y\r\n".repeat(HEADERS_MAX);
        assert!(head(&format!("HTTP/1.1 200 OK\r\n{enough}\r\n")).is_ok());
        let many = "X: y\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(
            head(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")),
            Err(WireError::HeaderTooLarge)
        );
    }
}
