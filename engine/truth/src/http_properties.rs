//! What holds of whatever a client or an upstream sends: no panic, one reading however it is cut, bodies to the byte.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::body::BodyDecoder;

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

/// Requests, right or nearly so.
fn request_text() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just("Host: h\r\n".to_owned()),
        Just("Connection: close\r\n".to_owned()),
        Just("Transfer-Encoding: chunked\r\n".to_owned()),
        Just("Expect: 100-continue\r\n".to_owned()),
        "Content-Length: [0-9-]{0,21}\r\n",
        "X-[A-Za-z]{1,6}: [ -~]{0,12}\r\n",
    ];
    let fields = proptest::collection::vec(field, 0..5);
    ("(GET|PUT|HEAD|P T)", "/[!-~]{0,12}", "1\\.[01]", fields).prop_map(
        |(method, target, version, fields)| {
            format!(
                "{method} {target} HTTP/{version}\r\n{}\r\n",
                fields.concat()
            )
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn requests_read_the_same_with_or_without_what_follows(text in request_text(), tail in bytes(30)) {
        let alone = parse_request(text.as_bytes());
        let longer = [text.as_bytes(), &tail].concat();
        prop_assert_eq!(&parse_request(&longer), &alone);
        if let Ok(read) = alone {
            prop_assert_eq!(read.map(|(_, taken)| taken), Some(text.len()));
        }
    }

    #[test]
    fn a_request_that_has_not_all_come_is_never_read(text in request_text(), cut in any::<Index>()) {
        let short = &text.as_bytes()[..cut.index(text.len())];
        prop_assert!(!matches!(parse_request(short), Ok(Some(_))));
    }

    #[test]
    fn noise_panics_nowhere(noise in bytes(300), to_head in any::<bool>()) {
        let _ = parse_request(&noise);
        let _ = parse_response(&noise, to_head);
        let _ = percent_decoded(&String::from_utf8_lossy(&noise));
        let mut body = Vec::new();
        if let Ok(taken) = BodyDecoder::ChunkSize.feed(&noise, &mut body) {
            prop_assert!(taken <= noise.len() && body.len() <= taken);
        }
    }

    #[test]
    fn chunks_come_out_as_they_went_in(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..60), 0..6),
        step in 1usize..40,
    ) {
        let mut wire = Vec::new();
        for chunk in &chunks {
            wire.extend(format!("{:X};e\r\n", chunk.len()).into_bytes());
            wire.extend(chunk);
            wire.extend(b"\r\n");
        }
        wire.extend(b"0\r\nT: r\r\n\r\nNEXT");
        let (mut decoder, mut body, mut buffer) = (BodyDecoder::new(BodyLength::Chunked), Vec::new(), Vec::new());
        for piece in wire.chunks(step) {
            buffer.extend_from_slice(piece);
            let taken = decoder.feed(&buffer, &mut body).unwrap();
            buffer.drain(..taken);
        }
        prop_assert!(decoder.is_done());
        prop_assert_eq!(body, chunks.concat());
        prop_assert_eq!(buffer, b"NEXT");
    }

    #[test]
    fn what_is_escaped_reads_back(text in ".{0,20}") {
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        prop_assert_eq!(percent_decoded(&escaped), text);
    }
}
