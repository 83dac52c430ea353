//! Pacing in quanta: a thread that wakes for starts only so often takes what has become due since all at once. Due times stay
//! exact; what a request waits for the next point of the grid is generator lag, and seen there.

/// The last point of the grid at or before a time. A quantum of 0 is no grid.
#[inline]
pub fn floor_ns(at_ns: i64, quantum_ns: i64) -> i64 {
    if quantum_ns == 0 {
        at_ns
    } else {
        at_ns.div_euclid(quantum_ns) * quantum_ns
    }
}

/// The first point of the grid at or after a time.
#[inline]
pub fn ceil_ns(at_ns: i64, quantum_ns: i64) -> i64 {
    let floor = floor_ns(at_ns, quantum_ns);
    if floor == at_ns {
        at_ns
    } else {
        floor.saturating_add(quantum_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_begins_with_the_share() {
        assert_eq!(
            (floor_ns(1_999, 1_000), ceil_ns(1_001, 1_000)),
            (1_000, 2_000)
        );
        assert_eq!(
            (floor_ns(2_000, 1_000), ceil_ns(2_000, 1_000)),
            (2_000, 2_000)
        );
        assert_eq!((floor_ns(-1, 1_000), ceil_ns(-1, 1_000)), (-1_000, 0));
        assert_eq!((floor_ns(77, 0), ceil_ns(i64::MAX, 1_000)), (77, i64::MAX));
    }
}
