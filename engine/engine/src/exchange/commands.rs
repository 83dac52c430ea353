//! What protocols of commands have in common: a request is commands, each a list of words; they leave together, and each
//! has one reply. What a command looks like on the wire, and where its reply ends, is each protocol's own.

use std::sync::Arc;

use serde::Deserialize;

use crate::encoding::Place;
use crate::pieces::{join, write_all, Maker, Piece, Source};
use crate::share::Part;
use crate::wire::WireError;

/// The most commands of a request.
const COMMANDS_MAX: usize = 10_000;
/// The longest line of a reply.
pub const LINE_MAX_BYTES: usize = 64 * 1024;

/// A command as the share has it: words, each a list of parts.
pub type Words = Vec<Vec<Part>>;

/// Appends a command that was made ready.
pub type Render = fn(&[Vec<Piece>], &Source<'_>, &mut Vec<u8>);

/// Commands as the share has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub commands: Vec<Words>,
}

impl Spec {
    /// Each word's parts, and the place where they stand.
    pub fn parts(&self) -> Vec<(String, &[Part])> {
        let mut found = Vec::new();
        for (number, command) in self.commands.iter().enumerate() {
            for (at, word) in command.iter().enumerate() {
                found.push((format!(".commands[{number}][{at}]"), word.as_slice()));
            }
        }
        found
    }

    /// The first command that has a `problem`, or too many of them.
    pub fn flaw(
        &self,
        problem: impl Fn(&Words) -> Option<&'static str>,
    ) -> Option<(String, String)> {
        if !(1..=COMMANDS_MAX).contains(&self.commands.len()) {
            let problem = "must be 1 to 10,000 commands".to_owned();
            return Some((".commands".to_owned(), problem));
        }
        let mut commands = self.commands.iter().enumerate();
        commands.find_map(|(at, command)| {
            Some((format!(".commands[{at}]"), problem(command)?.to_owned()))
        })
    }

    /// The commands made ready. `place`: where a word of a command stands.
    pub fn ready(
        &self,
        maker: Maker<'_>,
        place: impl Fn(&Words, usize) -> Place,
        render: Render,
    ) -> Commands {
        let ready = |words: &Words| -> Vec<Vec<Piece>> {
            let words_at = words.iter().enumerate();
            words_at
                .map(|(at, parts)| join(maker.pieces(parts, place(words, at))))
                .collect()
        };
        let commands: Vec<_> = self.commands.iter().map(ready).collect();
        let mut words = commands.iter().flatten().flatten();
        let fixed = words.all(|piece| matches!(piece, Piece::Fixed(_)));
        let mut made = Commands {
            commands,
            common: None,
            render,
        };
        if fixed {
            let nobody = Source {
                feeders: &[],
                asker: Default::default(),
                taken: &[],
            };
            let mut out = Vec::new();
            made.write(&nobody, &mut out);
            made.common = Some(out.into());
        }
        made
    }
}

/// Commands made ready.
#[derive(Debug)]
pub struct Commands {
    commands: Vec<Vec<Vec<Piece>>>,
    /// All of them as bytes, if nothing in them varies.
    common: Option<Arc<[u8]>>,
    render: Render,
}

impl Commands {
    pub fn count(&self) -> usize {
        self.commands.len()
    }

    /// The words of each.
    pub fn all(&self) -> &[Vec<Vec<Piece>>] {
        &self.commands
    }

    #[cfg(test)]
    pub fn vary(&self) -> bool {
        self.common.is_none()
    }

    /// Begins the text that asks them.
    pub fn begin(&self, text: &mut super::Text, asking: &super::Asking<'_>) {
        match &self.common {
            Some(bytes) => text.share(bytes),
            None => self.write(&asking.source(), text.begin()),
        }
    }

    fn write(&self, source: &Source<'_>, out: &mut Vec<u8>) {
        for command in &self.commands {
            (self.render)(command, source, out);
        }
    }
}

/// Appends a word behind what `head` writes of its length in bytes. It is written twice, but nothing is allocated.
pub fn write_measured(
    word: &[Piece],
    source: &Source<'_>,
    out: &mut Vec<u8>,
    head: impl FnOnce(usize, &mut Vec<u8>),
) {
    let at = out.len();
    write_all(word, source, out);
    let length = out.len() - at;
    out.truncate(at);
    head(length, out);
    write_all(word, source, out);
    out.extend_from_slice(b"\r\n");
}

/// A line of a reply, which may come in pieces.
#[derive(Debug, Default)]
pub struct Line {
    begun: Vec<u8>,
}

impl Line {
    pub fn clear(&mut self) {
        self.begun.clear();
    }

    /// Takes bytes up to the line's end; how many. `read` gets the whole line without its end.
    pub fn take(
        &mut self,
        input: &[u8],
        read: impl FnOnce(&[u8]) -> Result<(), WireError>,
    ) -> Result<usize, WireError> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(input.len(), |end| end + 1);
        if self.begun.len() + used > LINE_MAX_BYTES {
            return Err(WireError::Malformed);
        }
        let content = |line: &[u8]| match line.strip_suffix(b"\r\n") {
            Some(line) => read(line),
            None => Err(WireError::Malformed),
        };
        if end.is_none() {
            self.begun.extend_from_slice(input);
        } else if self.begun.is_empty() {
            content(&input[..used])?;
        } else {
            self.begun.extend_from_slice(&input[..used]);
            let read = content(&self.begun);
            self.begun.clear();
            read?;
        }
        Ok(used)
    }
}

/// Bytes of a counted string and its line end, as they come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Still to come, the line end included.
    left: u64,
}

impl Counted {
    pub fn begin(&mut self, bytes: u64) {
        self.left = bytes + 2;
    }

    pub fn clear(&mut self) {
        self.left = 0;
    }

    /// Whether more of it is to come.
    pub fn is_open(self) -> bool {
        self.left > 0
    }

    /// Takes the next bytes: how many, and how many of these are the string's own.
    pub fn take(&mut self, input: &[u8]) -> Result<(usize, usize), WireError> {
        if self.left > 2 {
            let take = (self.left - 2).min(input.len() as u64);
            self.left -= take;
            return Ok((take as usize, take as usize));
        }
        let wanted = if self.left == 2 { b'\r' } else { b'\n' };
        if input[0] != wanted {
            return Err(WireError::Malformed);
        }
        self.left -= 1;
        Ok((1, 0))
    }
}

/// A length as a line has it.
pub fn length(text: &[u8]) -> Result<u64, WireError> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits);
    let length = text.and_then(|text| text.parse().ok());
    let length = length.filter(|length| *length <= crate::body::BODY_MAX_BYTES);
    length.ok_or(WireError::Malformed)
}

#[cfg(test)]
pub mod testing {
    use super::{Commands, Spec};
    use crate::exchange::{Asking, Text};
    use crate::pieces::{Asker, Maker};

    /// The commands made ready by `recipe`, of a group without feeders.
    pub fn ready(spec: &Spec, recipe: impl Fn(&Spec, Maker<'_>) -> Commands) -> Commands {
        let group = crate::share::testing::group(r#"{"kind": "constant-vus", "vus": 1}"#);
        recipe(
            spec,
            Maker {
                group: &group,
                inputs: &indexmap::IndexMap::new(),
                variables: &[],
                id_key: 0,
                open: false,
            },
        )
    }

    /// What user 1 writes in iteration 10.
    pub fn written(commands: &Commands) -> Vec<u8> {
        let mut text = Text::default();
        let asking = Asking {
            feeders: &[],
            asker: Asker { vu: 1, seq: 10 },
            taken: &mut [],
        };
        commands.begin(&mut text, &asking);
        text.bytes().to_vec()
    }
}
