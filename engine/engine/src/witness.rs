//! A witness beside each thread of the load (docs/method.md §3): it sleeps on the same CPUs from one moment of a grid to the next and keeps how
//! late it woke, which is how long no thread could have run there; and it reads what the scheduler says of the thread it watches.
//! Beside the longest gap and pass since the look before, each one above [`STOP_LEAST_NS`] is kept with its end and length.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::clock::Clock;
use crate::sys;
use crate::table::{Column, Table};

/// The grid of its sleeps.
const PERIOD_NS: i64 = 10_000_000;
const LOOK_LEAST_NS: i64 = 100_000_000;
const LOOK_MOST_NS: i64 = 10_000_000_000;
/// So many looks at most, which is one in 100 ms for 10 minutes.
const LOOKS: i64 = 6_000;
/// A gap or a pass above this is kept by itself.
const STOP_LEAST_NS: i64 = 5_000_000;
/// So many of each kind and thread are kept; the others are counted.
const STOPS_MOST: usize = 4_096;

/// A moment in which a core of the load ran nobody, or its loop was away from its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// When it ended.
    pub offset_ns: i64,
    pub length_ns: i64,
}

/// Stops of one kind, the first [`STOPS_MOST`] of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    pub kept: Vec<Stop>,
    /// How many came when the list was full.
    pub beyond: i64,
}

impl Stops {
    fn add(&mut self, offset_ns: i64, length_ns: i64) {
        if self.kept.len() < STOPS_MOST {
            self.kept.push(Stop {
                offset_ns,
                length_ns,
            });
        } else {
            self.beyond += 1;
        }
    }
}

/// What a thread of the load tells its witness.
#[derive(Default)]
pub struct Watched {
    schedstat: OnceLock<File>,
    spun_cpu_ns: AtomicI64,
    last_cpu_ns: AtomicI64,
    last_run_queue_ns: AtomicI64,
    /// The longest pass of its loop that no look has told yet.
    pass_ns: AtomicI64,
    /// Long passes of its loop, touched by a long one alone.
    passes: Mutex<Stops>,
    over: AtomicBool,
}

impl Watched {
    /// The calling thread is the one to watch.
    pub fn begin(&self) {
        if let Ok(file) = sys::own_schedstat() {
            let _ = self.schedstat.set(file);
        }
    }

    /// CPU time spun away so far: no work.
    pub fn spun(&self, cpu_ns: i64) {
        self.spun_cpu_ns.store(cpu_ns, Ordering::Relaxed);
    }

    /// A pass of the calling thread's loop took so long and ends now: whatever came meanwhile was read late.
    #[inline]
    pub fn passed(&self, pass_ns: i64, now_ns: i64) {
        if pass_ns > STOP_LEAST_NS {
            self.passes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(now_ns, pass_ns);
        }
        if pass_ns > self.pass_ns.load(Ordering::Relaxed) {
            self.pass_ns.store(pass_ns, Ordering::Relaxed);
        }
    }

    /// The calling thread has done its work; its last figures are kept here, since the kernel forgets them with it.
    pub fn end(&self) {
        if let Some((cpu_ns, run_queue_ns)) = self.schedstat.get().and_then(sys::read_schedstat) {
            self.last_cpu_ns.store(cpu_ns, Ordering::Relaxed);
            self.last_run_queue_ns
                .store(run_queue_ns, Ordering::Relaxed);
        }
        self.over.store(true, Ordering::Release);
    }

    /// (CPU time without what was spun away, time spent waiting for a CPU), ns; `None` where nothing can be read.
    fn totals(&self, over: bool) -> Option<(i64, i64)> {
        let (cpu_ns, run_queue_ns) = if over {
            let last_ns = self.last_cpu_ns.load(Ordering::Relaxed);
            if last_ns == 0 {
                return None;
            }
            (last_ns, self.last_run_queue_ns.load(Ordering::Relaxed))
        } else {
            sys::read_schedstat(self.schedstat.get()?)?
        };
        Some((
            cpu_ns - self.spun_cpu_ns.load(Ordering::Relaxed),
            run_queue_ns,
        ))
    }
}

/// One entry: the longest gap and the longest pass of the watched thread's loop since the entry before, and that thread's totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub offset_ns: i64,
    pub gap_ns: i64,
    pub pass_ns: i64,
    /// Without what was spun away.
    pub cpu_ns: i64,
    pub run_queue_ns: i64,
}

/// All that was seen beside one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub looks: Vec<Look>,
    pub gaps: Stops,
    pub passes: Stops,
}

/// Watches until the thread has ended; a load of `span_ns` gets at most 6,000 entries, one in 100 ms at most, at least one in 10 s.
pub fn watch(watched: &Watched, clock: Clock, span_ns: i64) -> Seen {
    let _ = sys::sharpen_timers();
    // With a slice as short as that of the thread it watches, it wakes beside it: its lateness is the machine's, not the load's own.
    let _ = sys::shorten_slice();
    let look_ns = look_ns(span_ns);
    let mut looks = Vec::with_capacity((span_ns / look_ns).max(0) as usize + 16);
    let mut gaps = Stops::default();
    let mut due_ns = clock.now_ns() + PERIOD_NS;
    let (mut gap_ns, mut next_look_ns) = (0, clock.now_ns());
    loop {
        let over = watched.over.load(Ordering::Acquire);
        let now_ns = clock.now_ns();
        if now_ns >= next_look_ns || over {
            if let Some((cpu_ns, run_queue_ns)) = watched.totals(over) {
                looks.push(Look {
                    offset_ns: now_ns,
                    gap_ns,
                    pass_ns: watched.pass_ns.swap(0, Ordering::Relaxed),
                    cpu_ns,
                    run_queue_ns,
                });
                gap_ns = 0;
            }
            next_look_ns = now_ns - now_ns.rem_euclid(look_ns) + look_ns;
        }
        if over {
            let mut passes = watched
                .passes
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            return Seen {
                looks,
                gaps,
                passes: std::mem::take(&mut *passes),
            };
        }
        sys::sleep_until(clock.to_monotonic(due_ns));
        let woke_ns = clock.now_ns();
        let late_ns = woke_ns - due_ns;
        gap_ns = gap_ns.max(late_ns);
        if late_ns > STOP_LEAST_NS {
            gaps.add(woke_ns, late_ns);
        }
        due_ns += PERIOD_NS * (late_ns.max(0) / PERIOD_NS + 1);
    }
}

/// How far apart the looks are in a load of so long.
fn look_ns(span_ns: i64) -> i64 {
    (span_ns / LOOKS).clamp(LOOK_LEAST_NS, LOOK_MOST_NS)
}

/// The table `witness`: the threads' entries, one thread after the other.
pub fn table(seen: &[Seen]) -> Table {
    let rows: Vec<(u16, Look)> = (0u16..)
        .zip(seen)
        .flat_map(|(thread, seen)| seen.looks.iter().map(move |look| (thread, *look)))
        .collect();
    let column =
        |value: fn(&Look) -> i64| Column::I64(rows.iter().map(|(_, look)| value(look)).collect());
    [
        (
            "thread",
            Column::U16(rows.iter().map(|(thread, _)| *thread).collect()),
        ),
        ("offset_ns", column(|look| look.offset_ns)),
        ("gap_ns", column(|look| look.gap_ns)),
        ("pass_ns", column(|look| look.pass_ns)),
        ("cpu_ns", column(|look| look.cpu_ns)),
        ("run_queue_ns", column(|look| look.run_queue_ns)),
    ]
    .into_iter()
    .map(|(name, column)| (name.to_owned(), column))
    .collect()
}

/// Of a row of the table `stops`: what it is of.
const GAP: u8 = 0;
const PASS: u8 = 1;

/// The table `stops`: each gap and pass that was kept, one thread after the other, then, where a list was full, a row with the number of
/// those that were not: `offset_ns` is −1 and `length_ns` that number.
pub fn stops_table(seen: &[Seen]) -> Table {
    let mut rows: Vec<(u16, u8, Stop)> = Vec::new();
    for (thread, seen) in (0u16..).zip(seen) {
        for (kind, stops) in [(GAP, &seen.gaps), (PASS, &seen.passes)] {
            rows.extend(stops.kept.iter().map(|stop| (thread, kind, *stop)));
            if stops.beyond > 0 {
                let count = Stop {
                    offset_ns: -1,
                    length_ns: stops.beyond,
                };
                rows.push((thread, kind, count));
            }
        }
    }
    macro_rules! column {
        ($kind:ident, $of:expr) => {
            Column::$kind(rows.iter().map($of).collect())
        };
    }
    [
        ("thread", column!(U16, |row| row.0)),
        ("kind", column!(U8, |row| row.1)),
        ("offset_ns", column!(I64, |row| row.2.offset_ns)),
        ("length_ns", column!(I64, |row| row.2.length_ns)),
    ]
    .into_iter()
    .map(|(name, column)| (name.to_owned(), column))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A thread that works and then ends: its CPU is seen, and its witness ends with it.
    #[test]
    fn what_a_thread_used_is_seen() {
        let watched = Watched::default();
        let clock = Clock::starting_at(sys::monotonic_ns());
        let seen = thread::scope(|scope| {
            let witness = scope.spawn(|| watch(&watched, clock, 1_000_000_000));
            scope.spawn(|| {
                watched.begin();
                let mut turns = 0u64;
                while sys::thread_cpu_ns() < 150_000_000 {
                    turns = std::hint::black_box(turns + 1);
                }
                watched.spun(40_000_000);
                watched.passed(7_000_000, 9_000_000);
                watched.passed(3_000_000, 12_000_000);
                watched.end();
            });
            witness.join().unwrap()
        });
        let looks = &seen.looks;
        let last = looks.last().unwrap();
        assert!(
            (100_000_000..140_000_000).contains(&last.cpu_ns),
            "{last:?}"
        );
        assert!(looks
            .windows(2)
            .all(|pair| pair[0].offset_ns < pair[1].offset_ns));
        assert!(looks.iter().all(|look| look.gap_ns >= 0));
        let passes: Vec<i64> = looks
            .iter()
            .map(|look| look.pass_ns)
            .filter(|pass_ns| *pass_ns > 0)
            .collect();
        assert_eq!(passes.first(), Some(&7_000_000), "{passes:?}");
        let long = Stop {
            offset_ns: 9_000_000,
            length_ns: 7_000_000,
        };
        assert_eq!(seen.passes.kept, [long]);
        assert_eq!(
            table(std::slice::from_ref(&seen))["thread"],
            Column::U16(vec![0; looks.len()])
        );
    }

    #[test]
    fn stops_beyond_the_list_are_counted() {
        let mut gaps = Stops::default();
        (0..STOPS_MOST as i64 + 3).for_each(|at| gaps.add(at, STOP_LEAST_NS + at));
        assert_eq!((gaps.kept.len(), gaps.beyond), (STOPS_MOST, 3));
        let seen = [
            Seen::default(),
            Seen {
                gaps,
                ..Seen::default()
            },
        ];
        let table = stops_table(&seen);
        let Column::I64(offsets) = &table["offset_ns"] else {
            panic!("{table:?}")
        };
        let Column::I64(lengths) = &table["length_ns"] else {
            panic!("{table:?}")
        };
        assert_eq!(table["thread"], Column::U16(vec![1; STOPS_MOST + 1]));
        assert_eq!(table["kind"], Column::U8(vec![GAP; STOPS_MOST + 1]));
        assert_eq!((offsets[1], lengths[1]), (1, STOP_LEAST_NS + 1));
        assert_eq!(
            (offsets[STOPS_MOST], lengths[STOPS_MOST]),
            (-1, 3),
            "the last row is a count"
        );
    }

    /// A load of 10 minutes is looked at as finely as one of a second.
    #[test]
    fn looks_are_fine_and_bounded() {
        let look_s = |span_s: i64| look_ns(span_s * 1_000_000_000) / 100_000_000;
        assert_eq!((look_s(1), look_s(600), look_s(1_200)), (1, 1, 2));
        assert_eq!(look_s(10_000_000), 100);
    }
}
