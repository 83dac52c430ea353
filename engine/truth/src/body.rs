//! Bodies of HTTP messages, taken out of a stream of bytes.

/// Longest body.
pub const BODY_LIMIT: usize = 64 * 1024 * 1024;
const CHUNK_LINE_MAX: usize = 1024;

/// Why bytes are not HTTP; the status says it to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    pub status: u16,
    pub why: &'static str,
}

pub(crate) const fn malformed(status: u16, why: &'static str) -> Malformed {
    Malformed { status, why }
}

/// How long a message's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    Bytes(u64),
    Chunked,
    /// A response without either: it ends with the connection.
    UntilClose,
}

/// Takes a body out of a stream of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyDecoder {
    Length { left: u64 },
    ChunkSize,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailer,
    UntilClose,
    Done,
}

impl BodyDecoder {
    #[must_use]
    pub fn new(length: BodyLength) -> Self {
        match length {
            BodyLength::Bytes(0) => Self::Done,
            BodyLength::Bytes(left) => Self::Length { left },
            BodyLength::Chunked => Self::ChunkSize,
            BodyLength::UntilClose => Self::UntilClose,
        }
    }

    #[must_use]
    pub fn is_done(self) -> bool {
        self == Self::Done
    }

    /// Appends what `input` holds of the body to `body`; returns how many bytes it took. Takes nothing after the end.
    ///
    /// # Errors
    /// Bad chunks, or a body above [`BODY_LIMIT`].
    pub fn feed(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let taken = match self {
                Self::Done => break,
                Self::Length { left } | Self::ChunkData { left } => {
                    let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    keep(&rest[..taken], body)?;
                    *left -= taken as u64;
                    if *left == 0 {
                        *self = if matches!(self, Self::Length { .. }) {
                            Self::Done
                        } else {
                            Self::ChunkEnd
                        };
                    }
                    taken
                }
                Self::UntilClose => {
                    keep(rest, body)?;
                    rest.len()
                }
                Self::ChunkSize => match httparse::parse_chunk_size(rest) {
                    Ok(httparse::Status::Complete((taken, size))) => {
                        *self = if size == 0 {
                            Self::Trailer
                        } else {
                            Self::ChunkData { left: size }
                        };
                        taken
                    }
                    Ok(httparse::Status::Partial) if rest.len() < CHUNK_LINE_MAX => break,
                    _ => return Err(malformed(400, "bad chunk")),
                },
                Self::ChunkEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        *self = Self::ChunkSize;
                        2
                    }
                    [b'\r'] => break,
                    _ => return Err(malformed(400, "bad chunk")),
                },
                Self::Trailer => match rest.windows(2).position(|pair| pair == b"\r\n") {
                    Some(0) => {
                        *self = Self::Done;
                        2
                    }
                    Some(line) => line + 2,
                    None if rest.len() < CHUNK_LINE_MAX => break,
                    None => return Err(malformed(431, "trailer too large")),
                },
            };
            at += taken;
        }
        Ok(at)
    }
}

fn keep(bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Malformed> {
    if body.len() + bytes.len() > BODY_LIMIT {
        return Err(malformed(413, "body too large"));
    }
    body.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_decoded_however_they_are_cut() {
        let wire =
            b"4\r\nWiki\r\n6;ext=1\r\npedia \r\nC\r\nin \r\nchunks.\r\n0\r\nTrailer: x\r\n\r\nNEXT";
        for step in 1..wire.len() {
            let (mut decoder, mut body, mut buffer) = (
                BodyDecoder::new(BodyLength::Chunked),
                Vec::new(),
                Vec::new(),
            );
            for piece in wire.chunks(step) {
                buffer.extend_from_slice(piece);
                let taken = decoder.feed(&buffer, &mut body).unwrap();
                buffer.drain(..taken);
            }
            assert!(decoder.is_done(), "{step}");
            assert_eq!(
                (body.as_slice(), buffer.as_slice()),
                (&b"Wikipedia in \r\nchunks."[..], &b"NEXT"[..])
            );
        }
        let (mut decoder, mut body) = (BodyDecoder::new(BodyLength::Bytes(3)), Vec::new());
        assert_eq!(decoder.feed(b"abcdef", &mut body), Ok(3));
        assert!(decoder.is_done() && body == b"abc");
    }

    #[test]
    fn bad_chunks_and_too_long_bodies_are_refused() {
        let fails = |wire: &[u8]| {
            BodyDecoder::ChunkSize
                .feed(wire, &mut Vec::new())
                .unwrap_err()
                .status
        };
        assert_eq!(fails(b"xyz\r\n"), 400);
        assert_eq!(fails(b"1\r\nab"), 400);
        let mut full = vec![0; BODY_LIMIT];
        assert_eq!(
            BodyDecoder::Length { left: 1 }
                .feed(b"x", &mut full)
                .unwrap_err()
                .status,
            413
        );
    }
}
