//! HTTP/2 as a share asks for it, and what does not go with it.

use serde::Deserialize;

use crate::share::{CheckSpec, Connection, GroupSpec, RequestSpec};
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
    pub fn flaw(&self, group: &GroupSpec, request: &RequestSpec) -> Option<(String, &'static str)> {
        let foreign = request.headers.iter().position(|(name, _)| {
            let mut fields = CONNECTION_FIELDS.iter();
            fields.any(|known| name.eq_ignore_ascii_case(known))
        });
        let header = format!("request.headers[{}]", foreign.unwrap_or(0));
        let plain =
            |check: &CheckSpec| matches!(check, CheckSpec::Status { .. } | CheckSpec::Size { .. });
        let rules = [
            (
                group.steps().count() == 1,
                "scenarios",
                "must be one request over HTTP/2",
            ),
            (
                request.dialogue.is_empty(),
                "request.dialogue",
                "is not possible over HTTP/2",
            ),
            (
                request.url.is_none(),
                "request.url",
                "is not possible over HTTP/2",
            ),
            (
                request.take.is_empty() && request.checks.iter().all(plain),
                "request.checks",
                "look at status and size alone over HTTP/2, and nothing is taken from answers",
            ),
            (!request.chunked, "request.chunked", "belongs to HTTP/1.1"),
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
            (
                !self.fallback || request.endpoint.starts_with("https:"),
                "http2.fallback",
                "needs https: only a TLS handshake can choose the protocol",
            ),
            (
                group.follow_redirects == 0,
                "follow_redirects",
                "must be 0 over HTTP/2",
            ),
            (
                !request.expect_continue,
                "request.expect_continue",
                "is not possible over HTTP/2",
            ),
            (
                foreign.is_none(),
                header.as_str(),
                "says something of the connection, which HTTP/2 forbids",
            ),
        ];
        let broken = rules.into_iter().find(|(holds, _, _)| !holds);
        broken.map(|(_, field, problem)| (field.to_owned(), problem))
    }
}
