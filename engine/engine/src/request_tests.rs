use indexmap::IndexMap;

use super::*;
use crate::feeder::Feeder;
use crate::rng::{Draws, Stream};
use crate::share::testing::{group, only};
use crate::share::GroupSpec;
use crate::table::{Column, Table};

const CLOSED: &str = r#"{"kind": "constant-vus", "vus": 2}"#;

pub(super) fn template_of(
    group: &GroupSpec,
    host: &str,
    inputs: &IndexMap<String, Table>,
    streamed: Option<Streamed>,
    open: bool,
) -> Template {
    let maker = Maker {
        group,
        inputs,
        variables: &group.variables(),
        id_key: Draws::new(7, &group.name, Stream::RequestId).bits(0, 0),
        open,
    };
    Template::new(maker, &group.scenarios[0].steps[0].request, host, streamed)
}

/// A request without rows and variables.
pub(super) fn by(asker: Asker) -> Source<'static> {
    Source {
        feeders: &[],
        asker,
        taken: &[],
    }
}

fn text(
    group: &GroupSpec,
    inputs: &IndexMap<String, Table>,
    open: bool,
    vu: u64,
    seq: u64,
) -> String {
    let template = template_of(group, "cache", inputs, None, open);
    let feeders: Vec<_> = group
        .feeders
        .iter()
        .map(|(name, spec)| Feeder::new(7, &group.name, name, spec, 2, 1, open))
        .collect();
    let mut out = b"old".to_vec();
    let source = Source {
        feeders: &feeders,
        ..by(Asker { vu, seq })
    };
    template.render(&source, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_that_does_not_vary_is_one_piece() {
    let mut plain = group(CLOSED);
    only(&mut plain).headers = vec![("X-A".into(), vec![Part::Text { text: "b".into() }])];
    let template = template_of(&plain, "cache:8080", &IndexMap::new(), None, false);
    let expected =
        "GET / HTTP/1.1\r\nHost: cache:8080\r\nUser-Agent: svload\r\nAccept: */*\r\nX-A: b\r\n\r\n";
    assert_eq!(
        template.common().map(|bytes| &bytes[..]),
        Some(expected.as_bytes())
    );
    plain.client = Client::Curl;
    plain.connection = Connection::New;
    assert!(text(&plain, &IndexMap::new(), false, 0, 0)
        .starts_with("GET / HTTP/1.1\r\nHost: cache\r\nUser-Agent: curl/8\r\nAccept: */*\r\nX-A"));
    assert!(!text(&plain, &IndexMap::new(), false, 0, 0).contains("Connection"));
    plain.client = Client::Engine;
    only(&mut plain).method = "POST".into();
    assert!(text(&plain, &IndexMap::new(), false, 0, 0)
        .ends_with("X-A: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
}

#[test]
fn rows_and_variables_are_filled_in() {
    let mut varying = group(CLOSED);
    let spec = r#"{"object": {"table": "objects", "take": "walk"}}"#;
    varying.feeders = serde_json::from_str(spec).unwrap();
    let part = |text: &str| serde_json::from_str::<Part>(text).unwrap();
    only(&mut varying).path = vec![
        part(r#"{"feeder": "object", "column": "path"}"#),
        part(r#"{"text": "?n="}"#),
        part(r#"{"var": "iteration"}"#),
    ];
    only(&mut varying).headers = vec![
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

/// The text of a hop to `/x` at `h`.
fn hop_of(template: &Template, method: &str, foreign: bool, body: bool) -> String {
    let line = HopLine {
        method,
        path: "/x",
        host: "h",
        foreign,
        body,
    };
    let mut out = Vec::new();
    template.render_hop(&line, &by(Asker { vu: 0, seq: 0 }), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_hop_by_another_method_describes_no_body() {
    let rendered = |method: &str, body: bool, hop: &str| {
        let mut plan = group(CLOSED);
        let request = only(&mut plan);
        request.method = method.to_owned();
        request.headers = [
            ("Content-Type", "text/plain"),
            ("content-encoding", "gzip"),
            ("X-Kept", "yes"),
        ]
        .map(|(name, text)| (name.into(), vec![Part::Text { text: text.into() }]))
        .into();
        let template = template_of(&plan, "cache", &IndexMap::new(), None, false);
        hop_of(&template, hop, false, body).to_ascii_lowercase()
    };
    for (method, body, hop, described) in [
        ("POST", false, "GET", false),
        ("PUT", false, "GET", false),
        ("POST", true, "POST", true),
        ("GET", false, "GET", true),
    ] {
        let text = rendered(method, body, hop);
        for name in ["content-type", "content-encoding"] {
            assert_eq!(text.contains(name), described, "{method} {hop}: {name}");
        }
        assert!(text.contains("x-kept: yes"));
    }
}

#[test]
fn a_hop_to_another_origin_carries_no_credentials() {
    let mut secret = group(CLOSED);
    only(&mut secret).headers = vec![(
        "Authorization".into(),
        vec![Part::Text {
            text: "token".into(),
        }],
    )];
    let template = template_of(&secret, "cache", &IndexMap::new(), None, false);
    let hop = |foreign| hop_of(&template, "GET", foreign, false);
    assert!(hop(false).contains("Authorization: token"));
    assert_eq!(
        hop(true),
        "GET /x HTTP/1.1\r\nHost: h\r\nUser-Agent: svload\r\nAccept: */*\r\n\r\n"
    );
}

#[test]
fn a_hop_to_another_origin_carries_no_secret() {
    let mut asking = group(CLOSED);
    let part = |text: &str| serde_json::from_str::<Part>(text).unwrap();
    let secret = || part(r#"{"secret": "s+cr et"}"#);
    let header = |name: &str, value: Part| (name.to_owned(), vec![value]);
    only(&mut asking).method = "POST".into();
    only(&mut asking).headers = vec![
        header("X-T", secret()),
        ("X-Basic".into(), vec![part(r#"{"text": "me:"}"#), secret()]),
        header("X-Api-Key", part(r#"{"text": "1"}"#)),
        header("x-auth-user", part(r#"{"text": "2"}"#)),
        header("X-CSRFToken", part(r#"{"text": "3"}"#)),
        header("Set-Cookie2", part(r#"{"text": "4"}"#)),
        header("X-Author", part(r#"{"text": "5"}"#)),
        header("Idempotency-Key", part(r#"{"text": "6"}"#)),
    ];
    let template = template_of(&asking, "cache", &IndexMap::new(), None, false);
    let hop = |foreign| hop_of(&template, "GET", foreign, false);
    let (own, foreign) = (hop(false), hop(true));
    assert_eq!(own.matches(": ").count(), 11, "{own}");
    assert!(own.contains("X-T: s+cr et\r\nX-Basic: me:s+cr et\r\n"));
    assert!(
        foreign.ends_with("Accept: */*\r\nX-Author: 5\r\nIdempotency-Key: 6\r\n\r\n"),
        "{foreign}"
    );
    for (location, repeats) in [
        ("http://h/?t=s%2Bcr%20et", true),
        ("http://h/?t=s+cr%20et#", true),
        ("http://h/s+cr et/", true),
        ("http://h/?t=secret%2", false),
        ("", false),
    ] {
        let found = template.gives_away(location.as_bytes(), true);
        assert_eq!(found, repeats, "{location}");
    }
    only(&mut asking).headers.clear();
    only(&mut asking).body = Some(BodySpec::Text(vec![part(r#"{"text": "t="}"#), secret()]));
    let template = template_of(&asking, "cache", &IndexMap::new(), None, false);
    assert!(template.gives_away(b"/x", true) && !template.gives_away(b"/x", false));
}

#[test]
fn a_text_body_has_its_length() {
    let mut post = group(CLOSED);
    only(&mut post).method = "POST".into();
    let part = |text: &str| serde_json::from_str::<Part>(text).unwrap();
    only(&mut post).body = Some(BodySpec::Text(vec![part(r#"{"text": "größe"}"#)]));
    let fixed = template_of(&post, "cache", &IndexMap::new(), None, false);
    let bytes = fixed.common().unwrap();
    assert!(bytes.ends_with("Content-Length: 7\r\n\r\ngröße".as_bytes()));
    assert_eq!(fixed.head_bytes(bytes), bytes.len() - 7);
    only(&mut post).body = Some(BodySpec::Text(vec![
        part(r#"{"text": "n="}"#),
        part(r#"{"var": "iteration"}"#),
    ]));
    let varying = text(&post, &IndexMap::new(), false, 0, 12_345);
    assert!(
        varying.ends_with("Content-Length: 7\r\n\r\nn=12345"),
        "{varying}"
    );
    let mut out = Vec::new();
    let template = template_of(&post, "cache", &IndexMap::new(), None, false);
    for (body, ends) in [(true, "\r\n\r\nn=5"), (false, "Accept: */*\r\n\r\n")] {
        let line = HopLine {
            method: "POST",
            path: "/x",
            host: "h",
            foreign: true,
            body,
        };
        template.render_hop(&line, &by(Asker { vu: 0, seq: 5 }), &mut out);
        assert!(out.ends_with(ends.as_bytes()));
    }
}

#[test]
fn a_streamed_body_is_announced() {
    use crate::body::SizeLaw;
    let mut put = group(CLOSED);
    only(&mut put).method = "PUT".into();
    only(&mut put).expect_continue = true;
    for (law, fixed) in [
        (SizeLaw::Bytes(12), true),
        (SizeLaw::Uniform([5, 90]), false),
    ] {
        only(&mut put).body = Some(BodySpec::Random(law));
        let streamed = Streamed::random(7, "load", law, false);
        let asker = Asker { vu: 1, seq: 2 };
        let length = streamed.length(asker);
        let template = template_of(&put, "cache", &IndexMap::new(), Some(streamed), false);
        let mut out = Vec::new();
        template.render(&by(asker), &mut out);
        let wanted = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n");
        assert!(out.ends_with(wanted.as_bytes()));
        assert_eq!(template.common().is_some(), fixed);
    }
}
