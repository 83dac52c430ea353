//! Redis (RESP 2 and 3) as an exchange: commands leave together, and as many replies come (pipelining).
//! https://redis.io/docs/latest/develop/reference/protocol-spec/

use std::io::Write;
use std::sync::Arc;

use serde::Deserialize;

use super::commands::{self, write_measured, Commands, Counted, Line, Words};
use super::{Asking, Codec, Spoken, Text};
use crate::encoding::Place;
use crate::error::ErrorKind;
use crate::pieces::{Maker, Piece, Source};
use crate::share::Part;
use crate::wire::http1::Step;
use crate::wire::http2::answer::Answer;
use crate::wire::keep::{Keep, Keeping, Kept};
use crate::wire::WireError;

/// Commands that are not answered by one reply each: they need a session.
const WITHOUT_A_REPLY: [&str; 9] = [
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "monitor",
    "sync",
    "psync",
];

#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Spec(commands::Spec);

/// Commands made ready.
#[derive(Debug)]
pub struct Recipe(Commands);

impl Spoken for Spec {
    fn parts(&self) -> Vec<(String, &[Part])> {
        self.0.parts()
    }

    fn flaw(&self) -> Option<(String, String)> {
        self.0
            .flaw(|command| match command.first().map(Vec::as_slice) {
                None => Some("is empty"),
                Some([Part::Text { text }])
                    if WITHOUT_A_REPLY
                        .iter()
                        .any(|name| name.eq_ignore_ascii_case(text)) =>
                {
                    Some("is not answered by one reply")
                }
                _ => None,
            })
    }

    fn recipe(&self, maker: Maker<'_>) -> super::Recipe {
        super::Recipe::Redis(Arc::new(Recipe(ready(&self.0, maker))))
    }
}

fn ready(spec: &commands::Spec, maker: Maker<'_>) -> Commands {
    spec.ready(maker, |_: &Words, _| Place::Free, render)
}

/// Appends a command: an array of bulk strings.
fn render(command: &[Vec<Piece>], source: &Source<'_>, out: &mut Vec<u8>) {
    // Writing to a Vec can't fail.
    let _ = write!(out, "*{}\r\n", command.len());
    for word in command {
        write_measured(word, source, out, |length, out| {
            let _ = write!(out, "${length}\r\n");
        });
    }
}

/// Replies as they come. Values inside others are counted, not nested: no depth is too deep.
#[derive(Debug)]
struct Replies {
    left: usize,
    /// Values that are still to come of the reply at hand.
    values: u64,
    string: Counted,
    line: Line,
    /// One of them was an error.
    refused: bool,
}

impl Default for Replies {
    fn default() -> Self {
        Replies {
            left: 0,
            values: 1,
            string: Counted::default(),
            line: Line::default(),
            refused: false,
        }
    }
}

impl Replies {
    fn begin(&mut self, replies: usize) {
        self.line.clear();
        self.string.clear();
        (self.left, self.values) = (replies, 1);
        self.refused = false;
    }

    /// Takes the next bytes; how many of them belong to the replies.
    fn push(&mut self, input: &[u8]) -> Result<usize, WireError> {
        let mut at = 0;
        while self.left > 0 && at < input.len() {
            at += if self.string.is_open() {
                let (used, _) = self.string.take(&input[at..])?;
                if !self.string.is_open() {
                    self.add(0);
                }
                used
            } else {
                let mut line = std::mem::take(&mut self.line);
                let used = line.take(&input[at..], |line| self.read(line));
                self.line = line;
                used?
            };
        }
        Ok(at)
    }

    fn read(&mut self, line: &[u8]) -> Result<(), WireError> {
        let (kind, rest) = line.split_first().ok_or(WireError::Malformed)?;
        self.refused |= matches!(kind, b'-' | b'!');
        match kind {
            b'+' | b'-' => self.add(0),
            b':' | b'_' | b'#' | b',' | b'(' if is_scalar(*kind, rest) => self.add(0),
            b'$' | b'=' | b'!' => match length(rest)? {
                Some(bytes) => self.string.begin(bytes),
                None => self.add(0),
            },
            b'*' | b'~' => self.add(length(rest)?.unwrap_or(0)),
            b'%' => self.add(2 * length(rest)?.unwrap_or(0)),
            // Attributes stand before the value that they belong to.
            b'|' => self.values = self.values.saturating_add(2 * length(rest)?.unwrap_or(0)),
            b'>' => return Err(WireError::Unexpected),
            _ => return Err(WireError::Malformed),
        }
        Ok(())
    }

    /// A value is whole, but for so many values inside it.
    fn add(&mut self, inside: u64) {
        self.values = (self.values - 1).saturating_add(inside);
        if self.values == 0 {
            self.values = 1;
            self.left -= 1;
        }
    }
}

/// Whether a line is a value of its kind: `:abc` is no number.
fn is_scalar(kind: u8, text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"+").or(text.strip_prefix(b"-"));
    let digits = digits.unwrap_or(text);
    match kind {
        b'_' => text.is_empty(),
        b'#' => matches!(text, b"t" | b"f"),
        b',' => std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok()),
        _ => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
    }
}

/// A length as a line has it; `None` is null.
fn length(text: &[u8]) -> Result<Option<u64>, WireError> {
    match text {
        b"-1" => Ok(None),
        _ => commands::length(text).map(Some),
    }
}

/// An exchange under way.
#[derive(Debug, Default)]
pub struct Talker {
    replies: Replies,
    received: u64,
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
        recipe.0.begin(text, asking);
        self.replies.begin(recipe.0.count());
        self.received = 0;
        self.keeping.begin(keep);
    }
}

impl Codec for Talker {
    fn push(&mut self, bytes: &[u8], _asking: &mut Asking<'_>) -> Result<Step, WireError> {
        let used = self.replies.push(bytes)?;
        self.received += used as u64;
        self.keeping.take_body(&bytes[..used]);
        Ok(match self.replies.left {
            0 => Step::Done { used },
            _ => Step::More,
        })
    }

    fn end_of_stream(&mut self) -> Result<(), WireError> {
        match self.replies.left {
            0 => Ok(()),
            _ => Err(WireError::ShortBody),
        }
    }

    /// All replies count as its body.
    fn answer(&self) -> Answer {
        Answer {
            body_bytes: self.received,
            ..Answer::default()
        }
    }

    fn kept(&self) -> Option<&Kept> {
        self.keeping.kept()
    }

    fn shrink(&mut self) {
        self.keeping.shrink();
    }

    fn keeps_connection(&self) -> bool {
        self.replies.left == 0
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

    /// How many bytes of the stream belong to so many replies, whether all came, and whether one of them is an error.
    fn replies(
        count: usize,
        stream: &[u8],
        piece: usize,
    ) -> Result<(usize, bool, bool), WireError> {
        let mut replies = Replies::default();
        replies.begin(count);
        let mut used = 0;
        for piece in stream.chunks(piece) {
            let taken = replies.push(piece)?;
            used += taken;
            if taken < piece.len() {
                break;
            }
        }
        Ok((used, replies.left == 0, replies.refused))
    }

    /// One reply of each kind, RESP 3's too.
    const EACH: [&[u8]; 15] = [
        b"+OK\r\n",
        b":-12\r\n",
        b"$5\r\nab\r\nc\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",-3.14e-2\r\n",
        b"(12345678901234567890\r\n",
        b"=6\r\ntxt:ab\r\n",
        b"%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n",
        b"|1\r\n+ttl\r\n:9\r\n+value\r\n",
    ];

    #[test]
    fn replies_are_counted_however_they_come() {
        let stream = EACH.concat();
        for piece in [1, 2, 3, 7, stream.len()] {
            let whole = (stream.len(), true, false);
            assert_eq!(replies(EACH.len(), &stream, piece), Ok(whole), "{piece}");
            let more = replies(EACH.len() + 1, &stream, piece);
            assert_eq!(more, Ok((stream.len(), false, false)));
        }
        for reply in EACH {
            let twice = [reply, reply].concat();
            let one = replies(1, &twice, twice.len());
            assert_eq!(one, Ok((reply.len(), true, false)));
        }
    }

    #[test]
    fn an_error_among_replies_is_seen() {
        for stream in [
            &b"+OK\r\n-ERR no\r\n"[..],
            b"+OK\r\n!5\r\nERR a\r\n",
            b"+OK\r\n*2\r\n:1\r\n-WRONGTYPE\r\n",
        ] {
            let seen = (stream.len(), true, true);
            assert_eq!(replies(2, stream, stream.len()), Ok(seen));
        }
    }

    #[test]
    fn what_is_no_reply_is_told() {
        for stream in [
            &b"OK\r\n"[..],
            b"\r\n",
            b"+OK\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$18446744073709551615\r\n",
            b"$1\r\nab\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b":abc\r\n",
            b":\r\n",
            b":+-1\r\n",
            b"(1.5\r\n",
            b"#true\r\n",
            b",one\r\n",
            b"_x\r\n",
        ] {
            assert_eq!(replies(1, stream, 3), Err(WireError::Malformed));
        }
        let push = b">2\r\n+message\r\n+a\r\n";
        assert_eq!(replies(1, push, 3), Err(WireError::Unexpected));
        let endless = vec![b'+'; 2 * LINE_MAX_BYTES];
        assert_eq!(replies(1, &endless, 1_000), Err(WireError::Malformed));
    }

    #[test]
    fn commands_are_arrays_of_their_words() {
        let spec: Spec = serde_json::from_str(
            r#"{"commands": [[[{"text": "SET"}], [{"text": "k"}, {"var": "iteration"}], [{"text": ""}]], [[{"text": "PING"}]]]}"#,
        )
        .unwrap();
        assert_eq!(spec.flaw(), None);
        let commands = testing::ready(&spec.0, ready);
        assert!(commands.vary());
        let wanted = b"*3\r\n$3\r\nSET\r\n$3\r\nk10\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(testing::written(&commands), wanted);
    }

    #[test]
    fn commands_that_cannot_be_are_refused() {
        let flaw = |json: &str| serde_json::from_str::<Spec>(json).unwrap().flaw();
        let told = |place: &str, problem: &str| Some((place.to_owned(), problem.to_owned()));
        assert_eq!(
            flaw(r#"{"commands": []}"#),
            told(".commands", "must be 1 to 10,000 commands")
        );
        assert_eq!(
            flaw(r#"{"commands": [[]]}"#),
            told(".commands[0]", "is empty")
        );
        assert_eq!(
            flaw(r#"{"commands": [[[{"text": "Subscribe"}], [{"text": "a"}]]]}"#),
            told(".commands[0]", "is not answered by one reply")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn properties_noise_panics_nowhere(
            noise in proptest::collection::vec(any::<u8>(), 0..300),
            kinds in "[-+:$*%~|!=_#,(>0-9\r\n]{0,200}",
            count in 1usize..5,
            piece in 1usize..50,
        ) {
            let _ = replies(count, &noise, piece);
            let whole = replies(count, kinds.as_bytes(), kinds.len().max(1));
            let pieces = replies(count, kinds.as_bytes(), piece);
            if let (Ok(whole), Ok(pieces)) = (&whole, &pieces) {
                prop_assert_eq!(whole, pieces);
            } else {
                prop_assert_eq!(whole.is_err(), pieces.is_err());
            }
        }
    }
}
