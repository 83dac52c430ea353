//! Tables as they cross the border to Python: named columns of numbers or text, contiguous and little endian.

use indexmap::IndexMap;

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    U64(Vec<u64>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U16(Vec<u16>),
    U8(Vec<u8>),
    Utf8(Vec<String>),
}

/// Columns by name, in order.
pub type Table = IndexMap<String, Column>;

macro_rules! numeric {
    ($($variant:ident $kind:ident $code:literal),+) => {
        impl Column {
            /// Number of rows.
            pub fn len(&self) -> usize {
                match self { $(Column::$variant(values) => values.len(),)+ Column::Utf8(values) => values.len() }
            }

            /// The contract's type code.
            pub fn code(&self) -> &'static str {
                match self { $(Column::$variant(_) => $code,)+ Column::Utf8(_) => "utf8" }
            }

            /// Reads a numeric column; `None` for an unknown code or a broken length.
            pub fn from_bytes(code: &str, bytes: &[u8]) -> Option<Self> {
                match code {
                    $($code => {
                        let cells = bytes.chunks_exact(size_of::<$kind>());
                        if !cells.remainder().is_empty() {
                            return None;
                        }
                        Some(Column::$variant(
                            cells.map(|cell| $kind::from_le_bytes(cell.try_into().unwrap_or_default())).collect(),
                        ))
                    })+
                    _ => None,
                }
            }

            /// The little-endian bytes of a numeric column; `None` for text.
            pub fn to_bytes(&self) -> Option<Vec<u8>> {
                match self {
                    $(Column::$variant(values) => Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),)+
                    Column::Utf8(_) => None,
                }
            }

            /// The value of a row as text, as a template shows it.
            pub fn text(&self, row: usize) -> String {
                match self { $(Column::$variant(values) => values[row].to_string(),)+ Column::Utf8(values) => values[row].clone() }
            }

            /// The value of a row as a size; `None` if it is text or negative.
            pub fn size(&self, row: usize) -> Option<u64> {
                match self { $(Column::$variant(values) => u64::try_from(values[row]).ok(),)+ Column::Utf8(_) => None }
            }
        }
    };
}

numeric!(U64 u64 "u64", I64 i64 "i64", U32 u32 "u32", U16 u16 "u16", U8 u8 "u8");

impl Column {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        for column in [
            Column::U64(vec![1, u64::MAX]),
            Column::I64(vec![-1, i64::MIN]),
            Column::U32(vec![7]),
            Column::U16(vec![]),
            Column::U8(vec![1, 2, 3]),
        ] {
            let bytes = column.to_bytes().unwrap();
            assert_eq!(Column::from_bytes(column.code(), &bytes), Some(column));
        }
        assert_eq!(Column::from_bytes("u32", &[1, 2, 3]), None);
        assert_eq!(Column::from_bytes("f64", &[]), None);
        assert_eq!(Column::U16(vec![5]).text(0), "5");
        assert_eq!(Column::I64(vec![-5]).size(0), None);
    }
}
