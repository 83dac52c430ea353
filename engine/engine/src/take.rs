//! Variables taken from answers: a header, a place in a JSON body, what a regular expression finds in a body.

use std::fmt;

use regex::bytes::Regex;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::share::TakeSpec;
use crate::wire::keep::{Keep, Kept};

/// The longest value of a variable.
pub const VALUE_LIMIT_BYTES: usize = 64 * 1024;

/// One variable of a step, by its number in the group.
#[derive(Clone, Debug)]
pub struct Take {
    variable: usize,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Header(String),
    Json(Vec<Place>),
    Regex(Regex),
}

/// A step into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Key(String),
    Index(usize),
}

impl Take {
    /// Makes it ready; `variables` are the names of the group's.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(spec: &TakeSpec, variables: &[String]) -> Result<Self, String> {
        let variable = variables.iter().position(|name| name == spec.name());
        let source = match spec {
            TakeSpec::Header { header, .. } => Source::Header(header.clone()),
            TakeSpec::Json { json, .. } => Source::Json(places(json)?),
            TakeSpec::Regex { regex, .. } => Source::Regex(pattern(regex)?),
        };
        Ok(Take {
            variable: variable.ok_or("is no variable of the group")?,
            source,
        })
    }

    /// What it needs of an answer.
    pub fn keep(&self) -> Keep {
        let head = matches!(self.source, Source::Header(_));
        Keep {
            head,
            body: !head,
            ..Keep::default()
        }
    }
}

/// A regular expression over bytes.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let told = error.to_string();
        let last = told.lines().last().unwrap_or_default();
        format!("is no regular expression ({})", last.trim())
    })
}

/// Takes every variable of a step from its answer; false if one was not found, or is longer than [`VALUE_LIMIT_BYTES`].
pub fn take_all(takes: &[Take], kept: &Kept, values: &mut [Vec<u8>]) -> bool {
    takes.iter().all(|take| {
        let found = match &take.source {
            Source::Header(name) => kept.header(name).map(<[u8]>::to_vec),
            Source::Regex(regex) => regex.captures(kept.body()).and_then(|found| {
                let group = found.get(1).or_else(|| found.get(0))?;
                Some(group.as_bytes().to_vec())
            }),
            Source::Json(places) => text_at(kept.body(), places),
        };
        let found = found.filter(|value| !value.is_empty() && value.len() <= VALUE_LIMIT_BYTES);
        match found {
            Some(value) => {
                values[take.variable] = value;
                true
            }
            None => false,
        }
    })
}

/// A string as it is, anything else as it stands in the body, so that a number keeps all its digits; nothing for null.
fn text_at(body: &[u8], places: &[Place]) -> Option<Vec<u8>> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let found = Way(places).deserialize(&mut json).ok()??;
    json.end().ok()?;
    match found.get() {
        "null" => None,
        text if text.starts_with('"') => Some(serde_json::from_str::<String>(text).ok()?.into()),
        text => Some(text.as_bytes().to_vec()),
    }
}

/// The way to a place in a JSON value: all beside it is passed over, and of members of the same name the last one counts.
struct Way<'a>(&'a [Place]);

impl<'de> DeserializeSeed<'de> for Way<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return <&RawValue>::deserialize(json).map(Some);
        }
        json.deserialize_any(self)
    }
}

/// Where the way leads on.
impl<'de> Visitor<'de> for Way<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<String>()? {
            match self.0 {
                [Place::Key(key), rest @ ..] if *key == name => {
                    found = members.next_value_seed(Way(rest))?;
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let [Place::Index(index), rest @ ..] = self.0 else {
            while elements.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        for _ in 0..*index {
            if elements.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = elements.next_element_seed(Way(rest))?.flatten();
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// `access.token`, `items[0].id`, `$["odd key"].x` as places.
fn places(text: &str) -> Result<Vec<Place>, String> {
    let wrong = || format!("is no JSON path such as items[0].id: {text:?}");
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    let mut found = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix("[\"") {
            let (key, after) = inside.split_once("\"]").ok_or_else(wrong)?;
            found.push(Place::Key(key.to_owned()));
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (number, after) = inside.split_once(']').ok_or_else(wrong)?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let index = number
                .parse::<usize>()
                .ok()
                .filter(|_| digits)
                .ok_or_else(wrong)?;
            found.push(Place::Index(index));
            rest = after;
        } else {
            let name = match rest.strip_prefix('.') {
                Some(name) => name,
                None if found.is_empty() && !text.starts_with('$') => rest,
                None => return Err(wrong()),
            };
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(wrong());
            }
            found.push(Place::Key(name[..end].to_owned()));
            rest = &name[end..];
        }
    }
    if found.is_empty() {
        return Err(wrong());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(spec: &str, head: &str, body: &str) -> Option<String> {
        let spec: TakeSpec = serde_json::from_str(spec).unwrap();
        let take = Take::new(&spec, &["v".to_owned()]).unwrap();
        let mut kept = Kept::default();
        kept.begin(take.keep());
        kept.take_head(head.as_bytes());
        kept.take_body(body.as_bytes());
        let mut values = vec![Vec::new()];
        take_all(&[take], &kept, &mut values).then(|| String::from_utf8(values.remove(0)).unwrap())
    }

    fn json(path: &str, body: &str) -> Option<String> {
        let spec = serde_json::json!({"name": "v", "json": path}).to_string();
        taken(&spec, "", body)
    }

    #[test]
    fn json_paths_lead_to_values() {
        let body = r#"{"access": {"token": "a\nb", "ttl": 3600, "odd key": true}, "items": [{"id": 7}, [1, "x"]], "none": null}"#;
        for (path, wanted) in [
            ("access.token", Some("a\nb")),
            ("$.access.ttl", Some("3600")),
            ("$[\"access\"][\"odd key\"]", Some("true")),
            ("items[0].id", Some("7")),
            ("items[1][1]", Some("x")),
            ("items[1]", Some(r#"[1, "x"]"#)),
            ("items[2]", None),
            ("items.id", None),
            ("none", None),
            ("access.token.more", None),
        ] {
            assert_eq!(json(path, body).as_deref(), wanted, "{path}");
        }
        assert_eq!(json("a", "no json"), None);
        assert_eq!(json("a", r#"{"a": 1} and more"#), None);
        assert_eq!(json("a", r#"{"a": 1, "b": "#), None);
        assert_eq!(
            json("a", r#"{"a": 1, "b": [{"a": 3}], "a": 2}"#).as_deref(),
            Some("2")
        );
        assert_eq!(json("[0]", "[5]").as_deref(), Some("5"));
    }

    #[test]
    fn a_number_keeps_its_own_text() {
        for number in [
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890123456789012345678901234567890",
            "0.1000",
            "3.14159265358979323846264338327950288",
            "1E400",
            "-0",
        ] {
            let body = format!(r#"{{"a": [{{"n": {number} }}]}}"#);
            assert_eq!(json("a[0].n", &body).as_deref(), Some(number));
        }
        let body = r#"{"a": {"n":  18446744073709551616}}"#;
        assert_eq!(
            json("a", body).as_deref(),
            Some(r#"{"n":  18446744073709551616}"#)
        );
    }

    #[test]
    fn a_body_nested_without_end_harms_nobody() {
        let deep = format!(r#"{{"b": {}, "a": 1}}"#, "[".repeat(100_000));
        assert_eq!(json("a", &deep), None);
        let deep = format!(
            r#"{{"b": {}{}, "a": 1}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(json("a", &deep).as_deref(), Some("1"));
    }

    #[test]
    fn a_path_that_is_none_is_told() {
        for text in ["", "$", "a..b", ".", "a[", "a[x]", "a[-1]", "$a", "a[0]b"] {
            let spec = serde_json::json!({"name": "v", "json": text}).to_string();
            let spec: TakeSpec = serde_json::from_str(&spec).unwrap();
            let told = Take::new(&spec, &["v".to_owned()]);
            assert!(told.is_err(), "{text}: {told:?}");
        }
    }

    #[test]
    fn a_pattern_gives_its_first_group() {
        let found = |regex: &str, body: &str| {
            let spec = serde_json::json!({"name": "v", "regex": regex}).to_string();
            taken(&spec, "", body)
        };
        assert_eq!(found(r"id=(\d+)", "x id=42;").as_deref(), Some("42"));
        assert_eq!(found(r"\d+", "x id=42;").as_deref(), Some("42"));
        assert_eq!(found(r"id=(\d*)", "x id=;"), None);
        assert_eq!(found(r"id=(\d+)", "nothing"), None);
        assert!(pattern("(").unwrap_err().starts_with("is no regular"));
    }

    #[test]
    fn headers_are_taken_and_long_values_are_not() {
        let spec = r#"{"name": "v", "header": "X-Auth-Token"}"#;
        let head = "HTTP/1.1 200 OK\r\nx-auth-token: t0\r\n\r\n";
        assert_eq!(taken(spec, head, "").as_deref(), Some("t0"));
        assert_eq!(taken(spec, "HTTP/1.1 200 OK\r\n\r\n", ""), None);
        let long = "x".repeat(VALUE_LIMIT_BYTES + 1);
        assert_eq!(json("a", &format!(r#"{{"a": "{long}"}}"#)), None);
    }
}
