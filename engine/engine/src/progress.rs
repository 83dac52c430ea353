//! What a running load tells, about once a second. Threads post to their own board; the caller's thread reads them all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{json, Map, Value};

use crate::error::ErrorKind;
use crate::record::buckets::{bucket, middle_ns, BUCKETS};
use crate::record::Sample;
use crate::sys::Bell;
use crate::witness::Watched;

/// Completions since the last report.
#[derive(Clone, Debug)]
pub struct Recent {
    pub ok: u64,
    pub failed: u64,
    counts: Vec<u32>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent {
            ok: 0,
            failed: 0,
            counts: vec![0; BUCKETS],
        }
    }
}

impl Recent {
    #[inline]
    pub fn add(&mut self, sample: &Sample) {
        self.ok += u64::from(sample.ok());
        self.failed += u64::from(!sample.ok());
        self.counts[bucket(sample.response_ns()) as usize] += 1;
    }

    /// Moves what `other` holds here.
    pub fn absorb(&mut self, other: &mut Recent) {
        self.ok += std::mem::take(&mut other.ok);
        self.failed += std::mem::take(&mut other.failed);
        for (mine, theirs) in self.counts.iter_mut().zip(&mut other.counts) {
            *mine += std::mem::take(theirs);
        }
    }

    /// Nearest-rank quantile of the response time, failures included; `None` without completions.
    pub fn quantile_ns(&self, p: f64) -> Option<u64> {
        let total = self.ok + self.failed;
        let rank = ((p * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.counts.iter().zip(0..).find_map(|(count, bucket)| {
            seen += u64::from(*count);
            (seen >= rank && *count > 0).then(|| middle_ns(bucket))
        })
    }
}

/// One group on one thread, as last posted.
#[derive(Clone, Debug)]
pub struct Post {
    pub due: u64,
    pub begun: u64,
    pub ok: u64,
    pub failed: u64,
    /// Answers that led elsewhere.
    pub redirects: u64,
    pub active_vus: u64,
    pub errors: [u64; ErrorKind::COUNT],
    pub recent: Recent,
}

impl Default for Post {
    fn default() -> Self {
        Post {
            due: 0,
            begun: 0,
            ok: 0,
            failed: 0,
            redirects: 0,
            active_vus: 0,
            errors: [0; ErrorKind::COUNT],
            recent: Recent::default(),
        }
    }
}

impl Post {
    fn absorb(&mut self, other: &mut Post) {
        self.due += other.due;
        self.begun += other.begun;
        self.ok += other.ok;
        self.failed += other.failed;
        self.redirects += other.redirects;
        self.active_vus += other.active_vus;
        for (mine, theirs) in self.errors.iter_mut().zip(&other.errors) {
            *mine += theirs;
        }
        self.recent.absorb(&mut other.recent);
    }
}

/// A thread's posts, one a group.
pub type Board = Mutex<Vec<Post>>;

/// What the caller's thread and the load's threads share.
pub struct Control {
    stop: AtomicBool,
    finished: AtomicUsize,
    /// Rung by each thread at its end.
    pub done: Bell,
    /// One a thread, rung to stop it.
    pub bells: Vec<Bell>,
    pub boards: Vec<Board>,
    /// One a thread, for its witness.
    pub watched: Vec<Watched>,
}

impl Control {
    pub fn new(threads: usize, groups: usize) -> std::io::Result<Self> {
        Ok(Control {
            stop: AtomicBool::new(false),
            finished: AtomicUsize::new(0),
            done: Bell::new()?,
            bells: (0..threads)
                .map(|_| Bell::new())
                .collect::<Result<_, _>>()?,
            boards: (0..threads)
                .map(|_| Mutex::new(vec![Post::default(); groups]))
                .collect(),
            watched: (0..threads).map(|_| Watched::default()).collect(),
        })
    }

    /// Stops every thread at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.bells.iter().for_each(Bell::ring);
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// A thread has ended.
    pub fn leave(&self) {
        self.finished.fetch_add(1, Ordering::Release);
        self.done.ring();
    }

    pub fn finished(&self) -> usize {
        self.finished.load(Ordering::Acquire)
    }

    /// The progress of all threads as JSON; what is recent starts anew.
    pub fn report(&self, offset_ns: i64, names: &[&str]) -> String {
        let mut posts = vec![Post::default(); names.len()];
        for board in &self.boards {
            let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
            for (sum, post) in posts.iter_mut().zip(board.iter_mut()) {
                sum.absorb(post);
            }
        }
        let groups: Vec<Value> = names
            .iter()
            .zip(&posts)
            .map(|(name, post)| group_json(name, post))
            .collect();
        json!({"offset_ns": offset_ns, "groups": groups}).to_string()
    }
}

/// Error counts by name, those that happened.
pub fn errors_json(errors: &[u64; ErrorKind::COUNT]) -> Map<String, Value> {
    let named = ErrorKind::ALL.iter().zip(errors).skip(1);
    named
        .filter(|(_, n)| **n > 0)
        .map(|(kind, n)| (kind.name().to_owned(), json!(n)))
        .collect()
}

fn group_json(name: &str, post: &Post) -> Value {
    json!({
        "name": name, "due": post.due, "begun": post.begun, "ok": post.ok, "failed": post.failed,
        "redirects": post.redirects, "in_flight": post.begun - post.ok - post.failed, "active_vus": post.active_vus, "errors": errors_json(&post.errors),
        "last": {
            "ok": post.recent.ok, "failed": post.recent.failed,
            "response_p50_ns": post.recent.quantile_ns(0.5), "response_p95_ns": post.recent.quantile_ns(0.95),
            "response_p99_ns": post.recent.quantile_ns(0.99),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_counts_are_told_once() {
        let control = Control::new(2, 1).unwrap();
        for (thread, done_ns) in [(0, 1_000_000), (1, 2_000_000), (1, 9_000_000)] {
            let mut board = control.boards[thread].lock().unwrap();
            let sample = Sample {
                due_ns: 0,
                done_ns,
                ..Sample::default()
            };
            board[0].recent.add(&sample);
            board[0].begun += 2;
            board[0].ok += 1;
        }
        let first: Value = serde_json::from_str(&control.report(5, &["g"])).unwrap();
        let group = &first["groups"][0];
        assert_eq!(
            (group["begun"].as_u64(), group["in_flight"].as_u64()),
            (Some(6), Some(3))
        );
        let p50 = group["last"]["response_p50_ns"].as_u64().unwrap() as f64;
        assert!((p50 / 2e6 - 1.0).abs() < 0.01, "{p50}");
        let second: Value = serde_json::from_str(&control.report(6, &["g"])).unwrap();
        assert_eq!(second["groups"][0]["last"]["ok"], 0);
        assert_eq!(second["groups"][0]["last"]["response_p50_ns"], Value::Null);
        assert_eq!(second["groups"][0]["ok"], 3);
    }
}
