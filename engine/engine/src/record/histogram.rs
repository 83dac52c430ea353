//! Counts per (interval, metric, bucket). Dense octaves while an interval is young, rows once it is old.

use super::buckets::{bucket, BUCKETS, SUB};

/// What a histogram counts; the discriminant is the contract's metric code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Metric {
    Response = 0,
    FailedResponse = 1,
    Service = 2,
    GeneratorLag = 3,
    SlotWait = 4,
    ResponseWithoutLag = 5,
    ReadLag = 6,
    ServerTime = 7,
    SampledResponse = 8,
    SampledClean = 9,
}

const METRICS: usize = 10;
const OCTAVES: usize = BUCKETS / SUB;

/// One count of the histogram table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub interval: u32,
    pub metric: u8,
    pub bucket: u32,
    pub count: u64,
}

type Octave = Box<[u32; SUB]>;

/// One interval's counts; an octave's array appears with its first value.
struct Dense(Vec<Option<Octave>>);

impl Dense {
    fn new() -> Box<Self> {
        Box::new(Dense((0..METRICS * OCTAVES).map(|_| None).collect()))
    }

    #[inline]
    fn add(&mut self, metric: Metric, value_ns: i64) {
        let bucket = bucket(value_ns) as usize;
        let octave = self.0[metric as usize * OCTAVES + bucket / SUB]
            .get_or_insert_with(|| Box::new([0; SUB]));
        octave[bucket % SUB] += 1;
    }

    fn cells(&self, interval: u32, out: &mut Vec<Cell>) {
        for (place, octave) in self.0.iter().enumerate() {
            let Some(octave) = octave else { continue };
            let first = (place % OCTAVES * SUB) as u32;
            for (bucket, count) in (first..)
                .zip(octave.iter())
                .filter(|(_, count)| **count > 0)
            {
                out.push(Cell {
                    interval,
                    metric: (place / OCTAVES) as u8,
                    bucket,
                    count: u64::from(*count),
                });
            }
        }
    }
}

/// The histograms of one group on one thread, keyed by due interval.
#[derive(Default)]
pub struct Histograms {
    young: Vec<Option<Box<Dense>>>,
    frozen_below: usize,
    cells: Vec<Cell>,
}

impl Histograms {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, interval: u32, metric: Metric, value_ns: i64) {
        let at = interval as usize;
        if at >= self.young.len() {
            self.young.resize_with(at + 1, || None);
        }
        self.young[at]
            .get_or_insert_with(Dense::new)
            .add(metric, value_ns);
    }

    /// Turns intervals below `interval` into rows, to bound memory. Late values may still come: they are added up at the end.
    pub fn freeze_below(&mut self, interval: u32) {
        let end = (interval as usize).min(self.young.len());
        for at in self.frozen_below..end {
            self.freeze(at);
        }
        self.frozen_below = self.frozen_below.max(end);
    }

    fn freeze(&mut self, at: usize) {
        if let Some(dense) = self.young[at].take() {
            dense.cells(at as u32, &mut self.cells);
        }
    }

    /// All counts; a key may occur more than once.
    pub fn into_cells(mut self) -> Vec<Cell> {
        for at in 0..self.young.len() {
            self.freeze(at);
        }
        self.cells
    }
}

/// Adds up equal keys; the result is sorted.
pub fn merge_cells(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_unstable();
    cells.dedup_by(|next, kept| {
        let same =
            (next.interval, next.metric, next.bucket) == (kept.interval, kept.metric, kept.bucket);
        if same {
            kept.count += next.count;
        }
        same
    });
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn metric(code: u8) -> Metric {
        use Metric::*;
        [
            Response,
            FailedResponse,
            Service,
            GeneratorLag,
            SlotWait,
            ResponseWithoutLag,
            ReadLag,
            ServerTime,
            SampledResponse,
            SampledClean,
        ][code as usize]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn threads_and_freezing_change_nothing(
            values in proptest::collection::vec((0u32..20, 0u8..10, 0i64..5_000_000_000, 0usize..3), 0..300),
            freeze_at in proptest::collection::vec(0u32..25, 0..5),
        ) {
            let mut single = Histograms::default();
            let mut several = [Histograms::default(), Histograms::default(), Histograms::default()];
            for (at, (interval, code, value, thread)) in values.iter().enumerate() {
                single.add(*interval, metric(*code), *value);
                several[*thread].add(*interval, metric(*code), *value);
                if let Some(limit) = freeze_at.get(at / 50) {
                    several[*thread].freeze_below(*limit);
                }
            }
            let merged = merge_cells(several.into_iter().flat_map(Histograms::into_cells).collect());
            prop_assert_eq!(merged.iter().map(|cell| cell.count).sum::<u64>(), values.len() as u64);
            prop_assert_eq!(merged, merge_cells(single.into_cells()));
        }
    }
}
