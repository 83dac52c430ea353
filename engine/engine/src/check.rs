//! Whether an answer is what its request asked for.

use crate::encoding::Place;
use crate::error::ErrorKind;
use crate::feeder::Feeder;
use crate::pieces::{write_all, Maker, Piece, Source};
use crate::share::{CheckSpec, SizeSpec, TextTest};
use crate::take::pattern;
use crate::wire::keep::{Algorithm, Keep, Kept};

/// A complete answer, as far as it was kept.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub status: u16,
    pub body_bytes: u64,
    pub kept: Option<&'a Kept>,
    /// What it says itself went wrong.
    pub refusal: ErrorKind,
}

/// One check of a step.
#[derive(Clone, Debug)]
pub enum Check {
    Status(u16, u16),
    Size(u64),
    /// The size that a variable says.
    SizeTaken(usize),
    /// The size of the feeder's row.
    SizeOfRow {
        feeder: usize,
        sizes: Vec<u64>,
    },
    Header {
        header: String,
        test: Test,
    },
    Body(Test),
    Digest {
        algorithm: Algorithm,
        equals: Vec<Piece>,
    },
}

/// What a text must be.
#[derive(Clone, Debug)]
pub enum Test {
    Present,
    Equals(Vec<Piece>),
    Contains(Vec<Piece>),
    Matches(regex::bytes::Regex),
    /// A pattern that is none: checked shares have no such.
    Never,
}

impl Test {
    fn new(spec: &TextTest, maker: Maker<'_>) -> Self {
        match spec {
            TextTest::Present => Test::Present,
            TextTest::Equals(parts) => Test::Equals(maker.pieces(parts, Place::Free)),
            TextTest::Contains(parts) => Test::Contains(maker.pieces(parts, Place::Free)),
            TextTest::Matches(text) => pattern(text).map_or(Test::Never, Test::Matches),
        }
    }

    fn passes(&self, text: &[u8], source: &Source<'_>) -> bool {
        let filled = |pieces: &[Piece]| {
            let mut wanted = Vec::new();
            write_all(pieces, source, &mut wanted);
            wanted
        };
        match self {
            Test::Present => !text.is_empty(),
            Test::Equals(pieces) => filled(pieces) == text,
            Test::Contains(pieces) => {
                let wanted = filled(pieces);
                wanted.is_empty() || text.windows(wanted.len()).any(|part| part == wanted)
            }
            Test::Matches(regex) => regex.is_match(text),
            Test::Never => false,
        }
    }
}

impl Check {
    /// What makes a test of a text impossible.
    pub fn flaw(spec: &TextTest) -> Option<String> {
        match spec {
            TextTest::Matches(text) => pattern(text).err(),
            TextTest::Present | TextTest::Equals(_) | TextTest::Contains(_) => None,
        }
    }

    pub fn new(spec: &CheckSpec, maker: Maker<'_>) -> Self {
        match spec {
            CheckSpec::Status { status, .. } => Check::Status(status.0, status.1),
            CheckSpec::Size {
                size_bytes: SizeSpec::Bytes(bytes),
                ..
            } => Check::Size(*bytes),
            CheckSpec::Size {
                size_bytes: SizeSpec::Taken { taken },
                ..
            } => {
                let known = maker.variables.iter().position(|name| name == taken);
                Check::SizeTaken(known.unwrap_or(0))
            }
            CheckSpec::Size {
                size_bytes: SizeSpec::Feeder { feeder, column },
                ..
            } => {
                let found = maker.group.feeders.get_full(feeder);
                let values =
                    found.and_then(|(_, _, spec)| maker.inputs.get(&spec.table)?.get(column));
                let size = |row| values.and_then(|column| column.size(row)).unwrap_or(0);
                Check::SizeOfRow {
                    feeder: found.map_or(0, |(at, _, _)| at),
                    sizes: (0..values.map_or(0, |column| column.len()))
                        .map(size)
                        .collect(),
                }
            }
            CheckSpec::Header { header, test, .. } => Check::Header {
                header: header.clone(),
                test: Test::new(test, maker),
            },
            CheckSpec::Body { body, .. } => Check::Body(Test::new(body, maker)),
            CheckSpec::Digest { digest, equals, .. } => Check::Digest {
                algorithm: *digest,
                equals: maker.pieces(equals, Place::Free),
            },
        }
    }

    /// What it needs of an answer.
    pub fn keep(&self) -> Keep {
        let nothing = Keep::default();
        match self {
            Check::Status(..) | Check::Size(_) | Check::SizeTaken(_) | Check::SizeOfRow { .. } => {
                nothing
            }
            Check::Header { .. } => Keep {
                head: true,
                ..nothing
            },
            Check::Body(_) => Keep {
                body: true,
                ..nothing
            },
            Check::Digest { algorithm, .. } => Keep {
                sha256: *algorithm == Algorithm::Sha256,
                md5: *algorithm == Algorithm::Md5,
                ..nothing
            },
        }
    }

    pub fn passes(&self, answer: &Answer<'_>, source: &Source<'_>) -> bool {
        let row = |feeder: &Feeder| feeder.row(source.asker.vu, source.asker.seq) as usize;
        match self {
            Check::Status(low, high) => (*low..=*high).contains(&answer.status),
            Check::Size(bytes) => answer.body_bytes == *bytes,
            Check::SizeTaken(variable) => std::str::from_utf8(&source.taken[*variable])
                .is_ok_and(|text| text.parse::<u64>() == Ok(answer.body_bytes)),
            Check::SizeOfRow { feeder, sizes } => {
                sizes[row(&source.feeders[*feeder])] == answer.body_bytes
            }
            Check::Header { header, test } => answer
                .kept
                .and_then(|kept| kept.header(header))
                .is_some_and(|value| test.passes(value, source)),
            Check::Body(test) => answer
                .kept
                .is_some_and(|kept| test.passes(kept.body(), source)),
            Check::Digest { algorithm, equals } => answer.kept.is_some_and(|kept| {
                let mut wanted = Vec::new();
                write_all(equals, source, &mut wanted);
                wanted.eq_ignore_ascii_case(kept.digest(*algorithm).as_bytes())
            }),
        }
    }
}
