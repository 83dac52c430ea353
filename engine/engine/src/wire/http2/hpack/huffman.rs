//! The Huffman code of header strings (RFC 7541 §5.2, Appendix B), decoded four bits a step.
//!
//! The code is canonical: lengths and symbol order determine it, so that only lengths stand here.

use super::Compression;

const EOS: usize = 256;

/// Bits of each symbol's code, the end of the string (256) last.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// One step from an inner node of the code's tree by four bits.
#[derive(Clone, Copy)]
struct Step {
    /// The node reached; [`FAILED`] where the bits spell the end of the string.
    node: u16,
    /// The symbol completed on the way, or [`NOTHING`].
    symbol: u16,
}

const FAILED: u16 = u16::MAX;
const NOTHING: u16 = u16::MAX;
const NODES: usize = 256;

struct Machine {
    steps: [[Step; 16]; NODES],
    /// Nodes where a string may end: reached from a symbol's end by ones, fewer than eight.
    may_end: [bool; NODES],
}

static MACHINE: Machine = build();

/// The canonical code of every symbol.
const fn codes() -> [u32; 257] {
    let (mut codes, mut code, mut length) = ([0; 257], 0u32, 1);
    while length <= 30 {
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
}

/// Children of every inner node: an inner node's number, or 0x8000 + symbol.
const fn tree() -> [[u16; 2]; NODES] {
    let codes = codes();
    let (mut tree, mut nodes, mut symbol) = ([[0u16; 2]; NODES], 1u16, 0);
    while symbol <= EOS {
        let (mut node, mut bit) = (0usize, LENGTHS[symbol]);
        while bit > 1 {
            bit -= 1;
            let side = (codes[symbol] >> bit & 1) as usize;
            if tree[node][side] == 0 {
                tree[node][side] = nodes;
                nodes += 1;
            }
            node = tree[node][side] as usize;
        }
        tree[node][(codes[symbol] & 1) as usize] = 0x8000 | symbol as u16;
        symbol += 1;
    }
    tree
}

const fn build() -> Machine {
    let tree = tree();
    let dead = Step {
        node: FAILED,
        symbol: NOTHING,
    };
    let mut machine = Machine {
        steps: [[dead; 16]; NODES],
        may_end: [false; NODES],
    };
    let mut node = 0;
    while node < NODES {
        let mut bits = 0;
        while bits < 16 {
            machine.steps[node][bits] = walk(&tree, node, bits);
            bits += 1;
        }
        node += 1;
    }
    let (mut node, mut ones) = (0usize, 0);
    while ones < 8 {
        machine.may_end[node] = true;
        node = tree[node][1] as usize;
        ones += 1;
    }
    machine
}

const fn walk(tree: &[[u16; 2]; NODES], from: usize, bits: usize) -> Step {
    let (mut node, mut symbol, mut left) = (from, NOTHING, 4);
    while left > 0 {
        left -= 1;
        let child = tree[node][bits >> left & 1];
        if child == 0x8000 | EOS as u16 {
            return Step {
                node: FAILED,
                symbol: NOTHING,
            };
        }
        if child & 0x8000 != 0 {
            symbol = child & 0x7fff;
            node = 0;
        } else {
            node = child as usize;
        }
    }
    Step {
        node: node as u16,
        symbol,
    }
}

/// Appends the string that `code` spells to `out`.
pub fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), Compression> {
    let mut node = 0usize;
    for byte in code {
        for bits in [byte >> 4, byte & 15] {
            let step = MACHINE.steps[node][usize::from(bits)];
            if step.node == FAILED {
                return Err(Compression);
            }
            if step.symbol != NOTHING {
                out.push(step.symbol as u8);
            }
            node = usize::from(step.node);
        }
    }
    if MACHINE.may_end[node] {
        Ok(())
    } else {
        Err(Compression)
    }
}

/// The reverse, for tests.
#[cfg(test)]
pub fn encode(text: &[u8]) -> Vec<u8> {
    let codes = codes();
    let (mut out, mut bits, mut held) = (Vec::new(), 0u64, 0);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(codes[usize::from(*byte)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        out.push((bits << (8 - held)) as u8 | (0xff >> held));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(code: &[u8]) -> Result<Vec<u8>, Compression> {
        let mut out = Vec::new();
        decode(code, &mut out).map(|()| out)
    }

    #[test]
    fn the_code_is_complete_and_is_the_rfcs() {
        let kraft: u64 = LENGTHS.iter().map(|length| 1u64 << (30 - length)).sum();
        assert_eq!(kraft, 1 << 30);
        // Appendix B: first and last code of some lengths.
        let codes = codes();
        for (symbol, code) in [
            (usize::from(b'0'), 0x0),
            (usize::from(b't'), 0x9),
            (usize::from(b' '), 0x14),
            (usize::from(b':'), 0x5c),
            (usize::from(b'&'), 0xf8),
            (0, 0x1ff8),
            (1, 0x7fffd8),
            (9, 0xffffea),
            (127, 0xffffffc),
            (249, 0xffffffe),
            (10, 0x3ffffffc),
            (EOS, 0x3fffffff),
        ] {
            assert_eq!(codes[symbol], code, "{symbol}");
        }
    }

    #[test]
    fn padding_is_ones_and_shorter_than_a_byte() {
        // "0" is 00000.
        assert_eq!(decoded(&[0b0000_0111]), Ok(b"0".to_vec()));
        assert_eq!(decoded(&[0b0000_0110]), Err(Compression));
        assert_eq!(decoded(&[0b0000_0111, 0xff]), Err(Compression));
        assert_eq!(decoded(&[0xff; 4]), Err(Compression));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_encoded_is_decoded(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encode(&text)), Ok(text));
        }

        #[test]
        fn noise_is_decoded_or_refused(noise in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(text) = decoded(&noise) {
                prop_assert_eq!(encode(&text), noise);
            }
        }
    }
}
