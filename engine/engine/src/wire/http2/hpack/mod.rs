//! HPACK (RFC 7541): header lists as HTTP/2 carries them.

pub mod decoder;
pub mod encoder;
pub mod huffman;
pub mod table;

/// A header block that can't be read. The connection's table is lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression;

/// The table size before anybody says otherwise (RFC 7541 §4.2, RFC 9113 §6.5.2).
pub const TABLE_BYTES: usize = 4096;

/// Reads an integer whose first byte has `prefix` bits for it (§5.1); the rest of `input` follows.
pub fn read_integer(input: &mut &[u8], prefix: u32) -> Result<usize, Compression> {
    let (first, rest) = input.split_first().ok_or(Compression)?;
    *input = rest;
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Ok(value);
    }
    // Four more bytes are enough for anything that may stand in a block.
    for shift in [0, 7, 14, 21] {
        let (byte, rest) = input.split_first().ok_or(Compression)?;
        *input = rest;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Compression)
}

/// Writes an integer; `pattern` is what stands before its `prefix` bits.
pub fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: usize) {
    let most = (1usize << prefix) - 1;
    if value < most {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_those_of_appendix_c_1() {
        for (prefix, value, bytes) in [
            (5, 10, &[0b01010][..]),
            (5, 1337, &[0b11111, 0b1001_1010, 0b1010]),
            (8, 42, &[42]),
        ] {
            let mut out = Vec::new();
            write_integer(&mut out, 0, prefix, value);
            assert_eq!(out, bytes);
            assert_eq!(read_integer(&mut out.as_slice(), prefix), Ok(value));
        }
    }

    #[test]
    fn endless_and_cut_integers_are_refused() {
        let refused = |mut bytes: &[u8]| read_integer(&mut bytes, 7) == Err(Compression);
        assert!(refused(&[]));
        assert!(refused(&[0x7f]));
        assert!(refused(&[0x7f, 0x80, 0x80]));
        assert!(refused(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(prefix in 4u32..=8, value in 0usize..1 << 28, tail in any::<u8>()) {
            let mut out = Vec::new();
            write_integer(&mut out, 0, prefix, value);
            out.push(tail);
            let mut input = out.as_slice();
            prop_assert_eq!(read_integer(&mut input, prefix), Ok(value));
            prop_assert_eq!(input, &[tail]);
        }
    }
}
