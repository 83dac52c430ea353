//! Waiting for answers. A thread that sleeps until its answer comes is woken tens of microseconds after it. Told to spin, it asks
//! again and again instead, where answers usually come soon enough. Unasked, it wakes just before a lone answer usually comes and
//! asks through the last moments, as long as that takes little of its time.

use super::running_quantile::RunningQuantile;

/// The weight of the newest wait, as a shift: 1/8.
const NEWEST_SHIFT: u32 = 3;
/// Unasked, a thread spins for a lone answer for at most so long,
const FREE_SPIN_NS: i64 = 250_000;
/// and for at most so much of its time,
const FREE_PER_MILLE: i64 = 100;
/// looked at over so long.
const FREE_WINDOW_NS: i64 = 50_000_000;
/// Spinning begins where so many answers in a hundred have come.
const EARLY_PERCENT: i64 = 10;
/// The newest answer moves that time by at most so much of it, as a shift: 1/64,
const STEP_SHIFT: u32 = 6;
/// or by this.
const STEP_MIN_NS: i64 = 500;

/// What one thread spins for its answers.
#[derive(Clone, Debug)]
pub enum Patience {
    /// It sleeps.
    Asleep,
    /// It was told to spin.
    Told(Told),
    /// It spins for what costs little.
    Free(Free),
}

impl Patience {
    /// `spin_ns` > 0: spins for at most so long at a time. `quantised`: starts come in bursts, whose answers are not spun for unless told.
    pub fn new(spin_ns: i64, quantised: bool) -> Self {
        match spin_ns {
            0 if quantised => Patience::Asleep,
            0 => Patience::Free(Free::default()),
            told => Patience::Told(Told {
                spin_ns: told,
                usual_ns: 0,
            }),
        }
    }

    /// Requests are in flight, `begun` have begun so far, and the thread is about to wait: from when until when to spin.
    pub fn window(
        &mut self,
        now_ns: i64,
        begun: u64,
        in_flight: u64,
        lead_ns: i64,
    ) -> Option<(i64, i64)> {
        match self {
            Patience::Told(told) if in_flight > 0 && told.usual_ns <= told.spin_ns => {
                Some((now_ns, now_ns + told.spin_ns))
            }
            Patience::Free(free) => free.window(now_ns, begun, in_flight, lead_ns),
            _ => None,
        }
    }

    /// A wait with requests in flight ended at `now_ns` and took so long; `answered` if an answer ended it.
    pub fn learn(&mut self, now_ns: i64, waited_ns: i64, answered: bool) {
        match self {
            Patience::Asleep => {}
            Patience::Told(told) => told.learn(waited_ns, answered),
            Patience::Free(free) => free.learn(now_ns, answered),
        }
    }
}

/// How long a thread that was told to spin has waited for answers lately.
#[derive(Clone, Debug)]
pub struct Told {
    spin_ns: i64,
    usual_ns: i64,
}

impl Told {
    /// What something else cut short says only that answers take at least so long. The mean is exponentially weighted; one
    /// wait counts at most as four times the spin, so that a rare stall is soon forgotten.
    fn learn(&mut self, waited_ns: i64, answered: bool) {
        if answered || waited_ns > self.usual_ns {
            let waited_ns = waited_ns.min(4 * self.spin_ns);
            self.usual_ns += (waited_ns - self.usual_ns) >> NEWEST_SHIFT;
        }
    }
}

/// When a lone answer comes, and what it would cost to spin for each.
///
/// Where several requests are in flight nobody knows whose answer is next: there the thread sleeps.
#[derive(Clone, Debug, Default)]
pub struct Free {
    /// Since when the thread waits for the lone answer.
    since_ns: Option<i64>,
    begun: u64,
    /// So soon come only the earliest answers; `None` before the first.
    early: Option<RunningQuantile>,
    /// When spinning for the present answer begins.
    from_ns: i64,
    granted: bool,
    looked_ns: i64,
    cost_ns: i64,
}

impl Free {
    fn window(
        &mut self,
        now_ns: i64,
        begun: u64,
        in_flight: u64,
        lead_ns: i64,
    ) -> Option<(i64, i64)> {
        if in_flight != 1 {
            self.since_ns = None;
            return None;
        }
        if self.begun != begun {
            self.begun = begun;
            self.since_ns = None;
        }
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let expected_ns = since_ns + self.early?.value_ns;
        self.from_ns = (expected_ns - lead_ns).max(since_ns);
        let until_ns = self.from_ns + FREE_SPIN_NS;
        (self.granted && now_ns < until_ns).then_some((self.from_ns, until_ns))
    }

    /// The cost is what spinning takes, or would.
    fn learn(&mut self, now_ns: i64, answered: bool) {
        let Some(since_ns) = self.since_ns.filter(|_| answered) else {
            return;
        };
        self.since_ns = None;
        let waited_ns = now_ns - since_ns;
        let early = self
            .early
            .get_or_insert(RunningQuantile::new(EARLY_PERCENT, waited_ns));
        early.learn(waited_ns, (early.value_ns >> STEP_SHIFT).max(STEP_MIN_NS));
        self.cost_ns += (now_ns - self.from_ns).clamp(0, FREE_SPIN_NS);
        let passed_ns = now_ns - self.looked_ns;
        if passed_ns >= FREE_WINDOW_NS {
            self.granted = self.cost_ns * 1_000 <= passed_ns * FREE_PER_MILLE;
            (self.looked_ns, self.cost_ns) = (now_ns, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Draws, Stream};

    const S: i64 = 1_000_000_000;

    /// Told to spin for 60 µs, after a hundred such waits.
    fn told_after(waits: &[(i64, bool)]) -> Patience {
        let mut patience = Patience::new(60_000, false);
        for _ in 0..100 {
            waits
                .iter()
                .for_each(|&(waited_ns, answered)| patience.learn(0, waited_ns, answered));
        }
        patience
    }

    fn spins_after(waits: &[(i64, bool)]) -> bool {
        told_after(waits).window(5, 1, 9, 0) == Some((5, 60_005))
    }

    #[test]
    fn told_to_it_spins_for_quick_answers_and_sleeps_for_slow_ones() {
        assert!(spins_after(&[(20_000, true)]));
        assert!(!spins_after(&[(2_000_000, true)]));
        assert_eq!(Patience::new(0, true).window(5, 1, 1, 0), None);
        assert_eq!(Patience::new(60_000, false).window(5, 1, 0, 0), None);
    }

    #[test]
    fn a_wait_cut_short_is_no_quick_answer() {
        assert!(!spins_after(&[(2_000_000, true), (10, false)]));
        assert!(!spins_after(&[(10, true), (1_000_000, false)]));
    }

    #[test]
    fn a_rare_stall_is_forgotten() {
        let mut patience = told_after(&[(20_000, true)]);
        patience.learn(0, S, true);
        assert_eq!(patience.window(0, 1, 1, 0), Some((0, 60_000)));
    }

    /// Ten seconds of `rate` lone answers that take `takes(n)` each, unasked: (share of the time spun, share of the answers spun for),
    /// over the second half.
    fn spends(rate: i64, takes: impl Fn(u64) -> i64) -> (f64, f64) {
        let mut patience = Patience::new(0, false);
        let (mut spun_ns, mut met) = (0, 0);
        let count = 10 * rate;
        for n in 0..count {
            let (begun_ns, takes_ns) = (n * S / rate, takes(n as u64));
            let window = patience.window(begun_ns, n as u64, 1, 30_000);
            let done_ns = begun_ns + takes_ns;
            if let Some((from_ns, until_ns)) = window.filter(|_| n >= count / 2) {
                spun_ns += done_ns.min(until_ns).saturating_sub(from_ns).max(0);
                met += i64::from((from_ns..until_ns).contains(&done_ns));
            }
            patience.learn(done_ns, takes_ns, true);
        }
        (
            spun_ns as f64 / (5 * S) as f64,
            met as f64 / (count / 2) as f64,
        )
    }

    #[test]
    fn unasked_it_spins_for_a_lone_answer_where_that_costs_little() {
        let (time, answers) = spends(500, |_| 1_000_000);
        assert!(time < 0.03 && answers == 1.0, "{time} {answers}");
        let (time, answers) = spends(500, |_| 90_000);
        assert!(time < 0.05 && answers == 1.0, "{time} {answers}");
        // Nobody knows when these come,
        let draws = Draws::new(1, "patience", Stream::Phase);
        let exponential = |n| (draws.exponential(n, 0) * 2e6) as i64;
        assert!(spends(400, exponential).0 < 0.11);
        // and who always waits would always spin.
        assert_eq!(spends(9_000, |_| 100_000), (0.0, 0.0));
        assert_eq!(spends(100_000, |_| 9_000), (0.0, 0.0));
    }

    #[test]
    fn unasked_it_sleeps_while_several_answers_are_awaited() {
        let mut patience = Patience::new(0, false);
        for n in 1..200 {
            patience.window(n * 1_000_000, n as u64, 1, 0);
            patience.learn(n * 1_000_000 + 50_000, 50_000, true);
        }
        let now_ns = S;
        assert!(patience.window(now_ns, 1_000, 1, 0).is_some());
        assert_eq!(patience.window(now_ns, 1_000, 2, 0), None);
    }
}
