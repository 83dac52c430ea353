//! Which requests have their read lag measured (docs/method.md §1): every one of a group that makes up to 1,000 a second, else one in 64.

/// A group that has begun more than this within a second is sampled from then on.
const EACH_UP_TO: u32 = 1_000;
const ONE_IN: u64 = 64;
const SECOND_NS: i64 = 1_000_000_000;

/// The choice for one group on one thread. Once thinned it stays so: a percentile over the sampled ones is not one of its slow moments.
#[derive(Default)]
pub struct Stamping {
    second_ns: i64,
    in_second: u32,
    thinned: bool,
    requests: u64,
}

impl Stamping {
    /// Whether the request that is sent now is one.
    #[inline]
    pub fn takes(&mut self, now_ns: i64) -> bool {
        let second_ns = now_ns - now_ns.rem_euclid(SECOND_NS);
        if second_ns != self.second_ns {
            (self.second_ns, self.in_second) = (second_ns, 0);
        }
        self.in_second += 1;
        self.requests += 1;
        self.thinned |= self.in_second > EACH_UP_TO;
        !self.thinned || self.requests % ONE_IN == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 10 s of requests, so many a second, are sampled.
    fn taken(per_second: i64) -> usize {
        let mut stamping = Stamping::default();
        (0..10 * per_second)
            .filter(|at| stamping.takes(at * SECOND_NS / per_second))
            .count()
    }

    #[test]
    fn slow_groups_are_measured_whole_and_fast_ones_sampled() {
        assert_eq!((taken(10), taken(1_000)), (100, 10_000));
        // The first thousand, then one in 64 of what follows.
        assert_eq!(taken(6_400), 1_000 + (64_000 - 1_000) / 64);
    }

    #[test]
    fn what_was_fast_once_stays_sampled() {
        let mut stamping = Stamping::default();
        (0..2_000).for_each(|at| {
            stamping.takes(at * 100_000);
        });
        let later = (0..640).filter(|at| stamping.takes(SECOND_NS * (5 + at)));
        assert_eq!(later.count(), 10);
    }
}
