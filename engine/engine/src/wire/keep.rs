//! What is kept of an answer besides its size: its head, the begin of its body, digests of the whole.

use std::cell::OnceCell;

use md5::Md5;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::content;
use super::http2::hpack::decoder::Field;
use super::http2::hpack::table::Meaning;
use super::HEADER_LIMIT_BYTES;

/// The most of a body that is kept for variables and checks; what comes after it is not looked at.
pub const BODY_LIMIT_BYTES: usize = 1 << 20;

/// The room that stays with a user from one answer to the next, for its head and for its body.
const ROOM_BYTES: usize = 16 * 1024;

/// A digest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    Sha256,
    Md5,
}

/// What somebody wants of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    pub head: bool,
    pub body: bool,
    pub sha256: bool,
    pub md5: bool,
    /// Where a redirect leads; over HTTP/1.1 the decoder knows it anyway.
    pub location: bool,
}

impl Keep {
    pub fn nothing(self) -> bool {
        self == Keep::default()
    }

    /// Both wishes.
    pub fn and(self, other: Keep) -> Keep {
        Keep {
            head: self.head || other.head,
            body: self.body || other.body,
            sha256: self.sha256 || other.sha256,
            md5: self.md5 || other.md5,
            location: self.location || other.location,
        }
    }
}

/// What was kept of the answer so far; its buffers stay from one to the next.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    keep: Keep,
    head: Vec<u8>,
    location: Vec<u8>,
    body: Vec<u8>,
    /// What was compressed in the body, once somebody has looked.
    content: OnceCell<Option<Vec<u8>>>,
    sha256: Sha256,
    md5: Md5,
}

impl Kept {
    /// Makes ready for a new answer.
    pub fn begin(&mut self, keep: Keep) {
        self.keep = keep;
        self.head.clear();
        self.location.clear();
        self.body.clear();
        self.content.take();
        if keep.sha256 {
            self.sha256.reset();
        }
        if keep.md5 {
            self.md5.reset();
        }
    }

    /// The head of the final answer, the empty line included.
    pub fn take_head(&mut self, bytes: &[u8]) {
        if self.keep.head || self.keep.body {
            self.head.extend_from_slice(bytes);
        }
    }

    /// A head begins that comes field by field; of several the last one stays.
    pub fn begin_head(&mut self) {
        self.head.clear();
        self.location.clear();
        // In place of a status line.
        self.take_head(b"\n");
    }

    /// A field of that head. One that is beyond the limit fails its answer; till that is known, no more of it is held.
    pub fn take_field(&mut self, field: &Field<'_>) {
        if self.keep.location && field.meaning == Meaning::Location {
            self.location.clear();
            self.location.extend_from_slice(field.value);
        }
        if self.head.len() < HEADER_LIMIT_BYTES {
            for bytes in [field.name, b":", field.value, b"\n"] {
                self.take_head(bytes);
            }
        }
    }

    /// The Location of a head that came field by field, empty if it has none.
    pub fn location(&self) -> &[u8] {
        &self.location
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.head.capacity() + self.body.capacity()
    }

    /// The answer is judged: lets go of it, and of the room that only a large one needs.
    fn shrink(&mut self) {
        for kept in [&mut self.head, &mut self.body] {
            kept.clear();
            kept.shrink_to(ROOM_BYTES);
        }
        self.content.take();
    }

    /// The next bytes of the body.
    pub fn take_body(&mut self, bytes: &[u8]) {
        if self.keep.body {
            let room = BODY_LIMIT_BYTES - self.body.len();
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if self.keep.sha256 {
            self.sha256.update(bytes);
        }
        if self.keep.md5 {
            self.md5.update(bytes);
        }
    }

    /// The first [`BODY_LIMIT_BYTES`] of the body's content: decompressed where its head says that it was compressed.
    pub fn body(&self) -> &[u8] {
        let content = self.content.get_or_init(|| {
            let codings = self.header("content-encoding")?;
            content::decode(codings, &self.body, BODY_LIMIT_BYTES)
        });
        content.as_deref().unwrap_or(&self.body)
    }

    /// The value of the first header of this name, without blanks around it.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        let named = |line: &[u8]| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (found, value) = line.split_at(colon);
            found
                .eq_ignore_ascii_case(name.as_bytes())
                .then_some(colon + 1..colon + value.len())
        };
        for line in lines {
            if let Some(value) = named(line) {
                return Some(line[value].trim_ascii());
            }
        }
        None
    }

    /// The digest of the whole body as it came, in lower-case hexadecimal digits.
    pub fn digest(&self, algorithm: Algorithm) -> String {
        match algorithm {
            Algorithm::Sha256 => hexadecimal(&self.sha256.clone().finalize()),
            Algorithm::Md5 => hexadecimal(&self.md5.clone().finalize()),
        }
    }
}

/// Room for what is kept of answers, made when something is first wanted of one; its buffers stay.
#[derive(Clone, Debug, Default)]
pub struct Keeping {
    keeps: bool,
    kept: Option<Box<Kept>>,
}

impl Keeping {
    /// Makes ready for a new answer.
    pub fn begin(&mut self, keep: Keep) {
        self.keeps = !keep.nothing();
        if self.keeps {
            self.kept.get_or_insert_default().begin(keep);
        }
    }

    /// What was kept of the answer; nothing where nothing was wanted.
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.as_deref().filter(|_| self.keeps)
    }

    /// Where the answer is kept, if something of it is wanted.
    pub fn kept_mut(&mut self) -> Option<&mut Kept> {
        self.kept.as_deref_mut().filter(|_| self.keeps)
    }

    /// The answer is judged: what was kept of it is needed no more.
    #[inline]
    pub fn shrink(&mut self) {
        if let Some(kept) = self.kept_mut() {
            kept.shrink();
        }
    }

    /// The next bytes of the body.
    #[inline]
    pub fn take_body(&mut self, bytes: &[u8]) {
        if let Some(kept) = self.kept_mut() {
            kept.take_body(bytes);
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_by_name() {
        let mut kept = Kept::default();
        kept.begin(Keep {
            head: true,
            ..Keep::default()
        });
        kept.take_head(b"HTTP/1.1 200 OK\r\nX-Auth-Token:  abc:d \r\nx-empty:\r\n\r\n");
        kept.take_body(b"x-body: no");
        assert_eq!(kept.header("x-auth-token"), Some(b"abc:d".as_slice()));
        assert_eq!(kept.header("X-Empty"), Some(b"".as_slice()));
        assert_eq!(
            (kept.header("x-body"), kept.header("HTTP/1.1 200 OK")),
            (None, None)
        );
        kept.begin(Keep::default());
        assert_eq!(kept.header("x-auth-token"), None);
    }

    #[test]
    fn digests_are_of_the_whole_body_and_the_body_is_bounded() {
        let mut kept = Kept::default();
        let all = Keep {
            body: true,
            sha256: true,
            md5: true,
            ..Keep::default()
        };
        kept.begin(all);
        kept.take_body(b"a");
        kept.take_body(b"bc");
        assert_eq!(kept.body(), b"abc");
        // FIPS 180-2 and RFC 1321, their own examples.
        assert_eq!(
            kept.digest(Algorithm::Sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            kept.digest(Algorithm::Md5),
            "900150983cd24fb0d6963f7d28e17f72"
        );
        kept.begin(all);
        kept.take_body(&vec![b'x'; BODY_LIMIT_BYTES - 1]);
        kept.take_body(b"yz");
        assert_eq!(kept.body().len(), BODY_LIMIT_BYTES);
        assert_eq!(kept.body().last(), Some(&b'y'));
        kept.shrink();
        assert!(kept.capacity() <= 2 * ROOM_BYTES);
    }
}
