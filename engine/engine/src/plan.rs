//! A share made ready: names resolved to indexes, request bytes built. Threads share it and only read it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::body::Streamed;
use crate::check::{Answer, Check};
use crate::error::ErrorKind;
use crate::exchange::Recipe;
use crate::feeder::Feeder;
use crate::pieces::{Asker, Maker, Source};
use crate::redirect::Origin;
use crate::request::Template;
use crate::rng::{Draws, Stream};
use crate::scenario::{step_key, Course};
use crate::share::{
    BodySpec, CheckSpec, Client, Connection, Fault, GroupSpec, RequestSpec, Share, StepSpec,
};
use crate::table::Table;
use crate::take::Take;
use crate::target::{self, Address, Allowed};
use crate::tls::Tls;
use crate::turns::LoadTime;
use crate::wire::keep::{Algorithm, Keep};

/// Somewhere to connect to.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub origin: Origin,
    pub host_header: String,
    pub address: Address,
    pub tls: Option<Tls>,
}

/// One step of a group, ready to run.
#[derive(Clone, Debug)]
pub struct StepPlan {
    pub name: String,
    /// Where it goes; `None`: variables say it.
    pub endpoint: Option<usize>,
    /// How its requests are made, in whatever protocol.
    pub recipe: Recipe,
    pub timeout_ns: i64,
    pub takes: Vec<Take>,
    /// What its takes and checks need of the answer.
    pub keep: Keep,
    /// The written objects that it adds to or asks of.
    pub set: Option<SetUse>,
    expect_status: Vec<(u16, u16)>,
    checks: Vec<Check>,
    /// Place of its first check among all of the group.
    checks_from: usize,
    /// It asks for rows of the group's first feeder,
    uses_rows: bool,
    /// and is the first of its scenario that does.
    pub first_of_row: bool,
}

/// What a step has to do with a set of written objects.
#[derive(Clone, Copy, Debug)]
pub struct SetUse {
    /// Which of the group's sets.
    pub at: usize,
    /// The first of the three variables that its row is.
    pub variables: usize,
    pub draws: bool,
    /// A step of its scenario deletes the row: nobody else may have it.
    pub alone: bool,
    pub removes: bool,
    /// What it uploads becomes a row, with this digest.
    pub adds: Option<Algorithm>,
}

/// One group, ready to run.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    pub spec: GroupSpec,
    pub course: Arc<Course>,
    /// In which its executor and its course are asked and answered.
    pub load_time: LoadTime,
    pub steps: Vec<StepPlan>,
    pub feeders: Vec<Feeder>,
    /// Names of its sets of written objects,
    pub sets: Vec<String>,
    /// the rows that each has at first,
    pub first_rows: Vec<(String, Option<Table>)>,
    /// and what their rows are drawn by.
    pub row_draws: Draws,
    /// Names of the variables that answers give, by number.
    pub variables: Vec<String>,
    /// What they are at first.
    pub given: Vec<Vec<u8>>,
    pub open: bool,
    pub new_connections: bool,
    /// Free connections belong to the group, not to a user.
    pub shared_connections: bool,
    /// Connections leave from these in turn; empty: from where the kernel says.
    pub sources: Vec<IpAddr>,
    pub longest_timeout_ns: i64,
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
    /// For servers that only redirects lead to.
    pub redirect_tls: Option<Tls>,
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
            .map(|(at, group)| GroupPlan::new(share, group, &endpoints, inputs, at))
            .collect::<Result<_, Fault>>()?;
        let redirect_tls = share
            .redirect_tls
            .as_ref()
            .map(|tls| Tls::new(tls, "share.redirect_tls"))
            .transpose()?;
        Ok(Plan {
            seed: share.seed,
            threads: share.threads,
            interval_ns: share.interval_ns,
            spin_ns: share.spin_ns,
            window: share.window_ns,
            allowed,
            endpoints,
            groups,
            redirect_tls,
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

fn streamed(
    seed: u64,
    key: &str,
    request: &RequestSpec,
    open: bool,
    field: &str,
) -> Result<Option<Streamed>, Fault> {
    match &request.body {
        None | Some(BodySpec::Text(_)) => Ok(None),
        Some(BodySpec::Random(law)) => Ok(Some(Streamed::random(seed, key, *law, open))),
        Some(BodySpec::File(path)) => Streamed::file(path).map(Some).map_err(|error| {
            let field = format!("{field}.request.body.file");
            Fault::new(field, format!("{path}: {error}"))
        }),
    }
}

/// What a request has to do with a set, among the steps of its scenario.
fn set_use(
    group: &GroupSpec,
    request: &RequestSpec,
    steps: &[StepSpec],
    variables: &[String],
) -> Option<SetUse> {
    let name = request.set()?;
    let (at, _, set) = group.sets.get_full(name)?;
    let first = format!("{name}.path");
    let removes = |step: &StepSpec| step.request.removes && step.request.set() == Some(name);
    Some(SetUse {
        at,
        variables: variables.iter().position(|known| *known == first)?,
        draws: request.draws.is_some(),
        alone: steps.iter().any(removes),
        removes: request.removes,
        adds: request.adds.as_ref().map(|_| set.digest),
    })
}

impl GroupPlan {
    fn new(
        share: &Share,
        spec: &GroupSpec,
        endpoints: &[Endpoint],
        inputs: &IndexMap<String, Table>,
        at: usize,
    ) -> Result<Self, Fault> {
        let mut spec = spec.clone();
        spec.stop_offset_ns = spec.stop_ns();
        let (open, vus_total) = (spec.executor.is_open(), spec.executor.vus_total());
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
        let feeders = spec.feeders.iter().map(feeder).collect();
        let variables = spec.variables();
        let mut steps: Vec<StepPlan> = Vec::new();
        for scenario in &spec.scenarios {
            let mut rows_asked = false;
            for step in &scenario.steps {
                let key = step_key(&spec.name, steps.len());
                let request = &step.request;
                let field = format!("share.groups[{at}]");
                let body = streamed(share.seed, &key, request, open, &field)?;
                let endpoint = share.endpoints.get_index_of(&request.endpoint);
                let maker = Maker {
                    group: &spec,
                    inputs,
                    variables: &variables,
                    id_key: Draws::new(share.seed, &key, Stream::RequestId).bits(0, 0),
                    open,
                };
                let host = endpoint.map_or("", |at| endpoints[at].host_header.as_str());
                let recipe = Recipe::new(maker, request, host, body);
                let checks_from = steps
                    .last()
                    .map_or(0, |former| former.checks_from + former.checks.len());
                let mut ready = StepPlan::new(request, endpoint, recipe, maker, checks_from);
                ready.first_of_row = ready.uses_rows && !rows_asked;
                rows_asked |= ready.uses_rows;
                ready.set = set_use(&spec, request, &scenario.steps, &variables);
                ready.keep.location = spec.http2.is_some() && spec.follow_redirects > 0;
                steps.push(ready);
            }
        }
        let longest_timeout_ns = steps.iter().map(|step| step.timeout_ns).max();
        let row_draws = Draws::new(share.seed, &format!("{}/rows", spec.name), Stream::Feeder);
        Ok(GroupPlan {
            given: variables
                .iter()
                .map(|name| {
                    spec.given
                        .get(name)
                        .map_or(Vec::new(), |value| value.clone().into())
                })
                .collect(),
            sets: spec.sets.keys().cloned().collect(),
            first_rows: spec
                .sets
                .iter()
                .map(|(name, set)| {
                    let rows = set.table.as_ref().and_then(|table| inputs.get(table));
                    (name.clone(), rows.cloned())
                })
                .collect(),
            row_draws,
            load_time: LoadTime::new(
                share.turns_ns.as_deref().unwrap_or_default(),
                spec.stop_offset_ns,
            ),
            course: Arc::new(Course::new(share.seed, &spec, spec.stop_offset_ns)),
            steps,
            feeders,
            variables,
            open,
            new_connections: spec.connection == Connection::New,
            shared_connections: spec.connection == Connection::Shared,
            sources: sources(&spec, at)?,
            longest_timeout_ns: longest_timeout_ns.unwrap_or(0),
            spec,
        })
    }

    /// Whether a user takes up TLS sessions of its own; a curl process starts without any.
    pub fn resumes(&self) -> bool {
        self.spec.tls_resumption && !(self.new_connections && self.spec.client == Client::Curl)
    }

    /// A step by its number.
    #[inline]
    pub fn step(&self, step: u16) -> &StepPlan {
        &self.steps[usize::from(step)]
    }

    /// What an HTTP step's requests are made of; `None`: the step speaks another protocol.
    #[inline]
    pub fn template(&self, step: u16) -> Option<&Template> {
        self.step(step).recipe.http()
    }

    /// Row of the first feeder that a step takes, -1 where it takes none.
    pub fn row(&self, step: u16, asker: Asker) -> i64 {
        match self.feeders.first() {
            Some(feeder) if self.step(step).uses_rows => feeder.row(asker.vu, asker.seq) as i64,
            _ => -1,
        }
    }

    /// How many rows the first feeder has.
    pub fn rows(&self) -> usize {
        self.feeders
            .first()
            .map_or(0, |feeder| feeder.rows() as usize)
    }

    /// How the first feeder takes its rows.
    pub fn take(&self) -> Option<crate::share::Take> {
        self.feeders.first().map(Feeder::take)
    }

    /// The names of all checks, in the order in which they are counted; a scenario's begin with their step's.
    pub fn check_names(&self) -> Vec<String> {
        let of_step = |(step, plan): (&StepSpec, &StepPlan)| {
            let named = |check: &CheckSpec| {
                if self.course.is_plain() {
                    check.name().to_owned()
                } else {
                    format!("{}: {}", plan.name, check.name())
                }
            };
            step.request.checks.iter().map(named).collect::<Vec<_>>()
        };
        self.spec
            .steps()
            .zip(&self.steps)
            .flat_map(of_step)
            .collect()
    }

    /// From when on nothing new is due, in real time.
    pub fn stop_ns(&self) -> i64 {
        self.load_time.real_ns(self.spec.stop_offset_ns)
    }

    /// When the group's last request may end, in real time.
    pub fn end_ns(&self) -> i64 {
        self.stop_ns().saturating_add(self.spec.graceful_stop_ns)
    }
}

impl StepPlan {
    fn new(
        request: &RequestSpec,
        endpoint: Option<usize>,
        recipe: Recipe,
        maker: Maker<'_>,
        checks_from: usize,
    ) -> Self {
        let checks: Vec<Check> = request
            .checks
            .iter()
            .map(|check| Check::new(check, maker))
            .collect();
        // Checked shares hold no other takes.
        let takes: Vec<Take> = request
            .take
            .iter()
            .filter_map(|take| Take::new(take, maker.variables).ok())
            .collect();
        let keep = checks
            .iter()
            .map(Check::keep)
            .chain(takes.iter().map(Take::keep))
            .fold(Keep::default(), Keep::and);
        let first_feeder = maker.group.feeders.keys().next();
        StepPlan {
            name: request.name.clone(),
            endpoint,
            recipe,
            timeout_ns: request.timeout_ns,
            takes,
            keep,
            set: None,
            expect_status: request.expect_status.clone(),
            checks,
            checks_from,
            uses_rows: first_feeder.is_some_and(|name| request.uses(name)),
            first_of_row: false,
        }
    }

    /// Judges a complete answer; `failed` counts each failed check of the group.
    pub fn judge(&self, answer: &Answer<'_>, source: &Source<'_>, failed: &mut [u64]) -> ErrorKind {
        let mut passed = true;
        for (check, failed) in self.checks.iter().zip(&mut failed[self.checks_from..]) {
            if !check.passes(answer, source) {
                *failed += 1;
                passed = false;
            }
        }
        let expected = |(low, high): &(u16, u16)| (*low..=*high).contains(&answer.status);
        let http = self.recipe.http().is_some();
        if http && !self.expect_status.iter().any(expected) {
            ErrorKind::Status
        } else if answer.refusal != ErrorKind::None {
            answer.refusal
        } else if !passed {
            ErrorKind::Check
        } else {
            ErrorKind::None
        }
    }
}
