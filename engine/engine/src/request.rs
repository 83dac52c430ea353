//! Request bytes: everything that does not vary is built once.

use std::io::Write;

use indexmap::IndexMap;

use crate::feeder::Feeder;
use crate::rng::{Draws, Stream};
use crate::share::{Client, Connection, GroupSpec, Part, Var};
use crate::table::{Column, Table};

/// A column as bytes, row by row.
#[derive(Clone, Debug)]
struct TextColumn {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TextColumn {
    /// `slash`: every value stands at the start of a path, and gets the "/" it lacks.
    fn new(column: &Column, slash: bool) -> Self {
        let mut text = TextColumn {
            bytes: Vec::new(),
            ends: Vec::with_capacity(column.len()),
        };
        for row in 0..column.len() {
            let value = column.text(row);
            if slash && !value.starts_with('/') {
                text.bytes.push(b'/');
            }
            text.bytes.extend_from_slice(value.as_bytes());
            text.ends.push(text.bytes.len());
        }
        text
    }

    fn row(&self, row: usize) -> &[u8] {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[from..self.ends[row]]
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Fixed(Vec<u8>),
    Row { feeder: usize, text: TextColumn },
    RequestId,
    Vu,
    Iteration,
}

/// Who asks: fills the varying pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker {
    pub vu: u64,
    pub seq: u64,
}

/// A group's request, ready to be written again and again.
#[derive(Clone, Debug)]
pub struct Template {
    method: String,
    pieces: Vec<Piece>,
    /// What follows the Host line in a redirect hop to the same origin, and to another (no credentials).
    hop: Vec<Piece>,
    foreign_hop: Vec<Piece>,
    id_key: u64,
    open: bool,
}

/// Headers that are not carried to another origin.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

impl Template {
    /// Builds the request of a checked group. `host` is the Host header of its endpoint.
    pub fn new(
        seed: u64,
        group: &GroupSpec,
        host: &str,
        inputs: &IndexMap<String, Table>,
        open: bool,
    ) -> Self {
        let request = &group.request;
        let builder = Builder { group, inputs };
        let mut pieces = vec![Piece::Fixed(format!("{} ", request.method).into_bytes())];
        builder.path(&mut pieces);
        pieces.push(Piece::Fixed(
            format!(" HTTP/1.1\r\nHost: {}\r\n", builder.user_host(host)).into_bytes(),
        ));
        let (hop, foreign_hop) = (builder.fields(true), builder.fields(false));
        pieces.extend(hop.clone());
        Template {
            method: request.method.clone(),
            pieces: join(pieces),
            hop: join(hop),
            foreign_hop: join(foreign_hop),
            id_key: Draws::new(seed, &group.name, Stream::RequestId).bits(0, 0),
            open,
        }
    }

    pub fn method(&self) -> &str {
        &self.method
    }

    /// The whole request if nothing in it varies.
    pub fn fixed(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [Piece::Fixed(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Writes the request of `asker` to `out` (cleared first).
    pub fn render(&self, feeders: &[Feeder], asker: Asker, out: &mut Vec<u8>) {
        out.clear();
        self.write(&self.pieces, feeders, asker, out);
    }

    /// Writes a redirect hop. A hop to another origin carries no credentials.
    pub fn render_hop(
        &self,
        hop: &HopLine<'_>,
        feeders: &[Feeder],
        asker: Asker,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        let _ = write!(
            out,
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            hop.method, hop.path, hop.host
        );
        let pieces = if hop.foreign {
            &self.foreign_hop
        } else {
            &self.hop
        };
        self.write(pieces, feeders, asker, out);
    }

    fn write(&self, pieces: &[Piece], feeders: &[Feeder], asker: Asker, out: &mut Vec<u8>) {
        // Writing to a Vec can't fail.
        for piece in pieces {
            let _ = match piece {
                Piece::Fixed(bytes) => out.write_all(bytes),
                Piece::Row { feeder, text } => {
                    out.write_all(text.row(feeders[*feeder].row(asker.vu, asker.seq) as usize))
                }
                Piece::RequestId if self.open => {
                    write!(out, "{:016x}-{:x}", self.id_key, asker.seq)
                }
                Piece::RequestId => {
                    write!(out, "{:016x}-{:x}-{:x}", self.id_key, asker.vu, asker.seq)
                }
                Piece::Vu if self.open => write!(out, "{}", asker.seq),
                Piece::Vu => write!(out, "{}", asker.vu),
                Piece::Iteration => write!(out, "{}", asker.seq),
            };
        }
    }
}

/// The first lines of a redirect hop.
#[derive(Clone, Copy, Debug)]
pub struct HopLine<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub host: &'a str,
    pub foreign: bool,
}

struct Builder<'a> {
    group: &'a GroupSpec,
    inputs: &'a IndexMap<String, Table>,
}

impl Builder<'_> {
    fn path(&self, out: &mut Vec<Piece>) {
        let parts = &self.group.request.path;
        let rooted = match parts.first() {
            Some(Part::Text { text }) => text.starts_with('/'),
            Some(Part::Feeder { .. }) => true,
            _ => false,
        };
        if !rooted {
            out.push(Piece::Fixed(b"/".to_vec()));
        }
        out.extend(
            parts
                .iter()
                .enumerate()
                .map(|(at, part)| self.piece(part, at == 0)),
        );
    }

    fn piece(&self, part: &Part, slash: bool) -> Piece {
        match part {
            Part::Text { text } => Piece::Fixed(text.clone().into_bytes()),
            Part::Feeder { feeder, column } => {
                let place = self.group.feeders.get_full(feeder);
                let (at, table) = place.map_or((0, ""), |(at, _, spec)| (at, spec.table.as_str()));
                let empty = Column::Utf8(Vec::new());
                let values = self
                    .inputs
                    .get(table)
                    .and_then(|table| table.get(column))
                    .unwrap_or(&empty);
                Piece::Row {
                    feeder: at,
                    text: TextColumn::new(values, slash),
                }
            }
            Part::Var { var } => match var {
                Var::RequestId => Piece::RequestId,
                Var::Vu => Piece::Vu,
                Var::Iteration => Piece::Iteration,
            },
        }
    }

    fn has(&self, name: &str) -> bool {
        self.group
            .request
            .headers
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The user's own Host header, if it is plain text.
    fn user_host(&self, host: &str) -> String {
        let own = self
            .group
            .request
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        match own.map(|(_, value)| value.as_slice()) {
            Some([Part::Text { text }]) => text.clone(),
            _ => host.to_owned(),
        }
    }

    /// All that follows the Host line.
    fn fields(&self, credentials: bool) -> Vec<Piece> {
        let curl = self.group.client == Client::Curl;
        let mut pieces = Vec::new();
        let mut fixed = |text: &str| pieces.push(Piece::Fixed(text.as_bytes().to_vec()));
        if !self.has("user-agent") {
            fixed(if curl {
                "User-Agent: curl/8\r\n"
            } else {
                "User-Agent: svload\r\n"
            });
        }
        if !self.has("accept") {
            fixed("Accept: */*\r\n");
        }
        for (name, value) in &self.group.request.headers {
            let secret = CREDENTIALS
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            if name.eq_ignore_ascii_case("host") || (secret && !credentials) {
                continue;
            }
            pieces.push(Piece::Fixed(format!("{name}: ").into_bytes()));
            pieces.extend(value.iter().map(|part| self.piece(part, false)));
            pieces.push(Piece::Fixed(b"\r\n".to_vec()));
        }
        let mut fixed = |text: &str| pieces.push(Piece::Fixed(text.as_bytes().to_vec()));
        let body_expected = matches!(self.group.request.method.as_str(), "POST" | "PUT" | "PATCH");
        if body_expected && !self.has("content-length") {
            fixed("Content-Length: 0\r\n");
        }
        if self.group.connection == Connection::New && !curl && !self.has("connection") {
            fixed("Connection: close\r\n");
        }
        fixed("\r\n");
        pieces
    }
}

/// Joins neighbours that don't vary.
fn join(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Fixed(bytes)), Piece::Fixed(more)) => bytes.extend(more),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::group;

    const CLOSED: &str = r#"{"kind": "constant-vus", "vus": 2}"#;

    fn text(
        group: &GroupSpec,
        inputs: &IndexMap<String, Table>,
        open: bool,
        vu: u64,
        seq: u64,
    ) -> String {
        let template = Template::new(7, group, "cache", inputs, open);
        let feeders: Vec<_> = group
            .feeders
            .iter()
            .map(|(name, spec)| Feeder::new(7, &group.name, name, spec, 2, 1, open))
            .collect();
        let mut out = b"old".to_vec();
        template.render(&feeders, Asker { vu, seq }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_that_does_not_vary_is_one_piece() {
        let mut plain = group(CLOSED);
        plain.request.headers = vec![("X-A".into(), vec![Part::Text { text: "b".into() }])];
        let template = Template::new(7, &plain, "cache:8080", &IndexMap::new(), false);
        let expected = "GET / HTTP/1.1\r\nHost: cache:8080\r\nUser-Agent: svload\r\nAccept: */*\r\nX-A: b\r\n\r\n";
        assert_eq!(template.fixed(), Some(expected.as_bytes()));
        plain.client = Client::Curl;
        plain.connection = Connection::New;
        assert!(text(&plain, &IndexMap::new(), false, 0, 0).starts_with(
            "GET / HTTP/1.1\r\nHost: cache\r\nUser-Agent: curl/8\r\nAccept: */*\r\nX-A"
        ));
        assert!(!text(&plain, &IndexMap::new(), false, 0, 0).contains("Connection"));
        plain.client = Client::Engine;
        plain.request.method = "POST".into();
        assert!(text(&plain, &IndexMap::new(), false, 0, 0)
            .ends_with("X-A: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    }

    #[test]
    fn rows_and_variables_are_filled_in() {
        let mut varying = group(CLOSED);
        let spec = r#"{"object": {"table": "objects", "take": "walk"}}"#;
        varying.feeders = serde_json::from_str(spec).unwrap();
        let part = |text: &str| serde_json::from_str::<Part>(text).unwrap();
        varying.request.path = vec![
            part(r#"{"feeder": "object", "column": "path"}"#),
            part(r#"{"text": "?n="}"#),
            part(r#"{"var": "iteration"}"#),
        ];
        varying.request.headers = vec![
            (
                "X-Cold".into(),
                vec![part(r#"{"text": "c-"}"#), part(r#"{"var": "request.id"}"#)],
            ),
            (
                "user-agent".into(),
                vec![part(r#"{"text": "me/"}"#), part(r#"{"var": "vu"}"#)],
            ),
        ];
        let table: Table = [(
            "path".to_owned(),
            Column::Utf8(vec!["/a".into(), "b".into()]),
        )]
        .into_iter()
        .collect();
        let inputs: IndexMap<_, _> = [("objects".to_owned(), table)].into_iter().collect();
        let first = text(&varying, &inputs, false, 3, 0);
        assert!(
            first.starts_with("GET /a?n=0 HTTP/1.1\r\nHost: cache\r\nAccept: */*\r\nX-Cold: c-"),
            "{first}"
        );
        assert!(first.ends_with("user-agent: me/3\r\n\r\n"));
        assert!(text(&varying, &inputs, false, 3, 1).starts_with("GET /b?n=1 "));
        let id = |open, vu, seq| {
            text(&varying, &inputs, open, vu, seq)
                .split("X-Cold: c-")
                .nth(1)
                .unwrap()
                .split('\r')
                .next()
                .unwrap()
                .to_owned()
        };
        assert_ne!(id(false, 1, 11), id(false, 11, 1));
        assert_eq!(id(true, 1, 5), id(true, 2, 5));
        varying.name = "other".into();
        let other = text(&varying, &inputs, false, 3, 0);
        assert_ne!(first, other);
    }

    #[test]
    fn a_hop_to_another_origin_carries_no_credentials() {
        let mut secret = group(CLOSED);
        secret.request.headers = vec![(
            "Authorization".into(),
            vec![Part::Text {
                text: "token".into(),
            }],
        )];
        let template = Template::new(7, &secret, "cache", &IndexMap::new(), false);
        let hop = |foreign| {
            let mut out = Vec::new();
            let line = HopLine {
                method: "GET",
                path: "/x",
                host: "h",
                foreign,
            };
            template.render_hop(&line, &[], Asker { vu: 0, seq: 0 }, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert!(hop(false).contains("Authorization: token"));
        assert_eq!(
            hop(true),
            "GET /x HTTP/1.1\r\nHost: h\r\nUser-Agent: svload\r\nAccept: */*\r\n\r\n"
        );
    }
}
