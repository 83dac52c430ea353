//! Raw dialogues as an exchange: what a share asks for, what makes one impossible, and how one is held on a connection.

use std::sync::Arc;

use regex::bytes::Regex;
use serde::Deserialize;

use super::{Asking, Codec, Next, Spoken, Text};
use crate::body::BODY_MAX_BYTES;
use crate::encoding::Place;
use crate::pieces::{join, write_all, Maker, Piece};
use crate::share::Part;
use crate::take::VALUE_LIMIT_BYTES;
use crate::wire::dialogue::{self, Holder, Script, Talk, Turn, KEPT_MAX};
use crate::wire::http1::Step;
use crate::wire::http2::answer::Answer;
use crate::wire::keep::{Keep, Keeping, Kept};
use crate::wire::WireError;

/// A turn of a dialogue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TurnSpec {
    Send(Vec<Part>),
    /// Bytes, two hexadecimal digits each.
    SendHex(String),
    /// This text must come; what comes before it is passed over.
    Expect(String),
    ExpectHex(String),
    /// A regular expression over bytes must match what comes.
    Match(String),
    /// The same, and what its first group matches is a variable, for later turns too.
    Take(TakeTurn),
    /// So many bytes must come.
    Read(Length),
    UntilClose,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeTurn {
    name: String,
    #[serde(rename = "match")]
    pattern: String,
}

/// A number of bytes, or a text that is one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Length {
    Bytes(u64),
    Parts(Vec<Part>),
}

/// A dialogue made ready.
#[derive(Debug)]
pub struct Recipe {
    script: Script,
    /// What is said, text by text.
    says: Vec<Vec<Piece>>,
    /// What says how many bytes come, by number.
    lengths: Vec<Vec<Piece>>,
    /// Its body is what certain turns take; else it is all that comes.
    has_body: bool,
}

impl Spoken for Vec<TurnSpec> {
    fn parts(&self) -> Vec<(String, &[Part])> {
        let mut found = Vec::new();
        for (at, spec) in self.iter().enumerate() {
            let (word, parts) = match spec {
                TurnSpec::Send(parts) => ("send", parts),
                TurnSpec::Read(Length::Parts(parts)) => ("read", parts),
                _ => continue,
            };
            found.push((format!("[{at}].{word}"), parts.as_slice()));
        }
        found
    }

    fn flaw(&self) -> Option<(String, String)> {
        let last = self.len().saturating_sub(1);
        self.iter().enumerate().find_map(|(at, spec)| {
            let early = matches!(spec, TurnSpec::UntilClose) && at < last;
            let problem = turn(spec, &[], 0).err().or_else(|| {
                early.then(|| "must be the last turn: nothing follows the stream's end".to_owned())
            })?;
            Some((format!("[{at}]"), problem))
        })
    }

    fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for spec in self {
            if let TurnSpec::Take(take) = spec {
                names.push(take.name.as_str());
            }
        }
        names
    }

    fn recipe(&self, maker: Maker<'_>) -> super::Recipe {
        let (mut turns, mut says, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for spec in self {
            turns.extend(turn(spec, maker.variables, lengths.len()));
            match spec {
                TurnSpec::Send(parts) => says.push(join(maker.pieces(parts, Place::Free))),
                TurnSpec::SendHex(text) => {
                    says.push(vec![Piece::Fixed(bytes_of(text).unwrap_or_default())]);
                }
                TurnSpec::Read(Length::Parts(parts)) => {
                    lengths.push(maker.pieces(parts, Place::Free));
                }
                _ => {}
            }
        }
        let takes_bytes =
            |turn: &Turn| matches!(turn, Turn::Bytes(_) | Turn::Counted(_) | Turn::UntilClose);
        super::Recipe::Dialogue(Arc::new(Recipe {
            has_body: turns.iter().any(takes_bytes),
            script: Script::new(turns),
            says,
            lengths,
        }))
    }
}

/// Bytes written with two hexadecimal digits each; blanks between bytes are passed over.
fn bytes_of(hex: &str) -> Option<Vec<u8>> {
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

/// A turn made ready, the `number`-th of those whose length a text says; else what is wrong with it.
fn turn(spec: &TurnSpec, variables: &[String], number: usize) -> Result<Turn, String> {
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
        TurnSpec::Match(text) => pattern(text).map(Turn::Pattern),
        TurnSpec::Take(TakeTurn {
            name,
            pattern: text,
        }) => {
            let variable = variables.iter().position(|known| known == name);
            pattern(text).map(|pattern| Turn::Take(pattern, variable.unwrap_or(0)))
        }
        TurnSpec::Read(Length::Bytes(bytes @ 1..=BODY_MAX_BYTES)) => Ok(Turn::Bytes(*bytes)),
        TurnSpec::Read(Length::Bytes(_)) => Err("must be 1 to 2^40 bytes".to_owned()),
        TurnSpec::Read(Length::Parts(_)) => Ok(Turn::Counted(number)),
        TurnSpec::UntilClose => Ok(Turn::UntilClose),
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    match Regex::new(text) {
        Ok(regex) if regex.is_match(b"") => Err("matches before anything has come".to_owned()),
        Ok(regex) => Ok(regex),
        Err(_) => Err(format!("{text:?} is no regular expression")),
    }
}

/// A dialogue under way.
#[derive(Debug, Default)]
pub struct Talker {
    recipe: Option<Arc<Recipe>>,
    talk: Talk,
    /// How many of its texts are written, and how many bytes of them have left.
    rendered: usize,
    said_bytes: usize,
    until: usize,
    body_bytes: u64,
    keeping: Keeping,
}

impl Talker {
    pub fn begin(&mut self, recipe: &Arc<Recipe>, keep: Keep, text: &mut Text, _: &Asking<'_>) {
        let known = self.recipe.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, recipe)) {
            self.recipe = Some(recipe.clone());
        }
        text.begin();
        self.talk.reset();
        (self.rendered, self.said_bytes, self.until) = (0, 0, 0);
        self.body_bytes = 0;
        self.keeping.begin(keep);
    }
}

impl Codec for Talker {
    /// A text is written when it is said: it may hold what an earlier turn has taken.
    fn next(
        &mut self,
        _written: usize,
        text: &mut Text,
        asking: &mut Asking<'_>,
    ) -> Result<Next, WireError> {
        let Some(recipe) = &self.recipe else {
            return Ok(Next::Done);
        };
        let mut held = Held {
            recipe,
            asking,
            keeping: &mut self.keeping,
            body_bytes: &mut self.body_bytes,
        };
        Ok(match self.talk.next(&recipe.script, &mut held)? {
            dialogue::Next::Say => {
                if self.rendered == self.talk.said() {
                    let pieces = &recipe.says[self.rendered];
                    write_all(pieces, &held.asking.source(), text.append());
                    self.rendered += 1;
                    self.until = text.bytes().len();
                }
                Next::Say { until: self.until }
            }
            dialogue::Next::Hear => Next::Hear,
            dialogue::Next::Done => Next::Done,
        })
    }

    fn said(&mut self) -> usize {
        self.talk.say();
        let bytes = self.until - self.said_bytes;
        self.said_bytes = self.until;
        bytes
    }

    fn push(&mut self, bytes: &[u8], asking: &mut Asking<'_>) -> Result<Step, WireError> {
        let Some(recipe) = &self.recipe else {
            return Err(WireError::Unexpected);
        };
        if !recipe.has_body {
            self.keeping.take_body(bytes);
        }
        let mut held = Held {
            recipe,
            asking,
            keeping: &mut self.keeping,
            body_bytes: &mut self.body_bytes,
        };
        // What is to be said next is left to the end of the read.
        Ok(match self.talk.push(&recipe.script, bytes, &mut held)? {
            dialogue::Next::Done => Step::Done { used: bytes.len() },
            dialogue::Next::Hear | dialogue::Next::Say => Step::More,
        })
    }

    fn end_of_stream(&mut self) -> Result<(), WireError> {
        match &self.recipe {
            Some(recipe) => self.talk.end_of_stream(&recipe.script),
            None => Err(WireError::ShortBody),
        }
    }

    /// All that was received counts as its body.
    fn answer(&self) -> Answer {
        Answer {
            body_bytes: self.talk.received(),
            ..Answer::default()
        }
    }

    fn checked_bytes(&self) -> u64 {
        match &self.recipe {
            Some(recipe) if recipe.has_body => self.body_bytes,
            _ => self.talk.received(),
        }
    }

    fn kept(&self) -> Option<&Kept> {
        self.keeping.kept()
    }

    fn shrink(&mut self) {
        self.keeping.shrink();
    }

    fn keeps_connection(&self) -> bool {
        let recipe = self.recipe.as_ref();
        recipe.is_some_and(|recipe| !recipe.script.ends_the_stream())
    }

    fn takes_turns(&self) -> bool {
        true
    }
}

/// Who holds it, while it goes on.
struct Held<'a, 'b> {
    recipe: &'a Recipe,
    asking: &'a mut Asking<'b>,
    keeping: &'a mut Keeping,
    body_bytes: &'a mut u64,
}

impl Holder for Held<'_, '_> {
    fn take(&mut self, variable: usize, value: &[u8]) -> bool {
        let fits = (1..=VALUE_LIMIT_BYTES).contains(&value.len());
        if let Some(taken) = self.asking.taken.get_mut(variable).filter(|_| fits) {
            taken.clear();
            taken.extend_from_slice(value);
        }
        fits
    }

    fn length(&mut self, number: usize) -> Option<u64> {
        let mut text = Vec::new();
        let pieces = self.recipe.lengths.get(number)?;
        write_all(pieces, &self.asking.source(), &mut text);
        let length = std::str::from_utf8(&text).ok()?.trim().parse().ok();
        length.filter(|length| *length <= BODY_MAX_BYTES)
    }

    fn body(&mut self, bytes: &[u8]) {
        *self.body_bytes += bytes.len() as u64;
        if self.recipe.has_body {
            self.keeping.take_body(bytes);
        }
    }
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
            turn(&spec, &[], 0).err().unwrap_or_default()
        };
        assert_eq!(problem(r#"{"expect": "OK"}"#), "");
        assert_eq!(problem(r#""until_close""#), "");
        assert_eq!(problem(r#"{"read": 12}"#), "");
        assert_eq!(problem(r#"{"read": [{"taken": "size"}]}"#), "");
        let take = r#"{"take": {"name": "size", "match": "SIZE (\\d+)\n"}}"#;
        assert_eq!(problem(take), "");
        assert_eq!(problem(r#"{"expect": ""}"#), "expects nothing");
        assert_eq!(problem(r#"{"read": 0}"#), "must be 1 to 2^40 bytes");
        for pattern in [
            r#"{"match": "a*"}"#,
            r#"{"take": {"name": "a", "match": "a*"}}"#,
        ] {
            assert_eq!(problem(pattern), "matches before anything has come");
        }
        assert_eq!(
            problem(r#"{"match": "("}"#),
            "\"(\" is no regular expression"
        );
        assert!(problem(r#"{"send_hex": "xy"}"#).starts_with("is not written in pairs"));
    }
}
