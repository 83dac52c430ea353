//! Request bodies: how long each is and what stands where in it. Random and file bodies are made piece by piece as they
//! are written; none is ever held whole in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::Deserialize;

use crate::pace::lognormal;
use crate::request::Asker;
use crate::rng::{mix, Draws, Stream};

/// The longest body that is generated.
pub const BODY_MAX_BYTES: u64 = 1 << 40;

/// How long a generated body is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SizeLaw {
    Bytes(u64),
    /// Low and high end, both included.
    Uniform([u64; 2]),
    /// Median and 99 % quantile.
    Lognormal([f64; 2]),
}

impl SizeLaw {
    /// Whether it is one that can be drawn.
    pub fn is_sound(&self) -> bool {
        match self {
            SizeLaw::Bytes(bytes) => *bytes <= BODY_MAX_BYTES,
            SizeLaw::Uniform([low, high]) => low <= high && *high <= BODY_MAX_BYTES,
            SizeLaw::Lognormal([median, p99]) => {
                *median >= 1.0 && median <= p99 && *p99 <= BODY_MAX_BYTES as f64
            }
        }
    }
}

/// A body that is streamed.
#[derive(Clone, Debug)]
pub enum Streamed {
    /// Seeded bytes that no compression shortens: a function of seed, group, request and place.
    Random {
        law: SizeLaw,
        content: Draws,
        size: Draws,
        turn: Draws,
        open: bool,
    },
    File {
        file: Arc<File>,
        bytes: u64,
    },
}

impl Streamed {
    pub fn random(seed: u64, group: &str, law: SizeLaw, open: bool) -> Self {
        Streamed::Random {
            law,
            content: Draws::new(seed, group, Stream::Body),
            size: Draws::new(seed, group, Stream::BodySize),
            turn: Draws::new(seed, group, Stream::BodySizeTurn),
            open,
        }
    }

    /// A file as it is now; shrinks it later, the request fails.
    pub fn file(path: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?;
        if !bytes.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file"));
        }
        Ok(Streamed::File {
            file: Arc::new(file),
            bytes: bytes.len(),
        })
    }

    /// The length that every request has, if that does not vary.
    pub fn fixed_length(&self) -> Option<u64> {
        match self {
            Streamed::File { bytes, .. } => Some(*bytes),
            Streamed::Random {
                law: SizeLaw::Bytes(bytes),
                ..
            } => Some(*bytes),
            Streamed::Random { .. } => None,
        }
    }

    /// Bytes of the body of `asker`'s request.
    pub fn length(&self, asker: Asker) -> u64 {
        let Streamed::Random {
            law,
            size,
            turn,
            open,
            ..
        } = self
        else {
            return self.fixed_length().unwrap_or(0);
        };
        let (unit, step) = numbers(asker, *open);
        match *law {
            SizeLaw::Bytes(bytes) => bytes,
            SizeLaw::Uniform([low, high]) => low + size.below(unit, step, high - low + 1),
            SizeLaw::Lognormal([median, p99]) => {
                let drawn = lognormal(median, p99, size.normal(turn, unit, step));
                drawn.clamp(1.0, BODY_MAX_BYTES as f64) as u64
            }
        }
    }

    /// Writes the bytes from place `at` on into all of `out`.
    pub fn fill(&self, asker: Asker, at: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Streamed::Random { content, open, .. } => {
                let (unit, step) = numbers(asker, *open);
                random_bytes(content.bits(unit, step), at, out);
                Ok(())
            }
            Streamed::File { file, .. } => file.read_exact_at(out, at),
        }
    }
}

/// A draw's keys: an open loop numbers its requests by arrival alone.
fn numbers(asker: Asker, open: bool) -> (u64, u64) {
    if open {
        (asker.seq, 0)
    } else {
        (asker.vu, asker.seq)
    }
}

/// The bytes from `at` on of the endless stream of `key`: splitmix64's, eight at a time.
fn random_bytes(key: u64, at: u64, out: &mut [u8]) {
    let word = |number: u64| {
        mix(key.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    };
    let (mut number, skip) = (at / 8, (at % 8) as usize);
    let first = out.len().min((8 - skip) % 8);
    let (head, rest) = out.split_at_mut(first);
    if skip > 0 {
        head.copy_from_slice(&word(number)[skip..skip + first]);
        number += 1;
    }
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(number));
        number += 1;
    }
    let tail = words.into_remainder();
    let length = tail.len();
    tail.copy_from_slice(&word(number)[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: Asker = Asker { vu: 3, seq: 5 };

    fn random(law: SizeLaw) -> Streamed {
        Streamed::random(7, "load", law, false)
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_body_however_it_is_cut(cuts in prop::collection::vec(0usize..300, 1..20)) {
            let body = random(SizeLaw::Bytes(4096));
            let mut whole = vec![0; 4096];
            body.fill(ONE, 0, &mut whole).unwrap();
            let mut at = 0;
            for cut in cuts {
                let take = cut.min(whole.len() - at);
                let mut piece = vec![0; take];
                body.fill(ONE, at as u64, &mut piece).unwrap();
                prop_assert_eq!(&piece, &whole[at..at + take]);
                at += take;
            }
        }
    }

    #[test]
    fn bodies_differ_between_requests_and_use_all_bytes_alike() {
        let body = random(SizeLaw::Bytes(1 << 16));
        let fill = |asker| {
            let mut out = vec![0u8; 1 << 16];
            body.fill(asker, 0, &mut out).unwrap();
            out
        };
        let one = fill(ONE);
        assert_eq!(one, fill(ONE));
        assert_ne!(one, fill(Asker { vu: 5, seq: 3 }));
        let mut counts = [0u32; 256];
        one.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|n| (160..360).contains(n)), "{counts:?}");
    }

    #[test]
    fn sizes_follow_their_law() {
        let sizes = |law| {
            let body = random(law);
            let mut sizes: Vec<_> = (0..10_000)
                .map(|seq| body.length(Asker { vu: 1, seq }))
                .collect();
            sizes.sort_unstable();
            sizes
        };
        assert!(sizes(SizeLaw::Bytes(9)).iter().all(|n| *n == 9));
        let uniform = sizes(SizeLaw::Uniform([10, 19]));
        assert_eq!((uniform[0], uniform[9_999]), (10, 19));
        let lognormal = sizes(SizeLaw::Lognormal([1e4, 1e5]));
        assert!(
            (9_500..10_500).contains(&lognormal[5_000]),
            "{}",
            lognormal[5_000]
        );
        assert!(
            (85_000..118_000).contains(&lognormal[9_900]),
            "{}",
            lognormal[9_900]
        );
        assert!(!SizeLaw::Uniform([2, 1]).is_sound() && !SizeLaw::Lognormal([0.0, 1.0]).is_sound());
        assert!(SizeLaw::Bytes(500_000_000).is_sound());
    }
}
