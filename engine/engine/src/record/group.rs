//! What one group did on one thread: every counter, folded from samples off the path of the next request.
//!
//! All that is counted is in load time; the samples that are kept have real stamps.

use std::sync::Arc;

use crate::error::ErrorKind;
use crate::executor::Ledger;
use crate::pieces::Asker;
use crate::scenario::Course;
use crate::turns::LoadTime;
use crate::wire::http2::session::Notices;

use super::failure::Failure;
use super::gauge::{clip, Gauge, Silences};
use super::histogram::{Histograms, Metric};
use super::sample::{Sample, NEVER};

/// Fixed facts of a record.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    pub course: Arc<Course>,
    pub load_time: LoadTime,
    pub interval_ns: i64,
    pub window: (i64, i64),
    /// When the group's last request may end.
    pub end_ns: i64,
    /// Rows of the group's first feeder.
    pub rows: usize,
    pub checks: usize,
    pub keep_samples: bool,
}

impl RecordPlan {
    /// The part of the window in which the group makes load: no user and no request has time after it, however late the
    /// loop notices the end.
    fn span(&self) -> (i64, i64) {
        (self.window.0, self.window.1.min(self.end_ns))
    }
}

/// One row of the intervals table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub due: u64,
    pub begun: u64,
    pub ok: u64,
    pub failed: u64,
    pub dropped: u64,
    pub completed_ok: u64,
    pub completed_failed: u64,
    pub bytes_received: u64,
    pub response_sum_ns: u64,
}

/// Sums over the whole run; adding two gives the sums of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub due: u64,
    pub begun: u64,
    pub waiting: u64,
    /// Of these, the ones for whom a place was free.
    pub waiting_ready: u64,
    pub dropped: u64,
    pub ok: u64,
    pub failed: u64,
    pub in_flight: u64,
    pub written: u64,
    pub completed_in_window: u64,
    pub ok_in_window: u64,
    pub connections_opened: u64,
    pub tls_full: u64,
    pub tls_resumed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub body_bytes: u64,
    pub hops: u64,
    /// HTTP/2 connections; requests written on them; those that waited for the peer to take another stream.
    pub http2_connections: u64,
    pub http2_requests: u64,
    pub http2_stream_waits: u64,
    /// Connections that asked for HTTP/2 and got HTTP/1.1.
    pub http2_fallbacks: u64,
    pub early_repeats: u64,
    /// Connections that ended because bytes came while they were idle.
    pub unasked_data: u64,
    pub request_ns: i64,
    pub think_ns: i64,
    pub lag_ns: i64,
    pub wait_ns: i64,
    pub active_ns: i64,
    pub residence_ns: i64,
}

macro_rules! add_fields {
    ($kind:ident: $($field:ident),+) => {
        impl $kind {
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}
add_fields!(Interval: due, begun, ok, failed, dropped, completed_ok, completed_failed, bytes_received, response_sum_ns);
add_fields!(Totals: due, begun, waiting, waiting_ready, dropped, ok, failed, in_flight, written, completed_in_window, ok_in_window,
    connections_opened, tls_full, tls_resumed, bytes_sent, bytes_received, body_bytes, hops,
    http2_connections, http2_requests, http2_stream_waits, http2_fallbacks, early_repeats, unasked_data,
    request_ns, think_ns, lag_ns, wait_ns, active_ns, residence_ns);

/// One step of a group on one thread: what is told by interval, and how its requests ended.
pub struct StepRecord {
    pub intervals: Vec<Interval>,
    pub histograms: Histograms,
    pub errors: [u64; ErrorKind::COUNT],
    /// By status code, of final answers.
    pub status: Vec<u64>,
}

impl StepRecord {
    fn new() -> Self {
        StepRecord {
            intervals: Vec::new(),
            histograms: Histograms::default(),
            errors: [0; ErrorKind::COUNT],
            status: vec![0; 1000],
        }
    }

    #[inline]
    fn interval(&mut self, interval: u32) -> &mut Interval {
        let at = interval as usize;
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, Interval::default());
        }
        &mut self.intervals[at]
    }
}

/// The record of one group on one thread.
pub struct GroupRecord {
    plan: RecordPlan,
    pub totals: Totals,
    pub errors: [u64; ErrorKind::COUNT],
    /// By status code, of answers that were followed as redirects.
    pub hop_status: Vec<u64>,
    pub checks_failed: Vec<u64>,
    pub http2_notices: Notices,
    pub rows_asked: Vec<u64>,
    pub steps: Vec<StepRecord>,
    /// VUs and the variables that they took; only where they are asked for.
    pub taken: Vec<(u64, Vec<Vec<u8>>)>,
    pub samples: Vec<Sample>,
    /// When the first request was due; `i64::MAX` if none was.
    pub first_due_ns: i64,
    /// When the last request ended; [`NEVER`] if none has.
    pub last_done_ns: i64,
    pub first_failure: Option<Failure>,
    /// When the last failed request ended; [`NEVER`] if none has.
    pub last_failed_ns: i64,
    /// All that was planned has begun and ended before the group's stop.
    pub plan_done: bool,
    pub gauge: Gauge,
    pub silences: Silences,
    pending: Vec<Sample>,
}

impl GroupRecord {
    pub fn new(plan: RecordPlan) -> Self {
        GroupRecord {
            totals: Totals::default(),
            errors: [0; ErrorKind::COUNT],
            hop_status: vec![0; 1000],
            checks_failed: vec![0; plan.checks],
            http2_notices: Notices::default(),
            rows_asked: vec![0; plan.rows],
            steps: (0..plan.course.steps())
                .map(|_| StepRecord::new())
                .collect(),
            taken: Vec::new(),
            samples: Vec::new(),
            first_due_ns: i64::MAX,
            last_done_ns: NEVER,
            first_failure: None,
            last_failed_ns: NEVER,
            plan_done: true,
            gauge: Gauge::new(plan.span()),
            silences: Silences::new(plan.window),
            pending: Vec::with_capacity(1024),
            plan,
        }
    }

    fn interval_of(&self, offset_ns: i64) -> u32 {
        (offset_ns.max(0) / self.plan.interval_ns) as u32
    }

    fn interval(&mut self, step: u16, offset_ns: i64) -> &mut Interval {
        let interval = self.interval_of(offset_ns);
        self.steps[usize::from(step)].interval(interval)
    }

    /// A step's request has become due.
    pub fn due_at(&mut self, step: u16, due_ns: i64) {
        self.totals.due += 1;
        self.first_due_ns = self.first_due_ns.min(due_ns);
        self.interval(step, due_ns).due += 1;
        self.gauge.up(due_ns);
    }

    /// An iteration that was counted as due begins with `step` in place of its `first`.
    pub fn due_instead(&mut self, first: u16, step: u16, due_ns: i64) {
        self.interval(first, due_ns).due -= 1;
        self.interval(step, due_ns).due += 1;
    }

    /// A step's request has begun for `row` of the first feeder (-1: none).
    pub fn begun(&mut self, step: u16, due_ns: i64, row: i64, early_repeat: bool) {
        self.totals.begun += 1;
        self.totals.early_repeats += u64::from(early_repeat);
        self.interval(step, due_ns).begun += 1;
        if row >= 0 {
            self.rows_asked[row as usize] += 1;
        }
    }

    /// The first byte of a request, or of one of its redirect hops, is about to be written.
    pub fn written(&mut self, first: bool) {
        if first {
            self.totals.written += 1;
        } else {
            self.totals.hops += 1;
        }
    }

    /// A request is complete; it is counted by the next [`fold`](Self::fold).
    #[inline]
    pub fn finished(&mut self, sample: Sample) {
        self.pending.push(sample);
    }

    /// Counts what has finished since the last call; `seen` sees each sample.
    pub fn fold(&mut self, mut seen: impl FnMut(&Sample)) {
        let mut pending = std::mem::take(&mut self.pending);
        for sample in pending.drain(..) {
            let counted = sample.in_load_time(&self.plan.load_time);
            self.count(&counted);
            // When it came, which is in order; `done_ns` in load time may not be.
            self.silences
                .completion(self.plan.load_time.load_ns(sample.done_ns));
            seen(&counted);
            if self.plan.keep_samples {
                self.samples.push(sample);
            }
        }
        self.pending = pending;
    }

    fn count(&mut self, sample: &Sample) {
        let (ok, failed) = (u64::from(sample.ok()), u64::from(!sample.ok()));
        self.totals.ok += ok;
        self.totals.failed += failed;
        self.totals.body_bytes += sample.body_bytes;
        self.last_done_ns = self.last_done_ns.max(sample.done_ns);
        if !sample.ok() {
            self.last_failed_ns = self.last_failed_ns.max(sample.done_ns);
        }
        self.errors[usize::from(sample.error.code())] += 1;
        let step = &mut self.steps[usize::from(sample.step)];
        step.errors[usize::from(sample.error.code())] += 1;
        if sample.status > 0 {
            step.status[usize::from(sample.status)] += 1;
        }
        if (self.plan.window.0..self.plan.window.1).contains(&sample.done_ns) {
            self.totals.completed_in_window += 1;
            self.totals.ok_in_window += ok;
        }
        let by_due = self.interval(sample.step, sample.due_ns);
        by_due.ok += ok;
        by_due.failed += failed;
        by_due.response_sum_ns += sample.response_ns().max(0) as u64;
        let by_done = self.interval(sample.step, sample.done_ns);
        by_done.completed_ok += ok;
        by_done.completed_failed += failed;
        by_done.bytes_received += sample.received_bytes;
        self.account(sample, sample.done_ns);
        self.count_latencies(sample);
        self.gauge.down(sample.done_ns);
    }

    /// VU time and residence of a request that was seen until `until_ns`.
    fn account(&mut self, sample: &Sample, until_ns: i64) {
        let span = self.plan.span();
        self.totals.wait_ns += clip(span, sample.due_ns, sample.ready_ns);
        let begun_ns = sample.begun_ns.min(until_ns);
        self.totals.lag_ns += clip(span, sample.ready_ns, begun_ns);
        self.totals.request_ns += clip(span, sample.begun_ns, until_ns);
        self.totals.residence_ns += clip(span, sample.due_ns, until_ns);
        let interval = self.interval_of(sample.due_ns);
        let histograms = &mut self.steps[usize::from(sample.step)].histograms;
        histograms.add(interval, Metric::GeneratorLag, sample.lag_ns());
        histograms.add(interval, Metric::SlotWait, sample.ready_ns - sample.due_ns);
    }

    fn count_latencies(&mut self, sample: &Sample) {
        let interval = self.interval_of(sample.due_ns);
        let response_ns = sample.response_ns();
        let read_lag_ns = sample.read_lag_ns;
        let histograms = &mut self.steps[usize::from(sample.step)].histograms;
        if read_lag_ns != NEVER {
            histograms.add(interval, Metric::ReadLag, read_lag_ns);
        }
        if !sample.ok() {
            histograms.add(interval, Metric::FailedResponse, response_ns);
            return;
        }
        let without_lag_ns = response_ns - sample.lag_ns() - read_lag_ns.max(0);
        histograms.add(interval, Metric::Response, response_ns);
        histograms.add(interval, Metric::Service, sample.done_ns - sample.begun_ns);
        histograms.add(interval, Metric::ResponseWithoutLag, without_lag_ns);
        if read_lag_ns != NEVER {
            histograms.add(interval, Metric::SampledResponse, response_ns);
            histograms.add(interval, Metric::SampledClean, without_lag_ns);
        }
        // A dialogue that awaits nothing is ok without it.
        if sample.first_byte_ns != NEVER {
            histograms.add(
                interval,
                Metric::ServerTime,
                sample.first_byte_ns - sample.written_ns,
            );
        }
    }

    /// A request that is still in flight when the load ends, at load time `end_ns`.
    pub fn abandoned(&mut self, sample: &Sample, end_ns: i64) {
        self.totals.in_flight += 1;
        self.account(&sample.in_load_time(&self.plan.load_time), end_ns);
    }

    /// Turns intervals that ended before `offset_ns` into rows.
    pub fn freeze_before(&mut self, offset_ns: i64) {
        let interval = self.interval_of(offset_ns);
        for step in &mut self.steps {
            step.histograms.freeze_below(interval);
        }
    }
}

impl Ledger for GroupRecord {
    fn due(&mut self, due_ns: i64, asker: Asker) {
        self.due_at(self.plan.course.first(asker), due_ns);
    }

    fn dropped(&mut self, due_ns: i64, asker: Asker) {
        self.totals.dropped += 1;
        self.interval(self.plan.course.first(asker), due_ns).dropped += 1;
        self.gauge.down(due_ns);
    }

    fn waiting(&mut self, due_ns: i64, free_ns: i64, end_ns: i64) {
        self.totals.waiting += 1;
        let span = self.plan.span();
        let ready_ns = free_ns.clamp(due_ns, end_ns.max(due_ns));
        self.totals.waiting_ready += u64::from(ready_ns < end_ns);
        self.totals.wait_ns += clip(span, due_ns, ready_ns);
        self.totals.lag_ns += clip(span, ready_ns, end_ns);
        self.totals.residence_ns += clip(span, due_ns, end_ns);
    }

    fn think(&mut self, from_ns: i64, to_ns: i64) {
        self.totals.think_ns += clip(self.plan.span(), from_ns, to_ns);
    }

    fn active(&mut self, from_ns: i64, to_ns: i64) {
        self.totals.active_ns += clip(self.plan.span(), from_ns, to_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::group;

    const NOBODY: Asker = Asker { vu: 0, seq: 0 };

    fn record() -> GroupRecord {
        ending_at(9_000)
    }

    fn ending_at(end_ns: i64) -> GroupRecord {
        let plain = group(r#"{"kind": "constant-vus", "vus": 1}"#);
        GroupRecord::new(RecordPlan {
            course: Arc::new(Course::new(7, &plain, 9_000)),
            load_time: LoadTime::default(),
            interval_ns: 1_000,
            window: (1_000, 9_000),
            end_ns,
            rows: 3,
            checks: 0,
            keep_samples: true,
        })
    }

    fn sample(due_ns: i64, done_ns: i64) -> Sample {
        Sample {
            due_ns,
            ready_ns: due_ns + 10,
            begun_ns: due_ns + 30,
            written_ns: due_ns + 30,
            first_byte_ns: done_ns,
            done_ns,
            status: 200,
            row: 2,
            received_bytes: 7,
            ..Sample::default()
        }
    }

    #[test]
    fn a_request_is_counted_by_due_and_by_completion() {
        let mut record = record();
        record.due(900, NOBODY);
        record.begun(0, 900, 2, false);
        record.finished(sample(900, 2_500));
        record.fold(|_| ());
        assert_eq!(
            (
                record.steps[0].intervals[0].due,
                record.steps[0].intervals[0].begun,
                record.steps[0].intervals[0].ok
            ),
            (1, 1, 1)
        );
        assert_eq!(record.steps[0].intervals[0].response_sum_ns, 1_600);
        assert_eq!(
            (
                record.steps[0].intervals[2].completed_ok,
                record.steps[0].intervals[2].bytes_received
            ),
            (1, 7)
        );
        assert_eq!(record.rows_asked, [0, 0, 1]);
        assert_eq!(
            (record.totals.residence_ns, record.totals.request_ns),
            (1_500, 1_500)
        );
        assert_eq!(record.samples.len(), 1);
    }

    /// Of three requests the two whose read lag is known, and that are ok, make a pair each: with and without the delays.
    #[test]
    fn pairs_are_of_the_sampled_requests_alone() {
        let mut record = record();
        let stamped = |read_lag_ns| Sample {
            read_lag_ns,
            ..sample(1_000, 1_600)
        };
        let failed = Sample {
            error: ErrorKind::Status,
            ..stamped(70)
        };
        for one in [stamped(NEVER), stamped(0), stamped(50), failed] {
            record.due(1_000, NOBODY);
            record.begun(0, 1_000, -1, false);
            record.finished(one);
        }
        record.fold(|_| ());
        let cells = std::mem::take(&mut record.steps[0].histograms).into_cells();
        let of = |metric: Metric| {
            cells
                .iter()
                .filter(|cell| cell.metric == metric as u8)
                .map(|cell| (cell.bucket, cell.count))
                .collect::<Vec<_>>()
        };
        let bucket = |value_ns| super::super::buckets::bucket(value_ns);
        assert_eq!(of(Metric::SampledResponse), [(bucket(600), 2)]);
        assert_eq!(
            of(Metric::SampledClean),
            [(bucket(530), 1), (bucket(580), 1)]
        );
        assert_eq!(of(Metric::Response), [(bucket(600), 3)]);
    }

    #[test]
    fn who_waited_with_a_place_free_is_told_apart() {
        let mut record = record();
        for (due, free) in [(2_000, 9_000), (3_000, 8_999), (4_000, 100)] {
            record.due(due, NOBODY);
            record.waiting(due, free, 9_000);
        }
        let totals = &record.totals;
        assert_eq!((totals.waiting, totals.waiting_ready), (3, 2));
        assert_eq!(record.gauge.level(), 3);
    }

    #[test]
    fn what_is_noticed_after_the_end_takes_no_time_after_it() {
        let mut record = ending_at(5_000);
        // Done after the end; begun after it; and the users to whom both belong.
        for due in [4_000, 4_990] {
            record.due(due, NOBODY);
            record.begun(0, due, -1, false);
        }
        record.finished(sample(4_000, 5_200));
        record.fold(|_| ());
        record.active(4_000, 5_000);
        record.think(5_200, 5_000);
        record.abandoned(&sample(4_990, NEVER), 5_000);
        record.active(4_990, 5_000);
        record.gauge.integrate(5_000);
        let totals = &record.totals;
        assert_eq!(
            (totals.lag_ns, totals.request_ns, totals.think_ns),
            (20, 970, 0)
        );
        assert_eq!((totals.wait_ns, totals.active_ns), (20, 1_010));
        assert_eq!(record.gauge.area_ns(), i128::from(totals.residence_ns));
    }

    #[test]
    fn abandoned_and_waiting_requests_keep_both_identities() {
        let mut record = record();
        for due in [2_000, 3_000, 4_000, 5_000] {
            record.due(due, NOBODY);
        }
        record.dropped(3_000, NOBODY);
        record.begun(0, 2_000, -1, false);
        record.begun(0, 4_000, -1, false);
        record.finished(Sample {
            error: ErrorKind::ConnectRefused,
            ..sample(2_000, 2_100)
        });
        record.fold(|_| ());
        record.abandoned(&sample(4_000, NEVER), 8_000);
        record.waiting(5_000, 8_000, 8_000);
        let totals = &record.totals;
        assert_eq!(totals.due, totals.begun + totals.waiting + totals.dropped);
        assert_eq!(totals.begun, totals.ok + totals.failed + totals.in_flight);
        record.gauge.integrate(8_000);
        assert_eq!(i128::from(totals.residence_ns), record.gauge.area_ns());
    }
}
