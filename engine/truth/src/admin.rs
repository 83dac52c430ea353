//! The admin listener: exact counters, the request log, live changes. It runs on the server's thread: ask it while no
//! load is measured, or seldom.

use serde_json::{json, Value};

use crate::clock::now_ns;
use crate::config::Config;
use crate::http::{Answer, Request};
use crate::server::Server;

/// Rows of the log in one answer, unless asked for fewer or more.
const LOG_PAGE: usize = 50_000;
/// What a reset resets if it isn't told: everything that belongs to one trial, nothing that was put.
const RESET_DEFAULT: &str = "counters,cache,log";

impl Server {
    /// Answers a request of the admin listener.
    pub(crate) fn admin(&mut self, request: &Request, body: &[u8]) -> Answer {
        match (request.method.as_str(), request.path()) {
            ("GET" | "HEAD", "/counters") => json_answer(&self.counters_json()),
            ("GET" | "HEAD", "/config") => json_answer(&self.config_json()),
            ("GET", "/log") => self.log_page(request),
            ("POST", "/reset") => self.reset(request),
            ("POST", "/config") => {
                match std::str::from_utf8(body).map_err(|error| error.to_string()) {
                    Ok(text) => match self.config.with_changes(text) {
                        Ok((config, fields)) => {
                            self.apply(config, &fields);
                            json_answer(&self.config_json())
                        }
                        Err(error) => Answer::text(400, &error),
                    },
                    Err(error) => Answer::text(400, &error),
                }
            }
            (_, "/counters" | "/config" | "/log" | "/reset") => Answer::status(405),
            _ => Answer::text(
                404,
                "GET /counters, /config, /log?from=N&limit=N; POST /reset?what=…, /config",
            ),
        }
    }

    /// All counters as they are at this moment.
    #[must_use]
    pub fn counters_json(&mut self) -> Value {
        let now_ns = now_ns();
        self.workers.advance(now_ns, &mut self.finished);
        let mut counters = self.counters.clone();
        if let Some(upstream) = &self.upstream {
            counters.upstream_requests = upstream.counts.requests;
            counters.upstream_connections = upstream.counts.connections;
            counters.upstream_retries = upstream.counts.retries;
        }
        let mut value = serde_json::to_value(&counters).unwrap_or_default();
        let (distinct_urls, url_max_count) = self.urls.size();
        let (cache_objects, cache_bytes, cache_evicted) = self.cache.size();
        let (store_objects, store_bytes) = self.store.size();
        let more = json!({
            "now_ns": now_ns,
            "role": self.config.role,
            "unfinished": counters.unfinished(),
            "workers": self.config.workers,
            "in_service": self.workers.in_service(),
            "queued": self.workers.queued(),
            "queued_max": self.workers.queued_max(),
            "busy_ns_sum": self.workers.busy_ns(now_ns),
            "distinct_urls": distinct_urls,
            "url_max_count": url_max_count,
            "cache_objects": cache_objects,
            "cache_bytes": cache_bytes,
            "cache_evicted": cache_evicted,
            "store_objects": store_objects,
            "store_bytes": store_bytes,
            "log_rows": self.log.len(),
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut value, more) {
            all.extend(more);
        }
        value
    }

    fn config_json(&self) -> Value {
        let mut value = serde_json::to_value(&self.config).unwrap_or_default();
        value["stall_epoch_ns"] = json!(self.stall_epoch_ns);
        value
    }

    fn log_page(&self, request: &Request) -> Answer {
        let number = |name, default| match request.query(name).map(|text| text.parse::<usize>()) {
            None => Ok(default),
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => Err(Answer::text(
                400,
                &format!("{name}: must be a whole number, 0 or more"),
            )),
        };
        let (from, limit) = match (number("from", 0), number("limit", LOG_PAGE)) {
            (Ok(from), Ok(limit)) => (from, limit),
            (Err(answer), _) | (_, Err(answer)) => return answer,
        };
        let rows = self.log.get(from..).unwrap_or(&[]);
        let rows = &rows[..rows.len().min(limit)];
        let mut text = Vec::with_capacity(rows.len() * 128);
        for row in rows {
            text.extend_from_slice(row.to_json().to_string().as_bytes());
            text.push(b'\n');
        }
        Answer::new(200, "application/x-ndjson", text)
            .with_header("X-Log-Next", &(from + rows.len()).to_string())
            .with_header("X-Log-Rows", &self.log.len().to_string())
    }

    fn reset(&mut self, request: &Request) -> Answer {
        let what = request
            .query("what")
            .unwrap_or_else(|| RESET_DEFAULT.to_owned());
        let known = ["counters", "cache", "log", "store"];
        if let Some(unknown) = what.split(',').find(|name| !known.contains(name)) {
            return Answer::text(
                400,
                &format!("what: {unknown:?} is none of {}", known.join(", ")),
            );
        }
        for name in what.split(',') {
            match name {
                "counters" => self.reset_counters(),
                "cache" => self.cache.clear(),
                "log" => self.log.clear(),
                _ => self.store.clear(),
            }
        }
        json_answer(&self.counters_json())
    }

    fn reset_counters(&mut self) {
        let now_ns = now_ns();
        self.workers.advance(now_ns, &mut self.finished);
        self.workers.reset_sums(now_ns);
        self.counters.reset();
        self.urls.clear();
        self.cache.reset_evicted();
        if let Some(upstream) = &mut self.upstream {
            upstream.counts = Default::default();
        }
    }

    fn apply(&mut self, config: Config, fields: &[String]) {
        let given = |name: &str| fields.iter().any(|field| field == name);
        let now_ns = now_ns();
        self.workers.advance(now_ns, &mut self.finished);
        self.workers.reshape(
            config.workers,
            config.queue_limit,
            config.serial_lock_ns,
            now_ns,
        );
        if given("stall") {
            self.stall_epoch_ns = now_ns;
        }
        if given("seed") {
            self.arrivals = 0;
        }
        self.config = config;
        self.resume();
    }
}

fn json_answer(value: &Value) -> Answer {
    Answer::new(200, "application/json", value.to_string())
}
