//! Levels that change over time in stages: a rate and the inverse of its integral, and how many VUs there are.

use serde::Deserialize;

/// From the level before to `target`, in a straight line; no duration is a jump (k6's stages).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage<T> {
    pub duration_ns: u64,
    pub target: T,
}

/// How long all stages take, ns; `None` if that is more than 2^60.
pub fn stages_ns<T>(stages: &[Stage<T>]) -> Option<i64> {
    let sum = stages.iter().try_fold(0u64, |sum, stage| {
        sum.checked_add(stage.duration_ns)
            .filter(|sum| *sum < 1 << 60)
    });
    sum.map(|ns| ns as i64)
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from_s: f64,
    length_s: f64,
    low_rps: f64,
    high_rps: f64,
    /// Arrivals before it.
    before: f64,
}

impl Piece {
    fn arrivals(&self) -> f64 {
        (self.low_rps + self.high_rps) / 2.0 * self.length_s
    }

    /// Seconds from its begin until it has brought `arrivals`: the root of low·x + slope·x²/2 = arrivals, in the form that
    /// neither divides by a slope of 0 nor cancels.
    fn inverse_s(&self, arrivals: f64) -> f64 {
        if arrivals <= 0.0 {
            return 0.0;
        }
        let slope = (self.high_rps - self.low_rps) / self.length_s;
        let root = (self.low_rps * self.low_rps + 2.0 * slope * arrivals)
            .max(0.0)
            .sqrt();
        (2.0 * arrivals / (self.low_rps + root)).min(self.length_s)
    }
}

/// A rate over time. Arrival number x (a real number: index and phase) is due where the rate's integral reaches x.
#[derive(Clone, Debug)]
pub struct RateRamp {
    pieces: Vec<Piece>,
}

impl RateRamp {
    pub fn new(start_rps: f64, stages: &[Stage<f64>]) -> Self {
        let (mut from_s, mut low_rps, mut before) = (0.0, start_rps, 0.0);
        let mut pieces = Vec::with_capacity(stages.len());
        for stage in stages {
            let piece = Piece {
                from_s,
                length_s: stage.duration_ns as f64 / 1e9,
                low_rps,
                high_rps: stage.target,
                before,
            };
            (from_s, low_rps) = (from_s + piece.length_s, stage.target);
            before += piece.arrivals();
            if piece.arrivals() > 0.0 {
                pieces.push(piece);
            }
        }
        RateRamp { pieces }
    }

    /// Offset from the ramp's begin at which its integral reaches `arrivals`, ns; `None` if it never does.
    pub fn due_ns(&self, arrivals: f64) -> Option<i64> {
        let at = self
            .pieces
            .partition_point(|piece| piece.before + piece.arrivals() <= arrivals);
        let piece = self.pieces.get(at)?;
        let offset_s = piece.from_s + piece.inverse_s((arrivals - piece.before).max(0.0));
        Some((offset_s * 1e9) as i64)
    }
}

/// How many VUs there are over time. Going up there are n as soon as the line reaches n, going down n as soon as it
/// has come down to n; so VU g exists in spans, and the last that came is the first that goes.
#[derive(Clone, Debug)]
pub struct VuRamp {
    start_ns: i64,
    stop_ns: i64,
    start_vus: u64,
    stages: Vec<Stage<u64>>,
}

impl VuRamp {
    /// The ramp begins at `start_ns`; nobody exists from its end, or from `stop_ns` on.
    pub fn new(start_ns: i64, stop_ns: i64, start_vus: u64, stages: &[Stage<u64>]) -> Self {
        VuRamp {
            start_ns,
            stop_ns,
            start_vus,
            stages: stages.to_vec(),
        }
    }

    /// When the last VU goes, ns.
    pub fn end_ns(&self) -> i64 {
        let length_ns = stages_ns(&self.stages).unwrap_or(i64::MAX);
        self.start_ns.saturating_add(length_ns).min(self.stop_ns)
    }

    /// The first span [on, off) of VU `vu` that ends after `after_ns`.
    pub fn span_after(&self, vu: u64, after_ns: i64) -> Option<(i64, i64)> {
        let span = |on_ns: i64, off_ns: i64| {
            let off_ns = off_ns.min(self.stop_ns);
            (off_ns > after_ns && off_ns > on_ns).then_some((on_ns, off_ns))
        };
        let (mut at_ns, mut level) = (self.start_ns, self.start_vus);
        let mut on_ns = (level > vu).then_some(at_ns);
        for stage in &self.stages {
            let to = stage.target;
            match on_ns {
                None if to > vu => {
                    on_ns = Some(at_ns + part_of(stage.duration_ns, vu + 1 - level, to - level));
                }
                Some(on) if to <= vu => {
                    let off_ns = at_ns + part_of(stage.duration_ns, level - vu, level - to);
                    let found = span(on, off_ns);
                    if found.is_some() {
                        return found;
                    }
                    on_ns = None;
                }
                _ => {}
            }
            at_ns += stage.duration_ns as i64;
            level = to;
        }
        on_ns.and_then(|on_ns| span(on_ns, at_ns))
    }
}

fn part_of(duration_ns: u64, part: u64, whole: u64) -> i64 {
    (u128::from(duration_ns) * u128::from(part) / u128::from(whole)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: i64 = 1_000_000_000;

    fn stage<T>(seconds: u64, target: T) -> Stage<T> {
        Stage {
            duration_ns: seconds * 1_000_000_000,
            target,
        }
    }

    /// The rate's integral, written down anew: by trapezoids over the stages.
    fn integral(start_rps: f64, stages: &[Stage<f64>], until_ns: i64) -> f64 {
        let (mut sum, mut low, mut from_ns) = (0.0, start_rps, 0i64);
        for stage in stages {
            let length_ns = stage.duration_ns as i64;
            let inside_ns = (until_ns - from_ns).clamp(0, length_ns);
            if length_ns > 0 {
                let share = inside_ns as f64 / length_ns as f64;
                let reached = low + (stage.target - low) * share;
                sum += (low + reached) / 2.0 * inside_ns as f64 / 1e9;
            }
            low = stage.target;
            from_ns += length_ns;
        }
        sum
    }

    #[test]
    fn a_straight_ramp_has_the_closed_form() {
        // r = 10 t: x arrivals are reached at sqrt(x / 5).
        let ramp = RateRamp::new(0.0, &[stage(10, 100.0)]);
        for arrivals in [0.0f64, 1.0, 5.0, 20.0, 499.0] {
            let due_ns = ramp.due_ns(arrivals).unwrap();
            let wanted = (arrivals / 5.0).sqrt() * 1e9;
            assert!(
                (due_ns as f64 - wanted).abs() <= 2.0,
                "{arrivals}: {due_ns}"
            );
        }
        assert_eq!(ramp.due_ns(500.0), None);
    }

    #[test]
    fn jumps_and_silences_have_no_arrivals_of_their_own() {
        let stages = [
            stage(2, 0.0),
            stage(0, 10.0),
            stage(1, 10.0),
            stage(0, 0.0),
            stage(5, 0.0),
        ];
        let ramp = RateRamp::new(0.0, &stages);
        assert_eq!(ramp.due_ns(0.0), Some(2 * S));
        assert_eq!(ramp.due_ns(5.0), Some(2 * S + S / 2));
        assert_eq!(ramp.due_ns(10.0), None);
        assert_eq!(RateRamp::new(0.0, &[]).due_ns(0.0), None);
    }

    fn rates() -> impl Strategy<Value = (f64, Vec<Stage<f64>>)> {
        let one =
            (0u64..5_000, 0.0..2_000.0f64, any::<bool>()).prop_map(|(ms, target, zero)| Stage {
                duration_ns: ms * 1_000_000,
                target: if zero { 0.0 } else { target },
            });
        (0.0..1_000.0f64, prop::collection::vec(one, 1..6))
    }

    proptest! {
        #[test]
        fn due_times_invert_the_integral((start, stages) in rates(), phase in 0.0..1.0f64) {
            let ramp = RateRamp::new(start, &stages);
            let total = integral(start, &stages, i64::MAX);
            let mut last_ns = 0;
            let mut index = 0.0;
            while let Some(due_ns) = ramp.due_ns(index + phase) {
                prop_assert!(due_ns + 1 >= last_ns);
                let reached = integral(start, &stages, due_ns);
                prop_assert!((reached - index - phase).abs() < 1e-3, "{reached} of {}", index + phase);
                last_ns = due_ns;
                index += 1.0;
            }
            // Exact to one request: none is missing, none is too many.
            prop_assert!((index - (total - phase).max(0.0)).abs() <= 1.0, "{index} of {total}");
        }

        #[test]
        fn spans_are_where_the_line_is_above_the_vu(
            start in 0u64..8, targets in prop::collection::vec((0u64..4, 0u64..12), 1..6), vu in 0u64..12
        ) {
            let stages: Vec<_> = targets.iter().map(|(s, target)| stage(*s, *target)).collect();
            let end_ns = stages_ns(&stages).unwrap();
            let ramp = VuRamp::new(0, i64::MAX, start, &stages);
            let mut spans = Vec::new();
            let mut after_ns = -1;
            while let Some((on_ns, off_ns)) = ramp.span_after(vu, after_ns) {
                prop_assert!(on_ns >= after_ns && off_ns > on_ns && off_ns <= end_ns);
                spans.push((on_ns, off_ns));
                after_ns = off_ns;
            }
            // The line itself, looked at between the grid's points.
            for at_ns in (S / 7..end_ns).step_by(S as usize / 7) {
                let (mut level, mut from_ns, mut line, mut rises) = (start, 0, 0.0, false);
                for stage in &stages {
                    let to_ns = from_ns + stage.duration_ns as i64;
                    if (from_ns..to_ns).contains(&at_ns) {
                        let share = (at_ns - from_ns) as f64 / stage.duration_ns as f64;
                        line = level as f64 + (stage.target as f64 - level as f64) * share;
                        rises = stage.target > level;
                    }
                    (level, from_ns) = (stage.target, to_ns);
                }
                let count = if rises { line.floor() } else { line.ceil() };
                let near = (line - line.round()).abs() < 1e-6;
                let there = spans.iter().any(|(on_ns, off_ns)| (*on_ns..*off_ns).contains(&at_ns));
                prop_assert!(near || there == (count > vu as f64), "{at_ns}: {line} {spans:?}");
            }
        }
    }

    #[test]
    fn the_stop_cuts_spans() {
        let ramp = VuRamp::new(S, 5 * S, 0, &[stage(4, 4), stage(10, 4)]);
        assert_eq!(ramp.span_after(0, 0), Some((2 * S, 5 * S)));
        assert_eq!(ramp.span_after(3, 0), None);
        assert_eq!(ramp.end_ns(), 5 * S);
    }
}
