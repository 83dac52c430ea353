//! Variables taken from answers: a header, a place in a JSON body, what a regular expression finds in a body.

use regex::bytes::Regex;
use serde_json::Value;

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
    let mut json: Option<Option<Value>> = None;
    takes.iter().all(|take| {
        let found = match &take.source {
            Source::Header(name) => kept.header(name).map(<[u8]>::to_vec),
            Source::Regex(regex) => regex.captures(kept.body()).and_then(|found| {
                let group = found.get(1).or_else(|| found.get(0))?;
                Some(group.as_bytes().to_vec())
            }),
            Source::Json(places) => {
                let value = json.get_or_insert_with(|| serde_json::from_slice(kept.body()).ok());
                value.as_ref().and_then(|value| text_at(value, places))
            }
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

/// A string as it is, anything else as JSON writes it; nothing for null.
fn text_at(value: &Value, places: &[Place]) -> Option<Vec<u8>> {
    let found = places.iter().try_fold(value, |value, place| match place {
        Place::Key(key) => value.get(key),
        Place::Index(index) => value.get(index),
    })?;
    match found {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
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
            ("items[1]", Some(r#"[1,"x"]"#)),
            ("items[2]", None),
            ("items.id", None),
            ("none", None),
            ("access.token.more", None),
        ] {
            assert_eq!(json(path, body).as_deref(), wanted, "{path}");
        }
        assert_eq!(json("a", "no json"), None);
        assert_eq!(json("[0]", "[5]").as_deref(), Some("5"));
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
