//! CLOCK_MONOTONIC, and the thread's own CPU time.

use rustix::time::{clock_gettime, ClockId, Timespec};

/// Now, in ns of CLOCK_MONOTONIC.
#[must_use]
pub fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// Uses `amount_ns` of this thread's CPU time.
pub fn burn(amount_ns: u64) {
    let until_ns = ns(clock_gettime(ClockId::ThreadCPUTime)) + amount_ns;
    while ns(clock_gettime(ClockId::ThreadCPUTime)) < until_ns {
        std::hint::spin_loop();
    }
}

/// A duration for the kernel.
#[must_use]
pub fn timespec(ns: u64) -> Timespec {
    let tv_sec = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    Timespec {
        tv_sec,
        tv_nsec: (ns % 1_000_000_000) as _,
    }
}

fn ns(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
