//! A strict decoder for the chunked transfer coding (RFC 9112 §7.1). It counts; it keeps no bytes.

use super::{WireError, HEADER_LIMIT_BYTES};

/// A chunk's size line, extensions included, may be this long.
const SIZE_LINE_LIMIT: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the size; `digits` seen so far.
    Size {
        digits: u8,
    },
    /// Blanks after the size (RFC 9112 calls them bad but legal before an extension).
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer's name; it ends with a colon.
    TrailerName,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
}

/// Decoder of one chunked body.
#[derive(Clone, Debug)]
pub struct Chunked {
    state: State,
    left: u64,
    size_line: u32,
    trailer_bytes: usize,
}

impl Default for Chunked {
    fn default() -> Self {
        Chunked {
            state: State::Size { digits: 0 },
            left: 0,
            size_line: 0,
            trailer_bytes: 0,
        }
    }
}

impl Chunked {
    /// Takes bytes and adds the body bytes among them to `body_bytes`; `body` sees them. Returns how many were used and
    /// whether the body ended there; if it did not, all were used.
    pub fn push(
        &mut self,
        input: &[u8],
        body_bytes: &mut u64,
        mut body: impl FnMut(&[u8]),
    ) -> Result<(usize, bool), WireError> {
        let mut at = 0;
        while at < input.len() {
            if self.state == State::Data {
                let take = self.left.min((input.len() - at) as u64);
                self.left -= take;
                *body_bytes = body_bytes.saturating_add(take);
                body(&input[at..at + take as usize]);
                at += take as usize;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.step(input[at])?;
            at += 1;
            if self.state == State::Done {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    fn step(&mut self, byte: u8) -> Result<(), WireError> {
        self.state = match self.state {
            State::Size { digits } => self.size(byte, digits)?,
            State::Blank => self.after_size(byte)?,
            State::Extension => self.extension(byte)?,
            State::SizeLf => self.end_of_size_line(byte)?,
            State::DataCr => expect(byte, b'\r', State::DataLf)?,
            State::DataLf => {
                self.size_line = 0;
                expect(byte, b'\n', State::Size { digits: 0 })?
            }
            State::TrailerStart if byte == b'\r' => State::LastLf,
            State::TrailerStart if byte == b':' => return Err(WireError::MalformedChunk),
            // A folded field, as in a head.
            State::TrailerStart if self.trailer_bytes > 0 && matches!(byte, b' ' | b'\t') => {
                self.trailer(byte)?
            }
            State::TrailerStart | State::TrailerName => self.trailer_name(byte)?,
            State::Trailer => self.trailer(byte)?,
            State::TrailerLf => expect(byte, b'\n', State::TrailerStart)?,
            State::LastLf => expect(byte, b'\n', State::Done)?,
            State::Data | State::Done => self.state,
        };
        Ok(())
    }

    fn size(&mut self, byte: u8, digits: u8) -> Result<State, WireError> {
        let Some(digit) = (byte as char).to_digit(16) else {
            return if digits == 0 {
                Err(WireError::MalformedChunk)
            } else {
                self.after_size(byte)
            };
        };
        if digits == 16 {
            return Err(WireError::MalformedChunk);
        }
        self.left = if digits == 0 { 0 } else { self.left << 4 } | u64::from(digit);
        Ok(State::Size { digits: digits + 1 })
    }

    fn after_size(&mut self, byte: u8) -> Result<State, WireError> {
        match byte {
            b'\r' => Ok(State::SizeLf),
            b';' => Ok(State::Extension),
            b' ' | b'\t' => self.count_line(State::Blank),
            _ => Err(WireError::MalformedChunk),
        }
    }

    fn extension(&mut self, byte: u8) -> Result<State, WireError> {
        match byte {
            b'\r' => Ok(State::SizeLf),
            b'\n' | 0 => Err(WireError::MalformedChunk),
            _ => self.count_line(State::Extension),
        }
    }

    fn count_line(&mut self, next: State) -> Result<State, WireError> {
        self.size_line += 1;
        if self.size_line > SIZE_LINE_LIMIT {
            return Err(WireError::MalformedChunk);
        }
        Ok(next)
    }

    fn end_of_size_line(&mut self, byte: u8) -> Result<State, WireError> {
        let next = if self.left == 0 {
            State::TrailerStart
        } else {
            State::Data
        };
        expect(byte, b'\n', next)
    }

    /// A token and a colon, as in a head: no blank between them.
    fn trailer_name(&mut self, byte: u8) -> Result<State, WireError> {
        self.count_trailer()?;
        match byte {
            b':' => Ok(State::Trailer),
            _ if byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte) => {
                Ok(State::TrailerName)
            }
            _ => Err(WireError::MalformedChunk),
        }
    }

    fn count_trailer(&mut self) -> Result<(), WireError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > HEADER_LIMIT_BYTES {
            return Err(WireError::HeaderTooLarge);
        }
        Ok(())
    }

    fn trailer(&mut self, byte: u8) -> Result<State, WireError> {
        self.count_trailer()?;
        match byte {
            b'\r' => Ok(State::TrailerLf),
            b'\n' | 0 => Err(WireError::MalformedChunk),
            _ => Ok(State::Trailer),
        }
    }
}

fn expect(byte: u8, wanted: u8, next: State) -> Result<State, WireError> {
    if byte == wanted {
        Ok(next)
    } else {
        Err(WireError::MalformedChunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8]) -> Result<(usize, bool, u64), WireError> {
        let mut body = 0;
        Chunked::default()
            .push(input, &mut body, |_| ())
            .map(|(used, done)| (used, done, body))
    }

    #[test]
    fn bodies_are_counted_to_their_end() {
        assert_eq!(decode(b"5\r\nhello\r\n0\r\n\r\nnext"), Ok((15, true, 5)));
        assert_eq!(
            decode(b"A;name=value\r\n0123456789\r\n000\r\nX: y\r\nZ: q\r\n\r\n"),
            Ok((45, true, 10))
        );
        assert_eq!(decode(b"5 \t;x\r\nhello\r\n0\r\n\r\n"), Ok((19, true, 5)));
        assert_eq!(decode(b"0\r\n\r\n"), Ok((5, true, 0)));
        assert_eq!(decode(b"0\r\nX: y\r\n\tz\r\n\r\n"), Ok((15, true, 0)));
        assert_eq!(decode(b"ffffffffffffffff\r\nab"), Ok((20, false, 2)));
    }

    #[test]
    fn everything_else_is_malformed() {
        for bad in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"0x5\r\n",
            b"5\nhello",
            b"5\r\nhelloX\n",
            b"5\r\nhello\n",
            b"5\r\rhello",
            b"10000000000000000\r\n",
            b"5 5\r\n",
            b"5;a\nb\r\n",
            b"0\r\nX: y\n",
            b"0\r\nnonsense\r\n\r\n",
            b"0\r\nX: y\r\nnonsense\r\n\r\n",
            b"0\r\n: y\r\n\r\n",
            b"0\r\nX : y\r\n\r\n",
            b"0\r\n X: y\r\n\r\n",
            b"0\r\n\rX",
        ] {
            assert_eq!(
                decode(bad),
                Err(WireError::MalformedChunk),
                "{}",
                bad.escape_ascii()
            );
        }
        let long = [b"1;".as_slice(), &vec![b'x'; 5_000]].concat();
        assert_eq!(decode(&long), Err(WireError::MalformedChunk));
        let trailers = [b"0\r\nX: ".as_slice(), &vec![b'x'; HEADER_LIMIT_BYTES]].concat();
        assert_eq!(decode(&trailers), Err(WireError::HeaderTooLarge));
    }
}
