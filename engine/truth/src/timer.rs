//! A queue of deadlines in ns of CLOCK_MONOTONIC.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines with something to do at each; equal deadlines keep their order.
#[derive(Debug)]
pub struct Timers<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at_ns: u64,
    sequence: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.sequence).cmp(&(other.at_ns, other.sequence))
    }
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<T> Timers<T> {
    pub fn push(&mut self, at_ns: u64, what: T) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry {
            at_ns,
            sequence: self.sequence,
            what,
        }));
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.0.at_ns)
    }

    /// Takes the earliest entry if it is due at `now_ns`: its deadline and what to do.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(u64, T)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|entry| (entry.0.at_ns, entry.0.what))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_of_time_then_of_entry_and_never_early() {
        let mut timers = Timers::default();
        for (at, what) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            timers.push(at, what);
        }
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        let mut order = Vec::new();
        while let Some((at, what)) = timers.pop_due(30) {
            order.push((at, what));
        }
        assert_eq!(order, vec![(10, 'a'), (20, 'b'), (30, 'c'), (30, 'd')]);
        assert_eq!(timers.len(), 0);
    }
}
