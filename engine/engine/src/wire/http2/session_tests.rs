use super::*;
use crate::wire::http2::hpack::encoder::{self, Literal};
use crate::wire::http2::reader::Piece;
use crate::wire::http2::testing::{block, frame_of, head, settings};
use crate::wire::HEADER_LIMIT_BYTES;
use proptest::prelude::*;

pub const SMALL: Windows = Windows {
    connection: 100_000,
    stream: 70_000,
};

impl Keeper for Kept {
    fn kept(&mut self, _: u32) -> Option<&mut Kept> {
        Some(self)
    }
}

/// A GET, or a request whose body follows.
pub fn opening(key: u32, ends: bool) -> Opening {
    Opening {
        key,
        ends,
        ..Opening::default()
    }
}

/// A connection whose SETTINGS have been exchanged, with `streams` open GET requests of keys 0, 1, …
pub fn session(streams: u32) -> Session {
    let mut session = fresh(streams);
    push(&mut session, &settings(&[])).unwrap();
    session.out.clear();
    session
}

fn fresh(streams: u32) -> Session {
    let mut session = Session::new(SMALL);
    for key in 0..streams {
        session.open(opening(key, true), |_, out| out.push(0x82));
    }
    session
}

pub fn push(session: &mut Session, bytes: &[u8]) -> Result<Vec<Event>, Fault> {
    let mut events = Vec::new();
    session
        .push(bytes, &mut events, &mut Kept::default())
        .map(|()| events)
}

fn data(stream: u32, flags: u8, bytes: usize) -> Vec<u8> {
    frame_of(kind::DATA, flags, stream, &vec![b'x'; bytes])
}

const OK: &[(&str, &str)] = &[(":status", "200")];
const END: u8 = flag::END_STREAM;

fn outcomes(events: &[Event]) -> Vec<(u32, Result<(), Fault>)> {
    let ended = |event: &Event| match event {
        Event::Ended { key, outcome, .. } => Some((*key, *outcome)),
        Event::Touched { .. } | Event::Continued { .. } => None,
    };
    events.iter().filter_map(ended).collect()
}

/// What becomes of one request when these bytes come.
fn outcome(bytes: &[u8]) -> Result<(), Fault> {
    let mut session = session(1);
    let events = push(&mut session, bytes)?;
    outcomes(&events)
        .first()
        .map_or(Ok(()), |(_, outcome)| *outcome)
}

/// The frames that stand in `out`.
pub fn sent(session: &Session) -> Vec<(u8, u32)> {
    let (mut reader, mut input, mut sent) = (Reader::default(), session.out.as_slice(), Vec::new());
    while let Some(piece) = reader.next(&mut input).unwrap() {
        let (Piece::Frame(head, _) | Piece::Data { head, .. }) = piece;
        sent.push((head.kind, head.stream));
    }
    sent
}

#[test]
fn answers_of_several_streams_come_in_any_order_and_in_pieces() {
    let bytes = [
        head(3, 0, &[(":status", "103"), ("link", "x")]),
        head(3, 0, &[(":status", "404"), ("content-length", "7")]),
        head(1, END, &[(":status", "204")]),
        data(3, 0, 3),
        frame_of(
            kind::DATA,
            flag::PADDED,
            3,
            &[2, b'x', b'y', b'z', b'!', 0, 0],
        ),
        head(3, END, &[("checksum", "1")]),
    ]
    .concat();
    for step in [1, 7, 1000] {
        let mut session = session(2);
        let mut events = Vec::new();
        for piece in bytes.chunks(step) {
            session
                .push(piece, &mut events, &mut Kept::default())
                .unwrap();
        }
        let ended: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Ended {
                    key,
                    answer,
                    outcome,
                } => Some((*key, *answer, *outcome)),
                Event::Touched { .. } | Event::Continued { .. } => None,
            })
            .collect();
        assert_eq!(events[0], Event::Touched { key: 1 });
        assert_eq!(
            (ended[0].0, ended[0].1.status, ended[0].2),
            (0, 204, Ok(()))
        );
        let (key, answer, outcome) = ended[1];
        assert_eq!(
            (key, answer.status, answer.body_bytes, outcome),
            (1, 404, 7, Ok(()))
        );
        assert!(session.streams.is_empty() && !session.within_frame());
        assert!(sent(&session).is_empty());
    }
}

#[test]
fn a_head_in_fragments_is_one_head() {
    let block = block(&[(":status", "200"), ("x", "y")]);
    let bytes = [
        frame_of(kind::HEADERS, END, 1, &block[..2]),
        frame_of(kind::CONTINUATION, 0, 1, &block[2..4]),
        frame_of(kind::CONTINUATION, flag::END_HEADERS, 1, &block[4..]),
    ]
    .concat();
    assert_eq!(outcome(&bytes), Ok(()));
    let mut session = session(1);
    let events = push(&mut session, &bytes).unwrap();
    assert_eq!(outcomes(&events).len(), 1);
}

#[test]
fn what_breaks_the_rules_ends_the_connection_by_its_name() {
    let ping = frame_of(kind::PING, 0, 0, &[0; 8]);
    for (bytes, fault) in [
        (data(0, 0, 1), Fault::Protocol),
        (data(2, 0, 1), Fault::Protocol),
        (data(9, 0, 1), Fault::Protocol),
        (head(0, 0, OK), Fault::Protocol),
        (head(2, 0, OK), Fault::Protocol),
        (head(5, 0, OK), Fault::Protocol),
        (
            [head(1, END, OK), head(1, END, OK)].concat(),
            Fault::Protocol,
        ),
        ([head(1, END, OK), data(1, 0, 4)].concat(), Fault::Protocol),
        (
            frame_of(kind::DATA, flag::PADDED, 1, &[5, 0, 0]),
            Fault::Protocol,
        ),
        (
            frame_of(
                kind::HEADERS,
                flag::PADDED | flag::END_HEADERS,
                1,
                &[9, 0x88],
            ),
            Fault::Protocol,
        ),
        (
            frame_of(
                kind::HEADERS,
                flag::PRIORITY | flag::END_HEADERS,
                1,
                &[0, 0],
            ),
            Fault::FrameSize,
        ),
        (
            frame_of(
                kind::PUSH_PROMISE,
                flag::END_HEADERS,
                1,
                &[0, 0, 0, 2, 0x82],
            ),
            Fault::Protocol,
        ),
        (
            frame_of(kind::CONTINUATION, flag::END_HEADERS, 1, &[0x88]),
            Fault::Protocol,
        ),
        (
            [frame_of(kind::HEADERS, 0, 1, &[0x88]), ping.clone()].concat(),
            Fault::Protocol,
        ),
        (
            frame_of(kind::HEADERS, flag::END_HEADERS, 1, &[0x80]),
            Fault::Compression,
        ),
        (
            frame_of(kind::HEADERS, flag::END_HEADERS, 1, &[0xbe]),
            Fault::Compression,
        ),
        (frame_of(kind::PING, 0, 1, &[0; 8]), Fault::Protocol),
        (frame_of(kind::PING, 0, 0, &[0; 7]), Fault::FrameSize),
        (frame_of(kind::SETTINGS, 0, 1, &[]), Fault::Protocol),
        (frame_of(kind::SETTINGS, 0, 0, &[0; 5]), Fault::FrameSize),
        (
            frame_of(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
            Fault::FrameSize,
        ),
        (settings(&[(2, 1)]), Fault::Protocol),
        (settings(&[(4, 1 << 31)]), Fault::FlowControl),
        (settings(&[(5, 100)]), Fault::Protocol),
        (settings(&[(5, 1 << 24)]), Fault::Protocol),
        (frame_of(kind::RST_STREAM, 0, 1, &[0; 3]), Fault::FrameSize),
        (frame_of(kind::RST_STREAM, 0, 0, &[0; 4]), Fault::Protocol),
        (frame_of(kind::RST_STREAM, 0, 7, &[0; 4]), Fault::Protocol),
        (frame_of(kind::GOAWAY, 0, 1, &[0; 8]), Fault::Protocol),
        (frame_of(kind::GOAWAY, 0, 0, &[0; 7]), Fault::FrameSize),
        (frame_of(kind::PRIORITY, 0, 1, &[0; 4]), Fault::FrameSize),
        (frame_of(kind::PRIORITY, 0, 0, &[0; 5]), Fault::Protocol),
        (
            frame_of(kind::WINDOW_UPDATE, 0, 0, &[0; 4]),
            Fault::Protocol,
        ),
        (
            frame_of(kind::WINDOW_UPDATE, 0, 0, &[0; 3]),
            Fault::FrameSize,
        ),
        (
            frame_of(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes()),
            Fault::FlowControl,
        ),
        (
            frame_of(kind::WINDOW_UPDATE, 0, 5, &[0, 0, 0, 1]),
            Fault::Protocol,
        ),
    ] {
        assert_eq!(push(&mut session(1), &bytes), Err(fault), "{bytes:x?}");
    }
    let mut large = Vec::new();
    frame::head(&mut large, frame::PAYLOAD_MAX + 1, kind::HEADERS, 0, 1);
    assert_eq!(push(&mut session(1), &large), Err(Fault::FrameSize));
}

#[test]
fn what_breaks_an_answer_ends_its_stream_alone() {
    let too_large = vec![0x88; HEADER_LIMIT_BYTES];
    for (bytes, fault) in [
        (head(1, END, &[("server", "x")]), Fault::Malformed),
        (head(1, END, &[(":status", "abc")]), Fault::Malformed),
        (
            head(1, END, &[(":status", "200"), (":status", "200")]),
            Fault::Malformed,
        ),
        (
            head(1, END, &[("server", "x"), (":status", "200")]),
            Fault::Malformed,
        ),
        (
            head(1, END, &[(":status", "200"), ("Server", "x")]),
            Fault::Malformed,
        ),
        (
            head(1, END, &[(":status", "200"), ("connection", "close")]),
            Fault::Malformed,
        ),
        (
            head(1, END, &[(":status", "200"), (":path", "/")]),
            Fault::Malformed,
        ),
        (
            head(1, END, &[(":status", "200"), ("content-length", "x")]),
            Fault::Malformed,
        ),
        (head(1, 0, &[(":status", "101")]), Fault::Malformed),
        (head(1, END, &[(":status", "100")]), Fault::Malformed),
        (data(1, END, 1), Fault::Malformed),
        (
            [head(1, 0, OK), head(1, 0, &[("a", "b")])].concat(),
            Fault::Malformed,
        ),
        (
            [head(1, 0, OK), head(1, END, OK)].concat(),
            Fault::Malformed,
        ),
        (
            [
                head(1, 0, &[(":status", "200"), ("content-length", "5")]),
                data(1, END, 4),
            ]
            .concat(),
            Fault::ShortBody,
        ),
        (
            [
                head(1, 0, &[(":status", "200"), ("content-length", "5")]),
                data(1, 0, 6),
            ]
            .concat(),
            Fault::UnexpectedData,
        ),
        (
            [head(1, 0, &[(":status", "304")]), data(1, END, 1)].concat(),
            Fault::UnexpectedData,
        ),
        (
            frame_of(kind::WINDOW_UPDATE, 0, 1, &[0; 4]),
            Fault::Protocol,
        ),
        (
            frame_of(kind::WINDOW_UPDATE, 0, 1, &0x7fff_ffffu32.to_be_bytes()),
            Fault::FlowControl,
        ),
        (
            frame_of(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes()),
            Fault::Reset(8),
        ),
        (frame_of(kind::GOAWAY, 0, 0, &[0; 8]), Fault::Goaway),
    ] {
        let mut session = session(2);
        let events = push(&mut session, &bytes).unwrap();
        assert_eq!(outcomes(&events)[0], (0, Err(fault)), "{bytes:x?}");
        if fault != Fault::Goaway {
            let events = push(&mut session, &head(3, END, OK)).unwrap();
            assert_eq!(outcomes(&events), [(1, Ok(()))]);
        }
    }
    // A bomb: 16 KiB on the wire, many times that as a list.
    let mut bomb = vec![0x40, 1, b'a'];
    crate::wire::http2::hpack::write_integer(&mut bomb, 0, 7, 3_000);
    bomb.extend([b'v'; 3_000]);
    bomb.extend([0xbe; 12_000]);
    let bytes = frame_of(kind::HEADERS, flag::END_HEADERS | END, 1, &bomb);
    assert_eq!(outcome(&bytes), Err(Fault::HeaderTooLarge));
    // Fragments without end.
    let mut bytes = frame_of(kind::HEADERS, 0, 1, &[]);
    bytes.extend(frame_of(kind::CONTINUATION, 0, 1, &[]).repeat(100));
    assert_eq!(push(&mut session(1), &bytes), Err(Fault::Flood));
    let mut bytes = frame_of(kind::HEADERS, 0, 1, &too_large[..16_000]);
    bytes.extend(frame_of(kind::CONTINUATION, 0, 1, &too_large[..16_000]).repeat(5));
    assert_eq!(push(&mut session(1), &bytes), Err(Fault::HeaderTooLarge));
}

#[test]
fn floods_end() {
    for storm in [
        settings(&[(3, 7)]),
        frame_of(kind::PING, 0, 0, &[7; 8]),
        frame_of(kind::PRIORITY, 0, 1, &[0; 5]),
        frame_of(0x42, 0, 0, b"what"),
        data(1, 0, 0),
    ] {
        let mut session = session(1);
        push(&mut session, &head(1, 0, OK)).unwrap();
        let mut pushed = 0;
        while push(&mut session, &storm).is_ok() {
            pushed += 1;
        }
        assert!((9_000..10_001).contains(&pushed), "{pushed}");
        assert!(session.out.len() < 200_000);
    }
}

#[test]
fn replies_that_the_peer_does_not_take_are_a_flood_whatever_comes_between() {
    for call in [settings(&[(3, 7)]), frame_of(kind::PING, 0, 0, &[7; 8])] {
        let mut session = session(1);
        push(&mut session, &head(1, 0, OK)).unwrap();
        let calls = [call.repeat(9_000), data(1, 0, 1)].concat();
        let end = (0..50).find_map(|_| push(&mut session, &calls).err());
        assert_eq!(end, Some(Fault::Flood));
        assert!(session.out.len() < 1_100_000);
    }
}

#[test]
fn windows_for_a_long_body_are_no_flood() {
    let mut session = session(0);
    let (id, _) = session.open(opening(7, false), |_, _| ());
    for _ in 0..10_001 {
        session.send(id, 5, false, |_| Ok::<(), ()>(())).unwrap();
        for stream in [id, 0] {
            let window = frame_of(kind::WINDOW_UPDATE, 0, stream, &5u32.to_be_bytes());
            push(&mut session, &window).unwrap();
        }
        session.out.clear();
    }
}

#[test]
fn a_body_that_comes_byte_by_byte_is_no_flood() {
    let mut session = session(1);
    push(&mut session, &head(1, 0, OK)).unwrap();
    let mut events = Vec::new();
    for byte in data(1, END, frame::PAYLOAD_MAX).chunks(1) {
        events.extend(push(&mut session, byte).unwrap());
    }
    assert_eq!(outcomes(&events), [(0, Ok(()))]);
}

#[test]
fn data_beyond_a_window_is_refused_and_windows_are_given_back() {
    // Beyond the stream's: 70,000.
    let mut one = session(2);
    push(&mut one, &head(1, 0, OK)).unwrap();
    for _ in 0..2 {
        assert!(outcomes(&push(&mut one, &data(1, 0, 16_384)).unwrap()).is_empty());
    }
    assert!(sent(&one).is_empty());
    push(&mut one, &data(1, 0, 16_384)).unwrap();
    assert_eq!(sent(&one), [(kind::WINDOW_UPDATE, 1)]);
    // A window that is never given back: the last bytes of a stream count, but nobody needs them again.
    let mut two = session(3);
    two.windows.stream = 20_000;
    for stream in two.streams.iter_mut() {
        stream.receive_window = 10_000;
    }
    push(&mut two, &head(1, 0, OK)).unwrap();
    let events = push(&mut two, &data(1, END, 10_001)).unwrap();
    assert_eq!(outcomes(&events), [(0, Err(Fault::FlowControl))]);
    two.receive_window = 100;
    push(&mut two, &head(3, 0, OK)).unwrap();
    assert_eq!(push(&mut two, &data(3, 0, 101)), Err(Fault::FlowControl));
}

#[test]
fn bodies_leave_as_the_windows_allow() {
    let mut session = session(0);
    let (id, _) = session.open(opening(7, false), |_, _| ());
    assert_eq!(session.may_send(id), frame::PAYLOAD_MAX);
    let fill = |out: &mut [u8]| -> Result<(), ()> {
        out.fill(b'x');
        Ok(())
    };
    for _ in 0..3 {
        session.send(id, frame::PAYLOAD_MAX, false, fill).unwrap();
    }
    assert_eq!(session.may_send(id), 65_535 - 3 * 16_384);
    // The first window shrinks below what is used: nothing goes until it is given back.
    push(&mut session, &settings(&[(4, 10)])).unwrap();
    assert_eq!(session.may_send(id), 0);
    push(
        &mut session,
        &frame_of(kind::WINDOW_UPDATE, 0, id, &50_000u32.to_be_bytes()),
    )
    .unwrap();
    assert_eq!(session.may_send(id), 858);
    assert!(session.send(id, 8, false, |_| Err(())).is_err());
    assert_eq!(session.may_send(id), 858);
    // An answer that comes early: the rest is not sent.
    let events = push(&mut session, &head(id, END, OK)).unwrap();
    assert_eq!(outcomes(&events), [(7, Ok(()))]);
    assert_eq!(sent(&session).last(), Some(&(kind::RST_STREAM, id)));
    // A window that overflows by SETTINGS.
    let (id, _) = session.open(opening(8, false), |_, _| ());
    push(
        &mut session,
        &frame_of(kind::WINDOW_UPDATE, 0, id, &0x7fff_0000u32.to_be_bytes()),
    )
    .unwrap();
    assert_eq!(
        push(&mut session, &settings(&[(4, 0x7fff_ffff)])),
        Err(Fault::FlowControl)
    );
}

#[test]
fn goaway_takes_back_what_the_peer_will_not_answer() {
    let goaway = |last: u32| frame_of(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    let mut session = session(3);
    let events = push(&mut session, &goaway(3)).unwrap();
    assert_eq!(outcomes(&events), [(2, Err(Fault::Goaway))]);
    assert!(!session.has_room() && session.leaving());
    let events = push(&mut session, &[head(1, END, OK), head(3, END, OK)].concat()).unwrap();
    assert_eq!(outcomes(&events), [(0, Ok(())), (1, Ok(()))]);
    assert_eq!(session.notices.goaways[0], 1);
    assert_eq!(push(&mut session, &goaway(5)), Err(Fault::Protocol));
}

#[test]
fn a_cancelled_stream_may_still_talk_and_keeps_the_tables_right() {
    let mut session = session(2);
    assert_eq!(session.cancel(1), Answer::default());
    assert_eq!(sent(&session), [(kind::RST_STREAM, 1)]);
    let mut taught = Vec::new();
    encoder::name(&mut taught, Literal::Taught, "x-a");
    encoder::string(&mut taught, b"b");
    let late = [
        frame_of(kind::HEADERS, flag::END_HEADERS, 1, &taught),
        data(1, 0, 10),
        frame_of(kind::RST_STREAM, 0, 1, &[0; 4]),
        frame_of(kind::HEADERS, flag::END_HEADERS | END, 3, &[0x88, 0xbe]),
    ];
    let events = push(&mut session, &late.concat()).unwrap();
    assert_eq!(outcomes(&events), [(1, Ok(()))]);
}

#[test]
fn the_peers_limits_are_kept() {
    let mut session = fresh(0);
    assert!(session.has_room());
    push(&mut session, &settings(&[(3, 1)])).unwrap();
    session.open(opening(0, true), |_, _| ());
    assert!(!session.has_room() && session.takes_streams());
    push(&mut session, &settings(&[(3, 2)])).unwrap();
    assert!(session.has_room());
    // Ids run out.
    session.streams = Streams::new();
    session.streams.set_next((1 << 31) - 1);
    session.open(opening(1, true), |_, _| ());
    assert!(!session.takes_streams());
}

#[test]
fn first_bytes_tell_another_protocol() {
    for (bytes, fault) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], Fault::NotHttp2),
        (b"SSH-2.0-x", Fault::Protocol),
        (&frame_of(kind::PING, 0, 0, &[0; 8]), Fault::Protocol),
        (
            &frame_of(kind::SETTINGS, flag::ACK, 0, &[]),
            Fault::Protocol,
        ),
    ] {
        assert_eq!(push(&mut fresh(1), bytes), Err(fault));
        let mut session = fresh(1);
        let last = bytes
            .chunks(1)
            .map(|byte| push(&mut session, byte))
            .find(Result::is_err);
        assert_eq!(last, Some(Err(fault)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_in_frames_never_panics_and_every_stream_ends_once(
        frames in proptest::collection::vec((0u8..11, any::<u8>(), 0u32..8, proptest::collection::vec(any::<u8>(), 0..40)), 0..30),
        step in 1usize..60,
    ) {
        let mut session = session(3);
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, stream, payload)| frame_of(*kind, *flags, *stream, payload)).collect();
        let mut events = Vec::new();
        for piece in bytes.chunks(step) {
            if session.push(piece, &mut events, &mut Kept::default()).is_err() {
                break;
            }
        }
        let mut keys: Vec<u32> = outcomes(&events).iter().map(|(key, _)| *key).collect();
        keys.extend(session.end().iter().map(|(key, _)| *key));
        keys.sort_unstable();
        prop_assert_eq!(keys, [0, 1, 2]);
    }
}
