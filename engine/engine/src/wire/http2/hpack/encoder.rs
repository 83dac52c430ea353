//! Writes the parts of header blocks. Blocks are made once, long before they are sent; strings stay plain, so that varying
//! ones cost a copy.

use super::table::static_name;
use super::write_integer;

/// What the peer does with a literal field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// Nothing: the next block says it again.
    Plain,
    /// Enters it in the table.
    Taught,
    /// Nothing, and proxies may not either (§7.1.3).
    Never,
}

/// Begins a literal field; its value follows as a [`string`].
pub fn name(out: &mut Vec<u8>, literal: Literal, name: &str) {
    let (pattern, prefix) = match literal {
        Literal::Plain => (0x00, 4),
        Literal::Taught => (0x40, 6),
        Literal::Never => (0x10, 4),
    };
    write_integer(out, pattern, prefix, static_name(name).unwrap_or(0));
    if static_name(name).is_none() {
        string(out, name.as_bytes());
    }
}

/// A field that stands in a table.
pub fn indexed(out: &mut Vec<u8>, index: usize) {
    write_integer(out, 0x80, 7, index);
}

/// A string, without Huffman code.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    write_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// A string that `write` appends; its length is set before it.
pub fn string_of(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    if length < 0x7f {
        out[at] = length as u8;
    } else {
        let mut prefix = Vec::with_capacity(5);
        write_integer(&mut prefix, 0, 7, length);
        out.splice(at..=at, prefix);
    }
}

/// Tells the peer that our table is smaller now.
pub fn table_size(out: &mut Vec<u8>, bytes: usize) {
    write_integer(out, 0x20, 5, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_get_long_lengths() {
        for length in [0, 126, 127, 128, 300, 70_000] {
            let text = vec![b'x'; length];
            let (mut plain, mut varying) = (vec![7], vec![7]);
            string(&mut plain, &text);
            string_of(&mut varying, |out| out.extend_from_slice(&text));
            assert_eq!(plain, varying);
        }
    }
}
