//! HTTP requests as bytes: everything that does not vary is built once.

mod http2;

use std::io::{self, Write};
use std::sync::Arc;

use crate::body::Streamed;
use crate::chunking;
use crate::encoding::{self, is_json, Place};
use crate::pieces::{join, write_all, Maker, Piece, Source};
use crate::share::{BodySpec, Client, Connection, Part, RequestSpec};
use crate::wire::http2::session::{Dictionary, Lesson};

use http2::Blocks;

pub use crate::pieces::Asker;
pub use http2::head_bytes;

/// A step's request, ready to be written again and again.
#[derive(Clone, Debug)]
pub struct Template {
    method: String,
    pieces: Vec<Piece>,
    /// The whole request, but for a streamed body, if nothing in it varies.
    common: Option<Arc<[u8]>>,
    /// What follows the Host line in a redirect hop, by [`HopLine::kind`].
    hops: [Vec<Piece>; 4],
    /// A text body; it stands at the end of the pieces too.
    text: Vec<Piece>,
    streamed: Option<Streamed>,
    expect_continue: bool,
    chunked: bool,
    /// An address that is known only when the request is made.
    url: Vec<Piece>,
    /// What must be a JSON value, since it stands in a JSON body outside quotes.
    json: Json,
    /// Texts of headers and body that stay with the step's own origin.
    secrets: Vec<String>,
    secret_body: bool,
    /// Names of its headers that hold credentials or secrets, in lower case.
    sensitive: Vec<String>,
    /// The head as HTTP/2 carries it, where the group asks for that.
    blocks: Option<Blocks>,
}

/// Values that stand in a JSON body outside quotes; those of tables are checked with the share.
#[derive(Clone, Debug, Default)]
struct Json {
    /// The variables.
    taken: Vec<usize>,
    /// A value that is known before the load is none.
    broken: bool,
}

/// A header whose name holds one of these is not carried to another origin.
const CREDENTIALS: [&str; 8] = [
    "authorization",
    "api-key",
    "apikey",
    "cookie",
    "password",
    "secret",
    "session",
    "token",
];
/// A shorter secret stands in a Location by chance.
const SECRET_MIN: usize = 4;

impl Template {
    /// Builds a request of a checked group. `host` is the Host header of its endpoint.
    pub fn new(
        maker: Maker<'_>,
        request: &RequestSpec,
        host: &str,
        streamed: Option<Streamed>,
    ) -> Self {
        let builder = Builder {
            maker,
            request,
            fixed_length: streamed.as_ref().and_then(Streamed::fixed_length),
        };
        let mut pieces = vec![Piece::Fixed(format!("{} ", request.method).into_bytes())];
        builder.path(&mut pieces);
        pieces.push(Piece::Fixed(
            format!(" HTTP/1.1\r\nHost: {}\r\n", builder.user_host(host)).into_bytes(),
        ));
        let hops = [(true, true), (true, false), (false, true), (false, false)]
            .map(|(credentials, body)| join(builder.rest(credentials, body)));
        pieces.extend(builder.rest(true, true));
        let url = request.url.as_deref().unwrap_or_default();
        let pieces = join(pieces);
        let scheme = request.endpoint.split(':').next().unwrap_or_default();
        let sensitive = builder.sensitive();
        let http2 = maker.group.http2;
        let blocks = http2.map(|_| Blocks::new(&pieces, scheme, &sensitive));
        let common = match pieces.as_slice() {
            [Piece::Fixed(bytes)] => Some(bytes.as_slice().into()),
            _ => None,
        };
        Template {
            method: request.method.clone(),
            pieces,
            common,
            hops,
            text: builder.text(),
            streamed,
            expect_continue: request.expect_continue,
            chunked: request.chunked,
            url: maker.placed(url, encoding::of_url(url)),
            json: builder.json(),
            secrets: builder.secrets(),
            secret_body: builder.body().iter().any(is_secret),
            sensitive,
            blocks,
        }
    }

    pub fn method(&self) -> &str {
        &self.method
    }

    pub fn to_head_request(&self) -> bool {
        self.method == "HEAD"
    }

    /// Bytes on the wire of the body that is streamed after the request's own, 0 without one.
    pub fn upload_bytes(&self, asker: Asker) -> u64 {
        match &self.streamed {
            Some(streamed) if self.chunked => chunking::wire_bytes(streamed.length(asker)),
            _ => self.content_bytes(asker),
        }
    }

    /// Bytes of the streamed body itself, 0 without one.
    pub fn content_bytes(&self, asker: Asker) -> u64 {
        let streamed = self.streamed.as_ref();
        streamed.map_or(0, |streamed| streamed.length(asker))
    }

    /// Writes the body's bytes from place `at` on into all of `out`.
    pub fn fill_content(&self, asker: Asker, at: u64, out: &mut [u8]) -> io::Result<()> {
        let streamed = self.streamed.as_ref();
        streamed.map_or(Ok(()), |streamed| streamed.fill(asker, at, out))
    }

    /// Writes the bytes on the wire from place `at` on into all of `out`.
    pub fn fill_upload(&self, asker: Asker, at: u64, out: &mut [u8]) -> io::Result<()> {
        match &self.streamed {
            Some(streamed) if self.chunked => {
                let content = |from, piece: &mut [u8]| streamed.fill(asker, from, piece);
                chunking::fill(streamed.length(asker), at, out, content)
            }
            _ => self.fill_content(asker, at, out),
        }
    }

    /// Whether the streamed body waits for the server's 100.
    pub fn expects_continue(&self) -> bool {
        self.expect_continue
    }

    /// How many of a request's bytes are request line and headers: all but a text body.
    pub fn head_bytes(&self, request: &[u8]) -> usize {
        if self.text.is_empty() {
            return request.len();
        }
        head_bytes(request)
    }

    /// The whole request, but for a streamed body, if nothing in it varies.
    pub fn common(&self) -> Option<&Arc<[u8]>> {
        self.common.as_ref()
    }

    /// What the HTTP/2 blocks of all requests of the step `owner` have in common; None where nothing is sent over HTTP/2.
    pub fn lesson(&self, owner: u16) -> Option<Lesson> {
        let blocks = self.blocks.as_ref()?;
        Some(Lesson {
            owner,
            fields: blocks.taught_fields,
            bytes: blocks.taught_bytes,
        })
    }

    /// Appends the header block of the request over HTTP/2.
    pub fn render_block(&self, dictionary: Dictionary, source: &Source<'_>, out: &mut Vec<u8>) {
        if let Some(blocks) = &self.blocks {
            blocks.render(dictionary, out, |pieces, out| {
                self.write(pieces, source, out)
            });
        }
    }

    /// Whether each value that must be a JSON value is one; `taken` are the variables.
    #[inline]
    pub fn fits(&self, taken: &[Vec<u8>]) -> bool {
        let mut variables = self.json.taken.iter();
        !self.json.broken && variables.all(|variable| is_json(&taken[*variable]))
    }

    /// Whether the body is a text.
    pub fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// Writes the text body to `out` (cleared first).
    pub fn render_text(&self, source: &Source<'_>, out: &mut Vec<u8>) {
        out.clear();
        self.write(&self.text, source, out);
    }

    /// Writes the request to `out` (cleared first).
    pub fn render(&self, source: &Source<'_>, out: &mut Vec<u8>) {
        out.clear();
        self.write(&self.pieces, source, out);
    }

    /// Writes the address that is known only now to `out` (cleared first).
    pub fn render_url(&self, source: &Source<'_>, out: &mut Vec<u8>) {
        out.clear();
        write_all(&self.url, source, out);
    }

    /// Writes a redirect hop. A hop to another origin carries no credentials.
    pub fn render_hop(&self, hop: &HopLine<'_>, source: &Source<'_>, out: &mut Vec<u8>) {
        out.clear();
        let _ = write!(
            out,
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            hop.method, hop.path, hop.host
        );
        self.write(&self.hops[hop.kind()], source, out);
    }

    /// Whether a hop to another origin would carry a secret there: in the request's body, or in a Location that repeats it.
    pub fn gives_away(&self, location: &[u8], body: bool) -> bool {
        let plain = unescape(location);
        let repeats = |secret: &String| {
            let secret = secret.as_bytes();
            let said = |text: &[u8]| text.windows(secret.len()).any(|part| part == secret);
            secret.len() >= SECRET_MIN && (said(&plain) || said(location))
        };
        (body && self.secret_body) || self.secrets.iter().any(repeats)
    }

    fn write(&self, pieces: &[Piece], source: &Source<'_>, out: &mut Vec<u8>) {
        for piece in pieces {
            if let Piece::BodyLength = piece {
                let length = self.body_length(source, out);
                let _ = write!(out, "{length}");
            } else {
                piece.write(source, out);
            }
        }
    }

    fn body_length(&self, source: &Source<'_>, out: &mut Vec<u8>) -> u64 {
        if let Some(streamed) = &self.streamed {
            return streamed.length(source.asker);
        }
        // Written once more than needed, but nothing is allocated for it.
        let at = out.len();
        self.write(&self.text, source, out);
        let length = out.len() - at;
        out.truncate(at);
        length as u64
    }
}

/// The first lines of a redirect hop.
#[derive(Clone, Copy, Debug)]
pub struct HopLine<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub host: &'a str,
    pub foreign: bool,
    /// The request's body goes with it.
    pub body: bool,
}

impl HopLine<'_> {
    fn kind(&self) -> usize {
        usize::from(self.foreign) * 2 + usize::from(!self.body)
    }
}

struct Builder<'a> {
    maker: Maker<'a>,
    request: &'a RequestSpec,
    fixed_length: Option<u64>,
}

impl Builder<'_> {
    fn path(&self, out: &mut Vec<Piece>) {
        let parts = &self.request.path;
        let rooted = match parts.first() {
            None | Some(Part::Var { .. }) => false,
            Some(part) => part.typed().is_none_or(|text| text.starts_with('/')),
        };
        if !rooted {
            out.push(Piece::Fixed(b"/".to_vec()));
        }
        let placed = parts.iter().zip(encoding::of_path(parts));
        let piece = |(at, (part, place))| self.maker.piece(part, place, at == 0);
        out.extend(placed.enumerate().map(piece));
    }

    fn has(&self, name: &str) -> bool {
        self.request
            .headers
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The user's own Host header, if it is plain text.
    fn user_host(&self, host: &str) -> String {
        let own = self
            .request
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        match own.map(|(_, value)| value.as_slice()) {
            Some([Part::Text { text } | Part::Value { value: text, .. }]) => text.clone(),
            _ => host.to_owned(),
        }
    }

    /// All that follows the Host line.
    fn rest(&self, credentials: bool, body: bool) -> Vec<Piece> {
        let mut pieces = self.fields(credentials, body);
        if body {
            pieces.extend(self.framing());
        }
        let curl = self.maker.group.client == Client::Curl;
        let mut end = String::new();
        if self.maker.group.connection == Connection::New && !curl && !self.has("connection") {
            end.push_str("Connection: close\r\n");
        }
        end.push_str("\r\n");
        pieces.push(Piece::Fixed(end.into_bytes()));
        if body {
            pieces.extend(self.text());
        }
        pieces
    }

    /// The headers that say how long the body is.
    fn framing(&self) -> Vec<Piece> {
        let request = self.request;
        let body_expected = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
        let mut pieces = Vec::new();
        match (&request.body, self.fixed_length) {
            (None, _) if body_expected && !self.has("content-length") => {
                pieces.push(Piece::Fixed(b"Content-Length: 0\r\n".to_vec()));
            }
            (None, _) => {}
            (Some(_), _) if request.chunked => {
                pieces.push(Piece::Fixed(b"Transfer-Encoding: chunked\r\n".to_vec()));
            }
            (Some(_), Some(length)) => {
                let line = format!("Content-Length: {length}\r\n");
                pieces.push(Piece::Fixed(line.into_bytes()));
            }
            (Some(_), None) => {
                let fixed = match self.text().as_slice() {
                    [Piece::Fixed(bytes)] => Some(bytes.len()),
                    [] if matches!(request.body, Some(BodySpec::Text(_))) => Some(0),
                    _ => None,
                };
                pieces.push(Piece::Fixed(b"Content-Length: ".to_vec()));
                pieces.push(fixed.map_or(Piece::BodyLength, |n| {
                    Piece::Fixed(n.to_string().into_bytes())
                }));
                pieces.push(Piece::Fixed(b"\r\n".to_vec()));
            }
        }
        if request.expect_continue {
            pieces.push(Piece::Fixed(b"Expect: 100-continue\r\n".to_vec()));
        }
        pieces
    }

    /// A text body.
    fn text(&self) -> Vec<Piece> {
        let places = encoding::of_body(self.request, self.body());
        join(self.maker.placed(self.body(), places))
    }

    fn json(&self) -> Json {
        let mut json = Json::default();
        let places = encoding::of_body(self.request, self.body());
        for (part, place) in self.body().iter().zip(places) {
            if part.placed(place) != Place::JsonValue {
                continue;
            }
            json.broken |= part.fixed().is_some_and(|text| !is_json(text.as_bytes()));
            if let Part::Taken { taken, .. } = part {
                let known = self.maker.variables.iter();
                json.taken
                    .extend(known.clone().position(|name| name == taken));
            }
        }
        json
    }

    /// The parts of a text body.
    fn body(&self) -> &[Part] {
        match &self.request.body {
            Some(BodySpec::Text(parts)) => parts,
            _ => &[],
        }
    }

    /// Every secret of its headers and body.
    fn secrets(&self) -> Vec<String> {
        let headers = self.request.headers.iter().flat_map(|(_, value)| value);
        let parts = headers.chain(self.body()).filter(|part| is_secret(part));
        parts.filter_map(Part::fixed).map(str::to_owned).collect()
    }

    fn sensitive(&self) -> Vec<String> {
        let headers = self.request.headers.iter();
        let sensitive = headers.filter(|(name, value)| is_sensitive(name, value));
        sensitive
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect()
    }

    /// The headers but for those that frame the body. A hop that another method asks leaves out what described the body
    /// (the request-body-header names of the Fetch standard).
    fn fields(&self, credentials: bool, body: bool) -> Vec<Piece> {
        let other_method = !body && !matches!(self.request.method.as_str(), "GET" | "HEAD");
        let curl = self.maker.group.client == Client::Curl;
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
        for (name, value) in &self.request.headers {
            let sensitive = is_sensitive(name, value);
            let of_body = name.to_ascii_lowercase().starts_with("content-");
            if name.eq_ignore_ascii_case("host")
                || (sensitive && !credentials)
                || (of_body && other_method)
            {
                continue;
            }
            pieces.push(Piece::Fixed(format!("{name}: ").into_bytes()));
            pieces.extend(self.maker.pieces(value, Place::Header));
            pieces.push(Piece::Fixed(b"\r\n".to_vec()));
        }
        pieces
    }
}

fn is_secret(part: &Part) -> bool {
    matches!(part, Part::Secret { .. })
}

/// Whether a header holds credentials, by its name, or a secret.
fn is_sensitive(name: &str, value: &[Part]) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|known| name.contains(known))
        || name.split('-').any(|word| word == "auth")
        || value.iter().any(is_secret)
}

/// A URL's text without percent-encoding.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = &after[if byte.is_some() { 2 } else { 0 }..];
    }
    out
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
