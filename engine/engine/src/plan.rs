//! A share made ready: names resolved to indexes, request bytes built. Threads share it and only read it.

use std::collections::HashMap;
use std::net::IpAddr;

use indexmap::IndexMap;

use crate::body::Streamed;
use crate::error::ErrorKind;
use crate::feeder::Feeder;
use crate::redirect::Origin;
use crate::request::{Asker, Template};
use crate::share::{BodySpec, CheckSpec, Connection, Fault, GroupSpec, Share, SizeSpec, Take};
use crate::table::Table;
use crate::target::{self, Address, Allowed};
use crate::tls::Tls;

/// Somewhere to connect to.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub origin: Origin,
    pub host_header: String,
    pub address: Address,
    pub tls: Option<Tls>,
}

#[derive(Clone, Debug)]
pub enum Check {
    Status(u16, u16),
    Size(u64),
    /// The size of the feeder's row.
    SizeOfRow {
        feeder: usize,
        sizes: Vec<u64>,
    },
}

/// One group, ready to run.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    pub spec: GroupSpec,
    pub endpoint: usize,
    pub template: Template,
    pub feeders: Vec<Feeder>,
    pub checks: Vec<Check>,
    pub open: bool,
    pub new_connections: bool,
    /// Free connections belong to the group, not to a user.
    pub shared_connections: bool,
    pub to_head_request: bool,
    /// Connections leave from these in turn; empty: from where the kernel says.
    pub sources: Vec<IpAddr>,
}

/// All a thread needs to know.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub threads: usize,
    pub interval_ns: i64,
    pub spin_ns: i64,
    pub window: (i64, i64),
    pub allowed: Allowed,
    pub endpoints: Vec<Endpoint>,
    pub groups: Vec<GroupPlan>,
    by_origin: HashMap<Origin, usize>,
}

impl Plan {
    /// Makes a checked share ready.
    pub fn new(share: &Share, inputs: &IndexMap<String, Table>) -> Result<Self, Fault> {
        let allowed = Allowed::parse(&share.allowed)
            .map_err(|text| Fault::new("share.allowed", format!("{text:?} is no CIDR block")))?;
        let endpoints = endpoints(share)?;
        let by_origin = (0..)
            .zip(&endpoints)
            .map(|(at, endpoint)| (endpoint.origin.clone(), at))
            .collect();
        let groups = (0..)
            .zip(&share.groups)
            .map(|(at, group)| {
                let body = streamed(share.seed, group, at)?;
                let sources = sources(group, at)?;
                Ok(GroupPlan::new(
                    share, group, &endpoints, inputs, body, sources,
                ))
            })
            .collect::<Result<_, Fault>>()?;
        Ok(Plan {
            seed: share.seed,
            threads: share.threads,
            interval_ns: share.interval_ns,
            spin_ns: share.spin_ns,
            window: share.window_ns,
            allowed,
            endpoints,
            groups,
            by_origin,
        })
    }

    /// The endpoint of an origin that the share names.
    pub fn endpoint_of(&self, origin: &Origin) -> Option<usize> {
        self.by_origin.get(origin).copied()
    }
}

fn endpoints(share: &Share) -> Result<Vec<Endpoint>, Fault> {
    let make = |(key, spec): (&String, &crate::share::EndpointSpec)| {
        let field = format!("share.endpoints.{key}");
        let origin = Origin::parse(key)
            .ok_or_else(|| Fault::new(&field, "is not scheme://host or scheme://host:port"))?;
        let address = Address::parse(&spec.address).ok_or_else(|| {
            Fault::new(
                format!("{field}.address"),
                "is neither ip:port nor unix:/path",
            )
        })?;
        if origin.https != spec.tls.is_some() {
            return Err(Fault::new(
                format!("{field}.tls"),
                "must be given for https, and for https only",
            ));
        }
        let tls = spec
            .tls
            .as_ref()
            .map(|tls| Tls::new(tls, &format!("{field}.tls")))
            .transpose()?;
        Ok(Endpoint {
            host_header: origin.host_header(),
            origin,
            address,
            tls,
        })
    };
    share.endpoints.iter().map(make).collect()
}

/// A group's own addresses, all of which this machine must have.
fn sources(group: &GroupSpec, at: usize) -> Result<Vec<IpAddr>, Fault> {
    let parse = |(number, text): (usize, &String)| -> Result<IpAddr, Fault> {
        let field = format!("share.groups[{at}].source_addresses[{number}]");
        let address = text
            .parse()
            .map_err(|_| Fault::new(&field, format!("{text:?} is no IP address")))?;
        target::check_source(address)
            .map_err(|_| Fault::new(&field, format!("{text} is no address of this machine")))?;
        Ok(address)
    };
    group
        .source_addresses
        .iter()
        .enumerate()
        .map(parse)
        .collect()
}

fn streamed(seed: u64, group: &GroupSpec, at: usize) -> Result<Option<Streamed>, Fault> {
    match &group.request.body {
        None | Some(BodySpec::Text(_)) => Ok(None),
        Some(BodySpec::Random(law)) => {
            let open = group.executor.is_open();
            Ok(Some(Streamed::random(seed, &group.name, *law, open)))
        }
        Some(BodySpec::File(path)) => Streamed::file(path).map(Some).map_err(|error| {
            let field = format!("share.groups[{at}].request.body.file");
            Fault::new(field, format!("{path}: {error}"))
        }),
    }
}

impl GroupPlan {
    fn new(
        share: &Share,
        spec: &GroupSpec,
        endpoints: &[Endpoint],
        inputs: &IndexMap<String, Table>,
        body: Option<Streamed>,
        sources: Vec<IpAddr>,
    ) -> Self {
        let mut spec = spec.clone();
        if let Some(length_ns) = spec.executor.stages_ns() {
            // Stages end their load themselves.
            let end_ns = spec.start_offset_ns.saturating_add(length_ns);
            spec.stop_offset_ns = spec.stop_offset_ns.min(end_ns);
        }
        let (open, vus_total) = (spec.executor.is_open(), spec.executor.vus_total());
        let endpoint = share
            .endpoints
            .get_index_of(&spec.request.endpoint)
            .unwrap_or(0);
        let feeder = |(name, feeder): (&String, &crate::share::FeederSpec)| {
            let rows = inputs
                .get(&feeder.table)
                .and_then(|table| table.values().next())
                .map_or(1, |column| column.len());
            Feeder::new(
                share.seed,
                &spec.name,
                name,
                feeder,
                rows as u64,
                vus_total,
                open,
            )
        };
        GroupPlan {
            endpoint,
            template: Template::new(
                share.seed,
                &spec,
                &endpoints[endpoint].host_header,
                inputs,
                body,
                open,
            ),
            feeders: spec.feeders.iter().map(feeder).collect(),
            checks: spec
                .request
                .checks
                .iter()
                .map(|check| Check::new(check, &spec, inputs))
                .collect(),
            open,
            new_connections: spec.connection == Connection::New,
            shared_connections: spec.connection == Connection::Shared,
            to_head_request: spec.request.method == "HEAD",
            sources,
            spec,
        }
    }

    /// Row of the first feeder that a request takes, -1 without feeders.
    pub fn row(&self, asker: Asker) -> i64 {
        self.feeders
            .first()
            .map_or(-1, |feeder| feeder.row(asker.vu, asker.seq) as i64)
    }

    /// How many rows the first feeder has.
    pub fn rows(&self) -> usize {
        self.feeders
            .first()
            .map_or(0, |feeder| feeder.rows() as usize)
    }

    /// How the first feeder takes its rows.
    pub fn take(&self) -> Option<Take> {
        self.feeders.first().map(Feeder::take)
    }

    fn expects(&self, status: u16) -> bool {
        self.spec
            .request
            .expect_status
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&status))
    }

    /// Judges a complete answer; `failed` counts each failed check.
    pub fn judge(
        &self,
        asker: Asker,
        status: u16,
        body_bytes: u64,
        failed: &mut [u64],
    ) -> ErrorKind {
        let mut passed = true;
        for (check, failed) in self.checks.iter().zip(failed) {
            if !check.passes(self, asker, status, body_bytes) {
                *failed += 1;
                passed = false;
            }
        }
        if !self.expects(status) {
            ErrorKind::Status
        } else if !passed {
            ErrorKind::Check
        } else {
            ErrorKind::None
        }
    }

    /// When the group's last request may end.
    pub fn end_ns(&self) -> i64 {
        self.spec.stop_offset_ns + self.spec.graceful_stop_ns
    }
}

impl Check {
    fn new(spec: &CheckSpec, group: &GroupSpec, inputs: &IndexMap<String, Table>) -> Self {
        match spec {
            CheckSpec::Status { status, .. } => Check::Status(status.0, status.1),
            CheckSpec::Size {
                size_bytes: SizeSpec::Bytes(bytes),
                ..
            } => Check::Size(*bytes),
            CheckSpec::Size {
                size_bytes: SizeSpec::Feeder { feeder, column },
                ..
            } => {
                let found = group.feeders.get_full(feeder);
                let values = found.and_then(|(_, _, spec)| inputs.get(&spec.table)?.get(column));
                let size = |row| values.and_then(|column| column.size(row)).unwrap_or(0);
                Check::SizeOfRow {
                    feeder: found.map_or(0, |(at, _, _)| at),
                    sizes: (0..values.map_or(0, |column| column.len()))
                        .map(size)
                        .collect(),
                }
            }
        }
    }

    fn passes(&self, plan: &GroupPlan, asker: Asker, status: u16, body_bytes: u64) -> bool {
        match self {
            Check::Status(low, high) => (*low..=*high).contains(&status),
            Check::Size(bytes) => body_bytes == *bytes,
            Check::SizeOfRow { feeder, sizes } => {
                sizes[plan.feeders[*feeder].row(asker.vu, asker.seq) as usize] == body_bytes
            }
        }
    }
}
