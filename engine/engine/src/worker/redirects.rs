//! Redirect hops: children of their request, each with its own check of where it may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Worker;
use crate::error::ErrorKind;
use crate::exchange::http2::Form;
use crate::pieces::Source;
use crate::plan::Endpoint;
use crate::redirect::{next_method, resolve, Origin};
use crate::request::{HopLine, Template};
use crate::target::Address;
use crate::tls::Tls;

/// Addresses that redirects may add to a share's endpoints.
const LITERALS_MAX: usize = 1_000;

impl Worker<'_> {
    /// Follows a complete redirect answer, or fails the request for what it asks.
    pub(super) fn redirect(&mut self, g: usize, s: u32) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        if slot.sample.redirects >= group.plan.spec.follow_redirects {
            return self.finish(g, s, ErrorKind::TooManyRedirects);
        }
        slot.spell_out(group.plan);
        let (method, path) = request_line(slot.exchange.text());
        let status = slot.exchange.answer().status;
        let method = next_method(status, method).to_owned();
        let (from, location) = (slot.hop.endpoint, slot.exchange.location());
        let base_https = self.endpoints[from].origin.https;
        let hop = Some(location)
            .filter(|location| !location.is_empty())
            .and_then(|location| resolve(location, base_https, path));
        let Some(hop) = hop else {
            return self.finish(g, s, ErrorKind::BadRedirect);
        };
        let endpoint = match &hop.origin {
            None => Some(from),
            Some(origin) => self.authorise(origin, Some(from)),
        };
        match endpoint {
            Some(endpoint) if self.gives_away(g, s, endpoint, &method) => {
                self.finish(g, s, ErrorKind::SecretRedirect)
            }
            Some(endpoint) => self.hop(g, s, endpoint, &method, &hop.path),
            None => self.finish(g, s, ErrorKind::UnauthorisedTarget),
        }
    }

    /// Whether the hop that its answer asks for would carry a secret to another origin than the step's own.
    fn gives_away(&self, g: usize, s: u32, endpoint: usize, method: &str) -> bool {
        let group = &self.groups[g];
        let slot = &group.slots[s as usize];
        let template = group.plan.template(slot.step);
        endpoint != slot.own_endpoint
            && template.is_some_and(|template| {
                template.gives_away(slot.exchange.location(), carries_body(template, method))
            })
    }

    /// Begins a step whose address is made of variables, if the load may go there.
    pub(super) fn begin_at_address(&mut self, g: usize, s: u32) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let (plan, step) = (group.plan, group.plan.step(slot.step));
        let Some(template) = step.recipe.http() else {
            return;
        };
        let mut url = Vec::new();
        template.render_url(&slot.source(plan), &mut url);
        let hop = resolve(&url, false, "/");
        let endpoint = match hop.and_then(|hop| Some((hop.origin?, hop.path))) {
            Some((origin, path)) => self
                .authorise(&origin, None)
                .map(|endpoint| (endpoint, path))
                .ok_or(ErrorKind::UnauthorisedTarget),
            None => Err(ErrorKind::Capture),
        };
        let slot = &mut self.groups[g].slots[s as usize];
        match endpoint {
            Ok((endpoint, path)) => {
                let line = HopLine {
                    method: template.method(),
                    path: &path,
                    host: &self.endpoints[endpoint].host_header,
                    foreign: false,
                    body: true,
                };
                let source = Source {
                    feeders: &plan.feeders,
                    asker: slot.asker,
                    taken: &slot.taken,
                };
                slot.exchange.render_hop(template, &line, &source);
                match self.http2_at(g, endpoint) {
                    Some(http2) => {
                        self.begin_stream(g, s, http2, endpoint, Form::Text { body: true })
                    }
                    None => {
                        let slot = &mut self.groups[g].slots[s as usize];
                        let to_head = template.to_head_request();
                        slot.exchange.await_http1(to_head, step.keep);
                        self.begin_at(g, s, endpoint);
                    }
                }
            }
            Err(kind) => self.finish_unsent(g, s, kind),
        }
    }

    /// The endpoint of an origin that the load may go to; any other is noted down. `from`: the endpoint that leads there.
    fn authorise(&mut self, origin: &Origin, from: Option<usize>) -> Option<usize> {
        let allowed = &self.plan.allowed;
        let found = self
            .find_endpoint(origin, from)
            .filter(|at| allowed.permits(&self.endpoints[*at].address));
        if found.is_none() {
            self.note_unauthorised(origin.full());
        }
        found
    }

    /// The endpoint of an origin: one that the share names, or another port of an allowed address that is known without a look-up.
    fn find_endpoint(&mut self, origin: &Origin, from: Option<usize>) -> Option<usize> {
        if let Some(known) = self.plan.endpoint_of(origin) {
            return Some(known);
        }
        if let Some(known) = self
            .endpoints
            .iter()
            .position(|endpoint| endpoint.origin == *origin)
        {
            return Some(known);
        }
        let ip = self.known_ip(origin, from)?;
        if !self.plan.allowed.permits_ip(ip) || self.endpoints.len() >= LITERALS_MAX {
            return None;
        }
        let tls = match origin.https {
            true => Some(self.tls_of(from)?.for_host(&origin.host)?),
            false => None,
        };
        self.endpoints.push(Endpoint {
            host_header: origin.host_header(),
            origin: origin.clone(),
            address: Address::Inet(SocketAddr::new(ip, origin.port)),
            tls,
        });
        Some(self.endpoints.len() - 1)
    }

    /// The address of an origin's host: literal, loopback by name, or a named endpoint's that is at the port of its URL.
    fn known_ip(&self, origin: &Origin, from: Option<usize>) -> Option<IpAddr> {
        if let Ok(ip) = origin.host.trim_matches(['[', ']']).parse() {
            return Some(ip);
        }
        let inet = |at: usize| match self.endpoints[at].address {
            Address::Inet(address) => Some(address),
            Address::Unix(_) => None,
        };
        if origin.is_loopback() {
            let over_v6 = from.and_then(inet).is_some_and(|from| from.is_ipv6());
            return Some(match over_v6 {
                true => Ipv6Addr::LOCALHOST.into(),
                false => Ipv4Addr::LOCALHOST.into(),
            });
        }
        let named = (0..self.plan.endpoints.len())
            .filter(|at| self.endpoints[*at].origin.host == origin.host)
            .filter_map(|at| Some((self.endpoints[at].origin.port, inet(at)?)));
        named
            .filter(|(port, address)| *port == address.port())
            .map(|(_, address)| address.ip())
            .next()
    }

    /// How a server is verified that only a redirect leads to: as the one that sent us, else as the share says.
    fn tls_of(&self, from: Option<usize>) -> Option<&Tls> {
        let sender = from.and_then(|at| self.endpoints[at].tls.as_ref());
        sender.or(self.plan.redirect_tls.as_ref())
    }

    fn hop(&mut self, g: usize, s: u32, endpoint: usize, method: &str, path: &str) {
        let key = self.groups[g].slots[s as usize].conn;
        let reusable = key.is_some_and(|key| self.reusable(g, s, key));
        let now_ns = self.now_ns;
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let (from, home, plan) = (slot.hop.endpoint, slot.home, group.plan);
        let answer = slot.exchange.answer();
        group.record.hop_status[usize::from(answer.status)] += 1;
        slot.sample.redirects += 1;
        slot.put_read_lag_by();
        slot.sample.redirect_ns = now_ns - slot.sample.begun_ns;
        slot.sample.header_bytes += answer.header_bytes as u32;
        slot.sample.received_bytes += answer.received_bytes;
        let step = plan.step(slot.step);
        let Some(template) = step.recipe.http() else {
            return;
        };
        let body = carries_body(template, method);
        let line = HopLine {
            method,
            path,
            host: &self.endpoints[endpoint].host_header,
            foreign: endpoint != slot.own_endpoint,
            body,
        };
        let source = Source {
            feeders: &plan.feeders,
            asker: slot.asker,
            taken: &slot.taken,
        };
        slot.exchange.render_hop(template, &line, &source);
        let server_closes = !slot.exchange.keeps_connection();
        slot.begin_hop(endpoint);
        if body {
            slot.take_body(plan);
        }
        let http2 = self.http2_at(g, endpoint);
        let slot = &mut self.groups[g].slots[s as usize];
        let to_head = method == "HEAD";
        match http2 {
            Some(_) => {
                let form = Form::Text { body };
                slot.exchange.begin_on_stream(form, to_head, step.keep);
            }
            None => slot.exchange.await_http1(to_head, step.keep),
        }
        if reusable && from == endpoint {
            if let Some(key) = key {
                return self.send(g, s, key);
            }
        }
        // Between origins a kept connection to the step's own endpoint stays; any other ends with its hop.
        slot.conn = None;
        let own = slot.own_endpoint;
        let stays = reusable && from == own && !plan.new_connections;
        slot.home = if stays {
            key
        } else {
            home.filter(|home| Some(*home) != key)
        };
        let back = slot.home.filter(|_| endpoint == own);
        slot.conn = back;
        if let Some(key) = key.filter(|_| !stays) {
            self.retire(key, server_closes);
        }
        match (back, http2) {
            (Some(key), _) => self.send(g, s, key),
            (None, Some(http2)) => self.hop_stream(g, s, http2),
            (None, None) => self.open(g, s),
        }
    }
}

/// Whether a hop by this method has its request's body.
fn carries_body(template: &Template, method: &str) -> bool {
    method == template.method() && method != "GET" && method != "HEAD"
}

/// Method and path of request bytes that we wrote ourselves.
fn request_line(bytes: &[u8]) -> (&str, &str) {
    let line = bytes
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or("GET /").split(' ');
    (words.next().unwrap_or("GET"), words.next().unwrap_or("/"))
}
