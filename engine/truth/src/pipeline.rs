//! A request's way through the server: arrival → worker (queue, lock, service time) → answer, cache or upstream →
//! link → stall → written. Only GET and HEAD are paced; what sets a lab up (PUT, POST, DELETE) and /info are answered
//! at once, without a worker.

use serde_json::json;

use crate::cache::{self, Key, Lookup};
use crate::clock::{burn, now_ns};
use crate::config::Role;
use crate::connection::{Counted, Output, State, Ticket};
use crate::counters::{LogRow, Mark};
use crate::draw::{uniform, Stream};
use crate::http::{upstream_request, Answer, Request};
use crate::server::{Alarm, Server};
use crate::upstream::{Outcome, Outgoing};
use crate::workers::{after_stall_ns, Admitted, JobId};

/// What a request becomes when its worker has finished with it.
#[derive(Debug)]
enum Plan {
    Answer(Answer),
    /// Ask the upstream; what comes back is the answer.
    Pass(Outgoing),
    /// A miss: as Pass, and the answer goes into the cache's memory if there is a key.
    Fetch(Outgoing, Option<Key>),
    /// Another request is fetching it; if that fails, fetch it after all.
    Await(Outgoing, Key),
    /// The upstream has been asked.
    Asked(Option<Key>),
}

/// A request being served.
#[derive(Debug)]
pub struct Job {
    connection: (usize, u64),
    keep_alive: bool,
    paced: bool,
    ticket: Ticket,
    plan: Plan,
}

impl Server {
    /// Takes a complete request from a connection, which is in the state Served.
    pub(crate) fn dispatch(&mut self, key: usize, request: Request, body: Vec<u8>) {
        let connection = &mut self.connections[key];
        let health = request.path() == "/healthcheck";
        if connection.admin || health {
            let keep_alive = request.keep_alive;
            let counted = if connection.admin {
                Counted::Nobody
            } else {
                Counted::Health
            };
            let answer = if health {
                Answer::text(200, "OK")
            } else {
                self.admin(&request, &body)
            };
            let output = Output::new(for_method(&request, answer), keep_alive, counted, None);
            self.connections[key].state = State::Writing(output);
            return;
        }
        let now_ns = now_ns();
        self.workers.advance(now_ns, &mut self.finished);
        let id = (key, connection.id);
        let paced = matches!(request.method.as_str(), "GET" | "HEAD") && request.path() != "/info";
        let mut ticket = Ticket {
            seq: self.arrivals,
            received_ns: now_ns,
            served_ns: 0,
            due_ns: None,
            target: self.urls.count(&request.target),
            mark: Mark::None,
            tls: connection.wire.is_tls(),
        };
        self.arrivals += 1;
        let keep_alive = request.keep_alive;
        if paced && !self.workers.has_room() {
            self.counters.queue_dropped += 1;
            let answer = for_method(&request, Answer::status(503));
            let job = self.jobs.insert(Job {
                connection: id,
                keep_alive,
                paced: false,
                ticket,
                plan: Plan::Answer(answer),
            });
            self.ready.push_back(job as JobId);
            return;
        }
        let (plan, mark) = self.plan(request, body, paced, ticket.seq);
        ticket.mark = mark;
        ticket.served_ns = if paced {
            self.service_ns(mark, ticket.seq)
        } else {
            0
        };
        let service_ns = ticket.served_ns;
        let job = self.jobs.insert(Job {
            connection: id,
            keep_alive,
            paced,
            ticket,
            plan,
        }) as JobId;
        if paced {
            let admitted = self.workers.submit(job, now_ns, service_ns);
            debug_assert_ne!(admitted, Admitted::Dropped, "has_room said there was room");
        } else {
            self.finished.push((job, now_ns));
        }
    }

    fn service_ns(&self, mark: Mark, seq: u64) -> u64 {
        let miss = self.config.miss_service_time.filter(|_| mark == Mark::Miss);
        miss.unwrap_or(self.config.service_time)
            .quantile_ns(uniform(self.config.seed, Stream::Service, seq))
    }

    fn plan(&mut self, request: Request, body: Vec<u8>, paced: bool, seq: u64) -> (Plan, Mark) {
        let broken =
            paced && uniform(self.config.seed, Stream::Error, seq) < self.config.error_rate;
        if broken {
            self.counters.errors_injected += 1;
            return (
                Plan::Answer(for_method(&request, Answer::status(500))),
                Mark::None,
            );
        }
        let outgoing = |keep_cold| Outgoing {
            bytes: upstream_request(&request, &body, keep_cold),
            to_head: request.method == "HEAD",
        };
        match self.config.role {
            Role::Store if request.path() == "/info" => {
                (Plan::Answer(for_method(&request, info())), Mark::None)
            }
            Role::Store => {
                let answer = self.store.answer(&request, body);
                (Plan::Answer(for_method(&request, answer)), Mark::None)
            }
            Role::Front => {
                self.counters.passes += 1;
                (Plan::Pass(outgoing(true)), Mark::Pass)
            }
            Role::Cache => match cache::key(&request, self.config.ignore_cold) {
                None => {
                    self.counters.passes += 1;
                    (Plan::Pass(outgoing(false)), Mark::Pass)
                }
                Some(_) if self.config.never_store => {
                    self.counters.misses += 1;
                    (Plan::Fetch(outgoing(false), None), Mark::Miss)
                }
                Some(key) => match self.cache.lookup(&key) {
                    Lookup::Hit(answer) => {
                        self.counters.hits += 1;
                        (
                            Plan::Answer(answer.with_header("X-Cache", "HIT")),
                            Mark::Hit,
                        )
                    }
                    Lookup::Miss => {
                        self.counters.misses += 1;
                        (Plan::Fetch(outgoing(false), Some(key)), Mark::Miss)
                    }
                    Lookup::Busy => (Plan::Await(outgoing(false), key), Mark::Hit),
                },
            },
        }
    }

    /// Does everything that is due.
    pub(crate) fn run_due(&mut self) {
        loop {
            let now_ns = now_ns();
            self.workers.advance(now_ns, &mut self.finished);
            for (job, ended_ns) in std::mem::take(&mut self.finished) {
                self.served(job, ended_ns);
            }
            while let Some((_, alarm)) = self.timers.pop_due(now_ns) {
                match alarm {
                    Alarm::Release(job) => self.ready.push_back(job),
                    Alarm::AcceptAgain => self.resume(),
                }
            }
            while let Some(outcome) = self
                .upstream
                .as_mut()
                .and_then(|upstream| upstream.pop_due(now_ns))
            {
                self.upstream_answered(outcome);
            }
            if self.ready.is_empty() && self.finished.is_empty() {
                return;
            }
            while let Some(job) = self.ready.pop_front() {
                self.answer(job);
            }
        }
    }

    /// The worker has finished with a request.
    fn served(&mut self, id: JobId, mut ended_ns: u64) {
        let job = &mut self.jobs[id as usize];
        if job.paced && self.config.cpu_burn_ns > 0 {
            burn(self.config.cpu_burn_ns);
            ended_ns = now_ns();
        }
        match std::mem::replace(&mut job.plan, Plan::Asked(None)) {
            plan @ Plan::Answer(_) => {
                job.plan = plan;
                self.release(id, ended_ns);
            }
            Plan::Pass(outgoing) => self.upstream_send(id, outgoing),
            Plan::Fetch(outgoing, key) => {
                job.plan = Plan::Asked(key);
                self.upstream_send(id, outgoing);
            }
            Plan::Await(outgoing, key) => self.await_fetch(id, outgoing, key, ended_ns),
            Plan::Asked(_) => {}
        }
    }

    /// A request that found another one fetching its object: by now it is there, still under way, or it failed.
    fn await_fetch(&mut self, id: JobId, outgoing: Outgoing, key: Key, now_ns: u64) {
        let job = &mut self.jobs[id as usize];
        match self.cache.lookup(&key) {
            Lookup::Hit(answer) => {
                self.counters.hits += 1;
                self.counters.coalesced += 1;
                job.plan = Plan::Answer(answer.with_header("X-Cache", "HIT"));
                self.release(id, now_ns);
            }
            Lookup::Busy => {
                self.cache.wait(&key, id);
                job.plan = Plan::Await(outgoing, key);
            }
            Lookup::Miss => {
                self.counters.misses += 1;
                job.ticket.mark = Mark::Miss;
                job.plan = Plan::Asked(Some(key));
                self.upstream_send(id, outgoing);
            }
        }
    }

    /// The upstream has answered a request, or failed to.
    pub(crate) fn upstream_answered(&mut self, outcome: Outcome) {
        let Outcome {
            job: id,
            answer,
            failed,
        } = outcome;
        self.counters.upstream_errors += u64::from(failed);
        let Some(job) = self.jobs.get_mut(id as usize) else {
            return;
        };
        let mark = job.ticket.mark;
        let now_ns = now_ns();
        let key = match std::mem::replace(&mut job.plan, Plan::Asked(None)) {
            Plan::Asked(key) => key,
            _ => None,
        };
        let told = match mark {
            Mark::Miss => answer.clone().with_header("X-Cache", "MISS"),
            _ => answer.clone(),
        };
        job.plan = Plan::Answer(told);
        self.release(id, now_ns);
        let Some(key) = key else { return };
        self.counters.stored += u64::from(answer.status == 200);
        for waiting in self.cache.fetched(&key, Some(&answer)) {
            let plan = std::mem::replace(&mut self.jobs[waiting as usize].plan, Plan::Asked(None));
            if let Plan::Await(outgoing, key) = plan {
                self.await_fetch(waiting, outgoing, key, now_ns);
            }
        }
    }

    /// An answer is known at `at_ns`: it leaves when link and stall let it.
    fn release(&mut self, id: JobId, at_ns: u64) {
        let job = &mut self.jobs[id as usize];
        if !job.paced {
            return self.ready.push_back(id);
        }
        let bytes = match &job.plan {
            Plan::Answer(answer) => answer.body.len() as u64,
            _ => 0,
        };
        let left_ns = self
            .link
            .leaves_ns(at_ns, bytes, self.config.rate_limit_bytes_per_s);
        self.counters.link_held_ns_sum += left_ns.saturating_sub(at_ns);
        let due_ns = after_stall_ns(left_ns, self.config.stall, self.stall_epoch_ns);
        job.ticket.due_ns = Some(due_ns);
        if due_ns <= at_ns {
            self.ready.push_back(id);
        } else {
            self.timers.push(due_ns, Alarm::Release(id));
        }
    }

    fn answer(&mut self, id: JobId) {
        let Job {
            connection: (key, connection_id),
            keep_alive,
            ticket,
            plan,
            ..
        } = self.jobs.remove(id as usize);
        let answer = match plan {
            Plan::Answer(answer) => answer,
            _ => Answer::status(500), // cannot happen: only answered jobs are released
        };
        match self
            .connections
            .get_mut(key)
            .filter(|connection| connection.id == connection_id)
        {
            Some(connection) => {
                let output = Output::new(answer, keep_alive, Counted::Service, Some(ticket));
                connection.state = State::Writing(output);
                self.drive(key);
            }
            None => self.log_row(ticket, answer.status, None), // counted as abandoned when it closed
        }
    }

    /// An answer is with the kernel; its last write began at `last_ns`.
    pub(crate) fn written(&mut self, output: Output, last_ns: u64) {
        let Some(ticket) = output.ticket else { return };
        self.counters.answers += 1;
        *self.counters.status.entry(output.status).or_default() += 1;
        if let (Some(due_ns), Some(begun_ns)) = (ticket.due_ns, output.begun_ns) {
            self.counters.late(begun_ns.saturating_sub(due_ns));
        }
        self.log_row(ticket, output.status, Some(last_ns));
    }

    pub(crate) fn log_row(&mut self, ticket: Ticket, status: u16, answered_ns: Option<u64>) {
        if !self.config.log {
            return;
        }
        if self.log.len() >= self.config.log_limit {
            self.counters.log_dropped += 1;
            return;
        }
        let Ticket {
            seq,
            received_ns,
            served_ns,
            target,
            mark,
            tls,
            ..
        } = ticket;
        self.log.push(LogRow {
            seq,
            received_ns,
            answered_ns,
            served_ns,
            target,
            status,
            mark,
            tls,
        });
    }
}

fn for_method(request: &Request, answer: Answer) -> Answer {
    if request.method == "HEAD" {
        answer.without_body()
    } else {
        answer
    }
}

fn info() -> Answer {
    let text = json!({
        "svload_truth": {"version": env!("CARGO_PKG_VERSION")},
        "swift": {"account_listing_limit": 10_000, "container_listing_limit": 10_000,
                  "max_file_size": crate::body::BODY_LIMIT, "max_object_name_length": 1024},
    });
    Answer::new(200, "application/json", text.to_string())
}
