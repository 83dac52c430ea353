//! Requests on their way to a shared connection: on the line's own, on a new one, or behind others.

use super::super::{Worker, STAMP_ONE_IN};
use super::{Multiplex, Unwritten, Upload};
use crate::conn::{ConnKey, Owner, Stage};
use crate::error::ErrorKind;
use crate::http2_spec::Http2Spec;
use crate::pieces::Source;
use crate::share::Client;
use crate::vu::{OnStream, Phase};

impl Worker<'_> {
    /// Begins a request over HTTP/2.
    pub(in crate::worker) fn begin_stream(&mut self, g: usize, s: u32, http2: Http2Spec) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let step = group.plan.step(slot.step);
        let endpoint = step.endpoint.unwrap_or_default();
        slot.begin_hop(endpoint, step.to_head_request, step.keep);
        slot.stream = Some(OnStream::default());
        slot.phase = Phase::Opening;
        // Where it is written in this pass, that moment is "begun".
        self.begin_clock(g, s, self.now_ns);
        self.take_place(g, s, http2);
    }

    /// Puts a request on its line's connection.
    fn take_place(&mut self, g: usize, s: u32, http2: Http2Spec) {
        match self.groups[g].lines.of(s).current {
            Some(key) => self.join(g, s, key),
            None => self.open_line(g, s, http2),
        }
    }

    fn join(&mut self, g: usize, s: u32, key: ConnKey) {
        let Some(mut link) = self.multiplexes.take(key) else {
            return;
        };
        let group = &mut self.groups[g];
        group.slots[s as usize].conn = Some(key);
        if link.waiting.is_empty() && link.has_room() {
            self.open_stream(key, &mut link, s);
        } else {
            if let Some(stream) = &mut group.slots[s as usize].stream {
                stream.begun = true;
            }
            group.record.totals.http2_stream_waits += u64::from(link.ready);
            link.waiting.push_back(s);
        }
        self.multiplexes.put(key, link);
    }

    /// Opens a connection for a line.
    fn open_line(&mut self, g: usize, s: u32, http2: Http2Spec) {
        let now_ns = self.tick();
        let group = &mut self.groups[g];
        let (plan, slot) = (group.plan, &mut group.slots[s as usize]);
        slot.hop.begun_ns = now_ns;
        if let Some(stream) = &mut slot.stream {
            // A request that was moved here from a connection that left has begun there.
            if !std::mem::replace(&mut stream.begun, true) {
                slot.sample.begun_ns = now_ns;
            }
        }
        let resumes = !(plan.new_connections && plan.spec.client == Client::Curl);
        let endpoint = slot.hop.endpoint;
        let tls = self.endpoints[endpoint].tls.as_ref();
        let line = group.lines.of(s);
        let config = tls.map(|tls| {
            let own = || tls.for_http2(resumes, http2.fallback);
            line.tls.get_or_insert_with(own).clone()
        });
        slot.sample.lookup_ns += self.clock.now_ns() - now_ns;
        let owner = Owner { group: g, slot: s };
        let dictionary_bytes = plan.step(slot.step).template.dictionary_bytes();
        match self.dial(endpoint, config, owner) {
            Ok(conn) => {
                let stage = conn.stage;
                let key = self.conns.insert(conn);
                let mut link = Box::new(Multiplex::new(g, s, dictionary_bytes));
                link.waiting.push_back(s);
                self.multiplexes.put(key, link);
                let group = &mut self.groups[g];
                group.lines.of(s).current = Some(key);
                group.slots[s as usize].conn = Some(key);
                self.watch_line(key, stage);
            }
            Err(kind) => {
                self.tick();
                self.fail(g, s, kind);
            }
        }
    }

    fn watch_line(&mut self, key: ConnKey, stage: Stage) {
        let Some(conn) = self.conns.get(key) else {
            return;
        };
        if let Err(error) = self.epoll.add(conn.fd(), conn.token) {
            self.fail_multiplex(key, ErrorKind::of_connect(&error));
        } else if stage != Stage::Connecting {
            self.line_connected(key);
        }
    }

    /// TCP stands.
    pub(super) fn line_connected(&mut self, key: ConnKey) {
        let now_ns = self.tick();
        if let Some((g, s)) = self.opener(key) {
            let slot = &mut self.groups[g].slots[s as usize];
            slot.sample.connect_ns += now_ns - slot.hop.begun_ns;
        }
        if let Some(Some(link)) = self.multiplexes.by_key.get(key) {
            self.groups[link.group].record.totals.connections_opened += 1;
        }
        self.line_handshake(key);
    }

    /// Whose request opened the connection, while that waits for it.
    fn opener(&self, key: ConnKey) -> Option<(usize, u32)> {
        let link = self.multiplexes.by_key.get(key)?.as_ref()?;
        let slot = &self.groups[link.group].slots[link.opener as usize];
        let waits = slot.active() && slot.conn == Some(key);
        waits.then_some((link.group, link.opener))
    }

    pub(super) fn line_handshake(&mut self, key: ConnKey) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        match conn.handshake() {
            Ok(false) => {}
            Err(kind) => self.fail_multiplex(key, kind),
            Ok(true) => {
                let (kind, agreed) = (conn.tls_kind, conn.speaks_http2());
                self.line_stands(key, kind, agreed);
            }
        }
    }

    /// The connection stands, over TLS too; `agreed`: on HTTP/2.
    fn line_stands(&mut self, key: ConnKey, tls_kind: u8, agreed: bool) {
        let now_ns = self.tick();
        if let Some((g, s)) = self.opener(key).filter(|_| tls_kind > 0) {
            let slot = &mut self.groups[g].slots[s as usize];
            slot.sample.appconnect_ns += now_ns - slot.hop.begun_ns;
        }
        let Some(mut link) = self.multiplexes.take(key) else {
            return;
        };
        let group = &mut self.groups[link.group];
        let totals = &mut group.record.totals;
        totals.tls_full += u64::from(tls_kind == 1);
        totals.tls_resumed += u64::from(tls_kind == 2);
        if agreed {
            totals.http2_connections += 1;
            link.ready = true;
            self.open_waiting(key, &mut link);
            self.multiplexes.mark(key, &mut link);
            self.multiplexes.put(key, link);
            self.flush_multiplexes();
            // The server may have spoken already, inside what the handshake has read.
            self.read_multiplex(key);
        } else if group.plan.spec.http2.is_some_and(|http2| http2.fallback) {
            self.fall_back(key, *link);
        } else {
            self.multiplexes.put(key, link);
            self.fail_multiplex(key, ErrorKind::Http2NotNegotiated);
        }
    }

    /// The server speaks HTTP/1.1: the group goes on with that, a connection a slot.
    fn fall_back(&mut self, key: ConnKey, link: Multiplex) {
        let g = link.group;
        self.leave_line(&link, key);
        let group = &mut self.groups[g];
        let plan = group.plan;
        group.fell_back = true;
        group.record.totals.http2_fallbacks += 1;
        let mut connection = Some(key);
        for s in link.waiting {
            let slot = &mut self.groups[g].slots[s as usize];
            slot.stream = None;
            slot.out_is_fixed = plan.step(slot.step).template.fixed().is_some();
            if !slot.out_is_fixed {
                slot.render(plan);
            }
            let endpoint = slot.hop.endpoint;
            slot.aim(endpoint);
            slot.home = connection.take();
            self.begin_at(g, s, endpoint);
        }
        if connection.is_some() {
            self.close_later(key);
        }
    }

    /// Opens streams for those that wait, as far as there is room.
    pub(super) fn open_waiting(&mut self, key: ConnKey, link: &mut Multiplex) {
        while link.has_room() {
            let Some(s) = link.waiting.pop_front() else {
                return;
            };
            self.open_stream(key, link, s);
        }
    }

    /// Puts a request's head into the connection's bytes; they are written at the end of the pass.
    fn open_stream(&mut self, key: ConnKey, link: &mut Multiplex, s: u32) {
        self.requests += 1;
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if self.requests % STAMP_ONE_IN == 1 && link.sampled.is_none() {
            conn.stamp_receives();
            link.sampled = Some(s);
        }
        let group = &mut self.groups[link.group];
        let (plan, slot) = (group.plan, &mut group.slots[s as usize]);
        let step = plan.step(slot.step);
        let source = Source {
            feeders: &plan.feeders,
            asker: slot.asker,
            taken: &slot.taken,
        };
        slot.hop.body_bytes = step.template.upload_bytes(slot.asker);
        if step.template.has_text() {
            step.template.render_text(&source, &mut slot.out);
            slot.hop.body_bytes = slot.out.len() as u64;
        }
        let ends = slot.hop.body_bytes == 0;
        let place = link.before + link.session.out.len() as u64;
        let (id, bytes) = link
            .session
            .open(s, step.to_head_request, ends, |dictionary, out| {
                step.template.render_block(dictionary, &source, out);
            });
        link.unwritten.push_back(Unwritten {
            place,
            slot: s,
            stream: id,
        });
        if !ends {
            link.uploads.push_back(Upload {
                slot: s,
                stream: id,
            });
        }
        slot.phase = Phase::Receiving;
        if let Some(stream) = &mut slot.stream {
            stream.id = id;
        }
        slot.sample.connection = conn.id;
        slot.sample.reused = conn.requests > 0;
        slot.sample.tls = conn.tls_kind;
        slot.sample.request_bytes += bytes as u32;
        conn.requests = conn.requests.saturating_add(1);
        self.multiplexes.mark(key, link);
    }

    /// A request that its connection has not taken goes to the line's next one.
    pub(super) fn move_on(&mut self, g: usize, s: u32) {
        let group = &mut self.groups[g];
        group.slots[s as usize].conn = None;
        if let Some(http2) = group.plan.spec.http2 {
            self.take_place(g, s, http2);
        }
    }
}
