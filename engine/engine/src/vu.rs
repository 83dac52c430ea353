//! One virtual user's (or open slot's) request in progress: its state and nothing that acts on it.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::conn::ConnKey;
use crate::error::ErrorKind;
use crate::exchange::{Asking, Exchange, Next};
use crate::executor::Start;
use crate::pieces::{Asker, Source};
use crate::plan::GroupPlan;
use crate::record::{Sample, NEVER};
use crate::sets::Held;
use crate::share::Take;
use crate::turns::LoadTime;
use crate::wire::http1::Step;
use crate::wire::http2::answer::Answer;
use crate::wire::http2::session::Keeper;
use crate::wire::keep::{Algorithm, Keep, Keeping, Kept};
use crate::wire::WireError;

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
    pub held_until_ns: i64,
    /// The body waits for its next turn of writing.
    pub queued: bool,
    /// The answer waits for its next turn of reading.
    pub unread: bool,
}

/// What a slot waits for between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Later {
    /// The next step; `None`: the iteration ends at `due_ns`.
    pub step: Option<u16>,
    /// When the step before ended, in load time.
    pub free_ns: i64,
    pub due_ns: i64,
}

impl Later {
    /// The iteration has ended; load time has yet to reach that.
    pub fn is_held(&self) -> bool {
        self.step.is_none() && self.free_ns == self.due_ns
    }
}

/// The rows that a VU has asked for in one round of its table: 64 to an entry, so that 10,000 rows take 3 KB and not 150.
#[derive(Debug, Default)]
pub struct Round {
    number: u64,
    rows: HashMap<u64, u64>,
}

impl Round {
    /// Whether the round of this number has asked for the row before. Rounds come in order; one may ask for nothing.
    fn repeats(&mut self, number: u64, row: u64) -> bool {
        if number != self.number {
            self.rows.clear();
            self.number = number;
        }
        let (rows, bit) = (self.rows.entry(row / 64).or_default(), 1 << (row % 64));
        let asked = *rows & bit != 0;
        *rows |= bit;
        asked
    }
}

/// A slot: what stays from request to request, and the request in progress.
#[derive(Default)]
pub struct Slot {
    pub phase: Phase,
    /// The connection that the request uses.
    pub conn: Option<ConnKey>,
    /// The kept connection to the step's own endpoint.
    pub home: Option<ConnKey>,
    /// Where the step goes.
    pub own_endpoint: usize,
    /// Connections kept to the endpoints of other steps.
    pub parked: Vec<(usize, ConnKey)>,
    /// The step of the iteration in progress,
    pub step: u16,
    /// and what comes after it, once it has ended.
    pub later: Option<Later>,
    /// The variables that answers gave, by number.
    pub taken: Vec<Vec<u8>>,
    pub sample: Sample,
    pub asker: Asker,
    pub hop: Hop,
    /// What is said and heard, in the protocol at hand.
    pub exchange: Exchange,
    /// Reads ask for the kernel's stamp.
    pub stamped: bool,
    /// How late the answers of earlier hops were read in all; [`NEVER`] where that is not known of each.
    pub earlier_lag_ns: i64,
    pub ever_written: bool,
    pub deadline_ns: i64,
    /// The deadline heap holds an entry for this slot at this time.
    pub armed_ns: Option<i64>,
    /// TLS configurations by endpoint, with this user's sessions.
    pub tls: Vec<Option<Arc<ClientConfig>>>,
    /// Rows asked in the current round of a random feeder.
    pub seen: Round,
    /// When what is renewed was renewed last,
    pub renewed_ns: i64,
    /// and whether a server has refused it since.
    pub refused: bool,
    /// What the iteration has of each of the group's sets.
    pub held: Vec<Held>,
    /// The digest of the body that is sent.
    pub sent: Keeping,
}

impl Slot {
    /// Takes on a new request; buffers and connections stay.
    pub fn begin(&mut self, start: &Start, step: u16, row: i64, time: &LoadTime) {
        self.step = step;
        self.sample = Sample {
            step,
            vu: start.vu,
            seq: start.seq,
            row,
            due_ns: time.real_ns(start.due_ns),
            ready_ns: time.real_ns(start.ready_ns),
            ..Sample::default()
        };
        self.asker = start.asker();
        self.stamped = false;
        self.earlier_lag_ns = 0;
        self.ever_written = false;
    }

    /// Begins a hop (the first one is the request itself); its exchange is begun apart.
    pub fn begin_hop(&mut self, endpoint: usize) {
        self.hop.endpoint = endpoint;
        self.hop.written = 0;
        self.hop.body_bytes = 0;
        self.hop.held = false;
        self.hop.queued = false;
        self.hop.unread = false;
        self.sample.written_ns = NEVER;
        self.sample.first_byte_ns = NEVER;
    }

    /// Whether the request asks for a row again before its VU had all rows of the table. Open groups have no VUs: they
    /// are counted from the rows asked, at the end.
    pub fn repeats_early(&mut self, plan: &GroupPlan, asker: Asker, row: i64) -> bool {
        let rows = plan.rows() as u64;
        if plan.open || rows < 2 {
            return false;
        }
        match plan.take() {
            Some(Take::First | Take::Vu) => !asker.seq.is_multiple_of(rows),
            Some(Take::Random | Take::Zipf | Take::Hot | Take::Sequential | Take::Unique) => {
                self.seen.repeats(asker.seq / rows, row as u64)
            }
            Some(Take::Walk) | None => false,
        }
    }

    /// Goes over to a step's endpoint; the connection kept to the former one stays for later.
    pub fn aim(&mut self, endpoint: usize) {
        if self.own_endpoint == endpoint {
            return;
        }
        let former = self.home.take().map(|home| (self.own_endpoint, home));
        self.parked.extend(former);
        self.own_endpoint = endpoint;
        let known = self.parked.iter().position(|(at, _)| *at == endpoint);
        self.home = known.map(|at| self.parked.swap_remove(at).1);
    }

    /// A connection without a request has ended. True if the next request would have used it.
    pub fn forget(&mut self, key: ConnKey) -> bool {
        self.parked.retain(|(_, parked)| *parked != key);
        let was_home = self.home == Some(key);
        if was_home {
            self.home = None;
        }
        was_home
    }

    /// What fills the varying pieces of the request.
    pub fn source<'a>(&'a self, plan: &'a GroupPlan) -> Source<'a> {
        Source {
            feeders: &plan.feeders,
            asker: self.asker,
            taken: &self.taken,
        }
    }

    /// Begins the step's exchange, of HTTP by HTTP/1.1.
    pub fn prepare(&mut self, plan: &GroupPlan) {
        let step = plan.step(self.step);
        let asking = Asking {
            feeders: &plan.feeders,
            asker: self.asker,
            taken: &mut self.taken,
        };
        self.exchange.begin(&step.recipe, step.keep, &asking);
    }

    /// What happens next on its connection.
    pub fn next(&mut self, plan: &GroupPlan) -> Result<Next, WireError> {
        let mut asking = Asking {
            feeders: &plan.feeders,
            asker: self.asker,
            taken: &mut self.taken,
        };
        self.exchange.next(self.hop.written, &mut asking)
    }

    /// Takes the next bytes of its connection.
    pub fn hear(&mut self, plan: &GroupPlan, bytes: &[u8]) -> Result<Step, WireError> {
        let mut asking = Asking {
            feeders: &plan.feeders,
            asker: self.asker,
            taken: &mut self.taken,
        };
        self.exchange.push(bytes, &mut asking)
    }

    /// Gives the hop the step's streamed body, if there is one.
    pub fn take_body(&mut self, plan: &GroupPlan) {
        let Some(template) = plan.template(self.step) else {
            return;
        };
        let adds = plan.step(self.step).set.and_then(|used| used.adds);
        self.sent.begin(Keep {
            sha256: adds == Some(Algorithm::Sha256),
            md5: adds == Some(Algorithm::Md5),
            ..Keep::default()
        });
        self.hop.body_bytes = template.upload_bytes(self.asker);
        self.hop.held = template.expects_continue() && self.hop.body_bytes > 0;
    }

    /// Brings an HTTP request into its HTTP/1.1 form, which redirects start from.
    pub fn spell_out(&mut self, plan: &GroupPlan) {
        let source = Source {
            feeders: &plan.feeders,
            asker: self.asker,
            taken: &self.taken,
        };
        if let Some(template) = plan.template(self.step) {
            self.exchange.spell_out(template, &source);
        }
    }

    /// Its stream on a shared connection is over: this came of it.
    pub fn leave_stream(&mut self, answer: Answer) {
        self.conn = None;
        if let Some(stream) = self.exchange.stream_mut() {
            stream.end(answer);
        }
    }

    /// An answer leads to another hop: how late it was read is put by for the request.
    pub fn put_read_lag_by(&mut self) {
        self.add_earlier_read_lag();
        self.earlier_lag_ns = std::mem::replace(&mut self.sample.read_lag_ns, NEVER);
    }

    /// The request's read lag is that of all its hops, where each is known.
    pub fn add_earlier_read_lag(&mut self) {
        let sample = &mut self.sample;
        if self.earlier_lag_ns == NEVER {
            sample.read_lag_ns = NEVER;
        } else if sample.read_lag_ns != NEVER {
            sample.read_lag_ns += self.earlier_lag_ns;
        }
    }

    /// Whether any byte of the hop's answer came.
    pub fn touched(&self) -> bool {
        self.sample.first_byte_ns != NEVER
    }

    /// The phase that its timeout ends, once the connection stands.
    pub fn timeout(&self) -> ErrorKind {
        let unsent = (self.hop.written as u64) < self.hop.body_bytes;
        // Over HTTP/2 one that waits for a stream has not left either.
        let sending = self.phase != Phase::Receiving || unsent;
        self.exchange.timeout(sending, self.touched())
    }

    pub fn active(&self) -> bool {
        self.phase != Phase::Idle
    }
}

impl Keeper for Vec<Slot> {
    fn kept(&mut self, key: u32) -> Option<&mut Kept> {
        let slot = self.get_mut(key as usize)?;
        slot.exchange.stream_mut()?.keeper()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_lag_of_a_request_is_that_of_all_its_hops() {
        let of_hops = |earlier_ns: &[i64], last_ns: i64| {
            let mut slot = Slot::default();
            for lag_ns in earlier_ns {
                slot.sample.read_lag_ns = *lag_ns;
                slot.put_read_lag_by();
            }
            slot.sample.read_lag_ns = last_ns;
            slot.add_earlier_read_lag();
            slot.sample.read_lag_ns
        };
        assert_eq!((of_hops(&[], 5), of_hops(&[7, 0], 5)), (5, 12));
        // One that is not known makes the sum unknown.
        let unknown = [of_hops(&[7], NEVER), of_hops(&[NEVER, 7], 5)];
        assert_eq!(unknown, [NEVER; 2]);
    }

    #[test]
    fn a_round_knows_its_rows_in_little_room() {
        let mut round = Round::default();
        let whole = |round: &mut Round, number| -> usize {
            let rows = (0..10_000).rev().chain([0, 63, 64, 9_999]);
            rows.filter(|row| round.repeats(number, *row)).count()
        };
        assert_eq!(whole(&mut round, 0), 4);
        assert_eq!(round.rows.len(), 10_000usize.div_ceil(64));
        // The round between asked for no row.
        assert_eq!(whole(&mut round, 2), 4);
    }
}
