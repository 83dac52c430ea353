//! Cuts a stream of bytes into frames. Bodies pass as they come; any other frame is held until it is whole, in at most 16 KiB.

use super::frame::{flag, kind, Head, HEAD_BYTES, PAYLOAD_MAX};
use super::Fault;

/// What the next bytes are.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole frame.
    Frame(Head, &'a [u8]),
    /// Bytes of an unpadded DATA frame; `begins`, `ends`: the first, the last of it.
    Data {
        head: Head,
        bytes: &'a [u8],
        begins: bool,
        ends: bool,
    },
}

#[derive(Debug, Default)]
pub struct Reader {
    /// The frame that is being read.
    head: Option<Head>,
    /// Bytes of its payload still to come, where it is a body's.
    left: usize,
    /// A header or payload that has come in part.
    partial: Vec<u8>,
    /// The last piece was `partial`.
    spent: bool,
}

impl Reader {
    /// The next piece at the start of `input`, which moves on; `None`: more bytes are needed.
    pub fn next<'r, 'i: 'r>(
        &'r mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Piece<'r>>, Fault> {
        if std::mem::take(&mut self.spent) {
            self.partial.clear();
        }
        let (head, begins) = match self.head {
            Some(head) => (head, false),
            None => match self.head(input) {
                Some(head) => (head, true),
                None => return Ok(None),
            },
        };
        if begins {
            if head.length > PAYLOAD_MAX {
                return Err(Fault::FrameSize);
            }
            self.left = head.length;
        }
        self.head = Some(head);
        if head.kind == kind::DATA && !head.has(flag::PADDED) {
            return Ok(self.data(head, begins, input));
        }
        Ok(self.frame(head, input))
    }

    fn head(&mut self, input: &mut &[u8]) -> Option<Head> {
        if self.partial.is_empty() {
            if let Some((bytes, rest)) = input.split_first_chunk::<HEAD_BYTES>() {
                *input = rest;
                return Some(Head::parse(bytes));
            }
        }
        self.fill(HEAD_BYTES, input);
        let bytes = self.partial.first_chunk::<HEAD_BYTES>()?;
        let head = Head::parse(bytes);
        self.partial.clear();
        Some(head)
    }

    /// Takes from `input` until `partial` has `wanted` bytes.
    fn fill(&mut self, wanted: usize, input: &mut &[u8]) {
        let (taken, rest) = input.split_at(input.len().min(wanted - self.partial.len()));
        self.partial.extend_from_slice(taken);
        *input = rest;
    }

    fn data<'i>(&mut self, head: Head, begins: bool, input: &mut &'i [u8]) -> Option<Piece<'i>> {
        let (bytes, rest) = input.split_at(input.len().min(self.left));
        if bytes.is_empty() && !begins {
            return None;
        }
        *input = rest;
        self.left -= bytes.len();
        let ends = self.left == 0;
        if ends {
            self.head = None;
        }
        Some(Piece::Data {
            head,
            bytes,
            begins,
            ends,
        })
    }

    fn frame<'r, 'i: 'r>(&'r mut self, head: Head, input: &mut &'i [u8]) -> Option<Piece<'r>> {
        if self.partial.is_empty() {
            if let Some((payload, rest)) = input.split_at_checked(head.length) {
                *input = rest;
                self.head = None;
                return Some(Piece::Frame(head, payload));
            }
        }
        self.fill(head.length, input);
        if self.partial.len() < head.length {
            return None;
        }
        self.head = None;
        self.spent = true;
        Some(Piece::Frame(head, &self.partial))
    }

    /// The frame that has begun and not ended.
    pub fn begun(&self) -> Option<Head> {
        self.head
    }

    /// Whether a frame has begun and not ended.
    #[cfg(test)]
    pub fn within_frame(&self) -> bool {
        self.head.is_some() || (!self.spent && !self.partial.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;
    use proptest::prelude::*;

    /// Frames with their payloads, DATA as its length.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<(Head, Vec<u8>)>, Fault> {
        let (mut reader, mut frames, mut sum) = (Reader::default(), Vec::new(), 0);
        for piece in pieces {
            let mut input = piece;
            while let Some(piece) = reader.next(&mut input)? {
                match piece {
                    Piece::Frame(head, payload) => frames.push((head, payload.to_vec())),
                    Piece::Data {
                        head,
                        bytes,
                        begins,
                        ends,
                    } => {
                        sum = if begins { 0 } else { sum } + bytes.len();
                        if ends {
                            assert_eq!(sum, head.length);
                            frames.push((head, Vec::new()));
                        }
                    }
                }
            }
            assert!(reader.partial.len() <= PAYLOAD_MAX);
        }
        Ok(frames)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn frames_are_the_same_however_they_are_cut(
            frames in proptest::collection::vec((0u8..12, any::<u8>(), any::<u32>(), 0usize..300), 0..12),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            for (kind, flags, stream, length) in &frames {
                frame::head(&mut bytes, *length, *kind, *flags, *stream);
                bytes.extend((0..*length).map(|at| at as u8));
            }
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let whole = read([bytes.as_slice()]).unwrap();
            prop_assert_eq!(whole.len(), frames.len());
            prop_assert_eq!(&read(at.windows(2).map(|pair| &bytes[pair[0]..pair[1]])).unwrap(), &whole);
            prop_assert_eq!(read(bytes.chunks(1)).unwrap(), whole);
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..400), step in 1usize..40) {
            let _ = read(noise.chunks(step));
        }
    }

    #[test]
    fn frames_beyond_the_limit_are_refused_at_once() {
        let mut bytes = Vec::new();
        frame::head(&mut bytes, PAYLOAD_MAX + 1, kind::DATA, 0, 1);
        assert_eq!(read([bytes.as_slice()]), Err(Fault::FrameSize));
    }
}
