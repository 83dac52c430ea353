//! Seeded draws: every value is a pure function of (seed, stream, arrival number), so that the order of
//! completions never changes what a request is given.

use serde::{Deserialize, Serialize};

use crate::config::LONGEST_NS;

/// Which question a draw answers; streams are independent of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Service = 1,
    Error = 2,
}

/// A service-time distribution; all times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub enum Distribution {
    #[serde(rename = "constant_ns")]
    Constant(u64),
    #[serde(rename = "uniform_ns")]
    Uniform([u64; 2]),
    /// The mean.
    #[serde(rename = "exponential_ns")]
    Exponential(u64),
    #[serde(rename = "lognormal_ns")]
    Lognormal { median: u64, p99: u64 },
}

impl Default for Distribution {
    fn default() -> Self {
        Self::Constant(0)
    }
}

/// The 0.99 quantile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

impl Distribution {
    /// # Errors
    /// The part that is wrong, and why.
    pub fn check(&self) -> Result<(), String> {
        let (field, longest) = match *self {
            Self::Constant(value) => ("constant_ns", value),
            Self::Uniform([low, high]) if high < low => {
                return Err(format!(
                    "uniform_ns: the second value must not be below the first, is [{low}, {high}]"
                ));
            }
            Self::Uniform([_, high]) => ("uniform_ns", high),
            Self::Exponential(mean) => ("exponential_ns", mean),
            Self::Lognormal { median, p99 } if median == 0 || p99 < median => {
                return Err(format!(
                    "lognormal_ns.p99: needs 0 < median ≤ p99, is median {median}, p99 {p99}"
                ));
            }
            Self::Lognormal { p99, .. } => ("lognormal_ns.p99", p99),
        };
        if longest > LONGEST_NS {
            return Err(format!(
                "{field}: must be at most a day ({LONGEST_NS} ns), is {longest}"
            ));
        }
        Ok(())
    }

    /// The value below which a share `u` in [0, 1) of all draws lies, in ns, cut at a day.
    #[must_use]
    pub fn quantile_ns(&self, u: f64) -> u64 {
        let value = match *self {
            Self::Constant(value) => return value,
            Self::Uniform([low, high]) => low as f64 + u * (high - low) as f64,
            Self::Exponential(mean) => -(mean as f64) * (-u).ln_1p(),
            Self::Lognormal { median, p99 } => {
                let sigma = (p99 as f64 / median as f64).ln() / Z99;
                median as f64 * (sigma * normal_quantile(u)).exp()
            }
        };
        (value.round() as u64).min(LONGEST_NS) // `as` saturates; NaN cannot occur
    }
}

/// A uniform value in [0, 1) for one arrival: SplitMix64's output function (Steele, Lea & Flood 2014),
/// applied to a counter.
#[must_use]
pub fn uniform(seed: u64, stream: Stream, arrival: u64) -> f64 {
    let key = mix(seed ^ mix(stream as u64));
    let bits = mix(key.wrapping_add(arrival.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Quantile of the standard normal: Acklam's rational approximation, relative error below 1.15e-9.
/// `u` outside (0, 1) is moved to the nearest representable probability.
fn normal_quantile(u: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let p = u.clamp(f64::EPSILON / 4.0, 1.0 - f64::EPSILON / 2.0);
    let polynomial =
        |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |q: f64| polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    if p < 0.024_25 {
        tail((-2.0 * p.ln()).sqrt())
    } else if p > 1.0 - 0.024_25 {
        -tail((-2.0 * (1.0 - p).ln()).sqrt())
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(distribution: Distribution, n: u64) -> Vec<u64> {
        (0..n)
            .map(|i| distribution.quantile_ns(uniform(7, Stream::Service, i)))
            .collect()
    }

    #[test]
    fn normal_quantiles_match_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.975, 1.959_963_985),
            (0.99, Z99),
            (0.001, -3.090_232_306),
            (0.01, -Z99),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-8, "{p}");
        }
        assert!(normal_quantile(0.0).is_finite() && normal_quantile(1.0).is_finite());
    }

    #[test]
    fn draws_depend_on_seed_stream_and_arrival_alone() {
        assert_eq!(
            uniform(1, Stream::Service, 5).to_bits(),
            uniform(1, Stream::Service, 5).to_bits()
        );
        assert_ne!(
            uniform(1, Stream::Service, 5).to_bits(),
            uniform(2, Stream::Service, 5).to_bits()
        );
        assert_ne!(
            uniform(1, Stream::Service, 5).to_bits(),
            uniform(1, Stream::Error, 5).to_bits()
        );
        assert_ne!(
            uniform(1, Stream::Service, 5).to_bits(),
            uniform(1, Stream::Service, 6).to_bits()
        );
    }

    #[test]
    fn uniform_values_fill_the_interval_and_neighbours_are_uncorrelated() {
        let n = 100_000;
        let values: Vec<f64> = (0..n).map(|i| uniform(3, Stream::Error, i)).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let lag1 = values
            .windows(2)
            .map(|w| (w[0] - 0.5) * (w[1] - 0.5))
            .sum::<f64>()
            / n as f64
            * 12.0;
        assert!(lag1.abs() < 0.015, "{lag1}");
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
    }

    #[test]
    fn means_and_quantiles_are_what_was_asked() {
        let n = 200_000;
        let mean = |v: &[u64]| v.iter().map(|x| *x as f64).sum::<f64>() / v.len() as f64;
        assert_eq!(draws(Distribution::Constant(42), 3), vec![42, 42, 42]);
        let uniform = draws(Distribution::Uniform([1000, 3000]), n);
        assert!((mean(&uniform) - 2000.0).abs() < 10.0);
        assert!(uniform.iter().all(|v| (1000..=3000).contains(v)));
        let exponential = draws(Distribution::Exponential(1_000_000), n);
        assert!((mean(&exponential) / 1e6 - 1.0).abs() < 0.02);
        let mut lognormal = draws(
            Distribution::Lognormal {
                median: 2_000_000,
                p99: 9_000_000,
            },
            n,
        );
        lognormal.sort_unstable();
        assert!((lognormal[n as usize / 2] as f64 / 2e6 - 1.0).abs() < 0.02);
        assert!((lognormal[n as usize * 99 / 100] as f64 / 9e6 - 1.0).abs() < 0.04);
    }

    #[test]
    fn extreme_quantiles_stay_within_a_day() {
        let wild = Distribution::Lognormal {
            median: 1,
            p99: LONGEST_NS,
        };
        assert_eq!(wild.quantile_ns(1.0 - f64::EPSILON), LONGEST_NS);
        assert_eq!(
            Distribution::Lognormal { median: 5, p99: 5 }.quantile_ns(0.9),
            5
        );
    }
}
