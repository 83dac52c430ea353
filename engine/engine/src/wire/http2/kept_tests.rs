//! What is kept of answers over HTTP/2: the same however their frames are cut, bounded whatever comes.

use proptest::prelude::*;

use super::answer::Answer;
use super::frame::{flag, kind};
use super::hpack::encoder::{self, Literal};
use super::session::{Event, Keeper, Opening, Session};
use super::settings::Windows;
use super::testing::{frame_of, settings, teaching_head as head};
use super::Fault;
use crate::wire::keep::{Algorithm, Keep, Kept};
use crate::wire::HEADER_LIMIT_BYTES;

const ALL: Keep = Keep {
    head: true,
    body: true,
    sha256: true,
    md5: true,
    location: true,
};
const END: u8 = flag::END_STREAM;

/// Kept answers by key.
struct Shelf(Vec<Kept>);

impl Keeper for Shelf {
    fn kept(&mut self, key: u32) -> Option<&mut Kept> {
        self.0.get_mut(key as usize)
    }
}

struct Talk {
    session: Session,
    shelf: Shelf,
    events: Vec<Event>,
}

impl Talk {
    /// `streams` requests whose bodies follow, if `ends` is false.
    fn begin(streams: u32, ends: bool) -> Self {
        let mut session = Session::new(Windows::default());
        let mut kept = Kept::default();
        kept.begin(ALL);
        for key in 0..streams {
            let opening = Opening {
                key,
                ends,
                keeps: true,
                ..Opening::default()
            };
            session.open(opening, |_, out| out.push(0x82));
        }
        Talk {
            session,
            shelf: Shelf(vec![kept; streams as usize]),
            events: Vec::new(),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let Talk {
            session,
            shelf,
            events,
        } = self;
        session.push(bytes, events, shelf)
    }

    fn outcome(&self, key: u32) -> Option<Result<Answer, Fault>> {
        self.events.iter().find_map(|event| match event {
            Event::Ended {
                key: ended,
                answer,
                outcome,
            } if *ended == key => Some(outcome.map(|()| *answer)),
            _ => None,
        })
    }
}

fn greeting() -> Vec<u8> {
    settings(&[])
}

#[test]
fn the_final_head_is_kept_and_neither_hints_nor_trailers() {
    let mut talk = Talk::begin(1, true);
    let bytes = [
        greeting(),
        head(
            1,
            0,
            &[(":status", "103"), ("x-a", "hint"), ("location", "/no")],
        ),
        head(
            1,
            0,
            &[(":status", "302"), ("x-a", "b"), ("location", "/yes")],
        ),
        frame_of(kind::DATA, flag::PADDED, 1, &[2, b'o', b'k', 0, 0]),
        head(1, END, &[("x-a", "trailer"), ("location", "/late")]),
    ];
    talk.hear(&bytes.concat()).unwrap();
    assert_eq!(
        talk.outcome(0).unwrap().map(|answer| answer.status),
        Ok(302)
    );
    let kept = &talk.shelf.0[0];
    assert_eq!(kept.header("X-A"), Some(&b"b"[..]));
    assert_eq!((kept.location(), kept.body()), (&b"/yes"[..], &b"ok"[..]));
    assert_eq!(kept.header(":status"), None);
}

#[test]
fn a_head_that_is_too_large_is_not_held() {
    // One field that fills the table, then references to it: each byte stands for 4 KB.
    let large = "v".repeat(4_000);
    let mut block = Vec::new();
    encoder::name(&mut block, Literal::Plain, ":status");
    encoder::string(&mut block, b"302");
    encoder::name(&mut block, Literal::Taught, "location");
    encoder::string(&mut block, large.as_bytes());
    block.extend([0xbe; 10_000]);
    let mut talk = Talk::begin(1, true);
    let bytes = [
        greeting(),
        frame_of(kind::HEADERS, flag::END_HEADERS | END, 1, &block),
    ];
    talk.hear(&bytes.concat()).unwrap();
    assert_eq!(talk.outcome(0), Some(Err(Fault::HeaderTooLarge)));
    assert!(talk.shelf.0[0].capacity() < 4 * HEADER_LIMIT_BYTES);
}

#[test]
fn a_value_that_would_make_another_field_is_malformed() {
    for value in ["a\r\nx-auth: forged", "a\nx-auth: forged", "a\0b"] {
        let mut talk = Talk::begin(1, true);
        let bytes = [
            greeting(),
            head(1, END, &[(":status", "200"), ("x-a", value)]),
        ];
        talk.hear(&bytes.concat()).unwrap();
        assert_eq!(talk.outcome(0), Some(Err(Fault::Malformed)), "{value:?}");
    }
}

#[test]
fn leave_to_go_on_is_told_while_a_body_waits_for_it() {
    for (ends, told) in [(true, 0), (false, 1)] {
        let mut talk = Talk::begin(1, ends);
        let bytes = [
            greeting(),
            head(1, 0, &[(":status", "103")]),
            head(1, 0, &[(":status", "100")]),
        ];
        talk.hear(&bytes.concat()).unwrap();
        let leave = Event::Continued { key: 0 };
        let heard = talk.events.iter().filter(|event| **event == leave);
        assert_eq!(heard.count(), told);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_is_what_was_sent(
        answers in proptest::collection::vec(("[a-z]{1,8}", "[!-~]{1,60}", proptest::collection::vec(any::<u8>(), 0..600)), 1..5),
        cut in 1usize..300,
        step in 1usize..200,
    ) {
        let ids = || (1u32..).step_by(2).zip(&answers);
        let mut bytes = greeting();
        for (id, (name, value, _)) in ids() {
            let name = format!("x-{name}");
            bytes.extend(head(id, 0, &[(":status", "307"), (&name, value), ("location", value)]));
        }
        // Bodies in turns, as servers with several streams send them.
        for turn in 0..600usize.div_ceil(cut) {
            for (id, (_, _, body)) in ids() {
                let rest = body.get(turn * cut..).unwrap_or_default();
                bytes.extend(frame_of(kind::DATA, 0, id, &rest[..rest.len().min(cut)]));
            }
        }
        for (id, _) in ids() {
            bytes.extend(frame_of(kind::DATA, END, id, &[]));
        }
        let mut talk = Talk::begin(answers.len() as u32, true);
        for piece in bytes.chunks(step) {
            talk.hear(piece).unwrap();
        }
        for (key, (name, value, body)) in (0..).zip(&answers) {
            prop_assert!(talk.outcome(key).unwrap().is_ok());
            let kept = &talk.shelf.0[key as usize];
            prop_assert_eq!(kept.header(&format!("X-{name}")), Some(value.as_bytes()));
            prop_assert_eq!(kept.location(), value.as_bytes());
            prop_assert_eq!(kept.body(), body.as_slice());
            let mut whole = Kept::default();
            whole.begin(ALL);
            whole.take_body(body);
            prop_assert_eq!(kept.digest(Algorithm::Sha256), whole.digest(Algorithm::Sha256));
            prop_assert_eq!(kept.digest(Algorithm::Md5), whole.digest(Algorithm::Md5));
        }
    }
}
