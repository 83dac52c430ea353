//! Exact counts of what the service ports did. Health checks and the admin listener are in none of them but their own.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde::Serialize;

/// Counters that only grow (until a reset), and two gauges of connections.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counters {
    pub connections_accepted: u64,
    /// Gauge.
    pub connections_open: u64,
    pub connections_open_max: u64,
    /// Times that accepting stopped: `max_connections` reached, or the process out of descriptors.
    pub accept_pauses: u64,
    /// Handshakes completed, resumed ones included.
    pub tls_handshakes: u64,
    pub tls_resumed: u64,
    pub tls_failed: u64,
    /// Complete request heads.
    pub requests: u64,
    pub requests_tls: u64,
    pub health_requests: u64,
    /// Unfinished when the counters were last reset: requests + carried = answers + abandoned + unfinished.
    pub carried: u64,
    /// Fully handed to the kernel.
    pub answers: u64,
    /// Requests whose connection ended before their answer was written.
    pub abandoned: u64,
    /// Connections ended for bytes that are not HTTP, or above a limit.
    pub malformed: u64,
    /// HTTP as on the wire, without TLS.
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub body_bytes_out: u64,
    /// Of answers fully written.
    pub status: BTreeMap<u16, u64>,
    pub hits: u64,
    pub misses: u64,
    pub passes: u64,
    /// Hits that waited for another request's fetch.
    pub coalesced: u64,
    /// Fetched answers put into the cache's memory.
    pub stored: u64,
    /// Requests sent to the upstream.
    pub upstream_requests: u64,
    pub upstream_connections: u64,
    /// Exchanges without a complete answer: the client got 502 or 504.
    pub upstream_errors: u64,
    /// Requests sent again, because a kept-alive upstream connection had ended.
    pub upstream_retries: u64,
    pub errors_injected: u64,
    pub queue_dropped: u64,
    /// How late paced answers were written after the instant they were due: the instrument's own error.
    pub late_ns_sum: u64,
    pub late_ns_max: u64,
    pub late_answers: u64,
    /// How long bodies waited for the link and took to leave by it, summed; 0 without a limit of its rate.
    pub link_held_ns_sum: u64,
    pub log_dropped: u64,
}

impl Counters {
    /// Requests read whose answer is not yet written.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.requests + self.carried - self.answers - self.abandoned
    }

    /// All to zero, but for the gauges and what is under way.
    pub fn reset(&mut self) {
        let (open, carried) = (self.connections_open, self.unfinished());
        *self = Self {
            connections_open: open,
            connections_open_max: open,
            carried,
            ..Self::default()
        };
    }

    pub fn opened(&mut self) {
        self.connections_accepted += 1;
        self.connections_open += 1;
        self.connections_open_max = self.connections_open_max.max(self.connections_open);
    }

    pub fn late(&mut self, late_ns: u64) {
        self.late_ns_sum += late_ns;
        self.late_ns_max = self.late_ns_max.max(late_ns);
        self.late_answers += 1;
    }
}

/// How often each URL (path and query) was asked.
#[derive(Debug, Default)]
pub struct Urls {
    asked: HashMap<Rc<str>, (Rc<str>, u64)>,
    most: u64,
}

impl Urls {
    /// Counts one request; the name returned is shared by all requests of that URL.
    pub fn count(&mut self, target: &str) -> Rc<str> {
        if let Some((name, asked)) = self.asked.get_mut(target) {
            *asked += 1;
            self.most = self.most.max(*asked);
            return Rc::clone(name);
        }
        let name: Rc<str> = Rc::from(target);
        self.asked.insert(Rc::clone(&name), (Rc::clone(&name), 1));
        self.most = self.most.max(1);
        name
    }
    /// (distinct URLs, requests of the URL asked most)
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        (self.asked.len() as u64, self.most)
    }
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What became of a request in a cache, as the log says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    #[default]
    None,
    Hit,
    Miss,
    Pass,
}

impl Mark {
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Hit => Some("hit"),
            Self::Miss => Some("miss"),
            Self::Pass => Some("pass"),
        }
    }
}

/// One request of the log.
#[derive(Debug, Clone)]
pub struct LogRow {
    /// Arrival number since the start or the last change of `seed`: the index of its draws.
    pub seq: u64,
    pub received_ns: u64,
    /// Just before the write that handed over the last byte; None if the client had gone.
    pub answered_ns: Option<u64>,
    /// The service time it was given.
    pub served_ns: u64,
    pub target: Rc<str>,
    pub status: u16,
    pub mark: Mark,
    pub tls: bool,
}

impl LogRow {
    /// `[seq, received, answered, served_ns, path, status, hit, tls]`, answered −1 if it never was.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let answered = self
            .answered_ns
            .map_or(-1, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        serde_json::json!([
            self.seq,
            self.received_ns,
            answered,
            self.served_ns,
            &*self.target,
            self.status,
            self.mark.name(),
            self.tls
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_keeps_gauges_and_the_balance() {
        let mut counters = Counters::default();
        counters.opened();
        counters.requests = 5;
        counters.answers = 2;
        counters.abandoned = 1;
        counters.reset();
        assert_eq!(
            (counters.connections_open, counters.connections_accepted),
            (1, 0)
        );
        assert_eq!(
            (counters.requests, counters.carried, counters.unfinished()),
            (0, 2, 2)
        );
        counters.answers += 2;
        assert_eq!(counters.unfinished(), 0);
    }

    #[test]
    fn urls_are_counted_by_name() {
        let mut urls = Urls::default();
        let first = urls.count("/a");
        assert!(Rc::ptr_eq(&first, &urls.count("/a")));
        urls.count("/b");
        assert_eq!(urls.size(), (2, 2));
        urls.clear();
        assert_eq!(urls.size(), (0, 0));
    }

    #[test]
    fn a_log_row_has_eight_values() {
        let row = LogRow {
            seq: 1,
            received_ns: 10,
            answered_ns: None,
            served_ns: 5,
            target: Rc::from("/a\"b"),
            status: 0,
            mark: Mark::Hit,
            tls: true,
        };
        assert_eq!(
            row.to_json().to_string(),
            r#"[1,10,-1,5,"/a\"b",0,"hit",true]"#
        );
    }
}
