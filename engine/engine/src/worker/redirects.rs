//! Redirect hops: children of their request, each with its own check of where it may go.

use std::net::{IpAddr, SocketAddr};

use super::Worker;
use crate::error::ErrorKind;
use crate::plan::Endpoint;
use crate::redirect::{next_method, resolve, Origin};
use crate::request::HopLine;
use crate::target::Address;

/// Addresses that redirects may add to a share's endpoints.
const LITERALS_MAX: usize = 1_000;

impl Worker<'_> {
    /// Follows a complete redirect answer, or fails the request for what it asks.
    pub(super) fn redirect(&mut self, g: usize, s: u32) {
        let group = &self.groups[g];
        let slot = &group.slots[s as usize];
        if slot.sample.redirects >= group.plan.spec.follow_redirects {
            return self.finish(g, s, ErrorKind::TooManyRedirects);
        }
        let bytes = match group.plan.template.fixed() {
            Some(fixed) if slot.out_is_fixed => fixed,
            _ => slot.out.as_slice(),
        };
        let (method, path) = request_line(bytes);
        let method = next_method(slot.decoder.status(), method).to_owned();
        let (from, location) = (slot.hop.endpoint, slot.decoder.location());
        let base_https = self.endpoints[from].origin.https;
        let hop = Some(location)
            .filter(|location| !location.is_empty())
            .and_then(|location| resolve(location, base_https, path));
        let Some(hop) = hop else {
            return self.finish(g, s, ErrorKind::BadRedirect);
        };
        let endpoint = match &hop.origin {
            None => Some(from),
            Some(origin) => self.find_endpoint(origin),
        };
        let Some(endpoint) = endpoint else {
            self.note_unauthorised(hop.origin.as_ref().map(Origin::full).unwrap_or_default());
            return self.finish(g, s, ErrorKind::UnauthorisedTarget);
        };
        if !self.plan.allowed.permits(&self.endpoints[endpoint].address) {
            let target = self.endpoints[endpoint].origin.full();
            self.note_unauthorised(target);
            return self.finish(g, s, ErrorKind::UnauthorisedTarget);
        }
        self.hop(g, s, endpoint, &method, &hop.path);
    }

    /// The endpoint of an origin: one that the share names, or a literal address (plain HTTP) inside the allowed networks.
    fn find_endpoint(&mut self, origin: &Origin) -> Option<usize> {
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
        let ip: IpAddr = origin.host.trim_matches(['[', ']']).parse().ok()?;
        if origin.https || !self.plan.allowed.permits_ip(ip) || self.endpoints.len() >= LITERALS_MAX
        {
            return None;
        }
        self.endpoints.push(Endpoint {
            host_header: origin.host_header(),
            origin: origin.clone(),
            address: Address::Inet(SocketAddr::new(ip, origin.port)),
            tls: None,
        });
        Some(self.endpoints.len() - 1)
    }

    fn hop(&mut self, g: usize, s: u32, endpoint: usize, method: &str, path: &str) {
        let key = self.groups[g].slots[s as usize].conn;
        let reusable = key.is_some_and(|key| self.reusable(g, s, key));
        let now_ns = self.now_ns;
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let (from, home, plan) = (slot.hop.endpoint, slot.home, group.plan);
        group.record.hop_status[usize::from(slot.decoder.status())] += 1;
        slot.sample.redirects += 1;
        slot.sample.redirect_ns = now_ns - slot.sample.begun_ns;
        slot.sample.header_bytes += slot.decoder.header_bytes() as u32;
        let body = method == plan.template.method() && method != "GET" && method != "HEAD";
        let line = HopLine {
            method,
            path,
            host: &self.endpoints[endpoint].host_header,
            foreign: endpoint != plan.endpoint,
            body,
        };
        plan.template
            .render_hop(&line, &plan.feeders, slot.asker, &mut slot.out);
        slot.out_is_fixed = false;
        let server_closes = !slot.decoder.keep_alive();
        slot.begin_hop(endpoint, method == "HEAD");
        if body {
            slot.take_body(plan);
        }
        if reusable && from == endpoint {
            if let Some(key) = key {
                return self.send(g, s, key);
            }
        }
        // Between origins a kept connection to the group's own endpoint stays; any other ends with its hop.
        slot.conn = None;
        let stays = reusable && from == plan.endpoint && !plan.new_connections;
        slot.home = if stays {
            key
        } else {
            home.filter(|home| Some(*home) != key)
        };
        let back = slot.home.filter(|_| endpoint == plan.endpoint);
        slot.conn = back;
        if let Some(key) = key.filter(|_| !stays) {
            self.retire(key, server_closes);
        }
        match back {
            Some(key) => self.send(g, s, key),
            None => self.open(g, s),
        }
    }
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
