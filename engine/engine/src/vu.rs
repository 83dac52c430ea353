//! One virtual user's (or open slot's) request in progress: its state and nothing that acts on it.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::conn::ConnKey;
use crate::executor::Start;
use crate::plan::GroupPlan;
use crate::record::Sample;
use crate::request::Asker;
use crate::share::Take;
use crate::wire::http1::Decoder;

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    /// TCP or TLS is being set up.
    Opening,
    /// The request is partly written.
    Sending,
    /// The answer is awaited or read.
    Receiving,
}

/// The part of a request that a redirect starts anew.
#[derive(Clone, Debug, Default)]
pub struct Hop {
    /// When its look-up, connect or first write began.
    pub begun_ns: i64,
    pub endpoint: usize,
    /// Bytes of the request written so far, of a streamed body too.
    pub written: usize,
    /// Bytes on the wire of the streamed body, 0 without one.
    pub body_bytes: u64,
    /// The body waits for the server's 100.
    pub held: bool,
    /// The body waits for its next turn of writing.
    pub queued: bool,
    /// The answer waits for its next turn of reading.
    pub unread: bool,
}

/// A slot: what stays from request to request, and the request in progress.
#[derive(Default)]
pub struct Slot {
    pub phase: Phase,
    /// The connection that the request uses.
    pub conn: Option<ConnKey>,
    /// The kept connection to the group's own endpoint.
    pub home: Option<ConnKey>,
    pub sample: Sample,
    pub asker: Asker,
    pub hop: Hop,
    pub decoder: Decoder,
    /// The request's bytes, unless the group's are fixed.
    pub out: Vec<u8>,
    pub out_is_fixed: bool,
    /// Reads ask for the kernel's stamp.
    pub stamped: bool,
    pub ever_written: bool,
    pub deadline_ns: i64,
    /// The deadline heap holds an entry for this slot at this time.
    pub armed_ns: Option<i64>,
    /// TLS configurations by endpoint, with this user's sessions.
    pub tls: Vec<Option<Arc<ClientConfig>>>,
    /// Rows asked in the current round of a random feeder.
    pub seen: HashSet<u64>,
}

impl Slot {
    /// Takes on a new request; buffers and connections stay.
    pub fn begin(&mut self, start: &Start, row: i64) {
        self.sample = Sample {
            vu: start.vu,
            seq: start.seq,
            row,
            due_ns: start.due_ns,
            ready_ns: start.ready_ns,
            ..Sample::default()
        };
        self.asker = Asker {
            vu: start.vu,
            seq: start.seq,
        };
        self.stamped = false;
        self.ever_written = false;
    }

    /// Makes ready for a hop's answer (the first hop is the request itself).
    pub fn begin_hop(&mut self, endpoint: usize, to_head_request: bool) {
        self.hop.endpoint = endpoint;
        self.hop.written = 0;
        self.hop.body_bytes = 0;
        self.hop.held = false;
        self.hop.queued = false;
        self.hop.unread = false;
        self.decoder.reset(to_head_request);
        self.sample.written_ns = crate::record::NEVER;
        self.sample.first_byte_ns = crate::record::NEVER;
    }

    /// Whether the request asks for a row again before its VU had all rows of the table. Open groups have no VUs: they
    /// are counted from the rows asked, at the end.
    pub fn repeats_early(&mut self, plan: &GroupPlan, asker: Asker, row: i64) -> bool {
        let rows = plan.rows() as u64;
        if plan.open || rows < 2 {
            return false;
        }
        let new_round = asker.seq.is_multiple_of(rows);
        match plan.take() {
            Some(Take::First) => !new_round,
            Some(Take::Random) => {
                if new_round {
                    self.seen.clear();
                }
                !self.seen.insert(row as u64)
            }
            Some(Take::Walk) | None => false,
        }
    }

    /// Gives the hop the group's streamed body, if there is one.
    pub fn take_body(&mut self, plan: &GroupPlan) {
        self.hop.body_bytes = plan.template.upload_bytes(self.asker);
        self.hop.held = plan.template.expects_continue() && self.hop.body_bytes > 0;
    }

    /// The bytes before a streamed body.
    pub fn request<'a>(&'a self, plan: &'a GroupPlan) -> &'a [u8] {
        match plan.template.fixed() {
            Some(fixed) if self.out_is_fixed => fixed,
            _ => &self.out,
        }
    }

    pub fn active(&self) -> bool {
        self.phase != Phase::Idle
    }
}
