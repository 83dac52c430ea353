//! How a value is written at its place in a request, so that the server reads back the value itself.
//!
//! A value is what comes from elsewhere: a table's row, an answer, set-up, a secret. Texts of the share itself are sent as they are.

use std::io::Write;

use serde::de::IgnoredAny;

use crate::request_spec::{BodySpec, Part, RequestSpec};
use crate::table::Column;

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is a whole URL, or its authority: what a URL may hold stays, a valid `%XX` too.
    Url,
    /// It is a whole path with its query, or a whole query: as a URL, but a `#` is part of it.
    Address,
    /// Within a path: all but unreserved characters (RFC 3986 §2.3) and `/` is percent-encoded.
    Path,
    /// A path segment between two slashes of the request's own, a query value, a form field: `/` is encoded too.
    Component,
    /// Between quotes of a JSON text.
    JsonString,
    /// In a JSON text outside quotes: it must be a JSON value, and is written as it is.
    JsonValue,
    /// Control characters become blanks (RFC 9110 §5.5).
    Header,
    /// A word that a blank or a line's end would cut: control characters and blanks are percent-encoded.
    Word,
    /// Anything may stand there.
    Free,
}

impl Place {
    /// Where the value stands that is to be sent as it is: only what would end the request line or the header is kept out.
    pub fn raw(self) -> Place {
        match self {
            Place::Url | Place::Address | Place::Path | Place::Component | Place::Word => {
                Place::Word
            }
            Place::Header => Place::Header,
            Place::JsonString | Place::JsonValue | Place::Free => Place::Free,
        }
    }
}

/// Appends a value as it is written at its place.
pub fn write_value(value: &[u8], place: Place, out: &mut Vec<u8>) {
    match place {
        Place::Url => percent(value, &IN_URL, true, out),
        Place::Address => percent(value, &IN_ADDRESS, true, out),
        Place::Path => percent(value, &IN_PATH, false, out),
        Place::Component => percent(value, &UNRESERVED, false, out),
        Place::Word => percent(value, &IN_WORD, false, out),
        Place::JsonString => json_string(value, out),
        Place::Header => out.extend(value.iter().map(|byte| match byte {
            b'\t' | b' '..=126 | 128.. => *byte,
            _ => b' ',
        })),
        Place::JsonValue | Place::Free => out.extend_from_slice(value),
    }
}

/// Whether a value may stand in a JSON text outside quotes.
pub fn is_json(value: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(value).is_ok()
}

type Bytes = [bool; 256];

const fn with(mut set: Bytes, more: &[u8]) -> Bytes {
    let mut at = 0;
    while at < more.len() {
        set[more[at] as usize] = true;
        at += 1;
    }
    set
}

const fn all_but(first: u8, last: u8, fewer: &[u8]) -> Bytes {
    let mut set = [false; 256];
    let mut byte = first as usize;
    while byte <= last as usize {
        set[byte] = true;
        byte += 1;
    }
    let mut at = 0;
    while at < fewer.len() {
        set[fewer[at] as usize] = false;
        at += 1;
    }
    set
}

const UNRESERVED: Bytes = with(
    [false; 256],
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~",
);
const IN_PATH: Bytes = with(UNRESERVED, b"/");
/// What may stand in a URL (RFC 3986 §2), and the square brackets that browsers leave there.
const IN_URL: Bytes = all_but(b'!', b'~', b"\"<>\\^`{|}");
const IN_ADDRESS: Bytes = all_but(b'!', b'~', b"\"#<>\\^`{|}");
const IN_WORD: Bytes = with(all_but(b'!', b'~', b""), &HIGH);
const HIGH: [u8; 128] = {
    let mut bytes = [0; 128];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = at as u8 + 128;
        at += 1;
    }
    bytes
};

/// `encoded`: the value may hold percent-encoded bytes; a `%` that begins none is a sign of its own.
fn percent(value: &[u8], stays: &Bytes, encoded: bool, out: &mut Vec<u8>) {
    out.reserve(value.len());
    for (at, byte) in value.iter().enumerate() {
        let digits = || value.get(at + 1..at + 3);
        let escapes = || digits().is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
        if stays[*byte as usize] && (*byte != b'%' || !encoded || escapes()) {
            out.push(*byte);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

/// The inside of a JSON string (RFC 8259 §7).
fn json_string(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..=31 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(*byte),
        }
    }
}

/// The texts of a request in which values are encoded, by field, and where each part of them stands.
pub fn texts(request: &RequestSpec) -> Vec<(&'static str, &[Part], Vec<Place>)> {
    let mut found = vec![("path", request.path.as_slice(), of_path(&request.path))];
    if let Some(url) = &request.url {
        found.push(("url", url, of_url(url)));
    }
    if let Some(BodySpec::Text(parts)) = &request.body {
        found.push(("body.text", parts, of_body(request, parts)));
    }
    found
}

/// The rows that are written otherwise at this place than where nothing is encoded.
pub fn changed(column: &Column, place: Place) -> Vec<u64> {
    let changes = |row: &usize| {
        let (value, mut encoded, mut raw) = (column.text(*row), Vec::new(), Vec::new());
        write_value(value.as_bytes(), place, &mut encoded);
        write_value(value.as_bytes(), place.raw(), &mut raw);
        encoded != raw
    };
    let rows = (0..column.len()).filter(changes);
    rows.map(|row| row as u64).collect()
}

/// The places of a path's parts, its query's too.
pub fn of_path(parts: &[Part]) -> Vec<Place> {
    places_from(parts, "", Place::Address)
}

/// The places of the parts of a URL whose value, or whose host, is known only when the request is made.
pub fn of_url(parts: &[Part]) -> Vec<Place> {
    let typed = parts.first().and_then(Part::typed).unwrap_or_default();
    let Some(at) = typed.find("://") else {
        return places_from(parts, "", Place::Url);
    };
    let scheme = &typed[..at + 3];
    // Up to the first slash of the request's own behind the scheme a value stands in the authority.
    let behind = |(number, part): (usize, &Part)| {
        let text = part.typed().unwrap_or_default();
        let text = if number == 0 {
            &text[scheme.len()..]
        } else {
            text
        };
        text.contains(['/', '?'])
    };
    let authority = parts.iter().enumerate().position(behind);
    let mut places = places_from(parts, scheme, Place::Url);
    places[..authority.map_or(parts.len(), |at| at + 1)].fill(Place::Url);
    places
}

/// `scheme`: what the first text begins with before the path; `first`: where a value at the very start stands.
fn places_from(parts: &[Part], scheme: &str, first: Place) -> Vec<Place> {
    let typed = |at: usize| {
        let text = parts[at].typed().unwrap_or_default();
        text.strip_prefix(scheme)
            .filter(|_| at == 0)
            .unwrap_or(text)
    };
    let query = (0..parts.len()).find(|at| typed(*at).contains('?'));
    let path_of = |at: usize| typed(at).split('?').next().unwrap_or_default();
    let place = |at: usize| {
        if at == 0 {
            return first;
        }
        let Some(query) = query.filter(|query| *query < at) else {
            let slash = |at: usize| path_of(at).contains('/');
            let path_end = query.map_or(parts.len(), |at| at + 1);
            let between = (0..at).any(slash) && (at + 1..path_end).any(slash);
            return if between {
                Place::Component
            } else {
                Place::Path
            };
        };
        let whole = query + 1 == at && at + 1 == parts.len() && typed(query).ends_with('?');
        if whole {
            Place::Address
        } else {
            Place::Component
        }
    };
    (0..parts.len()).map(place).collect()
}

/// The places of a text body's parts: of JSON and forms; in any other text a value stands as it is.
pub fn of_body(request: &RequestSpec, parts: &[Part]) -> Vec<Place> {
    let named = |(name, _): &&(String, Vec<Part>)| name.eq_ignore_ascii_case("content-type");
    let said = request.headers.iter().find(named).map(|(_, value)| {
        let typed = value.iter().filter_map(Part::fixed);
        typed.collect::<String>().to_ascii_lowercase()
    });
    match said {
        Some(kind) if kind.contains("json") => of_json(parts),
        Some(kind) if kind.contains("x-www-form-urlencoded") => match parts.len() {
            1 => vec![Place::Address],
            _ => vec![Place::Component; parts.len()],
        },
        None if looks_like_json(parts) => of_json(parts),
        _ => vec![Place::Free; parts.len()],
    }
}

/// Whether it is an object or an array with a number in each value's place.
fn looks_like_json(parts: &[Part]) -> bool {
    let text: String = parts
        .iter()
        .map(|part| part.typed().unwrap_or("1"))
        .collect();
    text.trim_start().starts_with(['{', '[']) && is_json(text.as_bytes())
}

fn of_json(parts: &[Part]) -> Vec<Place> {
    let (mut quoted, mut escaped) = (false, false);
    let mut place = |part: &Part| {
        for byte in part.typed().unwrap_or_default().bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = quoted,
                b'"' => quoted = !quoted,
                _ => {}
            }
        }
        if quoted {
            Place::JsonString
        } else {
            Place::JsonValue
        }
    };
    parts.iter().map(&mut place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &str, place: Place) -> String {
        let mut out = Vec::new();
        write_value(value.as_bytes(), place, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Parts of a text in which `{}` stands for a value.
    fn parts(text: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        for (number, text) in text.split("{}").enumerate() {
            if number > 0 {
                parts.push(serde_json::from_str(r#"{"taken": "v"}"#).unwrap());
            }
            if !text.is_empty() {
                parts.push(Part::Text { text: text.into() });
            }
        }
        parts
    }

    fn of_values(text: &str, places: fn(&[Part]) -> Vec<Place>) -> Vec<Place> {
        let parts = parts(text);
        let placed = places(&parts).into_iter().zip(&parts);
        let values = placed.filter(|(_, part)| part.typed().is_none());
        values.map(|(place, _)| place).collect()
    }

    #[test]
    fn a_value_is_read_back_as_it_was() {
        let odd = "a/b?c&d=e #%41+\"ü\\";
        for (place, wanted) in [
            (
                Place::Component,
                "a%2Fb%3Fc%26d%3De%20%23%2541%2B%22%C3%BC%5C",
            ),
            (Place::Path, "a/b%3Fc%26d%3De%20%23%2541%2B%22%C3%BC%5C"),
            (Place::JsonString, "a/b?c&d=e #%41+\\\"ü\\\\"),
            (Place::Address, "a/b?c&d=e%20%23%41+%22%C3%BC%5C"),
            (Place::Url, "a/b?c&d=e%20#%41+%22%C3%BC%5C"),
            (Place::Word, "a/b?c&d=e%20#%41+\"ü\\"),
            (Place::Free, odd),
        ] {
            assert_eq!(written(odd, place), wanted, "{place:?}");
        }
        assert_eq!(written("100%", Place::Address), "100%25");
        assert_eq!(written("%zz%4", Place::Url), "%25zz%254");
        assert_eq!(
            written("a\u{1}\u{8}\n", Place::JsonString),
            "a\\u0001\\b\\n"
        );
        assert_eq!(written("a\r\nX: y\tü\u{7f}", Place::Header), "a  X: y\tü ");
    }

    #[test]
    fn a_value_has_the_place_that_the_text_around_it_gives() {
        use Place::{Address, Component, Path, Url};
        for (text, wanted) in [
            ("{}", vec![Address]),
            ("{}?n={}", vec![Address, Component]),
            ("/a/{}", vec![Path]),
            ("/a/{}/b", vec![Component]),
            ("/{}/{}", vec![Component, Path]),
            ("/a-{}-{}/b", vec![Component, Component]),
            ("/a/{}?p=/", vec![Path]),
            ("/a/{}?p=/{}/&q={}", vec![Path, Component, Component]),
            ("/a?{}", vec![Address]),
            ("/a?{}&b=1", vec![Component]),
            ("/a?b=1&{}=2", vec![Component]),
        ] {
            assert_eq!(of_values(text, of_path), wanted, "{text}");
        }
        for (text, wanted) in [
            ("{}", vec![Url]),
            ("{}/items/{}", vec![Url, Path]),
            (
                "http://{}:80/a/{}/{}?q={}",
                vec![Url, Component, Path, Component],
            ),
            ("http://{}", vec![Url]),
            ("http://h/{}", vec![Path]),
        ] {
            assert_eq!(of_values(text, of_url), wanted, "{text}");
        }
        use Place::{JsonString, JsonValue};
        for (text, wanted) in [
            (r#"{"a": "{}", "b": {}}"#, vec![JsonString, JsonValue]),
            (
                r#"["\"{}", "x\\", {}, "{}-{}"]"#,
                vec![JsonString, JsonValue, JsonString, JsonString],
            ),
        ] {
            assert_eq!(of_values(text, of_json), wanted, "{text}");
            assert!(looks_like_json(&parts(text)), "{text}");
        }
        for text in ["{}", "a={}", "{ {} }", "<a>{}</a>", ""] {
            assert!(!looks_like_json(&parts(text)), "{text}");
        }
    }
}
