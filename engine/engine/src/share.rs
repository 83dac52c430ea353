//! The share: what one generator is asked to do (engine/README.md), and what makes one impossible.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::body::SizeLaw;
use crate::executor::{
    constant_arrival_rate, constant_vus, per_vu_iterations, ramping_arrival_rate, ramping_vus,
    shared_iterations,
};
use crate::table::{Column, Table};

/// Version of this contract.
pub const FORMAT: u32 = 1;
/// The longest that a thread may be told to spin.
const SPIN_MAX_NS: i64 = 10_000_000;
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
    /// While requests are in flight a thread asks for their answers so long before it sleeps; 0: it sleeps at once.
    #[serde(default)]
    pub spin_ns: i64,
    pub window_ns: (i64, i64),
    pub endpoints: IndexMap<String, EndpointSpec>,
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
    #[serde(default = "yes")]
    pub resumption: bool,
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
    pub executor: ExecutorSpec,
    #[serde(default)]
    pub feeders: IndexMap<String, FeederSpec>,
    pub request: RequestSpec,
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
    First,
    Walk,
    Random,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeederSpec {
    pub table: String,
    pub take: Take,
    pub vus_total: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    pub name: String,
    pub method: String,
    pub endpoint: String,
    pub path: Vec<Part>,
    #[serde(default)]
    pub headers: Vec<(String, Vec<Part>)>,
    pub body: Option<BodySpec>,
    /// The body waits for the server's 100 (a second at most, as curl does).
    #[serde(default)]
    pub expect_continue: bool,
    /// The body leaves in chunks, without saying its length before.
    #[serde(default)]
    pub chunked: bool,
    pub timeout_ns: i64,
    #[serde(default = "good_statuses")]
    pub expect_status: Vec<(u16, u16)>,
    #[serde(default)]
    pub checks: Vec<CheckSpec>,
}

fn good_statuses() -> Vec<(u16, u16)> {
    vec![(200, 399)]
}

/// What a request carries.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BodySpec {
    Text(Vec<Part>),
    /// Seeded bytes, streamed.
    Random(SizeLaw),
    /// A file's path, streamed.
    File(String),
}

/// A piece of a path, header value or text body.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Part {
    Text { text: String },
    Feeder { feeder: String, column: String },
    Var { var: Var },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Var {
    #[serde(rename = "request.id")]
    RequestId,
    #[serde(rename = "vu")]
    Vu,
    #[serde(rename = "iteration")]
    Iteration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum CheckSpec {
    Status { name: String, status: (u16, u16) },
    Size { name: String, size_bytes: SizeSpec },
}

impl CheckSpec {
    pub fn name(&self) -> &str {
        match self {
            CheckSpec::Status { name, .. } | CheckSpec::Size { name, .. } => name,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum SizeSpec {
    Bytes(u64),
    Feeder { feeder: String, column: String },
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
    let mut json = serde_json::Deserializer::from_str(text);
    let share: Share = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        Fault::new(format!("share.{}", error.path()), error.inner().to_string())
    })?;
    check(&share, inputs)?;
    Ok(share)
}

fn ensure(good: bool, field: impl FnOnce() -> String, problem: &str) -> Result<(), Fault> {
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
    for (at, group) in share.groups.iter().enumerate() {
        let place = format!("groups[{at}]");
        check_times(share, group, &place)?;
        check_executor(group, &place)?;
        check_request(share, group, inputs, &place)?;
    }
    Ok(())
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

fn check_request(
    share: &Share,
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
    }
    let request = &group.request;
    let field = |name: &'static str| move || format!("{place}.request.{name}");
    let known = share.endpoints.contains_key(&request.endpoint);
    ensure(
        known,
        field("endpoint"),
        &format!("no endpoint is called {:?}", request.endpoint),
    )?;
    ensure(
        request.timeout_ns > 0,
        field("timeout_ns"),
        "must be positive",
    )?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let method = !request.method.is_empty() && request.method.bytes().all(token);
    ensure(method, field("method"), "is no HTTP method")?;
    check_parts(
        group,
        inputs,
        &request.path,
        &format!("{place}.request.path"),
        |byte| byte > b' ' && byte != 127,
    )?;
    for (at, (name, value)) in request.headers.iter().enumerate() {
        let header = format!("{place}.request.headers[{at}]");
        ensure(
            !name.is_empty() && name.bytes().all(token),
            || header.clone(),
            "has a name that HTTP does not allow",
        )?;
        check_parts(group, inputs, value, &header, |byte| {
            (byte >= b' ' && byte != 127) || byte == b'\t'
        })?;
    }
    check_body(group, inputs, place)?;
    for (at, check) in request.checks.iter().enumerate() {
        if let CheckSpec::Size {
            size_bytes: SizeSpec::Feeder { feeder, column },
            ..
        } = check
        {
            let field = format!("{place}.request.checks[{at}].size_bytes");
            let column = find_column(group, inputs, feeder, column, &field)?;
            let sizes = (0..column.len()).all(|row| column.size(row).is_some());
            ensure(
                sizes,
                || field,
                "must name a column of whole numbers that are not negative",
            )?;
        }
    }
    Ok(())
}

fn check_body(
    group: &GroupSpec,
    inputs: &IndexMap<String, Table>,
    place: &str,
) -> Result<(), Fault> {
    let request = &group.request;
    let field = format!("{place}.request.body");
    let streamed = matches!(request.body, Some(BodySpec::Random(_) | BodySpec::File(_)));
    ensure(
        streamed || !request.expect_continue,
        || format!("{place}.request.expect_continue"),
        "needs a random or file body",
    )?;
    ensure(
        streamed || !request.chunked,
        || format!("{place}.request.chunked"),
        "needs a random or file body",
    )?;
    match &request.body {
        None => return Ok(()),
        Some(BodySpec::Text(parts)) => {
            check_parts(group, inputs, parts, &format!("{field}.text"), |_| true)?
        }
        Some(BodySpec::Random(law)) => ensure(
            law.is_sound(),
            || format!("{field}.random"),
            "must be bytes, uniform [low, high] or lognormal [median, p99], of at most 2^40 bytes",
        )?,
        Some(BodySpec::File(_)) => {}
    }
    let framed = |name: &str| {
        ["content-length", "transfer-encoding", "expect"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    let own = request.headers.iter().position(|(name, _)| framed(name));
    ensure(
        own.is_none(),
        || format!("{place}.request.headers[{}]", own.unwrap_or(0)),
        "follows from the body: leave it out",
    )
}

fn check_parts(
    group: &GroupSpec,
    inputs: &IndexMap<String, Table>,
    parts: &[Part],
    field: &str,
    allowed: impl Fn(u8) -> bool,
) -> Result<(), Fault> {
    let problem = "has a character that HTTP does not allow there";
    for (at, part) in parts.iter().enumerate() {
        let field = format!("{field}[{at}]");
        match part {
            Part::Text { text } => ensure(text.bytes().all(&allowed), || field, problem)?,
            Part::Feeder { feeder, column } => {
                if let Column::Utf8(values) = find_column(group, inputs, feeder, column, &field)? {
                    let bad = values.iter().position(|value| !value.bytes().all(&allowed));
                    ensure(
                        bad.is_none(),
                        || field,
                        &format!("row {} {problem}", bad.unwrap_or(0)),
                    )?;
                }
            }
            Part::Var { .. } => {}
        }
    }
    Ok(())
}

fn find_column<'a>(
    group: &GroupSpec,
    inputs: &'a IndexMap<String, Table>,
    feeder: &str,
    column: &str,
    field: &str,
) -> Result<&'a Column, Fault> {
    let table = group
        .feeders
        .get(feeder)
        .and_then(|feeder| inputs.get(&feeder.table));
    let table = table.ok_or_else(|| {
        Fault::new(
            format!("share.{field}"),
            format!("no feeder is called {feeder:?}"),
        )
    })?;
    table.get(column).ok_or_else(|| {
        let problem = format!("feeder {feeder:?} has no column {column:?}");
        Fault::new(format!("share.{field}"), problem)
    })
}

#[cfg(test)]
#[path = "share_tests.rs"]
pub(crate) mod testing;

#[cfg(test)]
#[path = "share_properties.rs"]
mod properties;
