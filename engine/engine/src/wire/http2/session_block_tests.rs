//! The header blocks that leave: what of them the peer's table knows, and how they are cut.

use super::tests::{opening, push, sent, session, SMALL};
use super::*;
use crate::wire::http2::testing::settings;

/// A GET of a kind.
fn lesson(owner: u16, bytes: usize) -> Opening {
    Opening {
        lesson: Some(Lesson {
            owner,
            fields: 3,
            bytes,
        }),
        ..opening(0, true)
    }
}

#[test]
fn a_smaller_table_of_the_peer_is_announced_and_switches_the_dictionary_off() {
    let blocks = |changes: &[u32], room: usize| {
        let mut session = Session::new(SMALL);
        let mut seen = Vec::new();
        session.open(lesson(0, room), |dictionary, _| seen.push(dictionary));
        let all: Vec<u8> = changes
            .iter()
            .flat_map(|bytes| settings(&[(1, *bytes)]))
            .collect();
        push(&mut session, &settings(&[])).unwrap();
        push(&mut session, &all).unwrap();
        session.out.clear();
        session.open(lesson(0, room), |dictionary, _| seen.push(dictionary));
        (seen, session.out[HEAD_BYTES..].to_vec())
    };
    use Dictionary::{Empty, Off};
    let taught = Dictionary::Taught { newer: 0 };
    assert_eq!(blocks(&[], 100), (vec![Empty, taught], vec![]));
    assert_eq!(blocks(&[65_536], 100), (vec![Empty, taught], vec![]));
    assert_eq!(
        blocks(&[200], 100),
        (vec![Empty, taught], vec![0x3f, 169, 1])
    );
    assert_eq!(blocks(&[0], 100), (vec![Empty, Off], vec![0x20]));
    assert_eq!(
        blocks(&[0, 4096], 100),
        (vec![Empty, Off], vec![0x20, 0x3f, 225, 31])
    );
    assert_eq!(blocks(&[], 5_000), (vec![Off, Off], vec![]));
}

#[test]
fn each_kind_of_requests_is_taught_while_the_table_has_room() {
    let mut session = session(0);
    let mut seen = Vec::new();
    let mut open = |opening: Opening| {
        session.open(opening, |dictionary, _| seen.push(dictionary));
    };
    open(opening(0, true));
    for (owner, bytes) in [
        (5, 2_000),
        (5, 2_000),
        (7, 2_000),
        (5, 2_000),
        (7, 2_000),
        (9, 97),
        (8, 96),
    ] {
        open(lesson(owner, bytes));
    }
    open(lesson(5, 2_000));
    open(opening(0, true));
    use Dictionary::{Empty, Off};
    let taught = |newer| Dictionary::Taught { newer };
    let first = [Off, Empty, taught(0), Empty, taught(3), taught(0)];
    assert_eq!(seen[..6], first);
    assert_eq!(seen[6..], [Off, Empty, taught(6), Off]);
}

#[test]
fn a_table_that_shrinks_below_what_was_taught_is_given_up() {
    let mut session = session(0);
    let mut seen = Vec::new();
    session.open(lesson(1, 100), |dictionary, _| seen.push(dictionary));
    session.open(lesson(2, 100), |dictionary, _| seen.push(dictionary));
    push(&mut session, &settings(&[(1, 150)])).unwrap();
    for owner in [2, 1, 3] {
        session.open(lesson(owner, 10), |dictionary, _| seen.push(dictionary));
    }
    use Dictionary::{Empty, Off};
    assert_eq!(seen, [Empty, Empty, Off, Off, Off]);
}

#[test]
fn long_blocks_are_cut_into_continuations() {
    let mut session = session(0);
    let (id, bytes) = session.open(opening(0, true), |_, out| out.resize(out.len() + 40_000, 7));
    assert_eq!(bytes, 40_000 + 3 * HEAD_BYTES);
    let kinds: Vec<u8> = sent(&session).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        [kind::HEADERS, kind::CONTINUATION, kind::CONTINUATION]
    );
    assert_eq!(session.out[4], flag::END_STREAM);
    assert_eq!(
        session.out[2 * (HEAD_BYTES + 16_384) + 4],
        flag::END_HEADERS
    );
    assert_eq!(id, 1);
}
