//! The header blocks that leave: what of them the peer's table knows, and how they are cut.

use super::tests::{opening, push, sent, session, SMALL};
use super::*;
use crate::wire::http2::testing::settings;

/// A GET of a kind.
fn lesson(owner: u16, bytes: usize) -> Opening {
    Opening {
        lesson: Some(Lesson { owner, bytes }),
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
    use Dictionary::{Empty, Off, Taught};
    assert_eq!(blocks(&[], 100), (vec![Empty, Taught], vec![]));
    assert_eq!(blocks(&[65_536], 100), (vec![Empty, Taught], vec![]));
    assert_eq!(
        blocks(&[200], 100),
        (vec![Empty, Taught], vec![0x3f, 169, 1])
    );
    assert_eq!(blocks(&[0], 100), (vec![Empty, Off], vec![0x20]));
    assert_eq!(
        blocks(&[0, 4096], 100),
        (vec![Empty, Off], vec![0x20, 0x3f, 225, 31])
    );
    assert_eq!(blocks(&[], 5_000), (vec![Off, Off], vec![]));
}

#[test]
fn one_kind_of_requests_is_taught() {
    let mut session = session(0);
    let mut seen = Vec::new();
    let mut open = |opening: Opening| {
        session.open(opening, |dictionary, _| seen.push(dictionary));
    };
    open(opening(0, true));
    for owner in [5, 5, 7, 5, 7] {
        open(lesson(owner, 10));
    }
    open(opening(0, true));
    use Dictionary::{Empty, Off, Taught};
    assert_eq!(seen, [Off, Empty, Taught, Off, Taught, Off, Off]);
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
