//! memcached's text protocol as an exchange: commands leave together, and each has one reply (pipelining).
//! https://github.com/memcached/memcached/blob/master/doc/protocol.txt

use std::io::Write;
use std::sync::Arc;

use serde::Deserialize;

use super::commands::{self, write_measured, Commands, Counted, Line, Words};
use super::{Asking, Codec, Spoken, Text};
use crate::encoding::Place;
use crate::error::ErrorKind;
use crate::pieces::{write_all, Maker, Piece, Source};
use crate::share::Part;
use crate::wire::http1::Step;
use crate::wire::http2::answer::Answer;
use crate::wire::keep::{Keep, Keeping, Kept};
use crate::wire::WireError;

/// What a command says, and how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Keys. Answered by the values of those that are there, then END.
    Get,
    /// Key, flags, expiry and value.
    Store,
    /// A key. `DELETED` or `NOT_FOUND`.
    Delete,
    /// A key and by how much. The new number or `NOT_FOUND`.
    Count,
    /// A key and an expiry. `TOUCHED` or `NOT_FOUND`.
    Touch,
}

const KINDS: [(&str, Kind); 11] = [
    ("get", Kind::Get),
    ("gets", Kind::Get),
    ("set", Kind::Store),
    ("add", Kind::Store),
    ("replace", Kind::Store),
    ("append", Kind::Store),
    ("prepend", Kind::Store),
    ("delete", Kind::Delete),
    ("incr", Kind::Count),
    ("decr", Kind::Count),
    ("touch", Kind::Touch),
];

impl Kind {
    /// By a command's first word; `None`: it is none of those that are known here.
    fn of(command: &Words) -> Option<Kind> {
        let [Part::Text { text }] = command.first()?.as_slice() else {
            return None;
        };
        let mut known = KINDS.iter();
        known.find(|(name, _)| name == text).map(|(_, kind)| *kind)
    }

    /// Whether a command may have so many words.
    fn takes(self, words: usize) -> bool {
        match self {
            Kind::Get => words >= 2,
            Kind::Store => words == 5,
            Kind::Delete => words == 2,
            Kind::Count | Kind::Touch => words == 3,
        }
    }

    /// Whether a line may answer it.
    fn is_answered_by(self, line: &[u8]) -> bool {
        let told: &[&[u8]] = match self {
            Kind::Get => &[b"END"],
            Kind::Store => &[b"STORED", b"NOT_STORED", b"EXISTS", b"NOT_FOUND"],
            Kind::Delete => &[b"DELETED", b"NOT_FOUND"],
            Kind::Touch => &[b"TOUCHED", b"NOT_FOUND"],
            Kind::Count if line.iter().all(u8::is_ascii_digit) => return !line.is_empty(),
            Kind::Count => &[b"NOT_FOUND"],
        };
        told.contains(&line)
    }
}

/// Commands in memcached's words, but that those which store end in the value itself: its length is counted here.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Spec(commands::Spec);

/// Commands made ready, and the kind of each.
#[derive(Debug)]
pub struct Recipe {
    commands: Commands,
    kinds: Vec<Kind>,
}

impl Spoken for Spec {
    fn parts(&self) -> Vec<(String, &[Part])> {
        self.0.parts()
    }

    fn flaw(&self) -> Option<(String, String)> {
        self.0.flaw(|command| match Kind::of(command) {
            _ if command.is_empty() => Some("is empty"),
            None => Some(
                "is none of get, gets, set, add, replace, append, prepend, delete, incr, decr, touch",
            ),
            Some(Kind::Get) if !Kind::Get.takes(command.len()) => Some("needs a key"),
            Some(Kind::Store) if !Kind::Store.takes(command.len()) => {
                Some("needs four words after it: key, flags, expiry, value")
            }
            Some(kind) if !kind.takes(command.len()) => {
                Some("has too few words after it, or too many")
            }
            Some(kind) => has_a_blank(kind, command)
                .then_some("has a blank or a control character where memcached allows none"),
        })
    }

    fn recipe(&self, maker: Maker<'_>) -> super::Recipe {
        super::Recipe::Memcached(Arc::new(Recipe {
            commands: ready(&self.0, maker),
            kinds: self.0.commands.iter().filter_map(Kind::of).collect(),
        }))
    }
}

/// Whether the study itself wrote what would end a word early; what varies is encoded where it stands.
fn has_a_blank(kind: Kind, command: &Words) -> bool {
    let words = match kind {
        Kind::Store => &command[..command.len() - 1],
        _ => &command[..],
    };
    let bad = |byte: u8| byte <= b' ' || byte == 127;
    let mut fixed = words.iter().flatten().filter_map(Part::typed);
    fixed.any(|text| text.bytes().any(bad))
}

/// Keys from elsewhere are percent-encoded where they would end a word; a value may hold anything.
fn ready(spec: &commands::Spec, maker: Maker<'_>) -> Commands {
    let place = |command: &Words, at: usize| match Kind::of(command) {
        Some(Kind::Store) if at + 1 == command.len() => Place::Free,
        _ => Place::Word,
    };
    spec.ready(maker, place, render)
}

/// Appends a command.
fn render(command: &[Vec<Piece>], source: &Source<'_>, out: &mut Vec<u8>) {
    let stores = |name: &[u8]| {
        KINDS
            .iter()
            .any(|(known, kind)| known.as_bytes() == name && *kind == Kind::Store)
    };
    let (words, value) = match command {
        [first, .., value] if matches!(first.as_slice(), [Piece::Fixed(name)] if stores(name)) => {
            (&command[..command.len() - 1], Some(value))
        }
        _ => (command, None),
    };
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        write_all(word, source, out);
    }
    match value {
        None => out.extend_from_slice(b"\r\n"),
        Some(value) => write_measured(value, source, out, |length, out| {
            // Writing to a Vec can't fail.
            let _ = write!(out, " {length}\r\n");
        }),
    }
}

/// Replies as they come.
#[derive(Debug, Default)]
struct Replies {
    recipe: Option<Arc<Recipe>>,
    /// The first command whose reply is not whole.
    at: usize,
    /// The keys that commands ask for, a line a command, each key followed by a space.
    keys: Vec<u8>,
    /// Where the line of the command begins that is answered next.
    keys_at: usize,
    value: Counted,
    line: Line,
    /// One of them was an error.
    refused: bool,
}

impl Replies {
    fn begin(&mut self, recipe: &Arc<Recipe>, source: &Source<'_>) {
        let known = self.recipe.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, recipe)) {
            self.recipe = Some(recipe.clone());
        }
        self.value.clear();
        self.line.clear();
        (self.at, self.refused) = (0, false);
        self.keys_at = 0;
        self.keys.clear();
        for (kind, command) in recipe.kinds.iter().zip(recipe.commands.all()) {
            if *kind == Kind::Get {
                for key in &command[1..] {
                    write_all(key, source, &mut self.keys);
                    self.keys.push(b' ');
                }
                self.keys.push(b'\n');
            }
        }
    }

    /// The keys of the command that is answered next.
    fn awaited_keys(&self) -> &[u8] {
        let rest = &self.keys[self.keys_at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        &rest[..end.unwrap_or(0)]
    }

    /// The command whose reply is awaited; `None`: all have come.
    fn awaited(&self) -> Option<Kind> {
        let kinds = self.recipe.as_ref().map(|recipe| recipe.kinds.as_slice());
        kinds.and_then(|kinds| kinds.get(self.at)).copied()
    }

    /// Takes the next bytes; how many of them belong to the replies. `taken` gets those of values.
    fn push(&mut self, input: &[u8], mut taken: impl FnMut(&[u8])) -> Result<usize, WireError> {
        let mut at = 0;
        while at < input.len() {
            let Some(kind) = self.awaited() else {
                break;
            };
            let rest = &input[at..];
            at += if self.value.is_open() {
                let (used, own) = self.value.take(rest)?;
                taken(&rest[..own]);
                used
            } else {
                let mut line = std::mem::take(&mut self.line);
                let used = line.take(rest, |line| self.read(kind, line));
                self.line = line;
                used?
            };
        }
        Ok(at)
    }

    fn read(&mut self, kind: Kind, line: &[u8]) -> Result<(), WireError> {
        let error = line == b"ERROR"
            || line.starts_with(b"CLIENT_ERROR ")
            || line.starts_with(b"SERVER_ERROR ");
        if let (Kind::Get, Some(told)) = (kind, line.strip_prefix(b"VALUE ")) {
            // Key, flags, bytes, and for `gets` a number of its own.
            let mut words = told.split(|byte| *byte == b' ');
            let key = words.next();
            let mut asked = self.awaited_keys().split(|byte| *byte == b' ');
            if !asked.any(|asked| Some(asked) == key && !asked.is_empty()) {
                return Err(WireError::Malformed);
            }
            let bytes = words.nth(1).ok_or(WireError::Malformed)?;
            self.value.begin(commands::length(bytes)?);
        } else if error || kind.is_answered_by(line) {
            self.refused |= error;
            self.at += 1;
            if kind == Kind::Get {
                self.keys_at += self.awaited_keys().len() + 1;
            }
        } else {
            return Err(WireError::Malformed);
        }
        Ok(())
    }
}

/// An exchange under way.
#[derive(Debug, Default)]
pub struct Talker {
    replies: Replies,
    received: u64,
    /// Its body is the values that came; of commands that ask for none it is all that came.
    body_bytes: u64,
    keeping: Keeping,
}

impl Talker {
    pub fn begin(
        &mut self,
        recipe: &Arc<Recipe>,
        keep: Keep,
        text: &mut Text,
        asking: &Asking<'_>,
    ) {
        recipe.commands.begin(text, asking);
        self.replies.begin(recipe, &asking.source());
        (self.received, self.body_bytes) = (0, 0);
        self.keeping.begin(keep);
    }

    fn asks_for_values(&self) -> bool {
        let recipe = self.replies.recipe.as_ref();
        recipe.is_some_and(|recipe| recipe.kinds.contains(&Kind::Get))
    }
}

impl Codec for Talker {
    fn push(&mut self, bytes: &[u8], _asking: &mut Asking<'_>) -> Result<Step, WireError> {
        let values = self.asks_for_values();
        let (keeping, body_bytes) = (&mut self.keeping, &mut self.body_bytes);
        let mut take = |bytes: &[u8]| {
            keeping.take_body(bytes);
            *body_bytes += bytes.len() as u64;
        };
        let used = self.replies.push(bytes, |value| {
            if values {
                take(value);
            }
        })?;
        if !values {
            take(&bytes[..used]);
        }
        self.received += used as u64;
        Ok(match self.replies.awaited() {
            None => Step::Done { used },
            Some(_) => Step::More,
        })
    }

    fn end_of_stream(&mut self) -> Result<(), WireError> {
        match self.replies.awaited() {
            None => Ok(()),
            Some(_) => Err(WireError::ShortBody),
        }
    }

    fn answer(&self) -> Answer {
        Answer {
            body_bytes: self.received,
            ..Answer::default()
        }
    }

    fn checked_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn kept(&self) -> Option<&Kept> {
        self.keeping.kept()
    }

    fn shrink(&mut self) {
        self.keeping.shrink();
    }

    fn keeps_connection(&self) -> bool {
        self.replies.awaited().is_none()
    }

    fn refusal(&self) -> ErrorKind {
        if self.replies.refused {
            ErrorKind::ReplyError
        } else {
            ErrorKind::None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::commands::{testing, LINE_MAX_BYTES};
    use super::*;

    /// (bytes of the stream that belong to the replies, whether all came, whether one is an error, the values).
    type Came = (usize, bool, bool, Vec<u8>);

    fn replies(kinds: &[Kind], stream: &[u8], piece: usize) -> Result<Came, WireError> {
        let asked = kinds.iter().map(|kind| match kind {
            Kind::Get => words("get|k|l|END"),
            _ => words("x"),
        });
        let spec = spec(asked.collect());
        let recipe = Arc::new(Recipe {
            commands: testing::ready(&spec.0, ready),
            kinds: kinds.to_vec(),
        });
        let (mut replies, mut values) = (Replies::default(), Vec::new());
        let nobody = Source {
            feeders: &[],
            asker: Default::default(),
            taken: &[],
        };
        replies.begin(&recipe, &nobody);
        let mut used = 0;
        for piece in stream.chunks(piece) {
            let taken = replies.push(piece, |value| values.extend_from_slice(value))?;
            used += taken;
            if taken < piece.len() {
                break;
            }
        }
        let whole = replies.awaited().is_none();
        Ok((used, whole, replies.refused, values))
    }

    /// A reply of each kind, and the values in it.
    const EACH: [(Kind, &[u8], &[u8]); 13] = [
        (Kind::Get, b"END\r\n", b""),
        (Kind::Get, b"VALUE k 0 0\r\n\r\nEND\r\n", b""),
        (Kind::Get, b"VALUE k 7 5\r\na\r\nbc\r\nEND\r\n", b"a\r\nbc"),
        (
            Kind::Get,
            b"VALUE k 0 1 42\r\nx\r\nVALUE l 0 1 43\r\ny\r\nEND\r\n",
            b"xy",
        ),
        (
            Kind::Get,
            b"VALUE END 0 5\r\nEND\r\n\r\nEND\r\n",
            b"END\r\n",
        ),
        (Kind::Store, b"STORED\r\n", b""),
        (Kind::Store, b"NOT_STORED\r\n", b""),
        (Kind::Delete, b"DELETED\r\n", b""),
        (Kind::Delete, b"NOT_FOUND\r\n", b""),
        (Kind::Count, b"18446744073709551615\r\n", b""),
        (Kind::Count, b"NOT_FOUND\r\n", b""),
        (Kind::Touch, b"TOUCHED\r\n", b""),
        (Kind::Touch, b"NOT_FOUND\r\n", b""),
    ];

    #[test]
    fn replies_are_counted_however_they_come() {
        let kinds: Vec<Kind> = EACH.iter().map(|(kind, _, _)| *kind).collect();
        let stream = EACH.map(|(_, stream, _)| stream).concat();
        let values = EACH.map(|(_, _, values)| values).concat();
        let more = [kinds.clone(), vec![Kind::Get]].concat();
        for piece in [1, 2, 3, 7, stream.len()] {
            let whole = (stream.len(), true, false, values.clone());
            assert_eq!(replies(&kinds, &stream, piece), Ok(whole), "{piece}");
            let open = (stream.len(), false, false, values.clone());
            assert_eq!(replies(&more, &stream, piece), Ok(open), "{piece}");
        }
        for (kind, reply, values) in EACH {
            let twice = [reply, reply].concat();
            let one = (reply.len(), true, false, values.to_vec());
            assert_eq!(replies(&[kind], &twice, twice.len()), Ok(one));
        }
    }

    #[test]
    fn an_error_among_replies_is_seen() {
        for error in [
            &b"ERROR\r\n"[..],
            b"CLIENT_ERROR bad command line format\r\n",
            b"SERVER_ERROR object too large for cache\r\n",
        ] {
            let stream = [error, b"END\r\n"].concat();
            let seen = (stream.len(), true, true, Vec::new());
            let asked = [Kind::Store, Kind::Get];
            assert_eq!(replies(&asked, &stream, stream.len()), Ok(seen));
        }
    }

    #[test]
    fn what_is_no_reply_is_told() {
        for (kind, stream) in [
            (Kind::Store, &b"OK\r\n"[..]),
            (Kind::Store, b"STORED\n"),
            (Kind::Store, b"VALUE k 0 1\r\nx\r\nEND\r\n"),
            (Kind::Get, b"STORED\r\n"),
            (Kind::Get, b"VALUE other 0 1\r\nx\r\nEND\r\n"),
            (Kind::Get, b"VALUE kl 0 1\r\nx\r\nEND\r\n"),
            (Kind::Get, b"VALUE  0 1\r\nx\r\nEND\r\n"),
            (Kind::Get, b"VALUE k 0\r\n"),
            (Kind::Get, b"VALUE k 0 -1\r\n"),
            (Kind::Get, b"VALUE k 0 18446744073709551615\r\n"),
            (Kind::Get, b"VALUE k 0 1\r\nxy\r\n"),
            (Kind::Get, b"HTTP/1.1 400 Bad Request\r\n"),
            (Kind::Count, b"\r\n"),
            (Kind::Count, b"1x\r\n"),
        ] {
            assert_eq!(replies(&[kind], stream, 3), Err(WireError::Malformed));
        }
        let endless = vec![b'E'; 2 * LINE_MAX_BYTES];
        let told = replies(&[Kind::Get], &endless, 1_000);
        assert_eq!(told, Err(WireError::Malformed));
    }

    #[test]
    fn each_command_has_its_own_keys() {
        let spec = spec(serde_json::json!([
            words("get|a|b"),
            words("delete|a"),
            words("gets|c")
        ]));
        let recipe = Arc::new(Recipe {
            commands: testing::ready(&spec.0, ready),
            kinds: vec![Kind::Get, Kind::Delete, Kind::Get],
        });
        let came = |stream: &[u8]| {
            let mut replies = Replies::default();
            let nobody = Source {
                feeders: &[],
                asker: Default::default(),
                taken: &[],
            };
            replies.begin(&recipe, &nobody);
            replies.push(stream, |_| ())
        };
        let whole = b"VALUE b 0 1\r\nx\r\nEND\r\nDELETED\r\nVALUE c 0 1 9\r\nx\r\nEND\r\n";
        assert_eq!(came(whole), Ok(whole.len()));
        let crossed = b"VALUE b 0 1\r\nx\r\nEND\r\nDELETED\r\nVALUE a 0 1 9\r\nx\r\nEND\r\n";
        assert_eq!(came(crossed), Err(WireError::Malformed));
    }

    fn spec(commands: serde_json::Value) -> Spec {
        serde_json::from_value(serde_json::json!({ "commands": commands })).unwrap()
    }

    /// A command of literal words.
    fn words(text: &str) -> serde_json::Value {
        let word = |word| serde_json::json!([{ "text": word }]);
        text.split('|').map(word).collect()
    }

    #[test]
    fn a_value_is_preceded_by_its_length() {
        let spec = spec(serde_json::json!([
            [[{"text": "set"}], [{"text": "k"}, {"var": "iteration"}], [{"text": "0"}], [{"text": "60"}],
             [{"text": "größe\r\n"}, {"var": "vu"}]],
            words("get|a|b"),
        ]));
        assert_eq!(spec.flaw(), None);
        let commands = testing::ready(&spec.0, ready);
        assert!(commands.vary());
        let wanted = "set k10 0 60 10\r\ngröße\r\n1\r\nget a b\r\n";
        assert_eq!(
            String::from_utf8(testing::written(&commands)).unwrap(),
            wanted
        );
    }

    #[test]
    fn commands_that_cannot_be_are_refused() {
        let long =
            "is none of get, gets, set, add, replace, append, prepend, delete, incr, decr, touch";
        for (command, problem) in [
            ("flush_all", long),
            ("GET|k", long),
            ("get", "needs a key"),
            (
                "set|k|0|v",
                "needs four words after it: key, flags, expiry, value",
            ),
            (
                "delete|k|noreply",
                "has too few words after it, or too many",
            ),
            (
                "get|a b",
                "has a blank or a control character where memcached allows none",
            ),
        ] {
            let told = (".commands[0]".to_owned(), problem.to_owned());
            let spec = spec(serde_json::json!([words(command)]));
            assert_eq!(spec.flaw(), Some(told), "{command}");
        }
        assert_eq!(
            spec(serde_json::json!([words("set|k|0|0|a b")])).flaw(),
            None
        );
        assert!(spec(serde_json::json!([])).flaw().is_some());
        assert!(spec(serde_json::json!([[]])).flaw().is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn properties_noise_panics_nowhere(
            noise in proptest::collection::vec(any::<u8>(), 0..300),
            lines in "((VALUE k 0 [0-9]{1,3}|END|STORED|NOT_FOUND|ERROR|[A-Z0-9 ]{0,9})\r?\n){0,30}",
            piece in 1usize..50,
        ) {
            let kinds = [Kind::Get, Kind::Store, Kind::Delete, Kind::Count, Kind::Touch, Kind::Get];
            let _ = replies(&kinds, &noise, piece);
            let whole = replies(&kinds, lines.as_bytes(), lines.len().max(1));
            let pieces = replies(&kinds, lines.as_bytes(), piece);
            if let (Ok(whole), Ok(pieces)) = (&whole, &pieces) {
                prop_assert_eq!(whole, pieces);
            } else {
                prop_assert_eq!(whole.is_err(), pieces.is_err());
            }
        }
    }
}
