//! One virtual user's (or open slot's) request in progress: its state and nothing that acts on it.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::conn::ConnKey;
use crate::error::ErrorKind;
use crate::executor::Start;
use crate::pieces::{Asker, Source};
use crate::plan::GroupPlan;
use crate::record::{Sample, NEVER};
use crate::share::Take;
use crate::wire::dialogue::{Script, Talk};
use crate::wire::http1::Decoder;
use crate::wire::http2::answer::Answer;
use crate::wire::http2::session::Keeper;
use crate::wire::keep::{Keep, Kept};

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
    /// Where a text body begins in `out`, over HTTP/2.
    pub text_from: usize,
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
    /// The next step; `None`: the iteration is cut short by the load's end.
    pub step: Option<u16>,
    /// When the step before ended.
    pub free_ns: i64,
    pub due_ns: i64,
}

/// What a request over HTTP/2 is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The step's template.
    #[default]
    Template,
    /// Its HTTP/1.1 form in `out`: a redirect hop, or an address that variables made; `body`: the request's body goes with it.
    Text { body: bool },
}

/// A request's place on an HTTP/2 connection, which it shares with others.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnStream {
    /// The stream; 0 while the request waits for one.
    pub id: u32,
    /// "Begun" stands: the request opened the connection, or waited for it or for a stream.
    pub begun: bool,
    pub form: Form,
    /// What came of it, once it is over.
    pub answer: Answer,
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
    pub decoder: Decoder,
    /// How far a raw dialogue has come.
    pub talk: Talk,
    /// Where each text of a dialogue ends in `out`.
    pub ends: Vec<usize>,
    /// Set where the request goes over HTTP/2.
    pub stream: Option<OnStream>,
    /// The request's bytes, unless the step's are fixed; over HTTP/2 what its [`Form`] says, or its text body.
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
    pub fn begin(&mut self, start: &Start, step: u16, row: i64) {
        self.step = step;
        self.sample = Sample {
            step,
            vu: start.vu,
            seq: start.seq,
            row,
            due_ns: start.due_ns,
            ready_ns: start.ready_ns,
            ..Sample::default()
        };
        self.asker = start.asker();
        self.stamped = false;
        self.ever_written = false;
        self.stream = None;
    }

    /// Makes ready for a hop's answer (the first hop is the request itself).
    pub fn begin_hop(&mut self, endpoint: usize, to_head_request: bool, keep: Keep) {
        self.hop.endpoint = endpoint;
        self.hop.written = 0;
        self.hop.body_bytes = 0;
        self.hop.held = false;
        self.hop.queued = false;
        self.hop.unread = false;
        self.decoder.reset(to_head_request);
        self.decoder.keep(keep);
        self.talk.reset();
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
        let new_round = asker.seq.is_multiple_of(rows);
        match plan.take() {
            Some(Take::First | Take::Vu) => !new_round,
            Some(Take::Random | Take::Sequential | Take::Unique) => {
                if new_round {
                    self.seen.clear();
                }
                !self.seen.insert(row as u64)
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

    /// Writes the step's request.
    pub fn render(&mut self, plan: &GroupPlan) {
        let source = Source {
            feeders: &plan.feeders,
            asker: self.asker,
            taken: &self.taken,
        };
        let step = plan.step(self.step);
        match step.script {
            Some(_) => step
                .template
                .render_says(&source, &mut self.out, &mut self.ends),
            None => step.template.render(&source, &mut self.out),
        }
    }

    /// Gives the hop the step's streamed body, if there is one.
    pub fn take_body(&mut self, plan: &GroupPlan) {
        let template = &plan.step(self.step).template;
        self.hop.body_bytes = template.upload_bytes(self.asker);
        self.hop.held = template.expects_continue() && self.hop.body_bytes > 0;
    }

    /// Whether nothing but its template holds the request over HTTP/2.
    fn is_template(&self) -> bool {
        self.stream
            .is_some_and(|stream| stream.form == Form::Template)
    }

    /// Brings the request into its HTTP/1.1 form, which redirects start from.
    pub fn spell_out(&mut self, plan: &GroupPlan) {
        if self.is_template() {
            self.out_is_fixed = plan.step(self.step).template.fixed().is_some();
            if !self.out_is_fixed {
                self.render(plan);
            }
        }
    }

    /// Its stream is over: this came of it.
    pub fn leave_stream(&mut self, answer: Answer) {
        self.conn = None;
        if let Some(stream) = &mut self.stream {
            stream.id = 0;
            stream.answer = answer;
        }
    }

    /// The answer's Location, empty without one.
    pub fn location(&self) -> &[u8] {
        match self.stream {
            Some(_) => self.decoder.kept().map_or(&[], Kept::location),
            None => self.decoder.location(),
        }
    }

    /// The bytes before a streamed body.
    pub fn request<'a>(&'a self, plan: &'a GroupPlan) -> &'a [u8] {
        match plan.step(self.step).template.fixed() {
            Some(fixed) if self.out_is_fixed => fixed,
            _ => &self.out,
        }
    }

    /// The turns of the step, if it is a raw dialogue.
    pub fn script<'a>(&self, plan: &'a GroupPlan) -> Option<&'a Script> {
        plan.step(self.step).script.as_ref()
    }

    /// Whether any byte of the answer came.
    pub fn touched(&self) -> bool {
        self.decoder.touched() || self.talk.received() > 0
    }

    /// The phase that a request's time-out on an HTTP/2 connection ends.
    pub fn stream_timeout(&self) -> ErrorKind {
        if self.sample.first_byte_ns != NEVER {
            ErrorKind::TimeoutBody
        } else if (self.hop.written as u64) < self.hop.body_bytes {
            ErrorKind::TimeoutSend
        } else {
            ErrorKind::TimeoutFirstByte
        }
    }

    /// What has come of the request's answer (status 0 in a dialogue).
    pub fn answer(&self, plan: &GroupPlan) -> Answer {
        if let Some(stream) = &self.stream {
            return stream.answer;
        }
        let (status, body_bytes) = match self.script(plan) {
            Some(_) => (0, self.talk.received()),
            None => (self.decoder.status(), self.decoder.body_bytes()),
        };
        Answer {
            status,
            header_bytes: self.decoder.header_bytes(),
            body_bytes,
            // Counted as it came.
            received_bytes: 0,
        }
    }

    /// Whether the connection may carry another request after this one, as far as its answer says.
    pub fn keeps_connection(&self, plan: &GroupPlan) -> bool {
        match self.script(plan) {
            Some(script) => !script.ends_the_stream(),
            None => self.decoder.keep_alive(),
        }
    }

    pub fn active(&self) -> bool {
        self.phase != Phase::Idle
    }
}

impl Keeper for Vec<Slot> {
    fn kept(&mut self, key: u32) -> &mut Kept {
        self[key as usize].decoder.keeper()
    }
}
