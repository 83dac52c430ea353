//! Requests as a share asks for them: what varies in them, what is taken from their answers and what is checked.

use serde::Deserialize;

use crate::body::SizeLaw;
use crate::encoding::Place;
use crate::exchange::{dialogue, memcached, redis, Spoken};
use crate::pace::ThinkTime;
use crate::wire::keep::Algorithm;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    pub name: String,
    #[serde(default)]
    pub method: String,
    /// Where it goes, by the share's own name; empty where `url` says it.
    #[serde(default)]
    pub endpoint: String,
    #[serde(default)]
    pub path: Vec<Part>,
    /// In place of endpoint and path: an address that is known only when the request is made.
    pub url: Option<Vec<Part>>,
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
    /// Variables that its answer gives to the steps after it.
    #[serde(default)]
    pub take: Vec<TakeSpec>,
    /// In place of method, path, headers and body: a raw dialogue on the stream.
    #[serde(default)]
    pub dialogue: Vec<dialogue::TurnSpec>,
    /// In place of them: commands for a Redis server.
    pub redis: Option<redis::Spec>,
    /// Commands for a memcached server.
    pub memcached: Option<memcached::Spec>,
    /// What it uploads becomes a row of this set, if it is answered well.
    pub adds: Option<String>,
    /// It asks for a row of this set,
    pub draws: Option<String>,
    /// which is none from then on.
    #[serde(default)]
    pub removes: bool,
}

fn good_statuses() -> Vec<(u16, u16)> {
    vec![(200, 399)]
}

impl RequestSpec {
    /// What it says in protocols besides HTTP, each with its field; a sound request speaks one at most.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, &dyn Spoken)> {
        let dialogue = (!self.dialogue.is_empty()).then_some(&self.dialogue as &dyn Spoken);
        let redis = self.redis.as_ref().map(|spec| spec as &dyn Spoken);
        let memcached = self.memcached.as_ref().map(|spec| spec as &dyn Spoken);
        let known = [
            ("dialogue", dialogue),
            ("redis", redis),
            ("memcached", memcached),
        ];
        let said = |(field, spoken): (_, Option<_>)| Some((field, spoken?));
        known.into_iter().filter_map(said)
    }

    /// What it says in a protocol besides HTTP, and that protocol's field.
    pub fn spoken(&self) -> Option<(&'static str, &dyn Spoken)> {
        self.protocols().next()
    }

    /// Names of the variables that it sets.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let spoken = self.spoken().map(|(_, spoken)| spoken.variables());
        let taken = self.take.iter().map(TakeSpec::name);
        spoken.into_iter().flatten().chain(taken)
    }

    /// The set whose row is its variables.
    pub fn set(&self) -> Option<&str> {
        self.adds.as_deref().or(self.draws.as_deref())
    }

    /// Whether it asks for rows of a feeder: in its address, a header, its body or a check.
    pub fn uses(&self, feeder: &str) -> bool {
        let texts = self.headers.iter().map(|(_, value)| value);
        let body = match &self.body {
            Some(BodySpec::Text(parts)) => Some(parts),
            _ => None,
        };
        let parts = [&self.path]
            .into_iter()
            .chain(&self.url)
            .chain(texts)
            .chain(body);
        let named = |part: &Part| part.is_of(feeder);
        let spoken = self.spoken().map(|(_, spoken)| spoken.parts());
        let mut spoken = spoken.iter().flatten();
        parts.flatten().any(named)
            || spoken.any(|(_, parts)| parts.iter().any(named))
            || self.checks.iter().any(|check| check.uses(feeder))
    }
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

/// A piece of a path, header value or text body. All but a text are values, which are encoded for their place; `raw` ones are not.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Part {
    Text {
        text: String,
    },
    /// A value that is known before the load.
    Value {
        value: String,
        #[serde(default)]
        raw: bool,
    },
    /// A value that no redirect carries to another origin.
    Secret {
        secret: String,
        #[serde(default)]
        raw: bool,
    },
    Feeder {
        feeder: String,
        column: String,
        #[serde(default)]
        raw: bool,
    },
    Var {
        var: Var,
        #[serde(default)]
        raw: bool,
    },
    /// A variable that an earlier answer gave.
    Taken {
        taken: String,
        #[serde(default)]
        raw: bool,
    },
}

impl Part {
    /// What is known of it before the load.
    pub fn fixed(&self) -> Option<&str> {
        match self {
            Part::Text { text }
            | Part::Value { value: text, .. }
            | Part::Secret { secret: text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text that the share itself writes here; None: it is a value.
    pub fn typed(&self) -> Option<&str> {
        match self {
            Part::Text { text } => Some(text),
            _ => None,
        }
    }

    /// Where it stands, if `place` is where an encoded value would.
    pub fn placed(&self, place: Place) -> Place {
        match self {
            Part::Text { .. } => Place::Free,
            Part::Value { raw, .. }
            | Part::Secret { raw, .. }
            | Part::Feeder { raw, .. }
            | Part::Var { raw, .. }
            | Part::Taken { raw, .. } => {
                if *raw {
                    place.raw()
                } else {
                    place
                }
            }
        }
    }

    fn is_of(&self, feeder: &str) -> bool {
        matches!(self, Part::Feeder { feeder: name, .. } if name == feeder)
    }
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
    Status {
        name: String,
        status: (u16, u16),
    },
    Size {
        name: String,
        size_bytes: SizeSpec,
    },
    Header {
        name: String,
        header: String,
        test: TextTest,
    },
    Body {
        name: String,
        body: TextTest,
    },
    Digest {
        name: String,
        digest: Algorithm,
        equals: Vec<Part>,
    },
}

impl CheckSpec {
    pub fn name(&self) -> &str {
        match self {
            CheckSpec::Status { name, .. }
            | CheckSpec::Size { name, .. }
            | CheckSpec::Header { name, .. }
            | CheckSpec::Body { name, .. }
            | CheckSpec::Digest { name, .. } => name,
        }
    }
}

impl CheckSpec {
    fn uses(&self, feeder: &str) -> bool {
        let named = |part: &Part| part.is_of(feeder);
        match self {
            CheckSpec::Size {
                size_bytes: SizeSpec::Feeder { feeder: name, .. },
                ..
            } => name == feeder,
            CheckSpec::Header {
                test: TextTest::Equals(parts) | TextTest::Contains(parts),
                ..
            }
            | CheckSpec::Body {
                body: TextTest::Equals(parts) | TextTest::Contains(parts),
                ..
            }
            | CheckSpec::Digest { equals: parts, .. } => parts.iter().any(named),
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum SizeSpec {
    Bytes(u64),
    Feeder {
        feeder: String,
        column: String,
    },
    /// What a variable says.
    Taken {
        taken: String,
    },
}

/// What a text of the answer must be.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TextTest {
    /// There, and not empty.
    Present,
    Equals(Vec<Part>),
    Contains(Vec<Part>),
    /// A regular expression that matches somewhere in it.
    Matches(String),
}

/// A variable and where in an answer it stands.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum TakeSpec {
    Header {
        name: String,
        header: String,
    },
    /// `access.token`, `items[0].id`.
    Json {
        name: String,
        json: String,
    },
    /// The first group, or all that matches where there is no group; of the body.
    Regex {
        name: String,
        regex: String,
    },
}

impl TakeSpec {
    pub fn name(&self) -> &str {
        match self {
            TakeSpec::Header { name, .. }
            | TakeSpec::Json { name, .. }
            | TakeSpec::Regex { name, .. } => name,
        }
    }
}

/// Steps in order; of several scenarios an iteration takes one by weight.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpec {
    #[serde(default = "one")]
    pub weight: u64,
    /// It is no part of the mix (weight 0): an iteration begins with it where the user's last one is so long ago, or an answer was 401.
    pub renew_ns: Option<i64>,
    pub steps: Vec<StepSpec>,
}

fn one() -> u64 {
    1
}

/// A request of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub request: RequestSpec,
    /// Between its end and the due time of the step after it.
    #[serde(default)]
    pub think_time: ThinkTime,
}
