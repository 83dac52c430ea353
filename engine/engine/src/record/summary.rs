//! The threads' records, merged exactly into the tables and the summary that a share returns.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::{json, Map, Value};

use super::failure::Failure;
use super::gauge::Silences;
use super::group::{Interval, StepRecord, Totals};
use super::histogram::{merge_cells, Cell};
use super::sample::{samples_table, NEVER};
use super::{GroupRecord, Sample};
use crate::error::ErrorKind;
use crate::plan::{GroupPlan, Plan};
use crate::progress::errors_json;
use crate::share::Take;
use crate::table::{Column, Table};
use crate::wire::http2::session::Notices;
use crate::wire::http2::CODE_NAMES;
use crate::worker::Outcome;

/// One group over all threads.
struct Merged {
    totals: Totals,
    errors: [u64; ErrorKind::COUNT],
    hop_status: Vec<u64>,
    checks_failed: Vec<u64>,
    http2_notices: Notices,
    rows_asked: Vec<u64>,
    steps: Vec<MergedStep>,
    taken: Vec<(u64, Vec<Vec<u8>>)>,
    samples: Vec<Sample>,
    in_flight_area_ns: i128,
    left_at_end: i64,
    first_due_ns: i64,
    longest_silence_ns: i64,
    last_done_ns: i64,
    first_failure: Option<Failure>,
    last_failed_ns: i64,
    plan_done: bool,
}

fn add_all(sums: &mut Vec<u64>, more: &[u64]) {
    sums.resize(sums.len().max(more.len()), 0);
    sums.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
}

impl Merged {
    fn of(plan: &GroupPlan, records: Vec<GroupRecord>, end_ns: i64) -> Self {
        let mut merged = Merged {
            totals: Totals::default(),
            errors: [0; ErrorKind::COUNT],
            hop_status: Vec::new(),
            checks_failed: Vec::new(),
            http2_notices: Notices::default(),
            rows_asked: Vec::new(),
            steps: plan.steps.iter().map(|_| MergedStep::default()).collect(),
            taken: Vec::new(),
            samples: Vec::new(),
            in_flight_area_ns: 0,
            left_at_end: 0,
            first_due_ns: i64::MAX,
            longest_silence_ns: 0,
            last_done_ns: NEVER,
            first_failure: None,
            last_failed_ns: NEVER,
            plan_done: true,
        };
        let mut silences = Vec::new();
        for record in records {
            merged.first_due_ns = merged.first_due_ns.min(record.first_due_ns);
            merged.totals.add(&record.totals);
            merged
                .errors
                .iter_mut()
                .zip(record.errors)
                .for_each(|(sum, n)| *sum += n);
            merged
                .steps
                .iter_mut()
                .zip(record.steps)
                .for_each(|(sum, step)| sum.add(step));
            merged.taken.extend(record.taken);
            add_all(&mut merged.hop_status, &record.hop_status);
            add_all(&mut merged.checks_failed, &record.checks_failed);
            merged.http2_notices.add(&record.http2_notices);
            add_all(&mut merged.rows_asked, &record.rows_asked);
            merged.samples.extend(record.samples);
            merged.last_done_ns = merged.last_done_ns.max(record.last_done_ns);
            merged.first_failure =
                Failure::earlier(merged.first_failure.take(), record.first_failure);
            merged.last_failed_ns = merged.last_failed_ns.max(record.last_failed_ns);
            merged.plan_done &= record.plan_done;
            merged.in_flight_area_ns += record.gauge.area_ns();
            merged.left_at_end += record.gauge.level();
            silences.push(record.silences);
        }
        for step in &mut merged.steps {
            step.cells = merge_cells(std::mem::take(&mut step.cells));
        }
        merged.taken.sort_by_key(|(vu, _)| *vu);
        merged
            .samples
            .sort_by_key(|sample| (sample.due_ns, sample.vu, sample.seq, sample.step));
        merged.longest_silence_ns = Silences::longest_of(silences, merged.first_due_ns, end_ns);
        if plan.open {
            merged.totals.early_repeats =
                open_early_repeats(plan, &merged.rows_asked, merged.totals.begun);
        }
        merged
    }

    /// What each VU took, by variable; bytes that are no UTF-8 are replaced.
    fn taken_json(&self, plan: &GroupPlan) -> Vec<Value> {
        let one = |(vu, values): &(u64, Vec<Vec<u8>>)| {
            let named = plan.variables.iter().zip(values);
            let values: Map<_, _> = named
                .map(|(name, value)| (name.clone(), json!(String::from_utf8_lossy(value))))
                .collect();
            json!({"vu": vu, "values": values})
        };
        self.taken.iter().map(one).collect()
    }

    fn json(&self, plan: &GroupPlan, window: (i64, i64)) -> Value {
        let t = &self.totals;
        let names = plan.check_names();
        let checks_failed: Map<_, _> = names
            .into_iter()
            .zip(&self.checks_failed)
            .map(|(name, n)| (name, json!(n)))
            .collect();
        let mut status = Vec::new();
        for step in &self.steps {
            add_all(&mut status, &step.status);
        }
        let steps = plan.steps.iter().zip(&self.steps);
        let steps: Vec<Value> = steps
            .map(|(step, merged)| merged.json(&step.name))
            .collect();
        let window_ns = (window.1 - window.0).max(1);
        let first_due_ns = if t.due > 0 { self.first_due_ns } else { NEVER };
        json!({
            "name": plan.spec.name, "due": t.due, "begun": t.begun, "waiting": t.waiting, "waiting_ready": t.waiting_ready, "dropped": t.dropped,
            "ok": t.ok, "failed": t.failed, "in_flight": t.in_flight, "written": t.written,
            "completed_in_window": t.completed_in_window, "ok_in_window": t.ok_in_window,
            "errors": errors_json(&self.errors), "status": status_json(&status), "checks_failed": checks_failed,
            "steps": steps, "taken": self.taken_json(plan),
            "redirect_hops": t.hops, "hop_status": status_json(&self.hop_status),
            "connections_opened": t.connections_opened, "tls_full": t.tls_full, "tls_resumed": t.tls_resumed,
            "bytes_sent": t.bytes_sent, "bytes_received": t.bytes_received, "body_bytes": t.body_bytes,
            "http2": self.http2_json(),
            "early_repeats": t.early_repeats, "unasked_data": t.unasked_data,
            "vu_time": {"request_ns": t.request_ns, "think_ns": t.think_ns, "lag_ns": t.lag_ns, "wait_ns": t.wait_ns, "active_ns": t.active_ns},
            "left_at_end": self.left_at_end,
            "in_flight_mean": self.in_flight_area_ns as f64 / window_ns as f64,
            "residence_ns": t.residence_ns, "first_due_ns": first_due_ns, "longest_silence_ns": self.longest_silence_ns,
            "last_done_ns": self.last_done_ns, "last_failed_ns": self.last_failed_ns,
            "first_failure": self.first_failure.as_ref().map(Failure::json), "plan_done": self.plan_done,
        })
    }
}

impl Merged {
    fn http2_json(&self) -> Value {
        let (t, notices) = (&self.totals, &self.http2_notices);
        json!({
            "connections": t.http2_connections, "requests": t.http2_requests, "stream_waits": t.http2_stream_waits,
            "fallbacks": t.http2_fallbacks, "resets": codes_json(&notices.resets), "goaways": codes_json(&notices.goaways),
        })
    }
}

/// One step over all threads.
#[derive(Default)]
struct MergedStep {
    intervals: Vec<Interval>,
    cells: Vec<Cell>,
    errors: Vec<u64>,
    status: Vec<u64>,
}

impl MergedStep {
    fn add(&mut self, step: StepRecord) {
        let intervals = self.intervals.len().max(step.intervals.len());
        self.intervals.resize(intervals, Interval::default());
        self.intervals
            .iter_mut()
            .zip(&step.intervals)
            .for_each(|(sum, interval)| sum.add(interval));
        self.cells.extend(step.histograms.into_cells());
        add_all(&mut self.errors, &step.errors);
        add_all(&mut self.status, &step.status);
    }

    fn json(&self, name: &str) -> Value {
        let mut sum = Interval::default();
        self.intervals.iter().for_each(|interval| sum.add(interval));
        let mut errors = [0; ErrorKind::COUNT];
        errors
            .iter_mut()
            .zip(&self.errors)
            .for_each(|(count, n)| *count = *n);
        json!({
            "name": name, "due": sum.due, "begun": sum.begun, "dropped": sum.dropped, "ok": sum.ok, "failed": sum.failed,
            "errors": errors_json(&errors), "status": status_json(&self.status),
        })
    }
}

/// Rows of an open group asked oftener than whole rounds of the table allow.
fn open_early_repeats(plan: &GroupPlan, asked: &[u64], begun: u64) -> u64 {
    if asked.len() < 2 || !matches!(plan.take(), Some(Take::First | Take::Random)) {
        return 0;
    }
    let rounds = begun.div_ceil(asked.len() as u64);
    asked.iter().map(|n| n.saturating_sub(rounds)).sum()
}

fn status_json(counts: &[u64]) -> Map<String, Value> {
    let seen = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    seen.map(|(status, n)| (status.to_string(), json!(n)))
        .collect()
}

/// By name of the HTTP/2 error code.
fn codes_json(counts: &[u64]) -> Map<String, Value> {
    let names = CODE_NAMES.iter().copied().chain(["UNKNOWN"]);
    let seen = names.zip(counts).filter(|(_, n)| **n > 0);
    seen.map(|(name, n)| (name.to_owned(), json!(n))).collect()
}

/// Merges what the threads left. `stopped`: by `stop_fd` (or the sink) before the end.
pub fn merge(plan: &Plan, mut outcomes: Vec<Outcome>, stopped: bool) -> IndexMap<String, Table> {
    let threads: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({"cpu_ns": outcome.cpu_ns, "spin_ns": outcome.spin_ns, "wall_ns": outcome.wall_ns, "run_queue_ns": outcome.run_queue_ns,
                "loop_pass_max_ns": outcome.loop_pass_max_ns})
        })
        .collect();
    let unauthorised: BTreeSet<String> = outcomes
        .iter()
        .flat_map(|outcome| outcome.unauthorised.clone())
        .collect();
    let merged: Vec<Merged> = plan
        .groups
        .iter()
        .map(|group| {
            // The groups of an outcome are taken from the front, so that no record is copied.
            let records: Vec<(i64, GroupRecord)> = outcomes
                .iter_mut()
                .map(|outcome| (outcome.ends_ns.remove(0), outcome.records.remove(0)))
                .collect();
            let end_ns = records.iter().map(|(end_ns, _)| *end_ns).max().unwrap_or(0);
            Merged::of(
                group,
                records.into_iter().map(|(_, record)| record).collect(),
                end_ns,
            )
        })
        .collect();
    let groups: Vec<Value> = plan
        .groups
        .iter()
        .zip(&merged)
        .map(|(group, merged)| merged.json(group, plan.window))
        .collect();
    let summary = json!({
        "groups": groups, "threads": threads, "unauthorised": unauthorised,
        "stopped": if stopped { "stop_fd" } else { "end" },
    });
    let samples: Vec<(u16, Sample)> = (0u16..)
        .zip(&merged)
        .flat_map(|(group, merged)| merged.samples.iter().map(move |sample| (group, *sample)))
        .collect();
    let text: Table = [("json".to_owned(), Column::Utf8(vec![summary.to_string()]))]
        .into_iter()
        .collect();
    [
        ("samples", samples_table(&samples)),
        ("intervals", intervals_table(&merged)),
        ("histograms", histograms_table(&merged)),
        ("rows", rows_table(&merged)),
        ("summary", text),
    ]
    .into_iter()
    .map(|(name, table)| (name.to_owned(), table))
    .collect()
}

macro_rules! table {
    ($rows:expr; $($name:literal $kind:ident $value:expr),+ $(,)?) => {
        [$(($name.to_owned(), Column::$kind($rows.iter().map($value).collect()))),+].into_iter().collect()
    };
}

/// Every step with its group's number and its own.
fn each_step(merged: &[Merged]) -> impl Iterator<Item = (u16, u16, &MergedStep)> {
    (0u16..).zip(merged).flat_map(|(group, merged)| {
        (0u16..)
            .zip(&merged.steps)
            .map(move |(step, merged)| (group, step, merged))
    })
}

fn intervals_table(merged: &[Merged]) -> Table {
    let of_step = |group, step, merged: &MergedStep| {
        let rows = (0u32..).zip(merged.intervals.clone());
        rows.map(move |(at, interval)| (group, at, interval, step))
    };
    let rows: Vec<(u16, u32, Interval, u16)> = each_step(merged)
        .flat_map(|(group, step, merged)| of_step(group, step, merged))
        .collect();
    table!(rows;
        "group" U16 |row| row.0,
        "step" U16 |row| row.3,
        "interval" U32 |row| row.1,
        "due" U64 |row| row.2.due,
        "begun" U64 |row| row.2.begun,
        "ok" U64 |row| row.2.ok,
        "failed" U64 |row| row.2.failed,
        "dropped" U64 |row| row.2.dropped,
        "completed_ok" U64 |row| row.2.completed_ok,
        "completed_failed" U64 |row| row.2.completed_failed,
        "bytes_received" U64 |row| row.2.bytes_received,
        "response_sum_ns" U64 |row| row.2.response_sum_ns,
    )
}

fn histograms_table(merged: &[Merged]) -> Table {
    let rows: Vec<(u16, Cell, u16)> = each_step(merged)
        .flat_map(|(group, step, merged)| merged.cells.iter().map(move |cell| (group, *cell, step)))
        .collect();
    table!(rows;
        "group" U16 |row| row.0,
        "step" U16 |row| row.2,
        "interval" U32 |row| row.1.interval,
        "metric" U8 |row| row.1.metric,
        "bucket" U32 |row| row.1.bucket,
        "count" U64 |row| row.1.count,
    )
}

fn rows_table(merged: &[Merged]) -> Table {
    let rows: Vec<(u16, u32, u64)> = (0u16..)
        .zip(merged)
        .flat_map(|(group, merged)| {
            (0u32..)
                .zip(&merged.rows_asked)
                .map(move |(row, n)| (group, row, *n))
        })
        .filter(|(_, _, asked)| *asked > 0)
        .collect();
    table!(rows;
        "group" U16 |row| row.0,
        "row" U32 |row| row.1,
        "asked" U64 |row| row.2,
    )
}
