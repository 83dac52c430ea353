//! The chunked coding of a body on its way out (RFC 9112 §7.1), as a function of place: what a socket did not take is
//! made again, and nothing is held.

use std::io;

/// Body bytes of every chunk but the last.
const CHUNK_BYTES: u64 = 16 * 1024;
const CHUNK_HEAD: &[u8] = b"4000\r\n";
const LINE_END: &[u8] = b"\r\n";
const WIRE_CHUNK: u64 = CHUNK_HEAD.len() as u64 + CHUNK_BYTES + LINE_END.len() as u64;
const LAST: &[u8] = b"0\r\n\r\n";

/// A run of bytes on the wire.
enum Run {
    Fixed(Vec<u8>),
    /// Bytes of the body, from this place on.
    Body {
        from: u64,
        bytes: u64,
    },
}

impl Run {
    fn bytes(&self) -> u64 {
        match self {
            Run::Fixed(bytes) => bytes.len() as u64,
            Run::Body { bytes, .. } => *bytes,
        }
    }
}

/// Bytes on the wire of a body of so many.
pub fn wire_bytes(body_bytes: u64) -> u64 {
    let tail: u64 = tail(body_bytes).iter().map(Run::bytes).sum();
    body_bytes / CHUNK_BYTES * WIRE_CHUNK + tail
}

/// Writes the wire's bytes from `at` on into all of `out`; `content` gives the body's from a place on.
pub fn fill(
    body_bytes: u64,
    at: u64,
    out: &mut [u8],
    mut content: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let whole = body_bytes / CHUNK_BYTES;
    let (mut chunk, mut skip) = (at / WIRE_CHUNK, at % WIRE_CHUNK);
    if chunk >= whole {
        (chunk, skip) = (whole, at - whole * WIRE_CHUNK);
    }
    let mut done = 0;
    while done < out.len() {
        let runs = if chunk < whole {
            chunk_runs(chunk)
        } else {
            tail(body_bytes)
        };
        for run in &runs {
            let passed = skip.min(run.bytes());
            skip -= passed;
            let take = (run.bytes() - passed).min((out.len() - done) as u64) as usize;
            let piece = &mut out[done..done + take];
            match run {
                Run::Fixed(bytes) => piece.copy_from_slice(&bytes[passed as usize..][..take]),
                Run::Body { from, .. } => content(from + passed, piece)?,
            }
            done += take;
        }
        if chunk >= whole && done < out.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        chunk += 1;
    }
    Ok(())
}

fn chunk_runs(number: u64) -> Vec<Run> {
    let from = number * CHUNK_BYTES;
    vec![
        Run::Fixed(CHUNK_HEAD.to_vec()),
        Run::Body {
            from,
            bytes: CHUNK_BYTES,
        },
        Run::Fixed(LINE_END.to_vec()),
    ]
}

/// What follows the whole chunks.
fn tail(body_bytes: u64) -> Vec<Run> {
    let rest = body_bytes % CHUNK_BYTES;
    if rest == 0 {
        return vec![Run::Fixed(LAST.to_vec())];
    }
    vec![
        Run::Fixed(format!("{rest:x}\r\n").into_bytes()),
        Run::Body {
            from: body_bytes - rest,
            bytes: rest,
        },
        Run::Fixed([LINE_END, LAST].concat()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::chunked::Chunked;
    use proptest::prelude::*;

    /// Byte `place` of the body.
    fn byte(place: u64) -> u8 {
        (place % 251) as u8
    }

    fn made(body_bytes: u64, at: u64, out: &mut [u8]) {
        fill(body_bytes, at, out, |from, piece| {
            (from..)
                .zip(piece)
                .for_each(|(place, out)| *out = byte(place));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn small_bodies_look_as_the_rfc_shows() {
        let wire = |text: &[u8]| {
            let mut out = vec![0; wire_bytes(text.len() as u64) as usize];
            fill(text.len() as u64, 0, &mut out, |from, piece| {
                piece.copy_from_slice(&text[from as usize..][..piece.len()]);
                Ok(())
            })
            .unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(wire(b""), "0\r\n\r\n");
        assert_eq!(wire(b"hello world"), "b\r\nhello world\r\n0\r\n\r\n");
    }

    #[test]
    fn nothing_stands_behind_the_last_chunk() {
        let past = fill(3, wire_bytes(3), &mut [0], |_, _| Ok(()));
        assert!(past.is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn it_decodes_to_the_body_however_it_is_cut(
            body_bytes in prop_oneof![0u64..100, 16_380u64..16_390, 0u64..70_000, Just(32_768)],
            cuts in proptest::collection::vec(1usize..9_000, 1..30),
        ) {
            let mut whole = vec![0; wire_bytes(body_bytes) as usize];
            made(body_bytes, 0, &mut whole);
            let mut at = 0;
            for cut in cuts {
                let mut piece = vec![0; cut.min(whole.len() - at)];
                made(body_bytes, at as u64, &mut piece);
                prop_assert_eq!(&piece, &whole[at..at + piece.len()]);
                at += piece.len();
            }
            let mut counted = 0;
            prop_assert_eq!(Chunked::default().push(&whole, &mut counted, |_| ()), Ok((whole.len(), true)));
            prop_assert_eq!(counted, body_bytes);
        }
    }
}
