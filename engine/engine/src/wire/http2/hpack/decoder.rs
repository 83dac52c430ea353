//! Reads header blocks. Every block must be read, of streams that nobody waits for too: the table depends on all.

use super::huffman;
use super::table::{size, Dynamic, Entry, Meaning};
use super::{read_integer, Compression};

/// A field as it stands in a block.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub meaning: Meaning,
}

impl Field<'_> {
    /// What it counts for in a header list (RFC 9113 §6.5.2).
    pub fn list_bytes(&self) -> usize {
        size(self.name, self.value)
    }
}

/// The reading side of one connection.
#[derive(Clone, Debug)]
pub struct Decoder {
    table: Dynamic,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// `table_bytes`: what our SETTINGS announce.
    pub fn new(table_bytes: usize) -> Self {
        Decoder {
            table: Dynamic::new(table_bytes),
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Reads a whole block; `field` sees its fields in order.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        mut field: impl FnMut(Field<'_>),
    ) -> Result<(), Compression> {
        let mut begun = false;
        while let Some(first) = block.first().copied() {
            if first & 0x80 != 0 {
                let found = self.table.get(read_integer(&mut block, 7)?)?;
                field(Field {
                    name: found.name,
                    value: found.value,
                    meaning: found.meaning,
                });
            } else if first & 0x40 != 0 {
                self.literal(&mut block, 6)?;
                let known = self.literal_field();
                field(known);
                let entry = Entry {
                    name: known.name.into(),
                    value: known.value.into(),
                    meaning: known.meaning,
                };
                self.table.insert(entry);
            } else if first & 0x20 != 0 {
                // A new size stands before the fields (§4.2).
                if begun {
                    return Err(Compression);
                }
                self.table.resize(read_integer(&mut block, 5)?)?;
                continue;
            } else {
                self.literal(&mut block, 4)?;
                field(self.literal_field());
            }
            begun = true;
        }
        Ok(())
    }

    fn literal_field(&self) -> Field<'_> {
        Field {
            name: &self.name,
            value: &self.value,
            meaning: Meaning::of(&self.name, &self.value),
        }
    }

    /// Reads a literal field into `name` and `value`.
    fn literal(&mut self, block: &mut &[u8], prefix: u32) -> Result<(), Compression> {
        let index = read_integer(block, prefix)?;
        self.name.clear();
        if index == 0 {
            read_string(block, &mut self.name)?;
        } else {
            self.name.extend_from_slice(self.table.get(index)?.name);
        }
        self.value.clear();
        read_string(block, &mut self.value)
    }
}

/// Reads a string literal (§5.2).
fn read_string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Compression> {
    let huffman = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = read_integer(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(Compression)?;
    *block = rest;
    if huffman {
        huffman::decode(text, out)
    } else {
        out.extend_from_slice(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{encoder, TABLE_BYTES};
    use super::*;
    use proptest::prelude::*;

    type List = Vec<(String, String)>;

    fn list(decoder: &mut Decoder, block: &[u8]) -> Result<List, Compression> {
        let mut list = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, |field| {
            list.push((text(field.name), text(field.value)))
        })?;
        Ok(list)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex
            .chars()
            .filter_map(|digit| digit.to_digit(16).map(|value| value as u8))
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    fn check(decoder: &mut Decoder, hex: &str, fields: &[(&str, &str)], table: usize) {
        let wanted: List = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(list(decoder, &bytes(hex)), Ok(wanted), "{hex}");
        assert_eq!(decoder.table.bytes(), table, "{hex}");
    }

    /// Appendix C.3 and C.4: three requests, plain and with Huffman codes.
    #[test]
    fn requests_of_appendix_c() {
        let first = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ];
        let second = [first.as_slice(), &[("cache-control", "no-cache")]].concat();
        let third = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ];
        for (one, two, three) in [
            (
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ),
            (
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ),
        ] {
            let mut decoder = Decoder::new(TABLE_BYTES);
            check(&mut decoder, one, &first, 57);
            check(&mut decoder, two, &second, 110);
            check(&mut decoder, three, &third, 164);
        }
    }

    /// Appendix C.5 and C.6: three responses over a table of 256 bytes, with evictions.
    #[test]
    fn responses_of_appendix_c() {
        let date = "Mon, 21 Oct 2013 20:13:21 GMT";
        let later = "Mon, 21 Oct 2013 20:13:22 GMT";
        let place = ("location", "https://www.example.com");
        let private = ("cache-control", "private");
        let first = [(":status", "302"), private, ("date", date), place];
        let second = [(":status", "307"), private, ("date", date), place];
        let third = [
            (":status", "200"),
            private,
            ("date", later),
            place,
            ("content-encoding", "gzip"),
            (
                "set-cookie",
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ),
        ];
        for (one, two, three) in [
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "4803 3330 37c1 c0bf",
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
            ),
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                "4883 640e ffc1 c0bf",
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            ),
        ] {
            let mut decoder = Decoder::new(256);
            check(&mut decoder, one, &first, 222);
            check(&mut decoder, two, &second, 222);
            check(&mut decoder, three, &third, 215);
        }
    }

    /// Appendix C.2: single fields.
    #[test]
    fn fields_of_appendix_c() {
        let new = || Decoder::new(TABLE_BYTES);
        check(
            &mut new(),
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            &[("custom-key", "custom-header")],
            55,
        );
        check(
            &mut new(),
            "040c 2f73 616d 706c 652f 7061 7468",
            &[(":path", "/sample/path")],
            0,
        );
        check(
            &mut new(),
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            &[("password", "secret")],
            0,
        );
        check(&mut new(), "82", &[(":method", "GET")], 0);
    }

    #[test]
    fn broken_blocks_are_refused() {
        for hex in [
            "80",
            "be",
            "ff",
            "ff80",
            "40",
            "4001",
            "400161",
            "40016102 62",
            "0085 ffff ffff ff",
            "3fe21f",
            "823f00",
            "7e",
        ] {
            let mut decoder = Decoder::new(TABLE_BYTES);
            assert_eq!(list(&mut decoder, &bytes(hex)), Err(Compression), "{hex}");
        }
        // A smaller table, before the fields, is fine: nothing is kept then.
        let mut decoder = Decoder::new(TABLE_BYTES);
        check(&mut decoder, "20 4001 6101 62", &[("a", "b")], 0);
    }

    #[test]
    fn a_block_that_refers_to_a_large_field_again_and_again_holds_no_memory() {
        let mut decoder = Decoder::new(TABLE_BYTES);
        let mut block = vec![0x40, 1, b'a'];
        super::super::write_integer(&mut block, 0, 7, 4_000);
        block.extend([b'v'; 4_000]);
        block.extend([0xbe; 60_000]);
        let mut sum = 0;
        decoder
            .decode(&block, |field| sum += field.list_bytes())
            .unwrap();
        assert_eq!(sum, 60_001 * 4_033);
        assert!(decoder.value.capacity() < 10_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn noise_never_panics_and_the_table_stays_bounded(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..8)) {
            let mut decoder = Decoder::new(TABLE_BYTES);
            for block in blocks {
                let _ = decoder.decode(&block, |_| ());
                prop_assert!(decoder.table.bytes() <= TABLE_BYTES);
            }
        }

        #[test]
        fn what_is_encoded_is_decoded(fields in proptest::collection::vec(("[a-z-]{1,20}", "[ -~]{0,200}", 0u8..3), 0..20)) {
            let mut block = Vec::new();
            for (name, value, kind) in &fields {
                let kind = [encoder::Literal::Plain, encoder::Literal::Taught, encoder::Literal::Never][usize::from(*kind)];
                encoder::name(&mut block, kind, name);
                encoder::string(&mut block, value.as_bytes());
            }
            let wanted: List = fields.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(list(&mut Decoder::new(TABLE_BYTES), &block), Ok(wanted));
        }
    }
}
