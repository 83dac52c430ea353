//! The first failed request of a group, and the begin of what its server said: what somebody asks first when nothing works.

use serde_json::{json, Value};

use super::Sample;

/// So much of an answer's body is told.
const TOLD_BYTES: usize = 200;

/// A failed request.
#[derive(Clone, Debug)]
pub struct Failure {
    sample: Sample,
    body: Vec<u8>,
}

impl Failure {
    /// `answer`: the answer from its first byte, its heads `sample.header_bytes` long; empty where it is at hand no longer.
    pub fn new(sample: Sample, answer: &[u8]) -> Self {
        let (head, body) = answer.split_at(answer.len().min(sample.header_bytes as usize));
        let head = head.to_ascii_lowercase();
        let has = |field: &[u8]| head.windows(field.len()).any(|part| part == field);
        let body = match () {
            () if has(b"\ncontent-encoding:") => &[],
            () if has(b"\ntransfer-encoding:") => first_chunk(body),
            () => body,
        };
        Failure {
            sample,
            body: body[..body.len().min(TOLD_BYTES)].to_vec(),
        }
    }

    /// The one that ended first.
    pub fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter()
            .chain(other)
            .min_by_key(|failure| failure.sample.done_ns)
    }

    pub fn json(&self) -> Value {
        json!({
            "at_ns": self.sample.done_ns, "error": self.sample.error.name(), "status": self.sample.status,
            "body": String::from_utf8_lossy(&self.body),
        })
    }
}

/// What there is of the first chunk, without its length.
fn first_chunk(body: &[u8]) -> &[u8] {
    let Some(end) = body.windows(2).position(|two| two == b"\r\n") else {
        return &[];
    };
    let digits = body[..end].split(|byte| *byte == b';').next();
    let length = digits
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok());
    let rest = &body[end + 2..];
    &rest[..rest.len().min(length.unwrap_or(0))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn told(head: &str, body: &str) -> String {
        let sample = Sample {
            header_bytes: head.len() as u32,
            status: 503,
            error: ErrorKind::Status,
            ..Sample::default()
        };
        let failure = Failure::new(sample, format!("{head}{body}").as_bytes());
        failure.json()["body"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_begin_of_a_body_is_told_without_its_framing() {
        let head = "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\n";
        assert_eq!(told(head, "busy"), "busy");
        assert_eq!(told(head, &"x".repeat(500)), "x".repeat(200));
        let chunked = "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(told(chunked, "4;a=b\r\nbusy\r\n0\r\n\r\n"), "busy");
        assert_eq!(told(chunked, "zz\r\nbusy"), "");
        assert_eq!(told(chunked, "4"), "");
        let compressed = "HTTP/1.1 503 No\r\nContent-Encoding: gzip\r\n\r\n";
        assert_eq!(told(compressed, "\u{1f}..."), "");
    }

    #[test]
    fn what_is_at_hand_no_longer_is_not_told() {
        let sample = Sample {
            header_bytes: 40,
            ..Sample::default()
        };
        assert_eq!(Failure::new(sample, b"").json()["body"], "");
    }
}
