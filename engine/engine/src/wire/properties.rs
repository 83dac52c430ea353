//! What holds of every stream of bytes: no panic, the same verdict however it is cut, counts that are those of what was sent.
//! CONTRIBUTING.md says how to run these for longer.

use proptest::prelude::*;
use proptest::sample::Index;

use super::chunked::Chunked;
use super::head::{self, Framing};
use super::http1::tests::{decode, decode_with, whole};
use super::http1::Decoder;
use super::WireError;

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..60), 0..6)
}

fn chunked_body(chunks: &[Vec<u8>], tail: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend(format!("{:x};e=1\r\n", chunk.len()).into_bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
    }
    out.extend(format!("0\r\n{tail}\r\n").into_bytes());
    out
}

/// A legal answer.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let statuses = (200u16..600).prop_filter("has a body", |status| ![204, 304].contains(status));
    let length = (statuses, bytes(300)).prop_map(|(status, body)| {
        let head = format!(
            "HTTP/1.1 {status} Why\r\nX-A: b\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat()
    });
    let chunked = (any::<bool>(), chunks()).prop_map(|(interim, chunks)| {
        let interim = if interim {
            "HTTP/1.1 100 Continue\r\n\r\n"
        } else {
            ""
        };
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        [
            interim.as_bytes(),
            head.as_bytes(),
            &chunked_body(&chunks, "T: r\r\n"),
        ]
        .concat()
    });
    prop_oneof![length, chunked]
}

/// Bytes that begin like an answer and are then damaged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    (answer(), noise).prop_map(|(mut bytes, noise)| {
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    proptest::collection::vec(any::<Index>(), 0..12)
}

fn split<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_are_taken_whole_however_they_are_cut(bytes in answer(), cuts in cuts(), tail in bytes(9)) {
        let expected = whole(&bytes);
        prop_assert_eq!(&expected.result, &Ok(bytes.len()));
        let longer = [bytes.as_slice(), &tail].concat();
        prop_assert_eq!(&decode(split(&longer, &cuts)), &expected);
        prop_assert_eq!(decode(longer.chunks(1)), expected);
    }

    #[test]
    fn damaged_answers_get_the_same_verdict_however_they_are_cut(bytes in damaged(), cuts in cuts()) {
        prop_assert_eq!(whole(&bytes).result, decode(split(&bytes, &cuts)).result);
    }

    #[test]
    fn noise_is_never_an_answer(noise in bytes(400)) {
        // A status line would have to come by chance: eight given bytes.
        prop_assert!(whole(&noise).result.is_err());
    }

    #[test]
    fn a_used_decoder_is_as_good_as_new(first in damaged(), cuts in cuts(), second in damaged()) {
        let mut decoder = Decoder::default();
        decode_with(&mut decoder, split(&first, &cuts));
        prop_assert_eq!(decode_with(&mut decoder, [second.as_slice()]), whole(&second));
    }

    #[test]
    fn chunks_are_counted_to_the_byte(chunks in chunks(), cuts in cuts(), tail in bytes(9)) {
        let body = chunked_body(&chunks, "");
        let longer = [body.as_slice(), &tail].concat();
        let (mut decoder, mut counted, mut used, mut ended) = (Chunked::default(), 0, 0, false);
        for piece in split(&longer, &cuts) {
            if !ended {
                let (taken, done) = decoder.push(piece, &mut counted, |_| ()).unwrap();
                prop_assert!(done || taken == piece.len());
                used += taken;
                ended = done;
            }
        }
        prop_assert!(ended);
        prop_assert_eq!((used, counted), (body.len(), chunks.iter().map(Vec::len).sum::<usize>() as u64));
    }

    #[test]
    fn chunks_of_noise_never_take_more_than_there_is(noise in bytes(400)) {
        let mut counted = 0;
        if let Ok((used, done)) = Chunked::default().push(&noise, &mut counted, |_| ()) {
            prop_assert!(used <= noise.len() && counted <= used as u64);
            prop_assert!(done || used == noise.len());
        }
    }

    #[test]
    fn a_length_is_the_number_that_stands_there(text in "[0-9]{1,22}") {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {text}\r\n\r\n");
        let framing = head::parse(head.as_bytes(), false, &mut Vec::new()).map(|head| head.unwrap().framing);
        let expected = match text.parse::<u64>() {
            Ok(0) => Ok(Framing::Empty),
            Ok(length) => Ok(Framing::Length(length)),
            Err(_) => Err(WireError::MalformedLength),
        };
        prop_assert_eq!(framing, expected);
    }

    #[test]
    fn what_follows_a_head_does_not_change_it(fields in "([A-Za-z-]{1,12}: [ -~]{0,20}\r\n){0,8}", tail in bytes(40)) {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let alone = head::parse(text.as_bytes(), false, &mut Vec::new());
        let longer = [text.as_bytes(), &tail].concat();
        prop_assert_eq!(&head::parse(&longer, false, &mut Vec::new()), &alone);
        if let Ok(head) = alone {
            prop_assert_eq!(head.map(|head| head.bytes), Some(text.len()));
        }
    }
}
