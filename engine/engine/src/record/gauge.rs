//! Time averages and silences over the window, kept as things happen.

/// Length of the part of [from, to) that lies in `window`, ns.
#[inline]
pub fn clip(window: (i64, i64), from_ns: i64, to_ns: i64) -> i64 {
    (to_ns.min(window.1) - from_ns.max(window.0)).max(0)
}

/// How many requests are in the system (due and not done), integrated over the window.
///
/// It counts ups and downs and knows nothing of single requests: an independent witness for Little's law.
#[derive(Clone, Debug)]
pub struct Gauge {
    window: (i64, i64),
    level: i64,
    last_ns: i64,
    area_ns: i128,
}

impl Gauge {
    pub fn new(window: (i64, i64)) -> Self {
        Gauge {
            window,
            level: 0,
            last_ns: i64::MIN / 2,
            area_ns: 0,
        }
    }

    /// One more since `at_ns`; the caller may notice it late.
    #[inline]
    pub fn up(&mut self, at_ns: i64) {
        self.change(at_ns, 1);
    }

    /// One less since `at_ns`.
    #[inline]
    pub fn down(&mut self, at_ns: i64) {
        self.change(at_ns, -1);
    }

    fn change(&mut self, at_ns: i64, by: i64) {
        if at_ns >= self.last_ns {
            self.integrate(at_ns);
        } else {
            let missed = clip(self.window, at_ns, self.last_ns);
            self.area_ns += i128::from(missed) * i128::from(by);
        }
        self.level += by;
    }

    /// Brings the integral up to `at_ns`.
    pub fn integrate(&mut self, at_ns: i64) {
        if at_ns > self.last_ns {
            self.area_ns +=
                i128::from(clip(self.window, self.last_ns, at_ns)) * i128::from(self.level);
            self.last_ns = at_ns;
        }
    }

    /// How many there are now.
    pub fn level(&self) -> i64 {
        self.level
    }

    /// ∫ level dt over the window so far, ns.
    pub fn area_ns(&self) -> i128 {
        self.area_ns
    }
}

/// Stretches of the window without a completion.
///
/// Only those longer than 1/4096 of the window are listed, so the list is bounded; of the others the longest is known.
#[derive(Clone, Debug)]
pub struct Silences {
    window: (i64, i64),
    last_ns: i64,
    longest_short_ns: i64,
    long: Vec<(i64, i64)>,
}

const PARTS: i64 = 4096;

impl Silences {
    pub fn new(window: (i64, i64)) -> Self {
        Silences {
            window,
            last_ns: window.0,
            longest_short_ns: 0,
            long: Vec::new(),
        }
    }

    /// A request was completed at `at_ns`; times come in order.
    #[inline]
    pub fn completion(&mut self, at_ns: i64) {
        let at_ns = at_ns.clamp(self.window.0, self.window.1);
        let gap = at_ns - self.last_ns;
        if gap > (self.window.1 - self.window.0) / PARTS {
            self.long.push((self.last_ns, at_ns));
        } else {
            self.longest_short_ns = self.longest_short_ns.max(gap);
        }
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// The longest silence of several threads together, from the first request that was due up to the end of the load. Exact
    /// where it exceeds 1/4096 of the window; else an upper bound below that.
    pub fn longest_of(mut threads: Vec<Silences>, due_ns: i64, end_ns: i64) -> i64 {
        for thread in &mut threads {
            thread.completion(end_ns);
            if let Some((from_ns, _)) = thread.long.first_mut() {
                *from_ns = due_ns.max(*from_ns);
            }
        }
        let shortest = threads
            .iter()
            .map(|thread| longest(&thread.long).max(thread.longest_short_ns))
            .min()
            .unwrap_or(0);
        let Some(first) = threads.pop() else { return 0 };
        if threads.is_empty() {
            return shortest;
        }
        let resolution = (first.window.1 - first.window.0) / PARTS;
        let common = threads
            .iter()
            .fold(first.long, |common, thread| overlaps(&common, &thread.long));
        match longest(&common) {
            longest if longest > resolution => longest,
            _ => shortest.min(resolution),
        }
    }
}

fn longest(stretches: &[(i64, i64)]) -> i64 {
    let lengths = stretches.iter().map(|(from, to)| to - from);
    lengths.max().unwrap_or(0)
}

/// The overlaps of two sorted lists of disjoint stretches.
fn overlaps(left: &[(i64, i64)], right: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let (mut l, mut r, mut both) = (0, 0, Vec::new());
    while l < left.len() && r < right.len() {
        let (from, to) = (left[l].0.max(right[r].0), left[l].1.min(right[r].1));
        if from < to {
            both.push((from, to));
        }
        if left[l].1 <= right[r].1 {
            l += 1;
        } else {
            r += 1;
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_silence_begins_with_the_first_request_that_is_due() {
        let of_one = |due, ends: &[i64]| {
            let mut silences = Silences::new((0, 100_000));
            ends.iter().for_each(|at| silences.completion(*at));
            Silences::longest_of(vec![silences], due, 100_000)
        };
        assert_eq!(of_one(60_000, &[70_000, 75_000, 90_000]), 15_000);
        assert_eq!(of_one(40_000, &[70_000, 75_000, 90_000]), 30_000);
        // Nothing answered, and nothing due.
        assert_eq!((of_one(60_000, &[]), of_one(i64::MAX, &[])), (40_000, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_gauge_equals_the_sum_of_residences(
            visits in proptest::collection::vec((0i64..1_000, 0i64..500, 0i64..300), 0..40),
            window in (0i64..800, 0i64..800),
        ) {
            let window = (window.0, window.0 + window.1);
            // (when noticed, from, up?): every up and down is noticed late by up to 300.
            let mut events: Vec<(i64, i64, bool)> = Vec::new();
            for (from, stay, late) in &visits {
                events.push((from + (*late).min(*stay), *from, true));
                events.push((from + stay + late, from + stay, false));
            }
            events.sort_by_key(|event| (event.0, !event.2));
            let mut gauge = Gauge::new(window);
            for (_, at, up) in events {
                if up { gauge.up(at) } else { gauge.down(at) }
            }
            gauge.integrate(5_000);
            let residence: i64 = visits.iter().map(|(from, stay, _)| clip(window, *from, from + stay)).sum();
            prop_assert_eq!(gauge.area_ns(), i128::from(residence));
        }

        #[test]
        fn silences_of_threads_merge(
            times in proptest::collection::vec((0i64..1_000_000, 0usize..3), 0..30),
            due in 0i64..1_000_000,
        ) {
            let window = (100_000, 900_000);
            let mut times = times;
            times.sort_unstable();
            let due = times.first().map_or(due, |(at, _)| due.min(*at));
            let mut single = Silences::new(window);
            let mut several = vec![Silences::new(window), Silences::new(window), Silences::new(window)];
            for (at, thread) in times {
                single.completion(at);
                several[thread].completion(at);
            }
            let exact = Silences::longest_of(vec![single], due, 900_000);
            prop_assert_eq!(Silences::longest_of(several, due, 900_000), exact);
        }
    }
}
