//! Two times. *Real time* is the share's clock, by which requests are measured. *Load time* decides what is due,
//! and stands still outside the share's turns.
//!
//! Executors and the course of steps know only load time. A request's stamps are real; they are converted when
//! they are counted.

use std::sync::Arc;

/// A stretch of real time in which the load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    begin_ns: i64,
    end_ns: i64,
    /// Load time that passed before it.
    before_ns: i64,
}

/// The load time of one group. Without turns it is real time; from the group's stop on it passes as real time
/// does.
#[derive(Clone, Debug, Default)]
pub struct LoadTime {
    turns: Option<Arc<[Turn]>>,
}

impl LoadTime {
    /// The load time of a group that stops at load time `stop_ns`, in turns [begin, end) of real time.
    pub fn new(turns_ns: &[(i64, i64)], stop_ns: i64) -> Self {
        if turns_ns.is_empty() {
            return LoadTime::default();
        }
        let mut turns: Vec<Turn> = Vec::new();
        let mut before_ns = 0;
        for &(begin_ns, end_ns) in turns_ns {
            if before_ns >= stop_ns {
                break;
            }
            turns.push(Turn {
                begin_ns,
                end_ns,
                before_ns,
            });
            before_ns += end_ns - begin_ns;
        }
        // The turn of the stop does not end.
        if let Some(last) = turns.last_mut() {
            last.end_ns = i64::MAX;
        }
        LoadTime {
            turns: Some(turns.into()),
        }
    }

    /// The load time at a real time. Between two turns it is the last nanosecond of the first: what is due when
    /// the second begins is not yet due. Before the first turn it is −1.
    #[inline]
    pub fn load_ns(&self, real_ns: i64) -> i64 {
        match &self.turns {
            None => real_ns,
            Some(turns) => load_ns(turns, real_ns),
        }
    }

    /// The real time at which a load time is reached. It lies in a turn.
    #[inline]
    pub fn real_ns(&self, load_ns: i64) -> i64 {
        match &self.turns {
            None => load_ns,
            Some(turns) => real_ns(turns, load_ns),
        }
    }

    /// The load time of what happened at `real_ns` to a request that was ready at `ready_ns` (real).
    ///
    /// A request takes as long in load time as in real time, so this may lie ahead of [`load_ns`](Self::load_ns):
    /// an answer that came 3 ms after its turn belongs 3 ms into the next.
    #[inline]
    pub fn since_ready_ns(&self, ready_ns: i64, real_ns: i64) -> i64 {
        self.load_ns(ready_ns) + (real_ns - ready_ns)
    }

    /// Whether load time is real time.
    #[inline]
    pub fn is_real(&self) -> bool {
        self.turns.is_none()
    }
}

fn load_ns(turns: &[Turn], real_ns: i64) -> i64 {
    let begun = turns.partition_point(|turn| turn.begin_ns <= real_ns);
    let Some(turn) = turns[..begun].last() else {
        return -1;
    };
    turn.before_ns + (real_ns.min(turn.end_ns - 1) - turn.begin_ns)
}

fn real_ns(turns: &[Turn], load_ns: i64) -> i64 {
    let begun = turns.partition_point(|turn| turn.before_ns <= load_ns);
    let turn = turns[begun.saturating_sub(1)];
    turn.begin_ns.saturating_add(load_ns - turn.before_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn load_time_stands_still_between_turns() {
        let time = LoadTime::new(&[(10, 20), (50, 60), (60, 65), (90, 100)], 22);
        let at = |real_ns| time.load_ns(real_ns);
        assert_eq!((at(0), at(10), at(19)), (-1, 0, 9));
        assert_eq!((at(20), at(49), at(50)), (9, 9, 10));
        assert_eq!((at(59), at(60)), (19, 20));
        // It stops in the third turn, and goes on as real time does.
        assert_eq!((at(62), at(80)), (22, 40));
        assert_eq!(time.real_ns(10), 50);
        assert_eq!(time.real_ns(22), 62);
        assert_eq!(time.real_ns(40), 80);
        // Ready at 58, answered at 63: 5 later in both times.
        assert_eq!(time.since_ready_ns(58, 63), 23);
        assert_eq!(LoadTime::default().load_ns(77), 77);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_two_times_are_each_others_inverse(
            turns in prop::collection::vec((0i64..50, 1i64..50), 1..8), part in 0.01f64..1.0,
            at in 0i64..900, more in 0i64..900
        ) {
            let (mut list, mut to_ns) = (Vec::new(), 0);
            for (pause, length) in turns {
                list.push((to_ns + pause, to_ns + pause + length));
                to_ns += pause + length;
            }
            let total: i64 = list.iter().map(|(begin, end)| end - begin).sum();
            let stop_ns = ((total as f64 * part) as i64).max(1);
            let time = LoadTime::new(&list, stop_ns);
            prop_assert_eq!(time.load_ns(time.real_ns(at)), at);
            prop_assert!(time.real_ns(time.load_ns(at).max(0)) <= at.max(list[0].0));
            // It passes at most as fast as real time, and what is due before the stop falls in a turn.
            let passed = time.load_ns(at + more) - time.load_ns(at);
            prop_assert!((0..=more + 1).contains(&passed));
            let due_ns = time.real_ns(at % stop_ns);
            prop_assert!(list.iter().any(|(begin, end)| (*begin..*end).contains(&due_ns)));
        }
    }
}

#[cfg(test)]
#[path = "turns_properties.rs"]
mod properties;
