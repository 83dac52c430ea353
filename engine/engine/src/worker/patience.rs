//! Waiting for answers. A thread that sleeps until its answer comes is woken tens of microseconds after it; where answers
//! come sooner than `spin_ns`, it asks again and again instead. Where they take longer it sleeps, since spinning gains nothing there.

/// The weight of the newest wait, as a shift: 1/8.
const NEWEST_SHIFT: u32 = 3;

/// How long one thread has waited for answers lately.
#[derive(Clone, Debug)]
pub struct Patience {
    spin_ns: i64,
    usual_ns: i64,
}

impl Patience {
    /// Spins for at most `spin_ns` at a time; 0: never.
    pub fn new(spin_ns: i64) -> Self {
        Patience {
            spin_ns,
            usual_ns: 0,
        }
    }

    /// How long to spin before sleeping, ns; 0 where answers usually take longer.
    pub fn spin_ns(&self) -> i64 {
        if self.usual_ns <= self.spin_ns {
            self.spin_ns
        } else {
            0
        }
    }

    /// A wait with requests in flight took so long; `answered` if an answer ended it. What something else cut short says
    /// only that answers take at least so long. The mean is exponentially weighted; one wait counts at most as four times
    /// the spin, so that a rare stall is soon forgotten.
    pub fn learn(&mut self, waited_ns: i64, answered: bool) {
        if answered || waited_ns > self.usual_ns {
            let waited_ns = waited_ns.min(4 * self.spin_ns);
            self.usual_ns += (waited_ns - self.usual_ns) >> NEWEST_SHIFT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits: &[(i64, bool)]) -> Patience {
        let mut patience = Patience::new(60_000);
        for _ in 0..100 {
            waits
                .iter()
                .for_each(|&(waited_ns, answered)| patience.learn(waited_ns, answered));
        }
        patience
    }

    #[test]
    fn it_spins_for_quick_answers_and_sleeps_for_slow_ones() {
        assert_eq!(after(&[(20_000, true)]).spin_ns(), 60_000);
        assert_eq!(after(&[(2_000_000, true)]).spin_ns(), 0);
        assert_eq!(Patience::new(0).spin_ns(), 0);
    }

    #[test]
    fn a_wait_cut_short_is_no_quick_answer() {
        assert_eq!(after(&[(2_000_000, true), (10, false)]).spin_ns(), 0);
        assert_eq!(after(&[(10, true), (1_000_000, false)]).spin_ns(), 0);
    }

    #[test]
    fn a_rare_stall_is_forgotten() {
        let mut patience = after(&[(20_000, true)]);
        patience.learn(1_000_000_000, true);
        assert_eq!(patience.spin_ns(), 60_000);
    }
}
