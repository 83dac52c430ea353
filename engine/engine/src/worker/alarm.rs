//! Waking on time. The kernel wakes a sleeper tens of microseconds late; the alarm learns how late, asks to be woken that
//! much earlier, and spins through what is left.

/// Never spins longer than this before one start.
const LEAD_MAX_NS: i64 = 60_000;
const LEAD_MIN_NS: i64 = 2_000;
const LEAD_FIRST_NS: i64 = 30_000;
/// The lead settles where so many wake-ups in a hundred are early enough.
const EARLY_PERCENT: i64 = 90;
const STEP_NS: i64 = 2_000;

/// The learned lead of one thread's wake-ups.
#[derive(Clone, Debug)]
pub struct Alarm {
    lead_ns: i64,
}

impl Default for Alarm {
    fn default() -> Self {
        Alarm {
            lead_ns: LEAD_FIRST_NS,
        }
    }
}

impl Alarm {
    /// How much earlier than a start the thread asks to be woken, ns.
    pub fn lead_ns(&self) -> i64 {
        self.lead_ns
    }

    /// A wait that ended by its time-out ended so late. A quantile by stochastic approximation (Robbins & Monro 1951):
    /// rare long delays move it no further than short ones.
    pub fn learn(&mut self, late_ns: i64) {
        let step = if late_ns > self.lead_ns {
            STEP_NS * EARLY_PERCENT / 100
        } else {
            -STEP_NS * (100 - EARLY_PERCENT) / 100
        };
        self.lead_ns = (self.lead_ns + step).clamp(LEAD_MIN_NS, LEAD_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Draws, Stream};

    #[test]
    fn the_lead_settles_at_its_quantile() {
        let draws = Draws::new(1, "alarm", Stream::Phase);
        let mut alarm = Alarm::default();
        let mut early = 0;
        for n in 0..40_000 {
            // 10 to 40 us late, one in fifty by milliseconds.
            let late = if n % 50 == 0 {
                5_000_000
            } else {
                10_000 + draws.below(n, 0, 30_000) as i64
            };
            early += i64::from(n >= 20_000 && late <= alarm.lead_ns());
            alarm.learn(late);
        }
        assert!((17_500..=18_500).contains(&early), "{early}");
        for _ in 0..1_000 {
            alarm.learn(9_000_000);
        }
        assert_eq!(alarm.lead_ns(), LEAD_MAX_NS);
    }
}
