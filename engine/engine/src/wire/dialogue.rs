//! A raw dialogue over one stream, without I/O: whose turn it is, what must come, and what of it belongs to the dialogue.

use regex::bytes::Regex;

use super::WireError;

/// Bytes that are kept while a text or a pattern is awaited.
pub const KEPT_MAX: usize = 64 * 1024;

/// A turn of a dialogue.
#[derive(Clone, Debug)]
pub enum Turn {
    /// Our next text leaves.
    Say,
    /// This must come; what comes before it is passed over.
    Text(Vec<u8>),
    /// Something that it matches must come; taken as soon as what has come matches.
    Pattern(Regex),
    /// The same, and its first group (all that matches, where it has none) is the value of a variable, by number.
    Take(Regex, usize),
    Bytes(u64),
    /// So many bytes as the holder's length of this number says.
    Counted(usize),
    /// All until the peer ends the stream.
    UntilClose,
}

/// Who holds a dialogue: what its turns need from outside, and where what they bring goes.
pub trait Holder {
    /// A variable's value has come. False: it can't be one.
    fn take(&mut self, variable: usize, value: &[u8]) -> bool;
    /// How many bytes a turn awaits. `None`: what should say so is no such number.
    fn length(&mut self, number: usize) -> Option<u64>;
    /// Bytes that a turn of a certain length, or the one until the stream's end, has taken.
    fn body(&mut self, bytes: &[u8]);
}

/// What a dialogue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Say,
    Hear,
    Done,
}

/// The turns of a dialogue in order.
#[derive(Clone, Debug)]
pub struct Script(Vec<Turn>);

impl Script {
    pub fn new(turns: Vec<Turn>) -> Self {
        Script(turns)
    }

    /// Whether the peer ends the stream at the dialogue's end.
    pub fn ends_the_stream(&self) -> bool {
        matches!(self.0.last(), Some(Turn::UntilClose))
    }
}

/// How far a dialogue has come; reusable, its buffer stays.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    turn: usize,
    said: usize,
    /// Bytes that the turn at hand has taken.
    taken: u64,
    /// How many it takes, once that is known.
    length: Option<u64>,
    /// What came and belongs to no turn yet.
    kept: Vec<u8>,
    /// So much of it holds no match of the text awaited.
    searched: usize,
    received: u64,
}

impl Talk {
    /// Makes ready for a new dialogue.
    pub fn reset(&mut self) {
        self.kept.clear();
        (self.turn, self.said, self.searched) = (0, 0, 0);
        (self.taken, self.length, self.received) = (0, None, 0);
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many of our texts have left.
    pub fn said(&self) -> usize {
        self.said
    }

    /// The text at hand has left.
    pub fn say(&mut self) {
        self.said += 1;
        self.pass();
    }

    /// Takes the next bytes of the stream.
    pub fn push(
        &mut self,
        script: &Script,
        input: &[u8],
        holder: &mut dyn Holder,
    ) -> Result<Next, WireError> {
        self.received += input.len() as u64;
        if self.kept.is_empty() {
            if let Some(Turn::UntilClose) = script.0.get(self.turn) {
                holder.body(input);
                return Ok(Next::Hear);
            }
        }
        self.kept.extend_from_slice(input);
        self.next(script, holder)
    }

    /// Takes what has come as far as the turns allow; what must happen next.
    pub fn next(&mut self, script: &Script, holder: &mut dyn Holder) -> Result<Next, WireError> {
        loop {
            let end = match script.0.get(self.turn) {
                None if self.kept.is_empty() => return Ok(Next::Done),
                None => return Err(WireError::Unexpected),
                Some(Turn::Say) => return self.wait(Next::Say),
                Some(Turn::UntilClose) => {
                    holder.body(&self.kept);
                    self.kept.clear();
                    return Ok(Next::Hear);
                }
                Some(Turn::Bytes(bytes)) => match self.count(*bytes, holder) {
                    true => Some(0),
                    false => return Ok(Next::Hear),
                },
                Some(Turn::Counted(number)) => {
                    let known = self.length.or_else(|| holder.length(*number));
                    self.length = known;
                    match self.count(known.ok_or(WireError::Capture)?, holder) {
                        true => Some(0),
                        false => return Ok(Next::Hear),
                    }
                }
                Some(Turn::Text(text)) => self.find(text),
                Some(Turn::Pattern(pattern)) => pattern.find(&self.kept).map(|found| found.end()),
                Some(Turn::Take(pattern, variable)) => match pattern.captures(&self.kept) {
                    Some(found) => {
                        let value = found.get(1).or_else(|| found.get(0));
                        let value = value.map_or(&[][..], |value| value.as_bytes());
                        if !holder.take(*variable, value) {
                            return Err(WireError::Capture);
                        }
                        found.get(0).map(|whole| whole.end())
                    }
                    None => None,
                },
            };
            let Some(end) = end else {
                return self.wait(Next::Hear);
            };
            self.kept.drain(..end);
            self.pass();
        }
    }

    /// The stream has ended. `Ok` if that completes the dialogue.
    pub fn end_of_stream(&self, script: &Script) -> Result<(), WireError> {
        let left = script.0.get(self.turn..).unwrap_or_default();
        match left {
            [] | [Turn::UntilClose] => Ok(()),
            _ => Err(WireError::ShortBody),
        }
    }

    /// Takes what has come of a turn of so many bytes. True once all have.
    fn count(&mut self, bytes: u64, holder: &mut dyn Holder) -> bool {
        let take = (bytes - self.taken).min(self.kept.len() as u64);
        holder.body(&self.kept[..take as usize]);
        self.kept.drain(..take as usize);
        self.taken += take;
        self.taken == bytes
    }

    /// Where the text ends in what was kept.
    fn find(&mut self, text: &[u8]) -> Option<usize> {
        let from = self.searched;
        let at = self.kept[from..]
            .windows(text.len())
            .position(|window| window == text);
        self.searched = self.kept.len().saturating_sub(text.len() - 1).max(from);
        at.map(|at| from + at + text.len())
    }

    fn wait(&self, next: Next) -> Result<Next, WireError> {
        if self.kept.len() > KEPT_MAX {
            return Err(WireError::NoMatch);
        }
        Ok(next)
    }

    fn pass(&mut self) {
        self.turn += 1;
        (self.taken, self.length, self.searched) = (0, None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Holds what a dialogue brings; its lengths are the numbers that variables hold.
    #[derive(Debug, Default, PartialEq)]
    struct Hand {
        taken: [Vec<u8>; 2],
        body: Vec<u8>,
    }

    impl Holder for Hand {
        fn take(&mut self, variable: usize, value: &[u8]) -> bool {
            self.taken[variable] = value.to_vec();
            !value.is_empty()
        }

        fn length(&mut self, number: usize) -> Option<u64> {
            std::str::from_utf8(&self.taken[number]).ok()?.parse().ok()
        }

        fn body(&mut self, bytes: &[u8]) {
            self.body.extend_from_slice(bytes);
        }
    }

    fn text(text: &str) -> Turn {
        Turn::Text(text.into())
    }

    fn pattern(text: &str) -> Turn {
        Turn::Pattern(Regex::new(text).unwrap())
    }

    /// What a dialogue asks for after each piece; it says at once what it is to say.
    fn play<'a>(
        script: &Script,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Result<Next, WireError>, usize) {
        play_to(script, pieces, &mut Hand::default())
    }

    fn play_to<'a>(
        script: &Script,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        hand: &mut Hand,
    ) -> (Result<Next, WireError>, usize) {
        let mut talk = Talk::default();
        let mut next = talk.next(script, hand);
        for piece in pieces {
            while next == Ok(Next::Say) {
                talk.say();
                next = talk.next(script, hand);
            }
            if next.is_err() {
                break;
            }
            next = talk.push(script, piece, hand);
        }
        while next == Ok(Next::Say) {
            talk.say();
            next = talk.next(script, hand);
        }
        (next, talk.said())
    }

    #[test]
    fn a_length_that_came_says_how_much_follows() {
        let script = Script::new(vec![
            Turn::Say,
            Turn::Take(Regex::new(r"^SIZE (\d+)\n").unwrap(), 1),
            Turn::Counted(1),
            text("\r\nEND"),
        ]);
        let whole = b"SIZE 12\nEND of body!\r\nEND";
        for step in [1, 5, whole.len()] {
            let mut hand = Hand::default();
            let played = play_to(&script, whole.chunks(step), &mut hand);
            assert_eq!(played, (Ok(Next::Done), 1), "{step}");
            assert_eq!(hand.taken[1], b"12");
            assert_eq!(hand.body, b"END of body!");
        }
        let (none, huge) = (b"SIZE 0\n\r\nEND", b"SIZE 99999999999999999999\n");
        assert_eq!(play(&script, [&none[..]]), (Ok(Next::Done), 1));
        assert_eq!(play(&script, [&huge[..]]), (Err(WireError::Capture), 1));
        let empty = Script::new(vec![Turn::Take(Regex::new(r"id=(\d*);").unwrap(), 0)]);
        assert_eq!(play(&empty, [&b"id=;"[..]]).0, Err(WireError::Capture));
    }

    #[test]
    fn turns_follow_each_other() {
        let script = Script::new(vec![
            text("220 ready\r\n"),
            Turn::Say,
            pattern(r"^250 \S+\r\n"),
            Turn::Say,
            Turn::Bytes(5),
        ]);
        let whole: &[&[u8]] = &[b"hi\r\n220 re", b"ady\r\n250 O", b"K\r\nabc", b"de"];
        assert_eq!(play(&script, whole.iter().copied()), (Ok(Next::Done), 2));
        assert_eq!(
            play(&script, whole[..3].iter().copied()),
            (Ok(Next::Hear), 2)
        );
        assert_eq!(play(&script, [&b"220 ready\r\n"[..]]), (Ok(Next::Hear), 1));
        let more = [&b"220 ready\r\n250 OK\r\nabcdef"[..]];
        assert_eq!(play(&script, more), (Err(WireError::Unexpected), 2));
    }

    #[test]
    fn the_end_of_the_stream_completes_only_what_waits_for_it() {
        let until = Script::new(vec![Turn::Say, Turn::UntilClose]);
        let (mut talk, mut hand) = (Talk::default(), Hand::default());
        assert_eq!(talk.next(&until, &mut hand), Ok(Next::Say));
        assert_eq!(talk.end_of_stream(&until), Err(WireError::ShortBody));
        talk.say();
        let many = talk.push(&until, &[7; 100_000], &mut hand);
        assert_eq!((many, hand.body.len()), (Ok(Next::Hear), 100_000));
        assert_eq!(
            (talk.received(), talk.end_of_stream(&until)),
            (100_000, Ok(()))
        );
        assert!(until.ends_the_stream());
        let fixed = Script::new(vec![Turn::Bytes(3)]);
        talk.reset();
        assert_eq!(talk.push(&fixed, b"ab", &mut hand), Ok(Next::Hear));
        assert_eq!(talk.end_of_stream(&fixed), Err(WireError::ShortBody));
        assert_eq!(talk.push(&fixed, b"c", &mut hand), Ok(Next::Done));
        assert!(!fixed.ends_the_stream());
    }

    #[test]
    fn what_never_comes_is_not_awaited_for_ever() {
        for turn in [text("OK"), pattern("OK"), Turn::Say] {
            let script = Script::new(vec![turn]);
            let mut talk = Talk::default();
            let verdicts: Vec<_> = (0..70)
                .map(|_| talk.push(&script, &[b'x'; 1_000], &mut Hand::default()))
                .collect();
            assert_eq!(verdicts.last(), Some(&Err(WireError::NoMatch)));
            assert!(talk.kept.len() < 2 * KEPT_MAX);
        }
        let mut talk = Talk::default();
        let long = Script::new(vec![Turn::Bytes(1 << 40)]);
        for _ in 0..100 {
            let next = talk.push(&long, &[0; 65_536], &mut Hand::default());
            assert_eq!(next, Ok(Next::Hear));
        }
        assert!(talk.kept.capacity() <= 2 * KEPT_MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn dialogues_go_alike_however_the_stream_is_cut(
            heard in "[ab\r\n]{0,40}",
            wanted in "[ab]{1,3}",
            bytes in 1u64..9,
            step in 1usize..9,
        ) {
            let script = Script::new(vec![Turn::Say, text(&wanted), Turn::Say, Turn::Bytes(bytes), text("\n")]);
            let heard = heard.as_bytes();
            let whole = play(&script, [heard]);
            // A server that says too much is told so whenever it is noticed.
            let pieces = play(&script, heard.chunks(step));
            if heard.is_empty() {
                prop_assert_eq!(pieces.0, Ok(Next::Hear));
            } else if whole.0 == Err(WireError::Unexpected) {
                prop_assert!(pieces.0 == whole.0 || pieces.0 == Ok(Next::Done));
            } else {
                prop_assert_eq!(pieces, whole);
            }
        }

        #[test]
        fn noise_panics_nowhere(noise in proptest::collection::vec(any::<u8>(), 0..300), step in 1usize..50) {
            let script = Script::new(vec![pattern(r"(?-u)\xff[^\n]*\n"), Turn::Say, Turn::Bytes(3), text("ab"), Turn::UntilClose]);
            let _ = play(&script, noise.chunks(step));
        }
    }
}
