//! Text that varies from request to request: the pieces it is made of, and who fills them.

use std::io::Write;

use indexmap::IndexMap;

use crate::encoding::{write_value, Place};
use crate::feeder::Feeder;
use crate::share::{GroupSpec, Part, Var};
use crate::table::{Column, Table};

/// A column as bytes, row by row.
#[derive(Clone, Debug)]
pub struct TextColumn {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TextColumn {
    /// The values as they stand in their `place`. `slash`: at the start of a path, where each gets the "/" it lacks.
    fn new(column: &Column, place: Place, slash: bool) -> Self {
        let mut text = TextColumn {
            bytes: Vec::new(),
            ends: Vec::with_capacity(column.len()),
        };
        for row in 0..column.len() {
            write_placed(column.text(row).as_bytes(), place, slash, &mut text.bytes);
            text.ends.push(text.bytes.len());
        }
        text
    }

    fn row(&self, row: usize) -> &[u8] {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[from..self.ends[row]]
    }
}

/// A piece of a text.
#[derive(Clone, Debug)]
pub enum Piece {
    Fixed(Vec<u8>),
    Row {
        feeder: usize,
        text: TextColumn,
    },
    /// Unique over the whole trial and between trials.
    RequestId {
        key: u64,
        open: bool,
    },
    Vu {
        open: bool,
    },
    Iteration,
    Taken {
        variable: usize,
        place: Place,
        /// It stands at the start of a path, and gets the "/" it lacks.
        slash: bool,
    },
    /// How long the body is; a template fills it in.
    BodyLength,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker {
    pub vu: u64,
    pub seq: u64,
}

/// What fills the varying pieces.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub feeders: &'a [Feeder],
    pub asker: Asker,
    /// The variables that earlier answers gave, by number.
    pub taken: &'a [Vec<u8>],
}

impl Piece {
    /// Appends it to `out`.
    pub fn write(&self, source: &Source<'_>, out: &mut Vec<u8>) {
        let Asker { vu, seq } = source.asker;
        // Writing to a Vec can't fail.
        let _ = match self {
            Piece::Fixed(bytes) => out.write_all(bytes),
            Piece::Row { feeder, text } => {
                out.write_all(text.row(source.feeders[*feeder].row(vu, seq) as usize))
            }
            Piece::RequestId { key, open: true } => write!(out, "{key:016x}-{seq:x}"),
            Piece::RequestId { key, open: false } => write!(out, "{key:016x}-{vu:x}-{seq:x}"),
            Piece::Vu { open: true } | Piece::Iteration => write!(out, "{seq}"),
            Piece::Vu { open: false } => write!(out, "{vu}"),
            Piece::Taken {
                variable,
                place,
                slash,
            } => {
                write_placed(&source.taken[*variable], *place, *slash, out);
                Ok(())
            }
            Piece::BodyLength => Ok(()),
        };
    }
}

/// Appends all pieces of a text.
pub fn write_all(pieces: &[Piece], source: &Source<'_>, out: &mut Vec<u8>) {
    pieces.iter().for_each(|piece| piece.write(source, out));
}

/// `slash`: it stands at the start of a path, and gets the "/" it lacks.
fn write_placed(value: &[u8], place: Place, slash: bool, out: &mut Vec<u8>) {
    if slash && value.first() != Some(&b'/') {
        out.push(b'/');
    }
    write_value(value, place, out);
}

/// Makes pieces of a group's parts.
#[derive(Clone, Copy, Debug)]
pub struct Maker<'a> {
    pub group: &'a GroupSpec,
    pub inputs: &'a IndexMap<String, Table>,
    /// The group's variables by number.
    pub variables: &'a [String],
    /// What makes the request ids of this step unlike those of all others.
    pub id_key: u64,
    /// Requests are numbered by arrival.
    pub open: bool,
}

impl Maker<'_> {
    /// Pieces of parts that all stand at the same place.
    pub fn pieces(&self, parts: &[Part], place: Place) -> Vec<Piece> {
        self.placed(parts, vec![place; parts.len()])
    }

    /// Pieces of parts that stand at these places.
    pub fn placed(&self, parts: &[Part], places: Vec<Place>) -> Vec<Piece> {
        let placed = parts.iter().zip(places);
        placed
            .map(|(part, place)| self.piece(part, place, false))
            .collect()
    }

    /// `slash`: it stands at the start of a path.
    pub fn piece(&self, part: &Part, place: Place, slash: bool) -> Piece {
        let place = part.placed(place);
        match part {
            Part::Text { text } => Piece::Fixed(text.clone().into_bytes()),
            Part::Value { value, .. } | Part::Secret { secret: value, .. } => {
                let mut text = Vec::new();
                write_placed(value.as_bytes(), place, slash, &mut text);
                Piece::Fixed(text)
            }
            Part::Feeder { feeder, column, .. } => {
                let found = self.group.feeders.get_full(feeder);
                let (at, table) = found.map_or((0, ""), |(at, _, spec)| (at, spec.table.as_str()));
                let empty = Column::Utf8(Vec::new());
                let values = self
                    .inputs
                    .get(table)
                    .and_then(|table| table.get(column))
                    .unwrap_or(&empty);
                Piece::Row {
                    feeder: at,
                    text: TextColumn::new(values, place, slash),
                }
            }
            Part::Var { var, .. } => match var {
                Var::RequestId => Piece::RequestId {
                    key: self.id_key,
                    open: self.open,
                },
                Var::Vu => Piece::Vu { open: self.open },
                Var::Iteration => Piece::Iteration,
            },
            Part::Taken { taken, .. } => Piece::Taken {
                variable: self
                    .variables
                    .iter()
                    .position(|name| name == taken)
                    .unwrap_or(0),
                place,
                slash,
            },
        }
    }
}

/// Joins neighbours that don't vary.
pub fn join(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Fixed(bytes)), Piece::Fixed(more)) => bytes.extend(more),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_a_path_as_a_path_may_have_them() {
        let column = Column::Utf8(vec!["red shoes".into(), "/a%20b".into(), "é".into()]);
        let whole = TextColumn::new(&column, Place::Address, true);
        assert_eq!(whole.row(0), b"/red%20shoes");
        assert_eq!(whole.row(1), b"/a%20b");
        assert_eq!(whole.row(2), b"/%C3%A9");
        let within = TextColumn::new(&column, Place::Path, false);
        assert_eq!(within.row(1), b"/a%2520b");
        let in_body = TextColumn::new(&column, Place::Free, false);
        assert_eq!(in_body.row(0), b"red shoes");
    }

    #[test]
    fn what_an_answer_gave_cannot_break_a_request() {
        let written = |place, slash| {
            let piece = Piece::Taken {
                variable: 0,
                place,
                slash,
            };
            let source = Source {
                feeders: &[],
                asker: Asker::default(),
                taken: &[b"a b\r\nX: y\t".to_vec()],
            };
            let mut out = Vec::new();
            piece.write(&source, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Place::Address, true), "/a%20b%0D%0AX:%20y%09");
        assert_eq!(written(Place::Word, false), "a%20b%0D%0AX:%20y%09");
        assert_eq!(written(Place::Header, false), "a b  X: y\t");
        assert_eq!(written(Place::Free, false), "a b\r\nX: y\t");
    }
}
