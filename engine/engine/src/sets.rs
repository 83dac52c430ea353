//! Written objects as rows: sets that requests add to, read from and take from while the load is made.
//!
//! A set belongs to a thread; all its groups share it. Which row a request gets depends on what was written before it, and so on the
//! server: it is no function of the plan.

use indexmap::IndexMap;

use crate::table::Table;

/// One written object, as requests name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub path: Vec<u8>,
    pub size_bytes: u64,
    pub digest: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Place {
    row: Row,
    /// Iterations that read it now.
    readers: u32,
}

/// The rows of a set.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    places: Vec<Place>,
    live: Vec<usize>,
    free: Vec<usize>,
}

/// What an iteration has of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Held {
    #[default]
    Nothing,
    /// A row that others may read too.
    Read(usize),
    /// A row that nobody else sees: written by the iteration itself, or taken out to be deleted.
    Own(Row),
    /// What it had was deleted.
    Gone,
}

impl RowSet {
    /// The rows of a table that are this thread's.
    pub fn of(table: Option<&Table>, thread: usize, threads: usize) -> Self {
        let mut set = RowSet::default();
        let Some(table) = table else {
            return set;
        };
        let rows = table.values().next().map_or(0, |column| column.len());
        let text = |name: &str, row| table.get(name).map(|column| column.text(row));
        for row in (thread..rows).step_by(threads.max(1)) {
            set.put(Row {
                path: text("path", row).unwrap_or_default().into(),
                size_bytes: table
                    .get("size_bytes")
                    .and_then(|column| column.size(row))
                    .unwrap_or(0),
                digest: text("digest", row).unwrap_or_default().into(),
            });
        }
        set
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    fn put(&mut self, row: Row) {
        let place = Place { row, readers: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number] = place;
                number
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.live.push(number);
    }

    /// The row that `pick`, evenly from 0 to what it is given, names; `alone`: one that nobody reads, taken out of the set.
    pub fn draw(&mut self, pick: impl FnOnce(u64) -> u64, alone: bool) -> Option<(Held, &Row)> {
        let count = self.live.len();
        if count == 0 {
            return None;
        }
        let from = pick(count as u64) as usize % count;
        if !alone {
            let number = self.live[from];
            let place = &mut self.places[number];
            place.readers += 1;
            return Some((Held::Read(number), &place.row));
        }
        let unread = |at: &usize| self.places[self.live[*at]].readers == 0;
        let at = (from..count).chain(0..from).find(unread)?;
        let number = self.live.swap_remove(at);
        self.free.push(number);
        let row = &self.places[number].row;
        Some((Held::Own(row.clone()), row))
    }

    /// An iteration has ended: what it read is read by one less, what is its own is everybody's.
    pub fn give_back(&mut self, held: Held) {
        match held {
            Held::Read(number) => self.places[number].readers -= 1,
            Held::Own(row) => self.put(row),
            Held::Nothing | Held::Gone => {}
        }
    }
}

/// The sets of a thread, by name.
pub type Sets = IndexMap<String, RowSet>;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> Row {
        Row {
            path: format!("/{number}").into_bytes(),
            size_bytes: number as u64,
            digest: Vec::new(),
        }
    }

    fn set(rows: usize) -> RowSet {
        let mut set = RowSet::default();
        (0..rows).for_each(|number| set.put(row(number)));
        set
    }

    #[test]
    fn what_is_read_is_not_taken_out() {
        let mut two = set(2);
        let (reading, read) = two.draw(|_| 0, false).unwrap();
        assert_eq!(*read, row(0));
        let (own, taken) = two.draw(|_| 0, true).unwrap();
        assert_eq!((taken, &own), (&row(1), &Held::Own(row(1))));
        assert!(two.draw(|_| 0, true).is_none(), "the only one left is read");
        assert_eq!(two.len(), 1);
        two.give_back(reading);
        assert!(two.draw(|_| 0, true).is_some());
        assert!(two.is_empty() && two.draw(|_| 0, false).is_none());
        two.give_back(own);
        assert_eq!(two.draw(|_| 0, false).unwrap().1, &row(1));
    }

    #[test]
    fn rows_come_and_go_and_are_each_there_once() {
        let mut many = set(10);
        let mut held = Vec::new();
        let mut state = 7u64;
        for turn in 0..10_000 {
            state = crate::rng::mix(state);
            let pick = |count| state % count;
            match state % 3 {
                0 => held.extend(
                    many.draw(pick, state.is_multiple_of(2))
                        .map(|(held, _)| held),
                ),
                1 if held.len() > 3 => many.give_back(held.swap_remove(0)),
                _ if many.len() < 50 => many.give_back(Held::Own(row(100 + turn))),
                _ => {}
            }
            let mut paths: Vec<_> = many
                .live
                .iter()
                .map(|at| &many.places[*at].row.path)
                .collect();
            paths.extend(held.iter().filter_map(|held| match held {
                Held::Own(row) => Some(&row.path),
                _ => None,
            }));
            let all = paths.len();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), all);
        }
        assert!(many.len() > 3);
    }

    #[test]
    fn a_table_is_shared_out_over_threads() {
        let table = Table::from_iter([
            (
                "path".to_owned(),
                crate::table::Column::Utf8(vec!["/a".into(), "/b".into(), "/c".into()]),
            ),
            (
                "size_bytes".to_owned(),
                crate::table::Column::U64(vec![1, 2, 3]),
            ),
        ]);
        let of = |thread| RowSet::of(Some(&table), thread, 2);
        assert_eq!(
            (of(0).len(), of(1).len(), RowSet::of(None, 0, 1).len()),
            (2, 1, 0)
        );
        assert_eq!(of(1).draw(|_| 0, false).unwrap().1.size_bytes, 2);
    }
}
