//! Which requests have their read lag measured (docs/method.md §1): every one of a group that makes up to 1,000 a second; above,
//! every second, fourth … of them, down to one in 64, so that some 500 to 1,000 a second are.

/// What a group may have measured a second, and how many at once beyond that.
const EACH_SECOND: i64 = 1_000;
const AT_ONCE: i64 = 500;
const FEWEST: u64 = 64;
const SECOND_NS: i64 = 1_000_000_000;
/// 2^64 over the golden ratio: its multiples are spread evenly, so that no rhythm of users meets that of the choice.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The choice for one group on one thread. What was thinned stays so: a percentile over the measured ones is not one of the
/// group's slow moments.
pub struct Stamping {
    /// Its plan says that it makes no more than may be measured, whatever bursts it makes.
    every: bool,
    requests: u64,
    one_in: u64,
    /// Measured since the choice was last made, and when that was.
    measured: i64,
    since_ns: i64,
}

impl Stamping {
    /// For a group whose plan asks for at most so many requests a second; `None`: only the server bounds it.
    pub fn new(most_rps: Option<f64>) -> Self {
        Stamping {
            every: most_rps.is_some_and(|most_rps| most_rps <= EACH_SECOND as f64),
            requests: 0,
            one_in: 1,
            measured: 0,
            since_ns: 0,
        }
    }

    /// Whether the request that is sent now is one.
    #[inline]
    pub fn takes(&mut self, now_ns: i64) -> bool {
        if self.every {
            return true;
        }
        self.requests += 1;
        if self.requests.wrapping_mul(SPREAD) > u64::MAX / self.one_in {
            return false;
        }
        if self.measured == 0 {
            self.since_ns = now_ns;
        }
        self.measured += 1;
        let allowed = (now_ns - self.since_ns) / (SECOND_NS / EACH_SECOND) + AT_ONCE;
        if self.measured > allowed && self.one_in < FEWEST {
            self.one_in *= 2;
            self.measured = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many requests are measured in each of 20 s, at so many a second.
    fn taken(per_second: i64, most_rps: Option<f64>) -> Vec<usize> {
        let mut stamping = Stamping::new(most_rps);
        let mut second = |number: i64| {
            let sent = (0..per_second).map(|at| number * SECOND_NS + at * SECOND_NS / per_second);
            sent.filter(|at_ns| stamping.takes(*at_ns)).count()
        };
        (0..20).map(&mut second).collect()
    }

    #[test]
    fn slow_groups_are_measured_whole() {
        assert_eq!(taken(10, None), [10; 20]);
        assert_eq!(taken(1_000, None), [1_000; 20]);
        assert_eq!(taken(1_000, Some(1_000.0)), [1_000; 20]);
    }

    #[test]
    fn of_fast_ones_some_hundred_a_second_are() {
        for (per_second, least, most) in [
            (1_500, 700, 1_000),
            (5_000, 600, 700),
            (47_000, 700, 800),
            (640_000, 9_900, 10_100),
        ] {
            let late = &taken(per_second, None)[10..];
            let kept = late.iter().all(|count| (least..=most).contains(count));
            assert!(kept, "{per_second}: {late:?}");
        }
    }

    #[test]
    fn a_burst_of_a_slow_group_changes_nothing_and_one_of_another_little() {
        let mut planned = Stamping::new(Some(200.0));
        assert!((0..10_000).all(|_| planned.takes(0)));
        let mut unknown = Stamping::new(None);
        let burst = (0..2_000).filter(|_| unknown.takes(0)).count();
        assert!((1_000..=1_400).contains(&burst), "{burst}");
        let later = (1..=1_000).filter(|at| unknown.takes(at * SECOND_NS / 100));
        assert!(later.count() >= 240);
    }

    #[test]
    fn what_is_measured_is_in_step_with_no_users() {
        let mut stamping = Stamping::new(None);
        let mut by_user = [0; 64];
        for at in 0..640_000 {
            by_user[at % 64] += usize::from(stamping.takes(at as i64 * 1_000));
        }
        assert!(by_user.iter().all(|count| *count > 100), "{by_user:?}");
    }
}
