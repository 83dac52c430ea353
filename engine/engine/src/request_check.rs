//! What makes a request of a share impossible.

use indexmap::IndexMap;

use crate::check::Check;
use crate::encoding::{is_json, of_body, Place};
use crate::exchange::Spoken;
use crate::http2_spec::Http2Spec;
use crate::share::{
    ensure, BodySpec, CheckSpec, Client, Fault, GroupSpec, Part, RequestSpec, Share, SizeSpec,
    StepSpec, TakeSpec, TextTest, Var,
};
use crate::table::{Column, Table};
use crate::take::Take;

/// The most steps of all scenarios of a group.
const STEPS_MAX: usize = 1_000;

/// Checks all steps of a group that stands at `place`.
pub fn check(
    share: &Share,
    group: &GroupSpec,
    inputs: &IndexMap<String, Table>,
    place: &str,
) -> Result<(), Fault> {
    let variables = group.variables();
    let alone = group.scenarios.len() == 1 && group.scenarios[0].steps.len() == 1;
    let few = group.steps().count() <= STEPS_MAX;
    ensure(
        few,
        || format!("{place}.scenarios"),
        "have more than 1,000 steps",
    )?;
    for (number, scenario) in group.scenarios.iter().enumerate() {
        let scenario_place = format!("{place}.scenarios[{number}]");
        let renews = scenario.renew_ns.is_some();
        let apart = number > 0 && number + 1 == group.scenarios.len() && scenario.steps.len() == 1;
        ensure(
            !renews || (apart && scenario.weight == 0 && scenario.renew_ns > Some(0)),
            || format!("{scenario_place}.renew_ns"),
            "must be positive, of the last scenario, which has one step and weight 0",
        )?;
        ensure(
            (1..=1 << 32).contains(&scenario.weight) || (scenario.weight == 0 && renews),
            || format!("{scenario_place}.weight"),
            "must be 1 to 2^32",
        )?;
        ensure(
            !scenario.steps.is_empty(),
            || format!("{scenario_place}.steps"),
            "is empty: nothing to do",
        )?;
        for (at, step) in scenario.steps.iter().enumerate() {
            let field = if alone {
                format!("{place}.request")
            } else {
                format!("{scenario_place}.steps[{at}].request")
            };
            let checker = Checker {
                share,
                group,
                inputs,
                variables: &variables,
                field,
            };
            checker.step(step)?;
        }
    }
    Ok(())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn in_path(byte: u8) -> bool {
    byte > b' ' && byte != 127
}

fn in_header(byte: u8) -> bool {
    (byte >= b' ' && byte != 127) || byte == b'\t'
}

/// How much of a value is shown.
const SHOWN: usize = 40;
const NOT_ALLOWED: &str = "has a character that HTTP does not allow there";

/// The first field of a request of another protocol that HTTP alone has, or a second protocol.
fn of_http(request: &RequestSpec) -> Option<String> {
    let status_or_header =
        |check: &CheckSpec| matches!(check, CheckSpec::Status { .. } | CheckSpec::Header { .. });
    let check = request.checks.iter().position(status_or_header);
    let header = |take: &TakeSpec| matches!(take, TakeSpec::Header { .. });
    let take = request.take.iter().position(header);
    let fields = [
        ("method", !request.method.is_empty()),
        ("path", !request.path.is_empty()),
        ("url", request.url.is_some()),
        ("headers", !request.headers.is_empty()),
        ("body", request.body.is_some()),
        ("expect_continue", request.expect_continue),
        ("chunked", request.chunked),
    ];
    let given = fields.into_iter().find(|(_, given)| *given);
    let given = given.map(|(field, _)| field);
    let second = request.protocols().nth(1).map(|(field, _)| field);
    given
        .or(second)
        .map(str::to_owned)
        .or_else(|| check.map(|at| format!("checks[{at}]")))
        .or_else(|| take.map(|at| format!("take[{at}]")))
}

/// One request and where it stands.
struct Checker<'a> {
    share: &'a Share,
    group: &'a GroupSpec,
    inputs: &'a IndexMap<String, Table>,
    variables: &'a [String],
    field: String,
}

impl Checker<'_> {
    fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.field)
    }

    fn step(&self, step: &StepSpec) -> Result<(), Fault> {
        let request = &step.request;
        self.target(request)?;
        let flaw = |http2: Http2Spec| http2.flaw_of(request);
        let (field, problem) = self.group.http2.and_then(flaw).unwrap_or_default();
        ensure(problem.is_empty(), || self.at(&field), problem)?;
        ensure(
            request.timeout_ns > 0,
            || self.at("timeout_ns"),
            "must be positive",
        )?;
        ensure(
            step.think_time.is_sound(),
            || self.at("think_time"),
            "must not be negative, uniform_ns is [low, high], lognormal_ns [median, p99]",
        )?;
        self.answer(request)?;
        self.set(request)?;
        if let Some((field, spoken)) = request.spoken() {
            return self.spoken(request, field, spoken);
        }
        let method = !request.method.is_empty() && request.method.bytes().all(is_token);
        ensure(method, || self.at("method"), "is no HTTP method")?;
        for (at, (name, value)) in request.headers.iter().enumerate() {
            let header = self.at(&format!("headers[{at}]"));
            ensure(
                !name.is_empty() && name.bytes().all(is_token),
                || header.clone(),
                "has a name that HTTP does not allow",
            )?;
            self.parts(value, &header, in_header)?;
        }
        self.body(request)
    }

    /// What it adds to a set, or asks of one.
    fn set(&self, request: &RequestSpec) -> Result<(), Fault> {
        for (field, set) in [("adds", &request.adds), ("draws", &request.draws)] {
            let known = set
                .as_ref()
                .is_none_or(|set| self.group.sets.contains_key(set));
            ensure(known, || self.at(field), "is no set of the group")?;
        }
        ensure(
            request.adds.is_none() || request.draws.is_none(),
            || self.at("draws"),
            "does not go with adds",
        )?;
        ensure(
            !request.removes || request.draws.is_some(),
            || self.at("removes"),
            "needs draws",
        )?;
        let plain = request.body.is_some()
            && !request.chunked
            && self.group.http2.is_none()
            && self.group.follow_redirects == 0;
        ensure(
            request.adds.is_none() || plain,
            || self.at("adds"),
            "needs a body whose length is said, over HTTP/1.1, without redirects",
        )
    }

    /// What is checked of the answer and taken from it.
    fn answer(&self, request: &RequestSpec) -> Result<(), Fault> {
        for (at, check) in request.checks.iter().enumerate() {
            self.check(check, &self.at(&format!("checks[{at}]")))?;
        }
        for (at, take) in request.take.iter().enumerate() {
            let told = Take::new(take, self.variables).err().unwrap_or_default();
            ensure(
                told.is_empty(),
                || self.at(&format!("take[{at}]")),
                &format!("{:?} {told}", take.name()),
            )?;
        }
        Ok(())
    }

    fn target(&self, request: &RequestSpec) -> Result<(), Fault> {
        let Some(url) = &request.url else {
            let known = self.share.endpoints.contains_key(&request.endpoint);
            ensure(
                known,
                || self.at("endpoint"),
                &format!("no endpoint is called {:?}", request.endpoint),
            )?;
            return self.path(&request.path, &self.at("path"));
        };
        let alone = request.endpoint.is_empty() && request.path.is_empty();
        ensure(
            alone,
            || self.at("url"),
            "stands in place of endpoint and path",
        )?;
        self.path(url, &self.at("url"))
    }

    /// Values are percent-encoded where they need it; what the study itself writes must be a path.
    fn path(&self, parts: &[Part], field: &str) -> Result<(), Fault> {
        self.parts(parts, field, |_| true)?;
        let bad = parts
            .iter()
            .position(|part| part.typed().is_some_and(|text| !text.bytes().all(in_path)));
        ensure(
            bad.is_none(),
            || format!("{field}[{}]", bad.unwrap_or(0)),
            NOT_ALLOWED,
        )
    }

    fn check(&self, check: &CheckSpec, field: &str) -> Result<(), Fault> {
        match check {
            CheckSpec::Size {
                size_bytes: SizeSpec::Feeder { feeder, column },
                ..
            } => {
                let field = format!("{field}.size_bytes");
                let column = self.column(feeder, column, &field)?;
                let sizes = (0..column.len()).all(|row| column.size(row).is_some());
                ensure(
                    sizes,
                    || field,
                    "must name a column of whole numbers that are not negative",
                )
            }
            CheckSpec::Size {
                size_bytes: SizeSpec::Taken { taken },
                ..
            } => ensure(
                self.variables.contains(taken),
                || format!("{field}.size_bytes"),
                &format!("no answer gives the variable {taken:?}"),
            ),
            CheckSpec::Header { test, .. } | CheckSpec::Body { body: test, .. } => {
                match test {
                    TextTest::Equals(parts) | TextTest::Contains(parts) => {
                        self.parts(parts, field, |_| true)?
                    }
                    TextTest::Present | TextTest::Matches(_) => {}
                }
                let told = Check::flaw(test).unwrap_or_default();
                ensure(told.is_empty(), || field.to_owned(), &told)
            }
            CheckSpec::Digest { equals, .. } => {
                self.parts(equals, &format!("{field}.equals"), |_| true)
            }
            CheckSpec::Status { .. } | CheckSpec::Size { .. } => Ok(()),
        }
    }

    /// A request of a protocol besides HTTP, which stands in this field.
    fn spoken(&self, request: &RequestSpec, field: &str, spoken: &dyn Spoken) -> Result<(), Fault> {
        let of_http = of_http(request);
        ensure(
            of_http.is_none(),
            || self.at(&of_http.clone().unwrap_or_default()),
            &format!("does not go with {field}"),
        )?;
        let (place, problem) = spoken.flaw().unwrap_or_default();
        let place = format!("{field}{place}");
        ensure(problem.is_empty(), || self.at(&place), &problem)?;
        ensure(
            self.group.client != Client::Curl,
            || self.at(field),
            "curl speaks HTTP alone",
        )?;
        for (place, parts) in spoken.parts() {
            self.parts(parts, &self.at(&format!("{field}{place}")), |_| true)?;
        }
        Ok(())
    }

    fn body(&self, request: &RequestSpec) -> Result<(), Fault> {
        let field = self.at("body");
        let streamed = matches!(request.body, Some(BodySpec::Random(_) | BodySpec::File(_)));
        ensure(
            streamed || !request.expect_continue,
            || self.at("expect_continue"),
            "needs a random or file body",
        )?;
        ensure(
            streamed || !request.chunked,
            || self.at("chunked"),
            "needs a random or file body",
        )?;
        match &request.body {
            None => return Ok(()),
            Some(BodySpec::Text(parts)) => {
                self.parts(parts, &format!("{field}.text"), |_| true)?;
                self.json(request, parts, &format!("{field}.text"))?;
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
            || self.at(&format!("headers[{}]", own.unwrap_or(0))),
            "follows from the body: leave it out",
        )
    }

    /// What stands in a JSON body outside quotes must be a JSON value; what answers give is checked when it is known.
    fn json(&self, request: &RequestSpec, parts: &[Part], field: &str) -> Result<(), Fault> {
        let placed = parts.iter().zip(of_body(request, parts)).enumerate();
        for (at, (part, place)) in placed {
            let field = format!("{field}[{at}]");
            match part {
                _ if part.placed(place) != Place::JsonValue => {}
                Part::Var {
                    var: Var::RequestId,
                    ..
                } => ensure(false, || field, "is not a JSON value: put it in quotes")?,
                Part::Feeder { feeder, column, .. } => {
                    if let Column::Utf8(values) = self.column(feeder, column, &field)? {
                        let bad = values.iter().position(|value| !is_json(value.as_bytes()));
                        let value = bad.map_or("", |row| &values[row]);
                        let shown: String = value.chars().take(SHOWN).collect();
                        let told = format!(
                            "row {} ({shown:?}) of {feeder}.{column} is not a JSON value, but stands outside quotes",
                            bad.unwrap_or(0) + 1
                        );
                        ensure(bad.is_none(), || field, &told)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn parts(
        &self,
        parts: &[Part],
        field: &str,
        allowed: impl Fn(u8) -> bool,
    ) -> Result<(), Fault> {
        for (at, part) in parts.iter().enumerate() {
            let field = format!("{field}[{at}]");
            match part {
                Part::Text { text }
                | Part::Value { value: text, .. }
                | Part::Secret { secret: text, .. } => {
                    ensure(text.bytes().all(&allowed), || field, NOT_ALLOWED)?
                }
                Part::Feeder { feeder, column, .. } => {
                    if let Column::Utf8(values) = self.column(feeder, column, &field)? {
                        let bad = values.iter().position(|value| !value.bytes().all(&allowed));
                        ensure(
                            bad.is_none(),
                            || field,
                            &format!("row {} {NOT_ALLOWED}", bad.unwrap_or(0)),
                        )?;
                    }
                }
                Part::Taken { taken, .. } => ensure(
                    self.variables.contains(taken),
                    || field,
                    &format!("no answer gives the variable {taken:?}"),
                )?,
                Part::Var { .. } => {}
            }
        }
        Ok(())
    }

    fn column(&self, feeder: &str, column: &str, field: &str) -> Result<&Column, Fault> {
        let table = self
            .group
            .feeders
            .get(feeder)
            .and_then(|feeder| self.inputs.get(&feeder.table));
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
}
