//! What the server is told to be. Every error names the field it is about.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::draw::Distribution;

/// Which server is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An object store with a small part of Swift's API.
    Store,
    /// A cache before an upstream.
    Cache,
    /// A proxy that ends TLS and forwards everything.
    Front,
}

/// The certificate of the HTTPS listener, both as PEM text.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub cert_pem: String,
    #[serde(skip_serializing)]
    pub key_pem: String,
    /// Offer session tickets and session ids.
    #[serde(default = "yes")]
    pub resumption: bool,
}

/// Counted from the start, or from the last live change of `stall`: answers due inside `[epoch + offset + k·every, … + for)` are held until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    pub every_ns: u64,
    pub for_ns: u64,
    #[serde(default)]
    pub offset_ns: u64,
}

/// The whole configuration; [`LIVE`] lists the fields that may change while the server runs.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub role: Role,
    #[serde(default = "loopback")]
    pub address: IpAddr,
    /// Without it, the server binds and forwards to loopback addresses only.
    #[serde(default)]
    pub allow_any_address: bool,
    /// Port of the plain listener; 0 lets the kernel choose, null means none.
    #[serde(default)]
    pub http_port: Option<u16>,
    /// Port of the TLS listener; needs `tls`.
    #[serde(default)]
    pub https_port: Option<u16>,
    #[serde(default)]
    pub admin_port: u16,
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Where cache and front forward to (plain HTTP).
    #[serde(default)]
    pub upstream: Option<SocketAddr>,
    /// An upstream exchange that takes longer is answered 504.
    #[serde(default = "minute_ns")]
    pub upstream_timeout_ns: u64,
    #[serde(default = "backlog")]
    pub backlog: u32,
    /// Bytes of bodies kept; a store answers 507 above it, a cache evicts the oldest.
    #[serde(default = "memory_limit")]
    pub memory_limit_bytes: u64,
    /// Entries a cache keeps; the oldest goes first.
    #[serde(default = "million")]
    pub cache_objects_limit: usize,
    /// Rows the request log keeps; later ones are counted, not kept.
    #[serde(default = "log_limit")]
    pub log_limit: usize,

    /// Seed of every draw. Setting it live, to whatever value, starts the draws again at arrival 0; a reset doesn't.
    #[serde(default)]
    pub seed: u64,
    #[serde(default = "workers")]
    pub workers: usize,
    /// Requests that may wait for a worker; one more is answered 503. null: no limit.
    #[serde(default)]
    pub queue_limit: Option<usize>,
    /// Open service connections above which none is accepted (they wait in the backlog).
    #[serde(default)]
    pub max_connections: Option<usize>,
    #[serde(default)]
    pub service_time: Distribution,
    /// Cache only: the service time of a miss, before the upstream's own; default `service_time`.
    #[serde(default)]
    pub miss_service_time: Option<Distribution>,
    /// Real CPU time burnt for each paced answer, on the server's only thread.
    #[serde(default)]
    pub cpu_burn_ns: u64,
    /// Poll instead of sleeping for the last n ns before each deadline.
    #[serde(default)]
    pub spin_ns: u64,
    #[serde(default)]
    pub stall: Option<Stall>,
    /// Share of paced answers replaced by 500.
    #[serde(default)]
    pub error_rate: f64,
    /// Time for which each paced request holds the one lock of the server, worker in hand, before its service.
    #[serde(default)]
    pub serial_lock_ns: u64,
    /// Bodies of paced answers leave one after another over a link of this rate.
    #[serde(default)]
    pub rate_limit_bytes_per_s: Option<u64>,
    /// Planted fault of a cache: X-Cold is ignored, so that misses hit.
    #[serde(default)]
    pub ignore_cold: bool,
    /// Planted fault of a cache: nothing is stored, every lookup is a miss.
    #[serde(default)]
    pub never_store: bool,
    #[serde(default)]
    pub log: bool,
}

/// Fields that `POST /config` may change.
pub const LIVE: [&str; 15] = [
    "seed",
    "workers",
    "queue_limit",
    "max_connections",
    "service_time",
    "miss_service_time",
    "cpu_burn_ns",
    "spin_ns",
    "stall",
    "error_rate",
    "serial_lock_ns",
    "rate_limit_bytes_per_s",
    "ignore_cold",
    "never_store",
    "log",
];

fn yes() -> bool {
    true
}
fn loopback() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}
fn backlog() -> u32 {
    1024
}
fn workers() -> usize {
    8
}
fn million() -> usize {
    1_000_000
}
fn log_limit() -> usize {
    2_000_000
}
fn memory_limit() -> u64 {
    2 << 30
}
fn minute_ns() -> u64 {
    60_000_000_000
}

/// No planned time may be longer than this (a day): sums of times stay far below 2⁶³.
pub const LONGEST_NS: u64 = 86_400_000_000_000;

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// One line: the field, what is wrong with it, and what it may be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let config: Self = serde_path_to_error::deserialize(&mut reader).map_err(named)?;
        reader.end().map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    /// This configuration with the fields of a JSON object changed, and the names of those fields; only [`LIVE`]
    /// fields may be in it.
    ///
    /// # Errors
    /// As [`Config::parse`]; nothing is changed then.
    pub fn with_changes(&self, text: &str) -> Result<(Self, Vec<String>), String> {
        let changes: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(changes) = changes else {
            return Err("the change must be a JSON object".to_owned());
        };
        let mut whole = serde_json::to_value(self).map_err(|error| error.to_string())?;
        whole["tls"] = Value::Null; // never through JSON: the key does not leave the process
        let fields = changes.keys().cloned().collect();
        for (field, value) in changes {
            if !LIVE.contains(&field.as_str()) {
                return Err(format!(
                    "{field}: cannot change while the server runs (may: {})",
                    LIVE.join(", ")
                ));
            }
            whole[&field] = value;
        }
        let mut config: Self = serde_path_to_error::deserialize(whole).map_err(named)?;
        config.tls = self.tls.clone();
        config.check()?;
        Ok((config, fields))
    }

    fn check(&self) -> Result<(), String> {
        self.check_addresses()?;
        if self.workers == 0 {
            return Err("workers: must be at least 1".to_owned());
        }
        if self.max_connections == Some(0) {
            return Err("max_connections: must be at least 1, or null for no limit".to_owned());
        }
        if !(0.0..=1.0).contains(&self.error_rate) {
            return Err(format!(
                "error_rate: must be from 0 to 1, is {}",
                self.error_rate
            ));
        }
        if self.rate_limit_bytes_per_s == Some(0) {
            return Err(
                "rate_limit_bytes_per_s: must be at least 1, or null for no limit".to_owned(),
            );
        }
        if let Some(stall) = self.stall {
            if stall.for_ns >= stall.every_ns {
                return Err(format!(
                    "stall.for_ns: must be below every_ns ({}), is {}",
                    stall.every_ns, stall.for_ns
                ));
            }
            at_most_a_day("stall.every_ns", stall.every_ns)?;
            at_most_a_day("stall.offset_ns", stall.offset_ns)?;
        }
        at_most_a_day("cpu_burn_ns", self.cpu_burn_ns)?;
        at_most_a_day("spin_ns", self.spin_ns)?;
        at_most_a_day("serial_lock_ns", self.serial_lock_ns)?;
        at_most_a_day("upstream_timeout_ns", self.upstream_timeout_ns)?;
        self.service_time
            .check()
            .map_err(|text| format!("service_time.{text}"))?;
        if let Some(miss) = &self.miss_service_time {
            if self.role != Role::Cache {
                return Err("miss_service_time: only a cache has misses".to_owned());
            }
            miss.check()
                .map_err(|text| format!("miss_service_time.{text}"))?;
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), String> {
        if self.http_port.is_none() && self.https_port.is_none() {
            return Err(
                "http_port: give http_port or https_port, else nothing is served".to_owned(),
            );
        }
        if self.backlog == 0 {
            return Err("backlog: must be at least 1".to_owned());
        }
        if !self.allow_any_address && !self.address.is_loopback() {
            return Err(format!(
                "address: {} is not a loopback address (see allow_any_address)",
                self.address
            ));
        }
        match (self.role, self.upstream) {
            (Role::Store, Some(_)) => Err("upstream: a store has none".to_owned()),
            (Role::Cache | Role::Front, None) => {
                Err("upstream: missing; cache and front forward to it".to_owned())
            }
            (_, Some(upstream)) if !self.allow_any_address && !upstream.ip().is_loopback() => Err(
                format!("upstream: {upstream} is not a loopback address (see allow_any_address)"),
            ),
            _ => Ok(()),
        }?;
        if self.https_port.is_some() && self.tls.is_none() {
            return Err("tls: missing; https_port needs cert_pem and key_pem".to_owned());
        }
        Ok(())
    }
}

fn at_most_a_day(field: &str, value_ns: u64) -> Result<(), String> {
    if value_ns > LONGEST_NS {
        return Err(format!(
            "{field}: must be at most a day ({LONGEST_NS} ns), is {value_ns}"
        ));
    }
    Ok(())
}

fn named(error: serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let inner = error.into_inner();
    if path == "." {
        inner.to_string()
    } else {
        format!("{path}: {inner}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text).expect_err("must be refused")
    }

    #[test]
    fn defaults_are_those_of_a_plain_store() {
        let config = Config::parse(r#"{"role": "store", "http_port": 0}"#).unwrap();
        assert_eq!(config.workers, 8);
        assert_eq!(config.backlog, 1024);
        assert_eq!(config.service_time, Distribution::Constant(0));
        assert!(config.address.is_loopback());
    }

    #[test]
    fn each_error_names_its_field() {
        let cases = [
            (r#"{"http_port": 0}"#, "role"),
            (r#"{"role": "shop", "http_port": 0}"#, "role"),
            (r#"{"role": "store"}"#, "http_port"),
            (r#"{"role": "store", "http_port": 70000}"#, "http_port"),
            (r#"{"role": "store", "https_port": 0}"#, "tls"),
            (
                r#"{"role": "store", "http_port": 0, "address": "10.0.0.1"}"#,
                "address",
            ),
            (
                r#"{"role": "store", "http_port": 0, "upstream": "127.0.0.1:1"}"#,
                "upstream",
            ),
            (r#"{"role": "cache", "http_port": 0}"#, "upstream"),
            (
                r#"{"role": "cache", "http_port": 0, "upstream": "10.0.0.1:80"}"#,
                "upstream",
            ),
            (
                r#"{"role": "cache", "http_port": 0, "upstream": "localhost"}"#,
                "upstream",
            ),
            (
                r#"{"role": "store", "http_port": 0, "workers": 0}"#,
                "workers",
            ),
            (
                r#"{"role": "store", "http_port": 0, "workers": "8"}"#,
                "workers",
            ),
            (
                r#"{"role": "store", "http_port": 0, "wrokers": 8}"#,
                "wrokers",
            ),
            (
                r#"{"role": "store", "http_port": 0, "error_rate": 1.5}"#,
                "error_rate",
            ),
            (
                r#"{"role": "store", "http_port": 0, "service_time": {"uniform_ns": [2, 1]}}"#,
                "service_time.uniform_ns",
            ),
            (
                r#"{"role": "store", "http_port": 0, "service_time": {"uniform_ns": [2]}}"#,
                "service_time",
            ),
            (
                r#"{"role": "store", "http_port": 0, "service_time": {"lognormal_ns": {"median": 5, "p99": 4}}}"#,
                "service_time.lognormal_ns.p99",
            ),
            (
                r#"{"role": "store", "http_port": 0, "stall": {"every_ns": 5, "for_ns": 5}}"#,
                "stall.for_ns",
            ),
            (
                r#"{"role": "store", "http_port": 0, "miss_service_time": {"constant_ns": 1}}"#,
                "miss_service_time",
            ),
            (
                r#"{"role": "store", "http_port": 0, "rate_limit_bytes_per_s": 0}"#,
                "rate_limit_bytes_per_s",
            ),
        ];
        for (text, field) in cases {
            let message = error(text);
            assert!(message.contains(field), "{text}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_live_change_keeps_the_rest_and_refuses_the_unchangeable() {
        let config = Config::parse(r#"{"role": "store", "http_port": 0, "seed": 5}"#).unwrap();
        let (changed, fields) = config
            .with_changes(r#"{"workers": 2, "service_time": {"constant_ns": 7}}"#)
            .unwrap();
        assert_eq!((changed.workers, changed.seed), (2, 5));
        assert_eq!(fields.len(), 2);
        assert_eq!(changed.service_time, Distribution::Constant(7));
        assert!(config
            .with_changes(r#"{"http_port": 1}"#)
            .unwrap_err()
            .starts_with("http_port: cannot change"));
        assert!(config
            .with_changes(r#"{"workers": 0}"#)
            .unwrap_err()
            .starts_with("workers"));
        assert!(config.with_changes("[]").is_err());
    }

    #[test]
    fn the_private_key_is_never_shown() {
        let config = Config::parse(
            r#"{"role": "store", "https_port": 0, "tls": {"cert_pem": "public", "key_pem": "hidden"}}"#,
        )
        .unwrap();
        let shown = serde_json::to_string(&config).unwrap();
        assert!(shown.contains("public") && !shown.contains("hidden"));
        let changed = config.with_changes(r#"{"workers": 2}"#);
        assert_eq!(changed.unwrap().0.tls.unwrap().key_pem, "hidden");
    }
}
