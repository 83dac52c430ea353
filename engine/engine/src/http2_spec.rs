//! HTTP/2 as a share asks for it, and what does not go with it.

use serde::Deserialize;

use crate::share::{Connection, GroupSpec, Part, RequestSpec};
use crate::wire::http2::hpack::table::CONNECTION_FIELDS;

/// The most streams of one connection.
const STREAMS_MAX: u64 = 1_000;

/// How a group uses HTTP/2.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http2Spec {
    /// VUs or places that share a connection.
    pub streams: u64,
    /// A server that chooses HTTP/1.1 in the TLS handshake gets that.
    #[serde(default)]
    pub fallback: bool,
}

impl Http2Spec {
    /// The first field of the group that does not go with it, and why.
    pub fn flaw(&self, group: &GroupSpec) -> Option<(String, &'static str)> {
        let rules = [
            (
                (1..=STREAMS_MAX).contains(&self.streams),
                "http2.streams",
                "must be 1 to 1,000",
            ),
            (
                group.connection == Connection::KeepAlive || self.streams == 1,
                "http2.streams",
                "must be 1 unless connections are kept",
            ),
        ];
        let broken = rules.into_iter().find(|(holds, _, _)| !holds);
        broken.map(|(_, field, problem)| (field.to_owned(), problem))
    }

    /// The first field of a request that does not go with it, and why.
    pub fn flaw_of(&self, request: &RequestSpec) -> Option<(String, &'static str)> {
        let is_foreign = |(name, _): &(String, Vec<Part>)| {
            let mut fields = CONNECTION_FIELDS.iter();
            fields.any(|known| name.eq_ignore_ascii_case(known))
        };
        if let Some(at) = request.headers.iter().position(is_foreign) {
            let problem = "says something of the connection, which HTTP/2 forbids";
            return Some((format!("headers[{at}]"), problem));
        }
        let spoken = request.spoken().map(|(field, _)| field);
        let rules = [
            (
                spoken.is_none(),
                spoken.unwrap_or_default(),
                "is held on a stream of bytes, which HTTP/2 is not",
            ),
            (
                !self.fallback || request.url.is_some() || request.endpoint.starts_with("https:"),
                "endpoint",
                "needs https where HTTP/2 may fall back: only a TLS handshake can choose",
            ),
        ];
        let broken = rules.into_iter().find(|(holds, _, _)| !holds);
        broken.map(|(_, field, problem)| (field.to_owned(), problem))
    }
}
