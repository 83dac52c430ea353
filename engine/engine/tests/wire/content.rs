//! Compressed answers: counted as they came, looked into where a check or a variable needs it.

use std::io::Write;

use crate::common::{run, share, Server};
use flate2::write::GzEncoder;
use flate2::Compression;
use serde_json::{json, Value};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Compresses for who asks for it.
fn server(text: &'static str) -> Server {
    Server::answering(move |head| {
        let (coding, body) = if head.contains("Accept-Encoding: gzip") {
            ("Content-Encoding: gzip\r\n", gzip(text))
        } else {
            ("", text.as_bytes().to_vec())
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\n{coding}Content-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat()
    })
}

fn asking(server: &Server, headers: Value, checks: Value) -> Value {
    let mut share = share(server.address);
    share["groups"][0]["request"]["headers"] = headers;
    share["groups"][0]["request"]["checks"] = checks;
    share
}

#[test]
fn checks_look_into_what_was_compressed_and_sizes_do_not() {
    let text: &'static str = Box::leak("svload ".repeat(1_000).into_boxed_str());
    let server = server(text);
    let contains = json!({"name": "text", "body": {"contains": [{"text": "svload svload"}]}});
    for (headers, bytes) in [
        (
            json!([["Accept-Encoding", [{"text": "gzip"}]]]),
            gzip(text).len(),
        ),
        (json!([]), text.len()),
    ] {
        let checks = json!([contains, {"name": "size", "size_bytes": bytes}]);
        let ran = run(&asking(&server, headers, checks));
        ran.assert_all_ok();
        assert_eq!(ran.count("body_bytes"), bytes as u64 * ran.count("ok"));
    }
}

#[test]
fn a_check_that_the_content_fails_fails() {
    let server = server("nothing of the kind");
    let headers = json!([["Accept-Encoding", [{"text": "gzip"}]]]);
    let checks = json!([{"name": "text", "body": {"contains": [{"text": "svload"}]}}]);
    run(&asking(&server, headers, checks)).assert_all_fail_with("check");
}
