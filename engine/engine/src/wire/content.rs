//! Bodies that were compressed (RFC 9110 §8.4), decoded for those who look into them. Whatever comes, no more than a
//! bounded length comes out, and what is damaged ends where the damage begins.

use std::io::Read;

use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

const BROTLI_BUFFER_BYTES: usize = 4096;

/// The content of a body whose Content-Encoding is `codings`, its first `limit` bytes; `None` where nothing was
/// compressed, or in a way that is not known here.
pub fn decode(codings: &[u8], body: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut content: Option<Vec<u8>> = None;
    // They were applied in the order in which they stand.
    for coding in codings.rsplit(|byte| *byte == b',') {
        let coding = coding.trim_ascii().to_ascii_lowercase();
        let input = content.as_deref().unwrap_or(body);
        content = match coding.as_slice() {
            b"" | b"identity" => continue,
            b"gzip" | b"x-gzip" => Some(all(MultiGzDecoder::new(input), limit)),
            b"deflate" if is_zlib(input) => Some(all(ZlibDecoder::new(input), limit)),
            // The name means zlib's format; some servers never wrapped it.
            b"deflate" => Some(all(DeflateDecoder::new(input), limit)),
            b"br" => Some(all(Decompressor::new(input, BROTLI_BUFFER_BYTES), limit)),
            _ => return None,
        };
    }
    content
}

fn all(decoder: impl Read, limit: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // What was decoded before an error stays.
    let _ = decoder.take(limit as u64).read_to_end(&mut out);
    out
}

/// RFC 1950 §2.2.
fn is_zlib(input: &[u8]) -> bool {
    matches!(input, [first, second, ..] if first & 15 == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use flate2::Compression;
    use proptest::prelude::*;
    use std::io::Write;

    const LIMIT: usize = 10_000;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn raw(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_coding_is_undone() {
        let text = b"hello";
        for (codings, body) in [
            ("gzip", gzip(text)),
            ("X-GZIP", gzip(text)),
            ("deflate", zlib(text)),
            ("deflate", raw(text)),
            ("deflate, gzip", gzip(&zlib(text))),
            ("identity, gzip", gzip(text)),
            ("gzip", [gzip(b"hel"), gzip(b"lo")].concat()),
            ("br", b"\x0b\x02\x80hello\x03".to_vec()),
        ] {
            let content = decode(codings.as_bytes(), &body, LIMIT);
            assert_eq!(content.as_deref(), Some(&text[..]), "{codings}");
        }
    }

    #[test]
    fn what_is_not_compressed_or_not_known_stays_as_it_is() {
        for codings in ["", "identity", "zstd", "gzip, zstd"] {
            assert_eq!(
                decode(codings.as_bytes(), b"hello", LIMIT),
                None,
                "{codings}"
            );
        }
    }

    #[test]
    fn a_bomb_is_cut_off_and_damage_ends_the_content() {
        let bomb = gzip(&gzip(&vec![0; 100_000_000]));
        assert_eq!(decode(b"gzip, gzip", &bomb, LIMIT).unwrap().len(), LIMIT);
        let whole = gzip(&[b"begin".as_slice(), &vec![b'x'; 5_000]].concat());
        let cut = decode(b"gzip", &whole[..whole.len() - 12], LIMIT).unwrap();
        assert!(cut.len() <= 5_005);
        assert_eq!(decode(b"gzip", b"no gzip at all", LIMIT), Some(Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn content_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            prop_assert_eq!(decode(b"gzip", &gzip(&bytes), LIMIT), Some(bytes.clone()));
            prop_assert_eq!(decode(b"deflate", &zlib(&bytes), LIMIT), Some(bytes));
        }

        #[test]
        fn noise_stays_in_bounds(noise in proptest::collection::vec(any::<u8>(), 0..2_000), codings in "(gzip|deflate|br)(, ?(gzip|deflate|br)){0,2}") {
            let content = decode(codings.as_bytes(), &noise, 500);
            prop_assert!(content.is_some_and(|content| content.len() <= 500));
        }
    }
}
