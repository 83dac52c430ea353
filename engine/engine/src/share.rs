//! The share: what one generator is asked to do (engine/docs/share.md), and what makes one impossible.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::executor::{
    constant_arrival_rate, constant_vus, per_vu_iterations, ramping_arrival_rate, ramping_vus,
    shared_iterations,
};
use crate::feeder::Supply;
use crate::http2_spec::Http2Spec;
use crate::pace::ThinkTime;
use crate::request_check;
use crate::table::{Column, Table};
use crate::wire::keep::Algorithm;

pub use crate::request_spec::*;

/// Version of this contract.
pub const FORMAT: u32 = 1;
/// The longest that a thread may be told to spin.
const SPIN_MAX_NS: i64 = 10_000_000;
/// The widest grid of starts.
const QUANTUM_MAX_NS: i64 = 1_000_000_000;
const INTERVALS_MAX: i64 = 1_000_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    pub format: u32,
    pub id: String,
    pub seed: u64,
    pub start_at_ns: i64,
    #[serde(default = "no_fd")]
    pub stop_fd: i32,
    #[serde(default = "one_thread")]
    pub threads: usize,
    #[serde(default)]
    pub cpus: Vec<usize>,
    pub interval_ns: i64,
    /// A thread asks for awaited answers so long before it sleeps, and spins so long before each start; 0: it sleeps at once, and spins
    /// for starts only where that costs next to nothing.
    #[serde(default)]
    pub spin_ns: i64,
    pub window_ns: (i64, i64),
    /// The load runs only in these stretches [begin, end) of real time. None: it runs all the time.
    #[serde(default)]
    pub turns_ns: Option<Vec<(i64, i64)>>,
    pub endpoints: IndexMap<String, EndpointSpec>,
    /// How servers are verified that only redirects over TLS lead to; none: there is no way to them but from TLS.
    #[serde(default)]
    pub redirect_tls: Option<TlsSpec>,
    pub allowed: Vec<String>,
    pub groups: Vec<GroupSpec>,
}

fn no_fd() -> i32 {
    -1
}

fn one_thread() -> usize {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSpec {
    /// `ip:port`, or `unix:` and an absolute path.
    pub address: String,
    pub tls: Option<TlsSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    pub server_name: String,
    pub ca_pem: Option<String>,
    #[serde(default = "yes")]
    pub verify: bool,
    #[serde(default)]
    pub min: TlsVersion,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    #[default]
    #[serde(rename = "1.2")]
    V12,
    #[serde(rename = "1.3")]
    V13,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    Engine,
    Curl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    KeepAlive,
    New,
    /// Users take any connection that is free (closed executors; an open loop's places do so anyway).
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    Rows,
    Histogram,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    pub name: String,
    pub client: Client,
    pub connection: Connection,
    pub record: Record,
    #[serde(default)]
    pub start_offset_ns: i64,
    pub stop_offset_ns: i64,
    #[serde(default)]
    pub graceful_stop_ns: i64,
    #[serde(default)]
    pub follow_redirects: u16,
    /// Addresses of this machine that connections leave from, in turn.
    #[serde(default)]
    pub source_addresses: Vec<String>,
    /// Users may take up TLS sessions that they had before.
    #[serde(default = "yes")]
    pub tls_resumption: bool,
    /// Connections end with RST in place of FIN, so that no local port rests in TIME_WAIT.
    #[serde(default)]
    pub close_by_reset: bool,
    /// A new connection that does not stand within this, its TLS handshake included, is given up: its request fails with `connect_timeout` or
    /// `tls_timeout`, over HTTP/2 all requests that wait for it. None: it has as long as its request.
    pub connect_timeout_ns: Option<i64>,
    /// Starts that wait for their time are made only at multiples of this; 0: at once when due.
    #[serde(default)]
    pub pacing_quantum_ns: i64,
    /// HTTP/2 in place of HTTP/1.1.
    pub http2: Option<Http2Spec>,
    pub executor: ExecutorSpec,
    #[serde(default)]
    pub feeders: IndexMap<String, FeederSpec>,
    /// Written objects that requests add to, read from and take from.
    #[serde(default)]
    pub sets: IndexMap<String, SetSpec>,
    /// What an iteration does: this one request, or
    pub request: Option<RequestSpec>,
    /// the steps of one of these. Once a share is read, a request alone stands here too.
    #[serde(default)]
    pub scenarios: Vec<ScenarioSpec>,
    /// What variables are before an answer gave them.
    #[serde(default)]
    pub given: IndexMap<String, String>,
    /// The summary tells the variables that each VU took.
    #[serde(default)]
    pub report_taken: bool,
    /// Set once the tables are known.
    #[serde(skip)]
    pub supply: Supply,
}

/// What a row of a set gives as variables: `written.path`.
pub const SET_COLUMNS: [&str; 3] = ["path", "size_bytes", "digest"];

impl GroupSpec {
    /// Puts a request alone in its place among the scenarios.
    fn settle(&mut self) {
        self.scenarios
            .extend(self.request.take().map(|request| ScenarioSpec {
                weight: 1,
                renew_ns: None,
                steps: vec![StepSpec {
                    request,
                    think_time: ThinkTime::default(),
                }],
            }));
    }

    /// All steps of all scenarios in order.
    pub fn steps(&self) -> impl Iterator<Item = &StepSpec> {
        self.scenarios
            .iter()
            .flat_map(|scenario| scenario.steps.iter())
    }

    /// From when on nothing new is due: stages end their load themselves.
    pub fn stop_ns(&self) -> i64 {
        let stages_ns = self.executor.stages_ns().unwrap_or(i64::MAX);
        let end_ns = self.start_offset_ns.saturating_add(stages_ns);
        self.stop_offset_ns.min(end_ns)
    }

    /// The most requests a second that all shares plan; `None` where only the server bounds it.
    pub fn most_rps(&self) -> Option<f64> {
        let steps = self.scenarios.iter().map(|scenario| scenario.steps.len());
        let longest = steps.max().unwrap_or(1);
        self.executor.most_rps().map(|rps| rps * longest as f64)
    }

    /// Every variable that an answer may give, each once.
    pub fn variables(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.steps().flat_map(|step| step.request.variables()) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        for set in self.sets.keys() {
            names.extend(SET_COLUMNS.map(|column| format!("{set}.{column}")));
        }
        names
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExecutorSpec {
    ConstantVus(constant_vus::Options),
    RampingVus(ramping_vus::Options),
    SharedIterations(shared_iterations::Options),
    PerVuIterations(per_vu_iterations::Options),
    ConstantArrivalRate(constant_arrival_rate::Options),
    RampingArrivalRate(ramping_arrival_rate::Options),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// Row 0 always.
    First,
    /// Every VU walks the whole table from an offset of its own.
    Walk,
    /// Rows are dealt to VUs like cards.
    Sequential,
    /// Every VU walks a part of the table that is its own.
    Unique,
    Random,
    /// Any, the first rows more often: Zipf's law.
    Zipf,
    /// Any, most often of the first rows.
    Hot,
    /// The row of the VU's number.
    Vu,
}

/// After the last row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenExhausted {
    #[default]
    Repeat,
    Stop,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeederSpec {
    pub table: String,
    pub take: Take,
    pub vus_total: Option<u64>,
    /// A walk of VU g begins at row g · offset; without it at ⌊rows · g / vus_total⌋.
    pub offset: Option<u64>,
    /// Of zipf: the exponent.
    pub skew: Option<f64>,
    /// Of hot: the share of the rows that is hot, and the share of the requests that ask for these.
    pub hot: Option<(f64, f64)>,
    #[serde(default)]
    pub when_exhausted: WhenExhausted,
}

/// A set of written objects. Groups that name the same one on a thread share it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Rows that are there at first: columns path, size_bytes, digest.
    pub table: Option<String>,
    pub digest: Algorithm,
}

/// A field of a share and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub field: String,
    pub problem: String,
}

impl Fault {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Fault {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Reads a share and checks it against its tables.
pub fn parse(text: &str, inputs: &IndexMap<String, Table>) -> Result<Share, Fault> {
    let mut share = read(text)?;
    check(&share, inputs)?;
    for group in &mut share.groups {
        group.supply = Supply::of(group, inputs);
    }
    Ok(share)
}

/// Reads a share that is not checked.
pub fn read(text: &str) -> Result<Share, Fault> {
    let mut json = serde_json::Deserializer::from_str(text);
    let mut share: Share = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        Fault::new(format!("share.{}", error.path()), error.inner().to_string())
    })?;
    for (at, group) in share.groups.iter_mut().enumerate() {
        let one = group.request.is_some() == group.scenarios.is_empty();
        ensure(
            one,
            || format!("groups[{at}].request"),
            "must be given, or scenarios in its place",
        )?;
        group.settle();
    }
    Ok(share)
}

pub(crate) fn ensure(
    good: bool,
    field: impl FnOnce() -> String,
    problem: &str,
) -> Result<(), Fault> {
    if good {
        Ok(())
    } else {
        Err(Fault::new(format!("share.{}", field()), problem))
    }
}

fn check(share: &Share, inputs: &IndexMap<String, Table>) -> Result<(), Fault> {
    let field = |name: &'static str| move || name.to_owned();
    ensure(
        share.format == FORMAT,
        field("format"),
        "this engine runs format 1",
    )?;
    ensure(
        (1..=256).contains(&share.threads),
        field("threads"),
        "must be 1 to 256",
    )?;
    ensure(
        share.interval_ns > 0,
        field("interval_ns"),
        "must be positive",
    )?;
    ensure(
        (0..=SPIN_MAX_NS).contains(&share.spin_ns),
        field("spin_ns"),
        "must be 0 to 10 ms",
    )?;
    let (from, to) = share.window_ns;
    ensure(
        0 <= from && from < to,
        field("window_ns"),
        "must be [from, to) with 0 <= from < to",
    )?;
    ensure(
        !share.groups.is_empty(),
        field("groups"),
        "is empty: nothing to do",
    )?;
    ensure(
        share.groups.len() < 1_000,
        field("groups"),
        "has more than 999 entries",
    )?;
    check_turns(share)?;
    for (at, group) in share.groups.iter().enumerate() {
        let place = format!("groups[{at}]");
        check_times(share, group, &place)?;
        check_executor(group, &place)?;
        check_http2(group, &place)?;
        check_feeders(group, inputs, &place)?;
        request_check::check(share, group, inputs, &place)?;
    }
    Ok(())
}

fn check_turns(share: &Share) -> Result<(), Fault> {
    let Some(turns_ns) = &share.turns_ns else {
        return Ok(());
    };
    let (mut last_ns, mut load_ns) = (0, 0);
    for (at, &(begin_ns, end_ns)) in turns_ns.iter().enumerate() {
        let place = || format!("turns_ns[{at}]");
        let in_order = last_ns <= begin_ns && begin_ns < end_ns;
        ensure(
            in_order,
            place,
            "must be [begin, end) with begin < end, from the end of the one before (or 0) on",
        )?;
        ensure(
            (end_ns - begin_ns) % share.interval_ns == 0,
            place,
            "must be as long as one or more whole intervals",
        )?;
        last_ns = end_ns;
        load_ns += end_ns - begin_ns;
    }
    let stop_ns = share.groups.iter().map(GroupSpec::stop_ns).max();
    ensure(
        stop_ns.unwrap_or(0) <= load_ns,
        || "turns_ns".to_owned(),
        "must together be as long as the load: up to the last stop_offset_ns",
    )
}

fn check_times(share: &Share, group: &GroupSpec, place: &str) -> Result<(), Fault> {
    ensure(
        group.start_offset_ns >= 0,
        || format!("{place}.start_offset_ns"),
        "must not be negative",
    )?;
    let after = group.stop_offset_ns > group.start_offset_ns;
    ensure(
        after,
        || format!("{place}.stop_offset_ns"),
        "must be later than start_offset_ns",
    )?;
    ensure(
        (0..=QUANTUM_MAX_NS).contains(&group.pacing_quantum_ns),
        || format!("{place}.pacing_quantum_ns"),
        "must be 0 to 1 s",
    )?;
    ensure(
        group.connect_timeout_ns.is_none_or(|most_ns| most_ns > 0),
        || format!("{place}.connect_timeout_ns"),
        "must be positive",
    )?;
    ensure(
        group.graceful_stop_ns >= 0,
        || format!("{place}.graceful_stop_ns"),
        "must not be negative",
    )?;
    let end_ns = group
        .stop_offset_ns
        .checked_add(group.graceful_stop_ns)
        .unwrap_or(i64::MAX);
    let bounded = end_ns / share.interval_ns < INTERVALS_MAX;
    ensure(
        bounded,
        || format!("{place}.stop_offset_ns"),
        "needs more than 1,000,000 intervals: take a larger interval_ns",
    )
}

fn check_executor(group: &GroupSpec, place: &str) -> Result<(), Fault> {
    let (field, problem) = group.executor.flaw().unwrap_or_default();
    ensure(
        problem.is_empty(),
        || format!("{place}.executor.{field}"),
        problem,
    )?;
    ensure(
        group.connection != Connection::Shared || !group.executor.is_open(),
        || format!("{place}.connection"),
        "shared belongs to closed executors: an open loop's connections are shared anyway",
    )
}

fn check_http2(group: &GroupSpec, place: &str) -> Result<(), Fault> {
    match group.http2.and_then(|http2| http2.flaw(group)) {
        Some((field, problem)) => Err(Fault::new(format!("share.{place}.{field}"), problem)),
        None => Ok(()),
    }
}

fn check_feeders(
    group: &GroupSpec,
    inputs: &IndexMap<String, Table>,
    place: &str,
) -> Result<(), Fault> {
    for (name, feeder) in &group.feeders {
        let field = || format!("{place}.feeders.{name}.table");
        let table = inputs.get(&feeder.table);
        ensure(
            table.is_some(),
            field,
            &format!("no input table is called {:?}", feeder.table),
        )?;
        let rows: Vec<usize> = table
            .map(|table| table.values().map(Column::len).collect())
            .unwrap_or_default();
        ensure(
            rows.iter().all(|n| *n > 0 && *n == rows[0]) && !rows.is_empty(),
            field,
            "has no rows, or columns of unequal length",
        )?;
        let skew = feeder.skew.unwrap_or(1.0);
        ensure(
            skew > 0.0 && skew <= 10.0,
            || format!("{place}.feeders.{name}.skew"),
            "must be above 0, and at most 10",
        )?;
        let (hot, asks) = feeder.hot.unwrap_or((0.5, 0.5));
        let inside = |share: f64| share > 0.0 && share < 1.0;
        ensure(
            inside(hot) && inside(asks),
            || format!("{place}.feeders.{name}.hot"),
            "must be two shares between 0 and 1",
        )?;
        let vus_total = feeder.vus_total.unwrap_or(group.executor.vus_total());
        let enough = rows[0] as u64 >= vus_total || group.executor.is_open();
        ensure(
            feeder.take != Take::Unique || enough,
            || format!("{place}.feeders.{name}.take"),
            "unique needs at least one row a VU",
        )?;
        ensure(
            feeder.take != Take::Vu || !group.executor.is_open(),
            || format!("{place}.feeders.{name}.take"),
            "vu needs a closed executor",
        )?;
    }
    for (name, set) in &group.sets {
        let known = set
            .table
            .as_ref()
            .is_none_or(|table| inputs.contains_key(table));
        ensure(
            known,
            || format!("{place}.sets.{name}.table"),
            "is no input table",
        )?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "share_tests.rs"]
pub(crate) mod testing;

#[cfg(test)]
#[path = "share_properties.rs"]
mod properties;
