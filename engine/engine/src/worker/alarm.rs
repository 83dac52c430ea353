//! Waking on time. The kernel wakes a sleeper tens of microseconds late; the alarm learns how late, asks to be woken that
//! much earlier, and spins through what is left.

use super::running_quantile::RunningQuantile;

/// Never spins longer than this before one start.
const LEAD_MAX_NS: i64 = 60_000;
const LEAD_MIN_NS: i64 = 2_000;
const LEAD_FIRST_NS: i64 = 30_000;
/// The lead settles where so many wake-ups in a hundred are early enough.
const EARLY_PERCENT: i64 = 90;
const STEP_NS: i64 = 2_000;
/// Unasked, a thread spins for starts for so much of its time,
const FREE_PER_MILLE: i64 = 25;
/// and saves up no more of it than this, ns.
const FREE_MAX_NS: i64 = 2_000_000;
/// To fall asleep and wake again takes at least so much CPU: a start that is nearer is awaited awake (engine/NOTES.md).
const SLEEP_COST_NS: i64 = 3_000;

/// How early one thread asks to be woken, and what it may spin for that.
///
/// Few starts are met exactly at the price of a few percent of a core. Where they are many, spinning for each would be the
/// load's greatest cost: the thread then sleeps to the start itself, unless it was told to spin.
#[derive(Clone, Debug)]
pub struct Alarm {
    lead: RunningQuantile,
    most_ns: i64,
    told: bool,
    free_ns: i64,
    saved_at_ns: i64,
}

impl Alarm {
    /// `spin_ns` > 0: spins for every start, for at most so long. `quantised`: starts stand on a coarse grid, and are not spun for unless told.
    pub fn new(spin_ns: i64, quantised: bool, now_ns: i64) -> Self {
        let most_ns = match spin_ns {
            0 if quantised => 0,
            0 => LEAD_MAX_NS,
            told => told.min(LEAD_MAX_NS),
        };
        Alarm {
            lead: RunningQuantile::new(EARLY_PERCENT, LEAD_FIRST_NS),
            most_ns,
            told: spin_ns > 0,
            free_ns: FREE_MAX_NS,
            saved_at_ns: now_ns,
        }
    }

    /// How much earlier than a start the thread asks to be woken, ns.
    pub fn lead_ns(&mut self, now_ns: i64) -> i64 {
        let lead_ns = self.lead.value_ns.min(self.most_ns);
        self.save(now_ns);
        if self.told || self.free_ns >= lead_ns {
            lead_ns
        } else {
            lead_ns.min(SLEEP_COST_NS)
        }
    }

    /// How late wake-ups are, ns: nine in ten are no later.
    pub fn late_ns(&self) -> i64 {
        self.lead.value_ns
    }

    fn save(&mut self, now_ns: i64) {
        let passed_ns = (now_ns - self.saved_at_ns).clamp(0, FREE_MAX_NS * 1_000 / FREE_PER_MILLE);
        self.saved_at_ns = now_ns;
        self.free_ns = (self.free_ns + passed_ns * FREE_PER_MILLE / 1_000).min(FREE_MAX_NS);
    }

    /// So much was spun for a start.
    pub fn spun(&mut self, spun_ns: i64) {
        self.free_ns = (self.free_ns - spun_ns).max(0);
    }

    /// A wait that ended by its timeout ended so late.
    pub fn learn(&mut self, late_ns: i64) {
        self.lead.learn(late_ns, STEP_NS);
        self.lead.value_ns = self.lead.value_ns.clamp(LEAD_MIN_NS, LEAD_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Draws, Stream};

    const S: i64 = 1_000_000_000;

    #[test]
    fn the_lead_settles_at_its_quantile() {
        let draws = Draws::new(1, "alarm", Stream::Phase);
        let mut alarm = Alarm::new(S, false, 0);
        let mut early = 0;
        for n in 0..40_000 {
            // 10 to 40 us late, one in fifty by milliseconds.
            let late = if n % 50 == 0 {
                5_000_000
            } else {
                10_000 + draws.below(n, 0, 30_000) as i64
            };
            early += i64::from(n >= 20_000 && late <= alarm.lead_ns(0));
            alarm.learn(late);
        }
        assert!((17_500..=18_500).contains(&early), "{early}");
        for _ in 0..1_000 {
            alarm.learn(9_000_000);
        }
        assert_eq!(alarm.lead_ns(0), LEAD_MAX_NS);
    }

    /// Starts at a rate for ten seconds, 20 us of each lead spun: (share of the time spun, share of the starts that were).
    fn spends(mut alarm: Alarm, rate: i64) -> (f64, f64) {
        let (mut spun_ns, mut met) = (0i64, 0i64);
        for n in 0..10 * rate {
            if alarm.lead_ns(n * S / rate) > SLEEP_COST_NS {
                alarm.spun(20_000);
                (spun_ns, met) = (spun_ns + 20_000, met + 1);
            }
        }
        (spun_ns as f64 / 1e10, met as f64 / (10 * rate) as f64)
    }

    #[test]
    fn unasked_it_spins_for_few_starts_and_sleeps_for_many() {
        assert_eq!(spends(Alarm::new(0, false, 0), 500), (0.01, 1.0));
        let (time, starts) = spends(Alarm::new(0, false, 0), 20_000);
        assert!((0.024..0.026).contains(&time), "{time}");
        assert!(starts < 0.07, "{starts}");
    }

    #[test]
    fn told_to_it_spins_for_every_start_and_no_longer() {
        assert_eq!(spends(Alarm::new(60_000, false, 0), 20_000).1, 1.0);
        assert_eq!(Alarm::new(10_000, false, 0).lead_ns(0), 10_000);
        assert_eq!(Alarm::new(0, true, 0).lead_ns(0), 0);
        assert_eq!(Alarm::new(10_000, true, 0).lead_ns(0), 10_000);
    }
}
