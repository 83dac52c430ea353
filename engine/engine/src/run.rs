//! Running a share: threads out, progress while they work, tables back.

use std::any::Any;
use std::io;
use std::thread;

use indexmap::IndexMap;

use crate::clock::Clock;
use crate::encoding;
use crate::error::RunError;
use crate::plan::Plan;
use crate::progress::Control;
use crate::record::summary;
use crate::share::{self, Fault, Part, Share};
use crate::sys;
use crate::table::Table;
use crate::witness;
use crate::worker::{Outcome, Worker};

/// From "now" to offset 0 where a share names no start, so that every thread is ready.
const LEAD_NS: i64 = 2_000_000;
const REPORT_PERIOD_NS: i64 = 1_000_000_000;

impl<S> From<Fault> for RunError<S> {
    fn from(fault: Fault) -> Self {
        RunError::Share {
            field: fault.field,
            problem: fault.problem,
        }
    }
}

/// What of a share cannot be run; `None`: it can be made ready. Nothing is started, and no packet sent.
pub fn share_fault(text: &str, inputs: &IndexMap<String, Table>) -> Option<Fault> {
    let ready = share::parse(text, inputs).and_then(|share| Plan::new(&share, inputs));
    ready.err()
}

/// Rows of a table that a request does not send as they stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRows {
    pub request: String,
    /// Of the request: path, url or body.text.
    pub field: &'static str,
    pub feeder: String,
    pub column: String,
    pub rows: Vec<u64>,
}

/// The rows of `inputs` that requests encode; these may be any part of the tables.
///
/// # Errors
/// The fault of a share that cannot be read.
pub fn changed_rows(
    text: &str,
    inputs: &IndexMap<String, Table>,
) -> Result<Vec<ChangedRows>, Fault> {
    let share = share::read(text)?;
    let mut found = Vec::new();
    for group in &share.groups {
        for request in group.steps().map(|step| &step.request) {
            for (field, parts, places) in encoding::texts(request) {
                for (part, place) in parts.iter().zip(places) {
                    let Part::Feeder { feeder, column, .. } = part else {
                        continue;
                    };
                    let table = group.feeders.get(feeder);
                    let values = table.and_then(|spec| inputs.get(&spec.table)?.get(column));
                    let changed = |values| encoding::changed(values, part.placed(place));
                    let rows = values.map(changed).unwrap_or_default();
                    if !rows.is_empty() {
                        found.push(ChangedRows {
                            request: request.name.clone(),
                            field,
                            feeder: feeder.clone(),
                            column: column.clone(),
                            rows,
                        });
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Runs a share to its end. `sink` receives the progress JSON about once a second, from the calling thread; its error stops the load.
///
/// Blocks until the load has ended: by its own duration, or at once when the share's `stop_fd` becomes readable.
/// Returns the tables `samples`, `intervals`, `histograms`, `rows`, `witness`, `stops` and `summary` (engine/docs/results.md).
///
/// # Errors
/// [`RunError::Share`] for a share that can't be run, [`RunError::Os`] for a machine that refuses, [`RunError::Sink`] from the sink.
pub fn run_share<S>(
    text: &str,
    inputs: &IndexMap<String, Table>,
    sink: &mut dyn FnMut(&str) -> Result<(), S>,
) -> Result<IndexMap<String, Table>, RunError<S>> {
    let share = share::parse(text, inputs)?;
    let plan = Plan::new(&share, inputs)?;
    let clock = start_clock(&share)?;
    let control =
        Control::new(plan.threads, plan.groups.len()).map_err(os("making the engine's bells"))?;
    // Kernel receive stamps are switched on for the whole machine by the first socket that asks and off after the
    // last: this one keeps them on, so that the switch is not thrown while requests are timed.
    let _stamps = std::net::UdpSocket::bind("127.0.0.1:0").inspect(|socket| {
        let _ = sys::stamp_receives(std::os::fd::AsFd::as_fd(socket));
    });
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut witnesses = Vec::new();
        for thread in 0..plan.threads {
            let (plan, control, cpus) = (&plan, &control, share.cpus.as_slice());
            let body = move || {
                let _leaving = Leaving(control, thread);
                work(plan, control, thread, clock, cpus)
            };
            let spawned = thread::Builder::new()
                .name(format!("svload-{thread}"))
                .spawn_scoped(scope, body);
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    control.stop();
                    return Err(os("starting a thread")(error));
                }
            }
            let span_ns = plan
                .groups
                .iter()
                .map(|group| group.end_ns())
                .max()
                .unwrap_or(0);
            let beside = move || {
                pin(cpus, thread).ok();
                witness::watch(&control.watched[thread], clock, span_ns)
            };
            // Without one its table is empty, and what it would have told is not measured.
            witnesses.push(
                thread::Builder::new()
                    .name(format!("witness-{thread}"))
                    .spawn_scoped(scope, beside)
                    .ok(),
            );
        }
        let watched = watch(&share, &control, clock, sink);
        if watched.is_err() {
            control.stop();
        }
        let ended: Vec<_> = threads
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| Err(defect(&*panic))))
            .collect();
        let outcomes = ended.into_iter().collect::<Result<Vec<Outcome>, Failure>>();
        let seen: Vec<_> = witnesses
            .into_iter()
            .map(|handle| {
                handle
                    .and_then(|handle| handle.join().ok())
                    .unwrap_or_default()
            })
            .collect();
        let stopped = watched?;
        match outcomes {
            Ok(outcomes) => {
                let mut tables = summary::merge(&plan, outcomes, stopped);
                tables.insert("witness".to_owned(), witness::table(&seen));
                tables.insert("stops".to_owned(), witness::stops_table(&seen));
                Ok(tables)
            }
            Err(Failure::Os(doing, error)) => Err(os(doing)(error)),
            Err(Failure::Defect(text)) => Err(RunError::Defect(text)),
        }
    })
}

enum Failure {
    Os(&'static str, io::Error),
    Defect(String),
}

fn defect(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Failure::Defect(text.unwrap_or_else(|| "a thread panicked".to_owned()))
}

fn os<S>(doing: &'static str) -> impl FnOnce(io::Error) -> RunError<S> {
    move |source| RunError::Os { doing, source }
}

/// Tells the watcher and the witness that a thread has ended, however it ends.
struct Leaving<'a>(&'a Control, usize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
        self.0.watched[self.1].end();
        self.0.leave();
    }
}

fn start_clock(share: &Share) -> Result<Clock, Fault> {
    let now_ns = sys::monotonic_ns();
    match share.start_at_ns {
        0 => Ok(Clock::starting_at(now_ns + LEAD_NS)),
        at_ns if at_ns < now_ns => Err(Fault::new(
            "share.start_at_ns",
            format!("lies {} ms in the past", (now_ns - at_ns) / 1_000_000),
        )),
        at_ns => Ok(Clock::starting_at(at_ns)),
    }
}

fn work(
    plan: &Plan,
    control: &Control,
    thread: usize,
    clock: Clock,
    cpus: &[usize],
) -> Result<Outcome, Failure> {
    let run = || {
        pin(cpus, thread).map_err(|error| Failure::Os("pinning a thread to its CPU", error))?;
        control.watched[thread].begin();
        sys::sharpen_timers().map_err(|error| Failure::Os("setting the timer slack", error))?;
        // A kernel that refuses costs precision alone, and that is measured.
        let _ = sys::shorten_slice();
        let worker = Worker::new(plan, control, thread, clock)
            .map_err(|error| Failure::Os("making an epoll", error))?;
        worker
            .run()
            .map_err(|error| Failure::Os("waiting for sockets", error))
    };
    let outcome = run();
    if outcome.is_err() {
        control.stop();
    }
    outcome
}

fn pin(cpus: &[usize], thread: usize) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    sys::pin_to_cpu(cpus[thread % cpus.len()])
}

/// The calling thread's part: progress, and an eye on `stop_fd`. True if the load was stopped by it.
fn watch<S>(
    share: &Share,
    control: &Control,
    clock: Clock,
    sink: &mut dyn FnMut(&str) -> Result<(), S>,
) -> Result<bool, RunError<S>> {
    let names: Vec<&str> = share
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    let (mut stop_fd, mut stopped) = (share.stop_fd, false);
    let mut next_ns = clock.now_ns().max(0) + REPORT_PERIOD_NS;
    while control.finished() < share.threads {
        let wait_ms = ((next_ns - clock.now_ns()).max(0) / 1_000_000 + 1).min(1_000) as i32;
        let (stop, _) = sys::wait_either(stop_fd, control.done.fd(), wait_ms)
            .map_err(os("waiting for the load"))?;
        control.done.hush();
        if stop {
            (stop_fd, stopped) = (-1, true);
            control.stop();
        }
        if clock.now_ns() >= next_ns {
            next_ns += REPORT_PERIOD_NS;
            sink(&control.report(clock.now_ns(), &names)).map_err(RunError::Sink)?;
        }
    }
    sink(&control.report(clock.now_ns(), &names)).map_err(RunError::Sink)?;
    Ok(stopped)
}
