//! One HTTP/1.1 answer, decoded as it arrives. Bodies are counted and thrown away; only a head that arrives in pieces is kept,
//! and what somebody wants of an answer.

use super::chunked::Chunked;
use super::head::{self, Framing, Head};
use super::keep::{Keep, Keeping, Kept};
use super::{WireError, HEADER_LIMIT_BYTES};

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The answer is not complete; all bytes were used.
    More,
    /// The answer is complete; so many of the bytes belonged to it.
    Done { used: usize },
}

/// Decoder of one answer; reusable, its buffers stay.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: State,
    partial: Vec<u8>,
    to_head_request: bool,
    continued: bool,
    keep_alive: bool,
    status: u16,
    header_bytes: usize,
    body_bytes: u64,
    location: Vec<u8>,
    keeping: Keeping,
}

/// A partial head up to this size is parsed again at every piece, above it only where a line end may complete it.
const REPARSE_BELOW: usize = 4096;

impl Decoder {
    /// Makes ready for the answer to a new request.
    pub fn reset(&mut self, to_head_request: bool) {
        self.state = State::Head;
        self.partial.clear();
        self.to_head_request = to_head_request;
        self.continued = false;
        self.keep_alive = false;
        self.status = 0;
        self.header_bytes = 0;
        self.body_bytes = 0;
        self.location.clear();
        self.keeping.begin(Keep::default());
    }

    /// Keeps so much of the answer that comes next.
    pub fn keep(&mut self, keep: Keep) {
        self.keeping.begin(keep);
    }

    /// The answer is judged: room that only a monstrous one needs is not kept by every user who ever met one.
    pub fn shrink(&mut self) {
        if self.partial.capacity() > REPARSE_BELOW {
            self.partial = Vec::new();
        }
        self.keeping.shrink();
    }

    /// What was kept of the answer; nothing where nothing was wanted.
    pub fn kept(&self) -> Option<&Kept> {
        self.keeping.kept()
    }

    /// Whether the server has said 100 Continue.
    pub fn continued(&self) -> bool {
        self.continued
    }

    /// Status of the final answer; 0 before its head is complete.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Bytes of all heads, interim answers included.
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Body bytes so far, without chunk framing.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the connection may carry another request after this answer.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// The Location header, empty if there is none.
    pub fn location(&self) -> &[u8] {
        &self.location
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, input: &[u8]) -> Result<Step, WireError> {
        let mut at = 0;
        loop {
            if matches!(self.state, State::Done) {
                return Ok(Step::Done { used: at });
            }
            if at == input.len() {
                return Ok(Step::More);
            }
            at += self.take(&input[at..])?;
        }
    }

    /// The stream has ended. `Ok` if that completes the answer.
    pub fn end_of_stream(&mut self) -> Result<(), WireError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Head => {
                head::parse(&self.partial, self.to_head_request, &mut self.location)?;
                Err(WireError::ShortHead)
            }
            _ => Err(WireError::ShortBody),
        }
    }

    fn take(&mut self, input: &[u8]) -> Result<usize, WireError> {
        match &mut self.state {
            State::Head => self.take_head(input),
            State::Length(left) => {
                let take = (*left).min(input.len() as u64);
                *left -= take;
                if *left == 0 {
                    self.state = State::Done;
                }
                self.body_bytes += take;
                self.keeping.take_body(&input[..take as usize]);
                Ok(take as usize)
            }
            State::Chunked(chunked) => {
                let keeping = &mut self.keeping;
                let (used, done) = chunked.push(input, &mut self.body_bytes, |bytes| {
                    keeping.take_body(bytes);
                })?;
                if done {
                    self.state = State::Done;
                }
                Ok(used)
            }
            State::UntilClose => {
                self.body_bytes += input.len() as u64;
                self.keeping.take_body(input);
                Ok(input.len())
            }
            State::Done => Ok(0),
        }
    }

    fn take_head(&mut self, input: &[u8]) -> Result<usize, WireError> {
        let room = HEADER_LIMIT_BYTES - self.header_bytes - self.partial.len();
        let window = &input[..input.len().min(room)];
        if self.partial.is_empty() {
            if let Some(head) = head::parse(window, self.to_head_request, &mut self.location)? {
                self.begin_body(head);
                self.keep_head(head, &window[..head.bytes]);
                return Ok(head.bytes);
            }
            return self.gather(window, input.len());
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(window);
        if self.partial.len() > REPARSE_BELOW && !window.contains(&b'\n') {
            return self.check_room(input.len());
        }
        match head::parse(&self.partial, self.to_head_request, &mut self.location)? {
            Some(head) => {
                self.begin_body(head);
                let partial = std::mem::take(&mut self.partial);
                self.keep_head(head, &partial[..head.bytes]);
                self.partial = partial;
                self.partial.clear();
                Ok(head.bytes - before)
            }
            None => self.check_room(input.len()),
        }
    }

    fn keep_head(&mut self, head: Head, bytes: &[u8]) {
        if let Some(kept) = self.keeping.kept_mut().filter(|_| !head.interim) {
            kept.take_head(bytes);
        }
    }

    fn gather(&mut self, window: &[u8], all: usize) -> Result<usize, WireError> {
        self.partial.extend_from_slice(window);
        self.check_room(all)
    }

    fn check_room(&self, all: usize) -> Result<usize, WireError> {
        if self.header_bytes + self.partial.len() >= HEADER_LIMIT_BYTES {
            return Err(WireError::HeaderTooLarge);
        }
        Ok(all)
    }

    fn begin_body(&mut self, head: Head) {
        self.header_bytes += head.bytes;
        if head.interim {
            self.continued |= head.status == 100;
            return;
        }
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        self.state = match head.framing {
            Framing::Empty => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::default()),
            Framing::UntilClose => State::UntilClose,
        };
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    pub struct Outcome {
        pub result: Result<usize, WireError>,
        pub status: u16,
        pub headers: usize,
        pub body: u64,
        pub keep_alive: bool,
        pub kept: (Option<Vec<u8>>, Vec<u8>),
    }

    /// Feeds the pieces, then ends the stream; the result is how many bytes the answer took.
    pub fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        decode_with(&mut Decoder::default(), pieces)
    }

    /// As [`decode`], with a decoder that may have seen an answer before.
    pub fn decode_with<'a>(
        decoder: &mut Decoder,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Outcome {
        decoder.reset(false);
        decoder.keep(Keep {
            head: true,
            body: true,
            ..Keep::default()
        });
        let mut total = 0;
        let mut result = None;
        for piece in pieces {
            match decoder.push(piece) {
                Ok(Step::More) => total += piece.len(),
                Ok(Step::Done { used }) => {
                    result = Some(Ok(total + used));
                    break;
                }
                Err(error) => {
                    result = Some(Err(error));
                    break;
                }
            }
        }
        let result = result.unwrap_or_else(|| decoder.end_of_stream().map(|()| total));
        Outcome {
            result,
            status: decoder.status(),
            headers: decoder.header_bytes(),
            body: decoder.body_bytes(),
            keep_alive: decoder.keep_alive(),
            kept: decoder
                .kept()
                .map(|kept| (kept.header("X-A").map(<[u8]>::to_vec), kept.body().to_vec()))
                .unwrap_or_default(),
        }
    }

    pub fn whole(bytes: &[u8]) -> Outcome {
        decode([bytes])
    }

    #[test]
    fn interim_answers_are_skipped() {
        let outcome = whole(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokNEXT");
        assert_eq!(outcome.status, 200);
        assert_eq!(outcome.body, 2);
        assert_eq!(outcome.headers, 25 + 28 + 38);
        assert_eq!(outcome.result, Ok(25 + 28 + 38 + 2));
    }

    #[test]
    fn what_is_kept_is_the_final_answers() {
        let outcome = whole(b"HTTP/1.1 103 Hints\r\nX-A: no\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1;x\r\n!\r\n0\r\n\r\n");
        assert_eq!(outcome.kept, (Some(b"b".to_vec()), b"ok!".to_vec()));
        let mut decoder = Decoder::default();
        decoder
            .push(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
        assert!(decoder.kept().is_none());
    }

    #[test]
    fn the_end_of_the_stream_completes_only_bodies_that_wait_for_it() {
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\n\r\nabc").result, Ok(22));
        assert_eq!(
            whole(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").result,
            Err(WireError::ShortBody)
        );
        assert_eq!(
            whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").result,
            Err(WireError::ShortBody)
        );
        assert_eq!(
            whole(b"HTTP/1.1 200 OK\r\nConte").result,
            Err(WireError::ShortHead)
        );
        assert_eq!(
            whole(b"HTTP/1.1 100 Continue\r\n\r\n").result,
            Err(WireError::ShortHead)
        );
    }

    #[test]
    fn heads_have_a_limit() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(HEADER_LIMIT_BYTES));
        assert_eq!(
            whole(long.as_bytes()).result,
            Err(WireError::HeaderTooLarge)
        );
        assert_eq!(
            decode(long.as_bytes().chunks(1000)).result,
            Err(WireError::HeaderTooLarge)
        );
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(HEADER_LIMIT_BYTES / 25 + 1);
        assert_eq!(
            whole(interim.as_bytes()).result,
            Err(WireError::HeaderTooLarge)
        );
        let fits = format!(
            "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
            "y".repeat(60_000)
        );
        assert_eq!(decode(fits.as_bytes().chunks(1)).status, 200);
    }

    #[test]
    fn a_body_larger_than_memory_is_only_counted() {
        let mut decoder = Decoder::default();
        decoder
            .push(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n")
            .unwrap();
        let piece = vec![0; 65_536];
        for _ in 0..1_000 {
            assert_eq!(decoder.push(&piece), Ok(Step::More));
        }
        assert_eq!(decoder.body_bytes(), 65_536_000);
        assert!(decoder.partial.capacity() < 65_536);
    }
}
