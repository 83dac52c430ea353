//! The tables that header fields are looked up in: the static one (RFC 7541 Appendix A) and the connection's own.

use std::collections::VecDeque;

use super::Compression;

/// What a response's field means to a client that keeps no headers. Found once, when a field enters a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `:status`; `None`: not three digits.
    Status(Option<u16>),
    /// `None`: no whole number.
    ContentLength(Option<u64>),
    Location,
    /// A pseudo-header that a response has not, or a name or value that HTTP/2 forbids: the answer is malformed.
    Forbidden,
    Plain,
}

/// Fields of one connection that HTTP/2 does without (RFC 9113 §8.2.2).
pub const CONNECTION_FIELDS: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

impl Meaning {
    pub fn of(name: &[u8], value: &[u8]) -> Self {
        match name {
            b":status" => Meaning::Status(status(value)),
            b"content-length" => Meaning::ContentLength(length(value)),
            _ if forbidden(name) || breaks_lines(value) => Meaning::Forbidden,
            b"location" => Meaning::Location,
            _ => Meaning::Plain,
        }
    }
}

fn status(value: &[u8]) -> Option<u16> {
    match value {
        [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some(
            [hundreds, tens, ones]
                .into_iter()
                .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')),
        ),
        _ => None,
    }
}

fn length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// RFC 9113 §8.2.1. All bytes are looked at, which takes less time than to stop at the first.
fn breaks_lines(value: &[u8]) -> bool {
    let breaks = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
    value.iter().fold(false, |any, byte| any | breaks(byte))
}

fn forbidden(name: &[u8]) -> bool {
    let token = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte)
    };
    !name.iter().all(token)
        || name.is_empty()
        || CONNECTION_FIELDS
            .iter()
            .any(|known| known.as_bytes() == name)
}

/// A field of the connection's table.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: Box<[u8]>,
    pub value: Box<[u8]>,
    pub meaning: Meaning,
}

/// What a field counts for in a table or a list (§4.1).
pub fn size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + 32
}

/// The connection's table: the newest field first.
#[derive(Clone, Debug)]
pub struct Dynamic {
    entries: VecDeque<Entry>,
    bytes: usize,
    most_bytes: usize,
    /// What we have announced; the peer may stay below it.
    limit_bytes: usize,
}

impl Dynamic {
    pub fn new(limit_bytes: usize) -> Self {
        Dynamic {
            entries: VecDeque::new(),
            bytes: 0,
            most_bytes: limit_bytes,
            limit_bytes,
        }
    }

    /// The field at `index` of both tables together, from 1; dynamic ones follow the 61 static ones.
    pub fn get(&self, index: usize) -> Result<Found<'_>, Compression> {
        if let Some((name, value)) = index.checked_sub(1).and_then(|at| STATIC.get(at)) {
            return Ok(Found {
                name: name.as_bytes(),
                value: value.as_bytes(),
                meaning: MEANINGS[index - 1],
            });
        }
        let at = index.checked_sub(STATIC.len() + 1).ok_or(Compression)?;
        let entry = self.entries.get(at).ok_or(Compression)?;
        Ok(Found {
            name: &entry.name,
            value: &entry.value,
            meaning: entry.meaning,
        })
    }

    /// Enters a field; older ones make room. One that is larger than the table empties it (§4.4).
    pub fn insert(&mut self, entry: Entry) {
        let bytes = size(&entry.name, &entry.value);
        self.shrink(self.most_bytes.saturating_sub(bytes));
        if bytes <= self.most_bytes {
            self.bytes += bytes;
            self.entries.push_front(entry);
        }
    }

    /// The peer changes the size, within what we have announced (§6.3).
    pub fn resize(&mut self, most_bytes: usize) -> Result<(), Compression> {
        if most_bytes > self.limit_bytes {
            return Err(Compression);
        }
        self.most_bytes = most_bytes;
        self.shrink(most_bytes);
        Ok(())
    }

    fn shrink(&mut self, to_bytes: usize) {
        while self.bytes > to_bytes {
            let Some(entry) = self.entries.pop_back() else {
                return;
            };
            self.bytes -= size(&entry.name, &entry.value);
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A field that was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub meaning: Meaning,
}

/// The first static index of a name.
pub fn static_name(name: &str) -> Option<usize> {
    let at = STATIC.iter().position(|(known, _)| *known == name);
    at.map(|at| at + 1)
}

/// The static index of a name with this value.
pub fn static_field(name: &str, value: &[u8]) -> Option<usize> {
    let at = STATIC
        .iter()
        .position(|(known, text)| *known == name && text.as_bytes() == value);
    at.map(|at| at + 1)
}

static MEANINGS: [Meaning; 61] = {
    let mut meanings = [Meaning::Plain; 61];
    let mut at = 0;
    while at < 61 {
        meanings[at] = match at + 1 {
            1..=7 | 57 => Meaning::Forbidden,
            8 => Meaning::Status(Some(200)),
            9 => Meaning::Status(Some(204)),
            10 => Meaning::Status(Some(206)),
            11 => Meaning::Status(Some(304)),
            12 => Meaning::Status(Some(400)),
            13 => Meaning::Status(Some(404)),
            14 => Meaning::Status(Some(500)),
            28 => Meaning::ContentLength(None),
            46 => Meaning::Location,
            _ => Meaning::Plain,
        };
        at += 1;
    }
    meanings
};

#[rustfmt::skip]
static STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"),
    (":status", "200"), (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"),
    ("accept-charset", ""), ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""), ("content-location", ""),
    ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""),
    ("host", ""), ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
    ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""),
    ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""),
    ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_are_those_of_their_fields() {
        for (at, (name, value)) in STATIC.iter().enumerate() {
            assert_eq!(
                MEANINGS[at],
                Meaning::of(name.as_bytes(), value.as_bytes()),
                "{name}"
            );
        }
        assert_eq!(
            (STATIC[57].0, STATIC[60].0),
            ("user-agent", "www-authenticate")
        );
        assert_eq!(static_field(":method", b"POST"), Some(3));
        assert_eq!(static_name("content-length"), Some(28));
    }

    #[test]
    fn names_that_http2_forbids_are_known() {
        for name in [
            "Upper",
            "te xt",
            "",
            "connection",
            "keep-alive",
            ":path",
            "upgrade",
            "a\0",
        ] {
            assert_eq!(
                Meaning::of(name.as_bytes(), b"x"),
                Meaning::Forbidden,
                "{name}"
            );
        }
        assert_eq!(Meaning::of(b"x-a_b", b"Any"), Meaning::Plain);
        for bad in ["20", "2000", "2x0", "099", ""] {
            assert_eq!(
                Meaning::of(b":status", bad.as_bytes()),
                Meaning::Status(None)
            );
        }
        assert_eq!(
            Meaning::of(b"content-length", b"-1"),
            Meaning::ContentLength(None)
        );
    }

    #[test]
    fn the_table_is_bounded() {
        let entry = |name: &str, bytes: usize| Entry {
            name: name.as_bytes().into(),
            value: vec![b'v'; bytes].into(),
            meaning: Meaning::Plain,
        };
        let mut table = Dynamic::new(100);
        table.insert(entry("a", 10));
        table.insert(entry("b", 10));
        assert_eq!(
            (table.bytes(), table.get(62).unwrap().name),
            (86, &b"b"[..])
        );
        table.insert(entry("c", 10));
        assert_eq!(
            (table.bytes(), table.get(63).unwrap().name),
            (86, &b"b"[..])
        );
        assert_eq!(table.resize(101), Err(Compression));
        table.resize(50).unwrap();
        assert_eq!(table.bytes(), 43);
        table.insert(entry("d", 50));
        assert_eq!(table.bytes(), 0);
        assert!(table.get(62).is_err() && table.get(0).is_err());
    }
}
