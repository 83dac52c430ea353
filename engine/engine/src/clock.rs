//! The clock of a share: offsets in ns from `start_at_ns`, on CLOCK_MONOTONIC.

use crate::sys;

/// Reads CLOCK_MONOTONIC as an offset from the share's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ns: i64,
}

impl Clock {
    /// `origin_ns`: the CLOCK_MONOTONIC time that is offset 0.
    pub fn starting_at(origin_ns: i64) -> Self {
        Clock { origin_ns }
    }

    /// Nanoseconds since the share's start (negative before it).
    #[inline]
    pub fn now_ns(&self) -> i64 {
        sys::monotonic_ns() - self.origin_ns
    }

    /// The CLOCK_MONOTONIC time of an offset.
    pub fn to_monotonic(self, offset_ns: i64) -> i64 {
        self.origin_ns + offset_ns
    }
}
