//! HTTP/1.1 without I/O: bytes in, requests, responses and answers out.

use std::io::Write as _;
use std::rc::Rc;

use crate::body::{malformed, BodyLength, Malformed, BODY_LIMIT};

/// Longest request or response head.
pub const HEAD_LIMIT: usize = 32 * 1024;
const HEADERS_MAX: usize = 96;

/// A body is shared between the store, caches and answers under way, never copied.
pub type Body = Rc<Vec<u8>>;

/// A request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// As sent: path and query.
    pub target: String,
    pub keep_alive: bool,
    pub body: BodyLength,
    pub expects_continue: bool,
    /// The value of X-Cold.
    pub cold: Option<String>,
    pub content_type: Option<String>,
    /// Header lines that go on to an upstream: all but the hop-by-hop ones, Content-Length, Expect and X-Cold.
    pub forward: Vec<u8>,
}

impl Request {
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("")
    }
    /// The value of a query parameter, percent-decoded.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then(|| percent_decoded(&value.replace('+', " ")))
        })
    }
}

/// Text with `%xx` replaced; what is not UTF-8 then becomes U+FFFD.
#[must_use]
pub fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        // Digits alone: the number parser would take a sign too.
        let hex = bytes
            .get(at + 1..at + 3)
            .filter(|pair| pair.iter().all(u8::is_ascii_hexdigit))
            .and_then(|pair| std::str::from_utf8(pair).ok());
        match hex
            .filter(|_| bytes[at] == b'%')
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Headers that both heads share.
#[derive(Debug, Default)]
struct Common {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    lines: Vec<u8>,
}

impl Common {
    /// Takes a header if it frames the message or belongs to one hop; says whether it did.
    fn take(&mut self, name: &str, value: &[u8]) -> Result<bool, Malformed> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-length") {
            let length = std::str::from_utf8(value)
                .ok()
                .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|text| text.parse().ok())
                .ok_or(malformed(400, "bad Content-Length"))?;
            if self.length.is_some_and(|before| before != length) {
                return Err(malformed(400, "two Content-Lengths"));
            }
            self.length = Some(length);
        } else if is("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") || self.chunked {
                return Err(malformed(501, "unknown Transfer-Encoding"));
            }
            self.chunked = true;
        } else if is("connection") {
            for token in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                self.close |= token.eq_ignore_ascii_case(b"close");
                self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        } else {
            return Ok(
                ["keep-alive", "proxy-connection", "te", "trailer", "upgrade"]
                    .iter()
                    .any(|hop| is(hop)),
            );
        }
        Ok(true)
    }

    fn forward(&mut self, name: &str, value: &[u8]) {
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    fn keeps_alive(&self, version: u8) -> bool {
        !self.close && (version == 1 || self.keep_alive)
    }
}

/// Reads a request head from the front of `bytes`: the request and the bytes it took, or None if there is more to come.
///
/// # Errors
/// The status to answer before the connection is closed.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let taken = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(taken)) if taken <= HEAD_LIMIT => taken,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_LIMIT => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err(malformed(431, "head too large"))
        }
        Err(_) => return Err(malformed(400, "not HTTP")),
    };
    let version = parsed.version.unwrap_or(1);
    let mut common = Common::default();
    let (mut expects_continue, mut cold, mut content_type, mut host) = (false, None, None, false);
    for header in parsed.headers.iter() {
        if common.take(header.name, header.value)? {
            continue;
        }
        let text = || String::from_utf8_lossy(header.value).into_owned();
        if header.name.eq_ignore_ascii_case("expect") {
            expects_continue = header.value.eq_ignore_ascii_case(b"100-continue");
            continue;
        } else if header.name.eq_ignore_ascii_case("x-cold") {
            cold = Some(text());
            continue;
        } else if header.name.eq_ignore_ascii_case("content-type") {
            content_type = Some(text());
        } else if header.name.eq_ignore_ascii_case("host") {
            host = true;
        }
        common.forward(header.name, header.value);
    }
    if version == 1 && !host {
        return Err(malformed(400, "no Host"));
    }
    let body = match (common.chunked, common.length) {
        (true, Some(_)) => return Err(malformed(400, "both Content-Length and chunked")),
        (true, None) => BodyLength::Chunked,
        (false, Some(length)) if length > BODY_LIMIT as u64 => {
            return Err(malformed(413, "body too large"));
        }
        (false, length) => BodyLength::Bytes(length.unwrap_or(0)),
    };
    let request = Request {
        method: parsed.method.unwrap_or("").to_owned(),
        target: parsed.path.unwrap_or("").to_owned(),
        keep_alive: common.keeps_alive(version),
        body,
        expects_continue: expects_continue && version == 1,
        cold,
        content_type,
        forward: common.lines,
    };
    Ok(Some((request, taken)))
}

/// A response's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub keep_alive: bool,
    pub body: BodyLength,
    /// What Content-Length said, also where no body follows (HEAD).
    pub length: Option<u64>,
    /// All header lines but the hop-by-hop ones and Content-Length.
    pub lines: Vec<u8>,
}

/// Reads a response head, as [`parse_request`] does; interim (1xx) responses are returned too, with an empty body.
///
/// # Errors
/// The upstream does not speak HTTP.
pub fn parse_response(
    bytes: &[u8],
    to_head: bool,
) -> Result<Option<(ResponseHead, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let taken = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(taken)) if taken <= HEAD_LIMIT => taken,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_LIMIT => return Ok(None),
        _ => return Err(malformed(502, "the upstream's answer is not HTTP")),
    };
    let mut common = Common::default();
    for header in parsed.headers.iter() {
        if !common.take(header.name, header.value)? {
            common.forward(header.name, header.value);
        }
    }
    let status = parsed.code.unwrap_or(0);
    let keep_alive = common.keeps_alive(parsed.version.unwrap_or(1));
    let body = if to_head || matches!(status, 100..=199 | 204 | 304) {
        BodyLength::Bytes(0)
    } else if common.chunked {
        BodyLength::Chunked
    } else {
        common
            .length
            .map_or(BodyLength::UntilClose, BodyLength::Bytes)
    };
    Ok(Some((
        ResponseHead {
            status,
            keep_alive,
            body,
            length: common.length,
            lines: common.lines,
        },
        taken,
    )))
}

/// An answer before it is put on the wire.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Complete header lines, without Content-Length and Connection.
    pub lines: Vec<u8>,
    /// None where a status has no body (204, 304).
    pub length: Option<u64>,
    /// Empty for an answer to HEAD, whatever `length` says.
    pub body: Body,
}

impl Answer {
    /// An answer with a body of the given type.
    #[must_use]
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let lines = format!("Content-Type: {content_type}\r\n").into_bytes();
        Self {
            status,
            lines,
            length: Some(body.len() as u64),
            body: Rc::new(body),
        }
    }
    #[must_use]
    pub fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text)
    }
    /// The status's own name as its body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::text(status, reason(status))
    }
    /// An answer without a body and without a type.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        let length = (status != 204).then_some(0);
        Self {
            status,
            lines: Vec::new(),
            length,
            body: Body::default(),
        }
    }
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.lines, "{name}: {value}\r\n"); // writing to a Vec cannot fail
        self
    }
    /// The same answer for HEAD: the length stays, the body goes.
    #[must_use]
    pub fn without_body(mut self) -> Self {
        self.body = Body::default();
        self
    }

    /// Writes status line and headers.
    pub fn write_head(&self, keep_alive: bool, out: &mut Vec<u8>) {
        let _ = write!(out, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        out.extend_from_slice(&self.lines);
        if let Some(length) = self.length {
            let _ = write!(out, "Content-Length: {length}\r\n");
        }
        out.extend_from_slice(if keep_alive {
            b"\r\n"
        } else {
            b"Connection: close\r\n\r\n"
        });
    }
}

/// The bytes of a request to an upstream.
#[must_use]
pub fn upstream_request(request: &Request, body: &[u8], keep_cold: bool) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(request.forward.len() + request.target.len() + body.len() + 96);
    let _ = write!(out, "{} {} HTTP/1.1\r\n", request.method, request.target);
    out.extend_from_slice(&request.forward);
    if let Some(cold) = request.cold.as_ref().filter(|_| keep_cold) {
        let _ = write!(out, "X-Cold: {cold}\r\n");
    }
    if !body.is_empty() || matches!(request.method.as_str(), "PUT" | "POST") {
        let _ = write!(out, "Content-Length: {}\r\n", body.len());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

/// The reason phrase of a status.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        507 => "Insufficient Storage",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        let (request, taken) = parse_request(text.as_bytes()).unwrap().unwrap();
        assert_eq!(taken, text.len());
        request
    }

    #[test]
    fn a_request_is_read_whole_or_not_at_all() {
        let text = "GET /v1/a/c/o?x=1&marker=a%20b HTTP/1.1\r\nHost: h\r\nX-Cold: c-1\r\nAccept: */*\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(parse_request(&text.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let request = request(text);
        assert_eq!(
            (request.path(), request.cold.as_deref()),
            ("/v1/a/c/o", Some("c-1"))
        );
        assert_eq!(request.query("marker").as_deref(), Some("a b"));
        assert_eq!(request.query("limit"), None);
        assert_eq!(request.forward, b"Host: h\r\nAccept: */*\r\n");
        assert!(request.keep_alive && request.body == BodyLength::Bytes(0));
    }

    #[test]
    fn connections_close_when_asked_to() {
        let keeps = |text: &str| request(text).keep_alive;
        assert!(!keeps(
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        ));
        assert!(!keeps(
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Close\r\n\r\n"
        ));
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn what_is_not_http_gets_a_status() {
        let status = |text: &str| parse_request(text.as_bytes()).unwrap_err().status;
        assert_eq!(status("\u{1}\u{2}rubbish\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), 400); // no Host
        assert_eq!(
            status("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"),
            400
        );
        assert_eq!(
            status("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            400
        );
        let both =
            "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(status(both), 400);
        assert_eq!(
            status("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"),
            501
        );
        let huge = format!(
            "GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n",
            "x".repeat(HEAD_LIMIT)
        );
        assert_eq!(status(&huge), 431);
        assert_eq!(status(&huge[..HEAD_LIMIT + 1]), 431);
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "A: b\r\n".repeat(HEADERS_MAX + 1)
        );
        assert_eq!(status(&many), 431);
    }

    #[test]
    fn responses_say_how_long_their_body_is() {
        let head =
            |text: &str, to_head| parse_response(text.as_bytes(), to_head).unwrap().unwrap().0;
        let ok = head(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: e\r\nConnection: close\r\n\r\n",
            false,
        );
        assert_eq!(
            (ok.body, ok.keep_alive, ok.lines.as_slice()),
            (BodyLength::Bytes(5), false, &b"ETag: e\r\n"[..])
        );
        let to_head = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true);
        assert_eq!(
            (to_head.body, to_head.length),
            (BodyLength::Bytes(0), Some(5))
        );
        assert_eq!(
            head("HTTP/1.0 200 OK\r\n\r\n", false).body,
            BodyLength::UntilClose
        );
        assert_eq!(
            head("HTTP/1.1 204 No\r\n\r\n", false).body,
            BodyLength::Bytes(0)
        );
        assert!(parse_response(b"nonsense\r\n\r\n", false).is_err());
    }

    #[test]
    fn answers_frame_themselves() {
        let wire = |answer: Answer, keep| {
            let mut out = Vec::new();
            answer.write_head(keep, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            wire(Answer::text(200, "OK"), true),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\n"
        );
        assert_eq!(
            wire(Answer::empty(204), false),
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
        );
        let head = Answer::text(200, "hello").without_body();
        assert!(head.body.is_empty() && wire(head, true).contains("Content-Length: 5"));
    }

    #[test]
    fn x_cold_goes_on_only_where_it_is_kept() {
        let request = request("GET /o HTTP/1.1\r\nHost: h\r\nX-Cold: 7\r\n\r\n");
        assert_eq!(
            upstream_request(&request, b"", false),
            b"GET /o HTTP/1.1\r\nHost: h\r\n\r\n"
        );
        assert_eq!(
            upstream_request(&request, b"", true),
            b"GET /o HTTP/1.1\r\nHost: h\r\nX-Cold: 7\r\n\r\n"
        );
    }

    #[test]
    fn percent_decoding_leaves_what_is_not_an_escape() {
        assert_eq!(percent_decoded("a%2Fb%zz%+5%"), "a/b%zz%+5%");
    }
}

#[cfg(test)]
#[path = "http_properties.rs"]
mod properties;
