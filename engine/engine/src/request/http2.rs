//! The request's head as HTTP/2 carries it: a header block, made once for each state of the peer's table.

use super::{Piece, Template};
use crate::wire::http2::hpack::encoder::{self, Literal};
use crate::wire::http2::hpack::table::{size, static_field, CONNECTION_FIELDS};
use crate::wire::http2::session::Dictionary;

/// The first place of the connection's own table (RFC 7541 §2.3.3).
const FIRST_DYNAMIC: usize = 62;
/// What ends a request line.
const VERSION: &[u8] = b" HTTP/1.1";

/// A part of a block.
#[derive(Clone, Debug)]
enum Part {
    Fixed(Vec<u8>),
    /// A field of the peer's table, below so many newer ones of its kind.
    Known(usize),
    /// A varying string.
    Value(Vec<Piece>),
}

/// The head's blocks. What does not vary is taught to the peer's table by a connection's first request of a kind and referred
/// to by all others, as browsers do.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    empty: Vec<Part>,
    taught: Vec<Part>,
    off: Vec<Part>,
    /// How many fields are taught.
    pub(super) taught_fields: usize,
    /// What they count for in the table.
    pub(super) taught_bytes: usize,
}

struct Field {
    name: String,
    value: Vec<Piece>,
    sensitive: bool,
}

impl Field {
    fn new(name: &str, value: Vec<Piece>) -> Self {
        Field {
            name: name.to_ascii_lowercase(),
            value,
            sensitive: false,
        }
    }

    /// A line of HTTP/1.1's head; `None`: HTTP/2 has none of it.
    fn of_line(line: Vec<Piece>) -> Option<Self> {
        let (name, value) = split(line, b": ");
        let name = String::from_utf8_lossy(&name).to_ascii_lowercase();
        match name.as_str() {
            "host" => Some(Field::new(":authority", value)),
            _ if is_foreign(&name) => None,
            _ => Some(Field::new(&name, value)),
        }
    }

    /// Its value, if that does not vary.
    fn fixed(&self) -> Option<&[u8]> {
        match self.value.as_slice() {
            [] => Some(b""),
            [Piece::Fixed(value)] => Some(value),
            _ => None,
        }
    }

    fn static_index(&self) -> Option<usize> {
        static_field(&self.name, self.fixed()?)
    }

    fn is_taught(&self) -> bool {
        self.fixed().is_some() && self.static_index().is_none() && !self.sensitive
    }
}

impl Blocks {
    /// From the pieces of an HTTP/1.1 request. Its `sensitive` headers, names in lower case, are never indexed
    /// (RFC 7541 §7.1.3).
    pub(super) fn new(pieces: &[Piece], scheme: &str, sensitive: &[String]) -> Self {
        let mut lines = lines(pieces).into_iter();
        let (method, mut path) = split(lines.next().unwrap_or_default(), b" ");
        if let Some(Piece::Fixed(bytes)) = path.last_mut() {
            bytes.truncate(bytes.len() - VERSION.len());
        }
        path.retain(|piece| !matches!(piece, Piece::Fixed(bytes) if bytes.is_empty()));
        let mut fields = vec![
            Field::new(":method", vec![Piece::Fixed(method)]),
            Field::new(":scheme", vec![Piece::Fixed(scheme.as_bytes().to_vec())]),
            Field::new(":path", path),
        ];
        fields.extend(lines.filter_map(Field::of_line));
        for field in &mut fields {
            field.sensitive = sensitive.contains(&field.name);
        }
        // Pseudo-header fields come first (RFC 9113 §8.3).
        fields.sort_by_key(|field| !field.name.starts_with(':'));
        let taught: Vec<usize> = fields
            .iter()
            .filter(|field| field.is_taught())
            .map(|field| size(field.name.as_bytes(), field.fixed().unwrap_or_default()))
            .collect();
        Blocks {
            taught_fields: taught.len(),
            taught_bytes: taught.iter().sum(),
            empty: block(&fields, Dictionary::Empty),
            taught: block(&fields, Dictionary::Taught { newer: 0 }),
            off: block(&fields, Dictionary::Off),
        }
    }

    /// Appends the block for this state of the table; `write` renders a varying value.
    pub(super) fn render(
        &self,
        dictionary: Dictionary,
        out: &mut Vec<u8>,
        write: impl Fn(&[Piece], &mut Vec<u8>),
    ) {
        let (parts, newer) = match dictionary {
            Dictionary::Empty => (&self.empty, 0),
            Dictionary::Taught { newer } => (&self.taught, newer),
            Dictionary::Off => (&self.off, 0),
        };
        for part in parts {
            match part {
                Part::Fixed(bytes) => out.extend_from_slice(bytes),
                Part::Known(older) => encoder::indexed(out, FIRST_DYNAMIC + older + newer),
                Part::Value(pieces) => encoder::string_of(out, |out| write(pieces, out)),
            }
        }
    }
}

/// Whether HTTP/2 has no such field: what it says of the connection, HTTP/2 says in frames.
fn is_foreign(name: &str) -> bool {
    CONNECTION_FIELDS.contains(&name)
}

impl Template {
    /// Appends the block of a request whose HTTP/1.1 head, and what follows it, is `text`: a redirect hop, or one whose address
    /// variables made. It teaches the peer's table nothing.
    pub fn block_of_text(&self, text: &[u8], https: bool, out: &mut Vec<u8>) {
        let mut add = |name: &str, value: &[u8]| {
            if let Some(index) = static_field(name, value) {
                return encoder::indexed(out, index);
            }
            let literal = if self.sensitive.iter().any(|known| known == name) {
                Literal::Never
            } else {
                Literal::Plain
            };
            encoder::name(out, literal, name);
            encoder::string(out, value);
        };
        let mut lines = text[..head_bytes(text)]
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii_end);
        let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
        let mut word = || words.next().unwrap_or_default();
        add(":method", word());
        add(":scheme", if https { b"https" } else { b"http" });
        add(":path", word());
        for line in lines {
            let colon = line.iter().position(|byte| *byte == b':');
            let Some((name, value)) = colon.map(|at| line.split_at(at)) else {
                continue;
            };
            let value = value[1..].trim_ascii_start();
            match String::from_utf8_lossy(name).to_ascii_lowercase().as_str() {
                "host" => add(":authority", value),
                name if is_foreign(name) => {}
                name => add(name, value),
            }
        }
    }
}

/// How many of a request's bytes are request line and headers.
pub fn head_bytes(text: &[u8]) -> usize {
    let end = text.windows(4).position(|four| four == b"\r\n\r\n");
    end.map_or(text.len(), |at| at + 4)
}

/// The lines of a head, without their ends.
fn lines(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for piece in pieces {
        let Piece::Fixed(bytes) = piece else {
            line.push(piece.clone());
            continue;
        };
        let mut rest = bytes.as_slice();
        while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
            if at > 0 {
                line.push(Piece::Fixed(rest[..at].to_vec()));
            }
            // An empty line: the rest is the body.
            if line.is_empty() {
                return lines;
            }
            lines.push(std::mem::take(&mut line));
            rest = &rest[at + 2..];
        }
        if !rest.is_empty() {
            line.push(Piece::Fixed(rest.to_vec()));
        }
    }
    lines
}

/// What stands before the first `mark`, which is never in a varying piece, and the pieces after it.
fn split(mut line: Vec<Piece>, mark: &[u8]) -> (Vec<u8>, Vec<Piece>) {
    let Some(Piece::Fixed(bytes)) = line.first_mut() else {
        return (Vec::new(), line);
    };
    let found = bytes.windows(mark.len()).position(|some| some == mark);
    let at = found.unwrap_or(bytes.len());
    let before = bytes[..at].to_vec();
    bytes.drain(..bytes.len().min(at + mark.len()));
    if bytes.is_empty() {
        line.remove(0);
    }
    (before, line)
}

fn block(fields: &[Field], dictionary: Dictionary) -> Vec<Part> {
    let (mut parts, mut bytes) = (Vec::new(), Vec::new());
    // The newest field of the table has the lowest index.
    let mut older = fields.iter().filter(|field| field.is_taught()).count();
    for field in fields {
        let taught = field.is_taught();
        older -= usize::from(taught);
        if let Some(index) = field.static_index() {
            encoder::indexed(&mut bytes, index);
            continue;
        }
        if taught && matches!(dictionary, Dictionary::Taught { .. }) {
            parts.push(Part::Fixed(std::mem::take(&mut bytes)));
            parts.push(Part::Known(older));
            continue;
        }
        let literal = match dictionary {
            _ if field.sensitive => Literal::Never,
            Dictionary::Empty if taught => Literal::Taught,
            _ => Literal::Plain,
        };
        encoder::name(&mut bytes, literal, &field.name);
        match field.fixed() {
            Some(value) => encoder::string(&mut bytes, value),
            None => {
                parts.push(Part::Fixed(std::mem::take(&mut bytes)));
                parts.push(Part::Value(field.value.clone()));
            }
        }
    }
    parts.push(Part::Fixed(bytes));
    parts.retain(|part| !matches!(part, Part::Fixed(bytes) if bytes.is_empty()));
    parts
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::super::tests::{by, template_of};
    use super::super::Asker;
    use super::*;
    use crate::share::testing::{group, only};
    use crate::share::{GroupSpec, Part as Said};
    use crate::wire::http2::hpack::decoder::Decoder;
    use crate::wire::http2::hpack::TABLE_BYTES;

    fn asking(headers: &[(&str, &str)], path: &str) -> GroupSpec {
        let mut group = group(r#"{"kind": "constant-vus", "vus": 2}"#);
        let said = |text: &str| serde_json::from_str::<Vec<Said>>(text).unwrap();
        group.http2 = serde_json::from_str(r#"{"streams": 1}"#).unwrap();
        let request = only(&mut group);
        request.path = said(path);
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), said(value));
        request.headers = headers.iter().map(header).collect();
        group
    }

    fn template(group: &GroupSpec) -> Template {
        template_of(group, "cache:8080", &IndexMap::new(), None, false)
    }

    fn block(template: &Template, dictionary: Dictionary, seq: u64) -> Vec<u8> {
        let mut out = Vec::new();
        template.render_block(dictionary, &by(Asker { vu: 1, seq }), &mut out);
        out
    }

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut see =
            |name: &[u8], value: &[u8]| fields.push(format!("{} {}", text(name), text(value)));
        decoder
            .decode(block, |field| see(field.name, field.value))
            .unwrap();
        fields
    }

    #[test]
    fn every_state_of_the_table_says_the_same() {
        let varying = r#"[{"text": "/a?n="}, {"var": "iteration"}]"#;
        let headers = [
            ("X-One", r#"[{"text": "1"}]"#),
            ("Authorization", r#"[{"text": "token"}]"#),
            ("x-two", r#"[{"text": "n"}, {"var": "iteration"}]"#),
            ("Host", r#"[{"text": "other"}]"#),
        ];
        let template = template(&asking(&headers, varying));
        let mut decoder = Decoder::new(TABLE_BYTES);
        let wanted = |seq| {
            [
                ":method GET".to_owned(),
                ":scheme http".to_owned(),
                format!(":path /a?n={seq}"),
                ":authority other".to_owned(),
                "user-agent svload".to_owned(),
                "accept */*".to_owned(),
                "x-one 1".to_owned(),
                "authorization token".to_owned(),
                format!("x-two n{seq}"),
            ]
        };
        for (seq, dictionary) in [
            Dictionary::Empty,
            Dictionary::Taught { newer: 0 },
            Dictionary::Taught { newer: 0 },
            Dictionary::Off,
        ]
        .into_iter()
        .enumerate()
        {
            let block = block(&template, dictionary, seq as u64);
            assert_eq!(fields(&mut decoder, &block), wanted(seq), "{dictionary:?}");
            // Never indexed (RFC 7541 §7.1.3), name 23.
            assert!(block.windows(2).any(|pair| pair == [0x1f, 8]));
        }
    }

    #[test]
    fn each_kind_is_found_below_what_was_taught_after_it() {
        let kinds = [
            template(&asking(
                &[("x-one", r#"[{"text": "1"}]"#)],
                r#"[{"text": "/a"}]"#,
            )),
            template(&asking(&[], r#"[{"text": "/b?n="}, {"var": "iteration"}]"#)),
            template(&asking(
                &[("x-two", r#"[{"text": "2"}]"#)],
                r#"[{"text": "/c"}]"#,
            )),
        ];
        let newer = |kind: usize| {
            kinds[kind + 1..]
                .iter()
                .map(|kind| kind.lesson(0).unwrap().fields)
                .sum()
        };
        let mut decoder = Decoder::new(TABLE_BYTES);
        let said: Vec<_> = kinds
            .iter()
            .map(|kind| fields(&mut decoder, &block(kind, Dictionary::Empty, 3)))
            .collect();
        for (kind, said) in said.iter().enumerate() {
            let newer = newer(kind);
            let again = block(&kinds[kind], Dictionary::Taught { newer }, 3);
            assert_eq!(fields(&mut decoder, &again), *said);
        }
    }

    #[test]
    fn a_request_spelled_out_says_the_same() {
        let varying = r#"[{"text": "/a?n="}, {"var": "iteration"}]"#;
        let headers = [
            ("X-One", r#"[{"text": "1: 2"}]"#),
            ("Cookie", r#"[{"text": "a=b"}]"#),
            ("Accept-Encoding", r#"[{"text": "gzip, deflate"}]"#),
            ("x-two", r#"[{"text": "n"}, {"var": "iteration"}]"#),
            ("x-empty", "[]"),
            ("Host", r#"[{"text": "other"}]"#),
        ];
        for path in [varying, r#"[{"text": "/"}]"#] {
            let template = template(&asking(&headers, path));
            let (mut text, mut spelled) = (Vec::new(), Vec::new());
            template.render(&by(Asker { vu: 1, seq: 7 }), &mut text);
            template.block_of_text(&text, false, &mut spelled);
            let made = block(&template, Dictionary::Off, 7);
            let decode = |block: &[u8]| fields(&mut Decoder::new(TABLE_BYTES), block);
            assert_eq!(decode(&spelled), decode(&made));
            // Never indexed (RFC 7541 §7.1.3): name 32.
            assert!(spelled.windows(2).any(|pair| pair == [0x1f, 17]));
        }
    }

    #[test]
    fn credentials_and_secrets_are_never_indexed() {
        for (name, value) in [
            ("Proxy-Authorization", r#"[{"text": "v"}]"#),
            ("X-Auth-Token", r#"[{"text": "v"}]"#),
            ("X-Api-Key", r#"[{"text": "v"}]"#),
            ("x-plain", r#"[{"secret": "v"}]"#),
        ] {
            let template = template(&asking(&[(name, value)], r#"[{"text": "/"}]"#));
            let (mut text, mut spelled, mut never) = (Vec::new(), Vec::new(), Vec::new());
            template.render(&by(Asker { vu: 1, seq: 0 }), &mut text);
            template.block_of_text(&text, false, &mut spelled);
            encoder::name(&mut never, Literal::Never, &name.to_ascii_lowercase());
            encoder::string(&mut never, b"v");
            let states = [
                Dictionary::Empty,
                Dictionary::Taught { newer: 0 },
                Dictionary::Off,
            ];
            let blocks = states.map(|dictionary| block(&template, dictionary, 0));
            for block in blocks.iter().chain([&spelled]) {
                assert!(
                    block.windows(never.len()).any(|part| part == never),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_request_that_does_not_vary_shrinks_to_a_byte_a_field() {
        let template = template(&asking(&[], r#"[{"text": "/object/1"}]"#));
        assert_eq!(
            block(&template, Dictionary::Taught { newer: 0 }, 0),
            [
                0x82,
                0x86,
                (62 + 3) | 0x80,
                (62 + 2) | 0x80,
                (62 + 1) | 0x80,
                62 | 0x80
            ]
        );
        let taught = [
            (":authority", "cache:8080"),
            (":path", "/object/1"),
            ("user-agent", "svload"),
            ("accept", "*/*"),
        ];
        let bytes: usize = taught
            .iter()
            .map(|(name, value)| name.len() + value.len() + 32)
            .sum();
        assert_eq!(template.lesson(0).unwrap().bytes, bytes);
    }
}
