//! The histogram's buckets: log-linear, 128 to a power of two, so a bucket is at most 1/128 of its value wide.

/// Highest bucket index plus one, for values up to `i64::MAX`.
pub const BUCKETS: usize = (62 - 6) * SUB + SUB;
/// Buckets to a power of two.
pub const SUB: usize = 128;

/// The bucket of a value in ns (contract: engine/docs/results.md, "histograms"). Negative values count as 0.
#[inline]
pub fn bucket(value_ns: i64) -> u32 {
    let value = value_ns.max(0) as u64;
    if value < 128 {
        return value as u32;
    }
    let exponent = 63 - value.leading_zeros();
    (exponent - 6) * 128 + (value >> (exponent - 7)) as u32 - 128
}

/// The bounds [low, high) of a bucket, ns.
pub fn bounds_ns(bucket: u32) -> (u64, u64) {
    if bucket < 128 {
        return (u64::from(bucket), u64::from(bucket) + 1);
    }
    let exponent = bucket / 128 + 6;
    let low = u64::from(bucket % 128 + 128) << (exponent - 7);
    (low, low + (1 << (exponent - 7)))
}

/// The middle of a bucket, ns.
pub fn middle_ns(bucket: u32) -> u64 {
    let (low, high) = bounds_ns(bucket);
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_line() {
        let mut expected = 0;
        for index in 0..BUCKETS as u32 {
            let (low, high) = bounds_ns(index);
            assert_eq!(low, expected);
            assert_eq!(bucket(low as i64), index);
            assert_eq!(bucket((high - 1) as i64), index);
            expected = high;
        }
        assert_eq!(expected, 1 << 63);
        assert_eq!(bucket(-5), 0);
        assert_eq!(bucket(i64::MAX) as usize, BUCKETS - 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_bucket_is_at_most_a_128th_wide(value in 0..i64::MAX) {
            let (low, high) = bounds_ns(bucket(value));
            prop_assert!((low..high).contains(&(value as u64)));
            prop_assert!(high - low == 1 || (high - low) as f64 <= value as f64 / 128.0 + 1.0);
        }
    }
}
