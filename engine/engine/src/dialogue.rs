//! Dialogues as a share asks for them: what makes one impossible, and its script.

use regex::bytes::Regex;

use crate::body::BODY_MAX_BYTES;
use crate::share::{RequestSpec, TurnSpec};
use crate::wire::dialogue::{Script, Turn, KEPT_MAX};

/// The turns of a checked dialogue; `None` for an HTTP request.
pub fn script(turns: &[TurnSpec]) -> Option<Script> {
    let turns: Vec<Turn> = turns.iter().filter_map(|spec| turn(spec).ok()).collect();
    (!turns.is_empty()).then(|| Script::new(turns))
}

/// Bytes written with two hexadecimal digits each; blanks between bytes are passed over.
pub fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let words = hex.split_ascii_whitespace();
    let pairs = words.flat_map(|word| word.as_bytes().chunks(2));
    pairs
        .map(|pair| {
            let digits = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let text = std::str::from_utf8(pair).ok().filter(|_| digits)?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect()
}

fn turn(spec: &TurnSpec) -> Result<Turn, String> {
    let awaited = |bytes: Vec<u8>| match bytes.len() {
        0 => Err("expects nothing".to_owned()),
        1..=KEPT_MAX => Ok(Turn::Text(bytes)),
        _ => Err("expects more than 64 KiB".to_owned()),
    };
    let bytes = |hex: &str| {
        bytes_of(hex).ok_or_else(|| "is not written in pairs of hexadecimal digits".to_owned())
    };
    match spec {
        TurnSpec::Send(_) => Ok(Turn::Say),
        TurnSpec::SendHex(hex) => bytes(hex).map(|_| Turn::Say),
        TurnSpec::Expect(text) => awaited(text.clone().into_bytes()),
        TurnSpec::ExpectHex(hex) => bytes(hex).and_then(awaited),
        TurnSpec::Match(pattern) => match Regex::new(pattern) {
            Ok(regex) if regex.is_match(b"") => Err("matches before anything has come".to_owned()),
            Ok(regex) => Ok(Turn::Pattern(regex)),
            Err(_) => Err(format!("{pattern:?} is no regular expression")),
        },
        TurnSpec::Read(bytes @ 1..=BODY_MAX_BYTES) => Ok(Turn::Bytes(*bytes)),
        TurnSpec::Read(_) => Err("must be 1 to 2^40 bytes".to_owned()),
        TurnSpec::UntilClose => Ok(Turn::UntilClose),
    }
}

/// What makes a request's dialogue impossible: the field and the problem.
pub fn flaw(request: &RequestSpec) -> Option<(String, String)> {
    let http = [
        ("method", request.method.is_empty()),
        ("path", request.path.is_empty()),
        ("url", request.url.is_none()),
        ("headers", request.headers.is_empty()),
        ("body", request.body.is_none()),
        ("expect_continue", !request.expect_continue),
        ("chunked", !request.chunked),
        ("checks", request.checks.is_empty()),
        ("take", request.take.is_empty()),
    ];
    if let Some((field, _)) = http.iter().find(|(_, absent)| !absent) {
        let problem = "belongs to HTTP: a dialogue has none";
        return Some(((*field).to_owned(), problem.to_owned()));
    }
    let last = request.dialogue.len() - 1;
    request.dialogue.iter().enumerate().find_map(|(at, spec)| {
        let early = matches!(spec, TurnSpec::UntilClose) && at < last;
        let problem = turn(spec).err().or_else(|| {
            early.then(|| "must be the last turn: nothing follows the stream's end".to_owned())
        })?;
        Some((format!("dialogue[{at}]"), problem))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(bytes_of("0aFF 00"), Some(vec![10, 255, 0]));
        assert_eq!(bytes_of(""), Some(Vec::new()));
        for text in ["0", "0g", "+1", "aab", "é"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_turn_that_cannot_be_is_named() {
        let problem = |json: &str| {
            let spec: TurnSpec = serde_json::from_str(json).unwrap();
            turn(&spec).err().unwrap_or_default()
        };
        assert_eq!(problem(r#"{"expect": "OK"}"#), "");
        assert_eq!(problem(r#""until_close""#), "");
        assert_eq!(problem(r#"{"read": 12}"#), "");
        assert_eq!(problem(r#"{"expect": ""}"#), "expects nothing");
        assert_eq!(problem(r#"{"read": 0}"#), "must be 1 to 2^40 bytes");
        assert_eq!(
            problem(r#"{"match": "a*"}"#),
            "matches before anything has come"
        );
        assert_eq!(
            problem(r#"{"match": "("}"#),
            "\"(\" is no regular expression"
        );
        assert!(problem(r#"{"send_hex": "xy"}"#).starts_with("is not written in pairs"));
    }
}
