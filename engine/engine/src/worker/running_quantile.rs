//! A quantile of what comes, kept in one number.

/// Follows a quantile of a stream of durations by stochastic approximation (Robbins & Monro 1951): each one moves it up or
/// down by a part of a fixed step, so that a rare huge one moves it no further than any other.
#[derive(Clone, Copy, Debug)]
pub struct RunningQuantile {
    pub value_ns: i64,
    percent: i64,
}

impl RunningQuantile {
    /// The quantile below which `percent` of 100 lie, at first taken to be `value_ns`.
    pub fn new(percent: i64, value_ns: i64) -> Self {
        RunningQuantile { value_ns, percent }
    }

    /// Moves it by at most `step_ns`: up by `percent` of 100 of that for what is longer, down by the rest for what is not.
    pub fn learn(&mut self, seen_ns: i64, step_ns: i64) {
        self.value_ns += if seen_ns > self.value_ns {
            step_ns * self.percent / 100
        } else {
            -step_ns * (100 - self.percent) / 100
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Draws, Stream};

    #[test]
    fn it_settles_at_its_quantile() {
        let draws = Draws::new(1, "quantile", Stream::Phase);
        for percent in [10, 50, 90] {
            let mut quantile = RunningQuantile::new(percent, 0);
            let mut below = 0;
            for n in 0..40_000 {
                let seen_ns = draws.below(n, 0, 100_000) as i64;
                below += i64::from(n >= 20_000 && seen_ns <= quantile.value_ns);
                quantile.learn(seen_ns, 1_000);
            }
            assert!((below - 200 * percent).abs() < 400, "{percent}: {below}");
        }
    }
}
