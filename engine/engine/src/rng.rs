//! Random numbers as pure functions of keys, so that a plan is the same on every machine and with any number of threads.
//!
//! `splitmix64` (Steele, Lea & Flood, OOPSLA 2014) as a mixing function over (seed, stream, index, step). Nothing keeps state.

/// What a draw is for: two purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    Phase = 1,
    Arrival = 2,
    Think = 3,
    Feeder = 4,
    RequestId = 5,
    /// The second number that a normal draw needs.
    ThinkTurn = 20,
    Body = 21,
    BodySize = 22,
    BodySizeTurn = 23,
    /// Which scenario an iteration takes.
    Scenario = 24,
}

/// The finaliser of splitmix64: a bijection that scatters its input.
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stable hash of a name (FNV-1a, then mixed), so that keys follow a group's name and not its place in a share.
pub fn name_key(name: &str) -> u64 {
    let fnv = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(fnv)
}

/// A source of draws for one (seed, name, stream).
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    key: u64,
}

impl Draws {
    pub fn new(seed: u64, name: &str, stream: Stream) -> Self {
        Draws {
            key: mix(mix(seed) ^ name_key(name)) ^ mix(stream as u64),
        }
    }

    /// 64 random bits of (unit, step): unit is a VU or arrival index, step its iteration.
    #[inline]
    pub fn bits(&self, unit: u64, step: u64) -> u64 {
        mix(mix(self.key ^ mix(unit)).wrapping_add(step))
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn uniform(&self, unit: u64, step: u64) -> f64 {
        (self.bits(unit, step) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n (multiply-shift; bias below n / 2^64).
    #[inline]
    pub fn below(&self, unit: u64, step: u64, n: u64) -> u64 {
        ((u128::from(self.bits(unit, step)) * u128::from(n)) >> 64) as u64
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&self, unit: u64, step: u64) -> f64 {
        -(1.0 - self.uniform(unit, step)).ln()
    }

    /// Standard normal (Box & Muller 1958); `turn` gives the second number.
    #[inline]
    pub fn normal(&self, turn: &Draws, unit: u64, step: u64) -> f64 {
        let angle = std::f64::consts::TAU * turn.uniform(unit, step);
        (2.0 * self.exponential(unit, step)).sqrt() * angle.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pinned() {
        // A change here changes every plan: it needs a new share format.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let draws = Draws::new(7, "background", Stream::Think);
        assert_eq!(
            draws.bits(3, 5),
            Draws::new(7, "background", Stream::Think).bits(3, 5)
        );
        assert_ne!(draws.bits(3, 5), draws.bits(5, 3));
        assert_ne!(
            draws.bits(3, 5),
            Draws::new(7, "background", Stream::Feeder).bits(3, 5)
        );
        assert_ne!(
            draws.bits(3, 5),
            Draws::new(7, "probe", Stream::Think).bits(3, 5)
        );
        assert_eq!(draws.bits(3, 5), 2_962_049_768_999_768_057);
    }

    #[test]
    fn means_are_right() {
        let draws = Draws::new(1, "g", Stream::Arrival);
        let n = 20_000;
        let uniform: f64 = (0..n).map(|i| draws.uniform(0, i)).sum::<f64>() / n as f64;
        let exponential: f64 = (0..n).map(|i| draws.exponential(i, 0)).sum::<f64>() / n as f64;
        assert!((uniform - 0.5).abs() < 0.01, "{uniform}");
        assert!((exponential - 1.0).abs() < 0.03, "{exponential}");
        assert!((0..n).all(|i| draws.below(i, i, 7) < 7));
    }
}
