//! Requests on their way to a shared connection: on the line's own, on a new one, or behind others.

use super::super::Worker;
use super::{Multiplex, Unwritten, Upload};
use crate::conn::{ConnKey, Owner, Stage};
use crate::error::ErrorKind;
use crate::exchange::http2::Form;
use crate::http2_spec::Http2Spec;
use crate::pieces::Source;
use crate::request::Template;
use crate::vu::Phase;
use crate::wire::http2::session::Opening;

impl Worker<'_> {
    /// Begins a request over HTTP/2.
    pub(in crate::worker) fn begin_stream(
        &mut self,
        g: usize,
        s: u32,
        http2: Http2Spec,
        endpoint: usize,
        form: Form,
    ) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let step = group.plan.step(slot.step);
        slot.aim(endpoint);
        slot.begin_hop(endpoint);
        let template = step.recipe.http();
        let to_head = template.is_some_and(Template::to_head_request);
        slot.exchange.begin_on_stream(form, to_head, step.keep);
        slot.phase = Phase::Opening;
        // Where it is written in this pass, that moment is "begun".
        self.begin_clock(g, s, self.now_ns);
        self.take_place(g, s, http2);
    }

    /// Begins a redirect hop, whose exchange is ready.
    pub(in crate::worker) fn hop_stream(&mut self, g: usize, s: u32, http2: Http2Spec) {
        let slot = &mut self.groups[g].slots[s as usize];
        slot.phase = Phase::Opening;
        self.begin_clock(g, s, self.now_ns);
        self.take_place(g, s, http2);
    }

    /// Puts a request on its line's connection.
    fn take_place(&mut self, g: usize, s: u32, http2: Http2Spec) {
        let group = &mut self.groups[g];
        let endpoint = group.slots[s as usize].hop.endpoint;
        match group.lines.of(s).link_to(endpoint) {
            Some(key) => self.join(g, s, key),
            None => self.open_line(g, s, http2),
        }
    }

    fn join(&mut self, g: usize, s: u32, key: ConnKey) {
        let Some(mut link) = self.multiplexes.take(key) else {
            return;
        };
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.conn = Some(key);
        link.passing &= link.endpoint != slot.own_endpoint;
        if link.waiting.is_empty() && link.has_room() {
            self.open_stream(key, &mut link, s);
        } else {
            if let Some(stream) = group.slots[s as usize].exchange.stream_mut() {
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
        if let Some(stream) = slot.exchange.stream_mut() {
            // A request that was moved here from a connection that left has begun there.
            // So has one whose answer led here.
            if !std::mem::replace(&mut stream.begun, true) && !slot.ever_written {
                slot.sample.begun_ns = now_ns;
            }
        }
        let endpoint = slot.hop.endpoint;
        let tls = self.endpoints[endpoint].tls.as_ref();
        let line = group.lines.of(s);
        let config =
            tls.map(|tls| line.tls_to(endpoint, || tls.for_http2(plan.resumes(), http2.fallback)));
        slot.sample.lookup_ns += self.clock.now_ns() - now_ns;
        let owner = Owner { group: g, slot: s };
        match self.dial(endpoint, config, owner) {
            Ok(conn) => {
                let stage = conn.stage;
                let key = self.conns.insert(conn);
                let group = &mut self.groups[g];
                group.lines.of(s).links.push((endpoint, key));
                let slot = &mut group.slots[s as usize];
                slot.conn = Some(key);
                let mut link = Box::new(Multiplex::new(g, s, endpoint));
                link.passing = endpoint != slot.own_endpoint;
                link.waiting.push_back(s);
                self.multiplexes.put(key, link);
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
            self.tick();
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
            Err(kind) => {
                self.tick();
                self.fail_multiplex(key, kind);
            }
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

    /// The server speaks HTTP/1.1: the group goes on with that there, a connection a slot.
    fn fall_back(&mut self, key: ConnKey, link: Multiplex) {
        let g = link.group;
        self.leave_line(&link, key);
        let group = &mut self.groups[g];
        if !group.without_http2.contains(&link.endpoint) {
            group.without_http2.push(link.endpoint);
        }
        group.record.totals.http2_fallbacks += 1;
        let mut connection = Some(key);
        for s in link.waiting {
            self.begin_without(g, s, connection.take());
        }
        if connection.is_some() {
            self.close_later(key);
        }
    }

    /// Begins a request over HTTP/1.1 that was to go over HTTP/2, on this connection or a new one.
    fn begin_without(&mut self, g: usize, s: u32, connection: Option<ConnKey>) {
        let group = &mut self.groups[g];
        let (plan, slot) = (group.plan, &mut group.slots[s as usize]);
        slot.spell_out(plan);
        let form = slot.exchange.stream().map(|stream| stream.form);
        let step = plan.step(slot.step);
        slot.begin_hop(slot.hop.endpoint);
        let template = step.recipe.http();
        let to_head = template.is_some_and(Template::to_head_request);
        slot.exchange.await_http1(to_head, step.keep);
        if form != Some(Form::Text { body: false }) {
            slot.take_body(plan);
        }
        slot.conn = connection;
        let Some(key) = connection else {
            return self.open(g, s);
        };
        if let Some(conn) = self.conns.get_mut(key) {
            conn.owner.slot = s;
        }
        self.send(g, s, key);
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
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let group = &mut self.groups[link.group];
        let stamped = group.measures_read_lag(s, self.now_ns);
        let (plan, slot) = (group.plan, &mut group.slots[s as usize]);
        slot.stamped = stamped;
        if stamped {
            conn.stamp_receives();
            link.sampled += 1;
        }
        let Some(template) = plan.template(slot.step) else {
            return;
        };
        let source = Source {
            feeders: &plan.feeders,
            asker: slot.asker,
            taken: &slot.taken,
        };
        slot.hop.body_bytes = slot.exchange.ready_content(template, &source);
        let ends = slot.hop.body_bytes == 0;
        slot.hop.held = template.expects_continue() && !ends;
        let (held, https) = (slot.hop.held, self.endpoints[link.endpoint].origin.https);
        let place = link.before + link.session.out.len() as u64;
        let stream = slot.exchange.stream();
        let taught = stream.is_some_and(|stream| stream.form == Form::Template);
        let opening = Opening {
            key: s,
            to_head_request: stream.is_some_and(|stream| stream.to_head_request),
            ends,
            keeps: slot.exchange.kept().is_some(),
            lesson: taught.then(|| template.lesson(slot.step)).flatten(),
        };
        link.heard &= link.session.open_streams() > 0;
        let exchange = &slot.exchange;
        let (id, bytes) = link.session.open(opening, |dictionary, out| {
            exchange.render_block(template, &source, https, dictionary, out);
        });
        link.unwritten.push_back(Unwritten {
            place,
            slot: s,
            stream: id,
        });
        if !ends && !held {
            link.uploads.push_back(Upload {
                slot: s,
                stream: id,
            });
        }
        slot.phase = Phase::Receiving;
        if let Some(stream) = slot.exchange.stream_mut() {
            stream.id = id;
        }
        slot.sample.connection = conn.id;
        slot.sample.reused = conn.requests > 0;
        slot.sample.tls = conn.tls_kind;
        slot.sample.request_bytes += bytes as u32;
        conn.requests = conn.requests.saturating_add(1);
        self.multiplexes.mark(key, link);
        if held {
            self.hold(link.group, s, key);
        }
    }

    /// A request that its connection has not taken goes to the line's next one.
    pub(super) fn move_on(&mut self, g: usize, s: u32) {
        let (now_ns, group) = (self.now_ns, &mut self.groups[g]);
        let (http2, slot) = (group.plan.spec.http2, &mut group.slots[s as usize]);
        slot.conn = None;
        slot.sample.pretransfer_ns += now_ns - slot.hop.begun_ns;
        // The next connection has the whole connect timeout for itself.
        self.begin_clock(g, s, now_ns);
        if let Some(http2) = http2 {
            self.take_place(g, s, http2);
        }
    }
}
