//! A thread of the load: its own epoll, timers, VUs and connections. Nothing is shared while requests are made.

mod alarm;
mod connection;
mod deadlines;
mod exchange;
mod http2;
mod patience;
mod quantum;
mod redirects;
mod rows;
mod running_quantile;
mod stamping;
mod steps;
mod upload;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::sync::PoisonError;

use self::alarm::Alarm;
use self::http2::{Lines, Multiplexes};
use self::patience::Patience;
use self::stamping::Stamping;
use self::upload::Unfinished;
use crate::clock::Clock;
use crate::conn::{ConnKey, Conns};
use crate::executor::{self, Executor};
use crate::plan::{Endpoint, GroupPlan, Plan};
use crate::progress::{Control, Post, Recent};
use crate::record::{GroupRecord, RecordPlan, NEVER};
use crate::sets::{RowSet, Sets};
use crate::share::Record;
use crate::sys::{self, Epoll, Events};
use crate::vu::{Phase, Slot};

const EVENTS_MAX: usize = 256;
/// One read takes a 100 KiB body whole: at 32 KiB such an answer costs an eighth more, above this nothing is gained (NOTES.md).
const READ_BYTES: usize = 128 * 1024;
/// Bytes read of one answer before other work gets its turn.
const READ_TURN_BYTES: usize = 1024 * 1024;
/// Requests begun for one group before other work gets its turn.
const PUMP_MAX: usize = 1024;
const POST_PERIOD_NS: i64 = 100_000_000;
/// How long, and for how many connections, the server's FIN is awaited after an answer that closes.
const LINGER_NS: i64 = 500_000_000;
const LINGER_MAX: usize = 256;
const BELL_TOKEN: u64 = u64::MAX;

/// One group on this thread.
struct GroupRun<'a> {
    plan: &'a GroupPlan,
    executor: Option<Box<dyn Executor>>,
    slots: Vec<Slot>,
    /// Free connections of a group that shares them, each with its endpoint, the last used last.
    idle: Vec<(usize, ConnKey)>,
    /// Slots that share HTTP/2 connections.
    lines: Lines,
    /// Endpoints whose server has chosen HTTP/1.1.
    without_http2: Vec<usize>,
    record: GroupRecord,
    stamping: Stamping,
    recent: Recent,
    /// Something may begin although no time has passed.
    dirty: bool,
    closed: bool,
    /// From when on nothing new is due, and when its last request may end.
    stop_ns: i64,
    end_ns: i64,
}

impl GroupRun<'_> {
    /// Its load time at a real time.
    #[inline]
    fn load_ns(&self, real_ns: i64) -> i64 {
        self.plan.load_time.load_ns(real_ns)
    }

    /// Whether the read lag of a slot's request that is sent now is measured: of all its hops, or of none.
    #[inline]
    fn measures_read_lag(&mut self, s: u32, now_ns: i64) -> bool {
        let slot = &self.slots[s as usize];
        match slot.sample.redirects {
            0 => self.stamping.takes(now_ns),
            _ => slot.earlier_lag_ns != NEVER,
        }
    }
}

/// What a thread leaves.
pub struct Outcome {
    pub records: Vec<GroupRecord>,
    /// When each group ended, in load time.
    pub ends_ns: Vec<i64>,
    pub unauthorised: BTreeSet<String>,
    /// Without what was spun away.
    pub cpu_ns: i64,
    pub spin_ns: i64,
    pub wall_ns: i64,
    pub run_queue_ns: i64,
    pub loop_pass_max_ns: i64,
}

/// One thread of the load.
pub struct Worker<'a> {
    plan: &'a Plan,
    control: &'a Control,
    thread: usize,
    clock: Clock,
    /// The last reading of the clock.
    now_ns: i64,
    epoll: Epoll,
    conns: Conns,
    multiplexes: Multiplexes,
    lingering: VecDeque<(i64, u64)>,
    /// Bodies whose turn of writing was over.
    unsent: VecDeque<Unfinished>,
    /// Answers whose turn of reading was over.
    unread: VecDeque<Unfinished>,
    /// Bodies that wait for the server's 100, until when.
    held: VecDeque<(i64, Unfinished)>,
    /// Connections to close once the requests of this pass have begun.
    leaving: Vec<u64>,
    groups: Vec<GroupRun<'a>>,
    /// Written objects that requests of all groups here name.
    sets: Sets,
    deadlines: BinaryHeap<Reverse<(i64, usize, u32)>>,
    /// Later steps of iterations under way, by due time.
    later: BinaryHeap<Reverse<(i64, usize, u32)>>,
    next_wake_ns: i64,
    next_post_ns: i64,
    unposted: bool,
    buf: Vec<u8>,
    /// Whose bytes the last read put into `buf`, and how many.
    heard: Option<(usize, u32, usize)>,
    /// The share's endpoints, then addresses that redirects named.
    endpoints: Vec<Endpoint>,
    unauthorised: BTreeSet<String>,
    loop_pass_max_ns: i64,
    alarm: Alarm,
    patience: Patience,
    spin_ns: i64,
    spin_cpu_ns: i64,
}

impl<'a> Worker<'a> {
    /// Prepares thread number `thread`.
    pub fn new(
        plan: &'a Plan,
        control: &'a Control,
        thread: usize,
        clock: Clock,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(control.bells[thread].fd(), BELL_TOKEN)?;
        let quantised = plan
            .groups
            .iter()
            .any(|group| group.spec.pacing_quantum_ns > 0);
        let group = |group: &'a GroupPlan| {
            let executor =
                executor::build(plan.seed, &group.spec, thread as u64, plan.threads as u64);
            GroupRun {
                closed: executor.is_none(),
                // A thread without a part in the group does not say when that ends.
                end_ns: executor.as_ref().map_or(0, |_| group.end_ns()),
                slots: Vec::with_capacity(
                    executor
                        .as_ref()
                        .map_or(0, |executor| executor.slots().min(1 << 16)),
                ),
                executor,
                idle: Vec::new(),
                lines: Lines::new(group.spec.http2),
                without_http2: Vec::new(),
                record: GroupRecord::new(RecordPlan {
                    course: group.course.clone(),
                    load_time: group.load_time.clone(),
                    interval_ns: plan.interval_ns,
                    window: plan.window,
                    end_ns: group.load_time.load_ns(group.end_ns()),
                    rows: group.rows(),
                    checks: group.check_names().len(),
                    keep_samples: group.spec.record == Record::Rows,
                }),
                stamping: Stamping::new(group.spec.most_rps()),
                recent: Recent::default(),
                dirty: true,
                stop_ns: group.stop_ns(),
                plan: group,
            }
        };
        Ok(Worker {
            plan,
            control,
            thread,
            clock,
            now_ns: clock.now_ns(),
            epoll,
            conns: Conns::new(thread, plan.threads),
            multiplexes: Multiplexes::default(),
            lingering: VecDeque::new(),
            unsent: VecDeque::new(),
            unread: VecDeque::new(),
            held: VecDeque::new(),
            leaving: Vec::new(),
            groups: plan.groups.iter().map(group).collect(),
            sets: sets(plan, thread),
            deadlines: BinaryHeap::new(),
            later: BinaryHeap::new(),
            next_wake_ns: 0,
            next_post_ns: 0,
            unposted: false,
            buf: vec![0; READ_BYTES],
            heard: None,
            endpoints: plan.endpoints.clone(),
            unauthorised: BTreeSet::new(),
            loop_pass_max_ns: 0,
            alarm: Alarm::new(plan.spin_ns, quantised, clock.now_ns()),
            patience: Patience::new(plan.spin_ns, quantised),
            spin_ns: 0,
            spin_cpu_ns: 0,
        })
    }

    /// Makes the load, to its end or until it is stopped.
    pub fn run(mut self) -> io::Result<Outcome> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while self.tick() < 0 && !self.control.stopped() {
            self.epoll.wait(&mut events, Some(-self.now_ns))?;
        }
        let (cpu_ns, wall_ns, queue_ns) =
            (sys::thread_cpu_ns(), sys::monotonic_ns(), run_queue_ns());
        let mut pass_ns = self.tick();
        while self.turn() {
            self.loop_pass_max_ns = self.loop_pass_max_ns.max(self.now_ns - pass_ns);
            self.control.watched[self.thread].passed(self.now_ns - pass_ns, self.now_ns);
            let (from_ns, (begun, in_flight)) = (self.now_ns, self.under_way());
            self.wait(&mut events, begun, in_flight)?;
            pass_ns = self.tick();
            if in_flight > 0 {
                self.patience
                    .learn(pass_ns, pass_ns - from_ns, events.count() > 0);
            }
            for at in 0..events.count() {
                self.on_event(events.get(at));
                if self.now_ns >= self.next_wake_ns {
                    self.pump();
                }
            }
        }
        let now_ns = self.tick();
        (0..self.groups.len()).for_each(|g| self.close_group(g, now_ns));
        let board = self.control.boards[self.thread].lock();
        self.post_to(&mut board.unwrap_or_else(PoisonError::into_inner));
        Ok(Outcome {
            ends_ns: self.groups.iter().map(|group| group.end_ns).collect(),
            records: self.groups.into_iter().map(|group| group.record).collect(),
            unauthorised: self.unauthorised,
            cpu_ns: sys::thread_cpu_ns() - cpu_ns - self.spin_cpu_ns,
            spin_ns: self.spin_ns,
            wall_ns: sys::monotonic_ns() - wall_ns,
            run_queue_ns: run_queue_ns() - queue_ns,
            loop_pass_max_ns: self.loop_pass_max_ns,
        })
    }

    /// Reads the clock.
    #[inline]
    fn tick(&mut self) -> i64 {
        self.now_ns = self.clock.now_ns();
        self.now_ns
    }

    /// All that time brings, between two waits. False once the load has ended.
    fn turn(&mut self) -> bool {
        self.pump();
        self.go_on();
        self.read_on();
        self.expire();
        self.flush_multiplexes();
        self.close_leaving();
        self.tick();
        let ended = |group: &GroupRun<'_>, now_ns: i64| {
            let finished = group
                .executor
                .as_ref()
                .is_none_or(|executor| executor.finished(group.load_ns(now_ns)));
            !group.closed && (finished || now_ns >= group.end_ns)
        };
        for g in 0..self.groups.len() {
            if ended(&self.groups[g], self.now_ns) {
                self.close_group(g, self.now_ns);
            }
        }
        self.fold();
        if self.unposted && self.now_ns >= self.next_post_ns {
            self.post();
        }
        self.tick();
        !self.control.stopped() && self.groups.iter().any(|group| !group.closed)
    }

    /// Begins what may begin.
    fn pump(&mut self) {
        self.next_wake_ns = self.go_on_with_steps();
        for g in 0..self.groups.len() {
            let mut begun = 0;
            while !self.groups[g].closed && begun < PUMP_MAX {
                let group = &mut self.groups[g];
                let Some(executor) = &mut group.executor else {
                    break;
                };
                group.dirty = false;
                let load_ns = group.plan.load_time.load_ns(self.now_ns);
                let due_by_ns = quantum::floor_ns(load_ns, group.plan.spec.pacing_quantum_ns);
                let Some(start) = executor.poll(due_by_ns, &mut group.record) else {
                    break;
                };
                self.begin(g, start);
                begun += 1;
            }
            let group = &mut self.groups[g];
            let wake_ns = group
                .executor
                .as_ref()
                .filter(|_| !group.closed)
                .and_then(|executor| executor.next_wake_ns())
                .map(|at_ns| quantum::ceil_ns(at_ns, group.plan.spec.pacing_quantum_ns))
                .map(|at_ns| group.plan.load_time.real_ns(at_ns));
            // Nobody asks a closed group what it has to begin.
            let again = !group.closed && (group.dirty || begun == PUMP_MAX);
            self.next_wake_ns = self.next_wake_ns.min(if again {
                self.now_ns
            } else {
                wake_ns.unwrap_or(i64::MAX)
            });
        }
        self.flush_multiplexes();
    }

    /// Fails requests whose time is over and closes connections that lingered long enough.
    fn expire(&mut self) {
        self.end_late();
        while let Some((_, token)) = self
            .lingering
            .front()
            .copied()
            .filter(|(at_ns, _)| *at_ns <= self.now_ns)
        {
            self.lingering.pop_front();
            self.leaving.push(token);
        }
    }

    /// Marks a connection for closing: that takes a while, and the next request comes first.
    fn close_later(&mut self, key: ConnKey) {
        if let Some(conn) = self.conns.get(key) {
            self.leaving.push(conn.token);
        }
    }

    fn close_leaving(&mut self) {
        while let Some(token) = self.leaving.pop() {
            if let Some(key) = self.conns.find(token) {
                self.conns.close(key);
            }
        }
    }

    /// (Requests begun, of them in flight) of all groups.
    fn under_way(&self) -> (u64, u64) {
        let totals = self.groups.iter().map(|group| &group.record.totals);
        totals.fold((0, 0), |(begun, in_flight), totals| {
            let open = totals.begun - totals.ok - totals.failed - totals.in_flight;
            (begun + totals.begun, in_flight + open)
        })
    }

    /// Waits for news, or for the next thing to do; the last moments before a start, and those in which an answer is expected, are spun.
    fn wait(&mut self, events: &mut Events, begun: u64, in_flight: u64) -> io::Result<()> {
        let later = self.unsent.len() + self.unread.len();
        if later > 0 || self.multiplexes.has_unflushed() {
            return self.epoll.wait(events, Some(0));
        }
        let chore_ns = self.next_chore_ns();
        let start_ns = self.next_wake_ns;
        let early_ns = start_ns.saturating_sub(self.alarm.lead_ns(self.now_ns));
        let wake_ns = chore_ns.min(early_ns);
        let late_ns = self.alarm.late_ns();
        let window = self.patience.window(self.now_ns, begun, in_flight, late_ns);
        if let Some((from_ns, until_ns)) = window.filter(|(from_ns, _)| *from_ns < wake_ns) {
            let next_ns = chore_ns.min(start_ns);
            self.sleep_until(events, from_ns)?;
            if events.count() == 0 {
                self.spin(events, next_ns.min(until_ns))?;
            }
            if events.count() > 0 || self.now_ns >= next_ns {
                return Ok(());
            }
        }
        if wake_ns == i64::MAX {
            return self.epoll.wait(events, None);
        }
        self.sleep_until(events, wake_ns)?;
        if events.count() == 0 && early_ns <= chore_ns && self.now_ns < start_ns {
            let from_ns = self.now_ns;
            self.spin(events, start_ns)?;
            self.alarm.spun(self.now_ns - from_ns);
        }
        Ok(())
    }

    /// Sleeps until something comes or the time does; learns how late that is told.
    fn sleep_until(&mut self, events: &mut Events, wake_ns: i64) -> io::Result<()> {
        let timeout_ns = wake_ns - self.now_ns;
        self.epoll.wait(events, Some(timeout_ns.max(0)))?;
        if events.count() == 0 {
            self.tick();
            if timeout_ns > 0 {
                self.alarm.learn(self.now_ns - wake_ns);
            }
        }
        Ok(())
    }

    fn spin(&mut self, events: &mut Events, until_ns: i64) -> io::Result<()> {
        let (from_ns, cpu_ns) = (self.now_ns, sys::thread_cpu_ns());
        while events.count() == 0 && self.tick() < until_ns {
            self.epoll.wait(events, Some(0))?;
        }
        self.spin_ns += self.now_ns - from_ns;
        self.spin_cpu_ns += sys::thread_cpu_ns() - cpu_ns;
        self.control.watched[self.thread].spun(self.spin_cpu_ns);
        Ok(())
    }

    /// When something other than a start needs doing.
    fn next_chore_ns(&self) -> i64 {
        let group_end = |group: &GroupRun<'_>| {
            if self.now_ns < group.stop_ns {
                group.stop_ns
            } else {
                group.end_ns
            }
        };
        let ends = self
            .groups
            .iter()
            .filter(|group| !group.closed)
            .map(group_end);
        let deadline = self.deadlines.peek().map(|Reverse((at_ns, _, _))| *at_ns);
        let linger = self.lingering.front().map(|(at_ns, _)| *at_ns);
        let held = self.held.front().map(|(at_ns, _)| *at_ns);
        let post = self.unposted.then_some(self.next_post_ns);
        ends.chain(deadline)
            .chain(linger)
            .chain(held)
            .chain(post)
            .min()
            .unwrap_or(i64::MAX)
    }

    /// Counts what is complete: after the next requests were written, before the next wait.
    fn fold(&mut self) {
        for group in &mut self.groups {
            let recent = &mut group.recent;
            let before = group.record.totals.begun;
            group.record.fold(|sample| recent.add(sample));
            self.unposted |= before > 0;
        }
    }

    /// Posts progress and bounds the memory of the histograms; while the board is being read, not before the next time.
    fn post(&mut self) {
        self.next_post_ns = self.now_ns + POST_PERIOD_NS;
        let control = self.control;
        if let Ok(mut board) = control.boards[self.thread].try_lock() {
            self.unposted = false;
            self.post_to(&mut board);
        }
    }

    fn post_to(&mut self, board: &mut [Post]) {
        for (group, post) in self.groups.iter_mut().zip(board) {
            let totals = &group.record.totals;
            (post.due, post.begun, post.ok, post.failed) =
                (totals.due, totals.begun, totals.ok, totals.failed);
            post.errors = group.record.errors;
            post.redirects = group.record.hop_status.iter().sum();
            let load_ns = group.load_ns(self.now_ns);
            post.active_vus = match &group.executor {
                Some(executor) if !group.closed => executor.active_vus(load_ns),
                _ => 0,
            };
            post.recent.absorb(&mut group.recent);
            let old_ns = load_ns - group.plan.longest_timeout_ns - self.plan.interval_ns;
            group.record.freeze_before(old_ns);
        }
    }

    /// Ends a group: what is in flight is counted and cut off.
    fn close_group(&mut self, g: usize, now_ns: i64) {
        let group = &mut self.groups[g];
        if std::mem::replace(&mut group.closed, true) {
            return;
        }
        group.record.fold(|sample| group.recent.add(sample));
        let mut end_ns = group.load_ns(group.end_ns.min(now_ns));
        let held: Vec<(u32, i64)> = (0..)
            .zip(&mut group.slots)
            .filter_map(|(s, slot)| Some((s, slot.later.take_if(|later| later.is_held())?.due_ns)))
            .collect();
        for (s, done_ns) in held {
            end_ns = end_ns.max(done_ns);
            self.release(g, s, done_ns);
        }
        let group = &mut self.groups[g];
        group.end_ns = end_ns;
        if let Some(executor) = &mut group.executor {
            let early = now_ns < group.stop_ns;
            group.record.plan_done = early && executor.finished(end_ns);
            executor.close(end_ns, &mut group.record);
        }
        self.close_multiplexes(g);
        let group = &mut self.groups[g];
        let stop_ns = group.plan.spec.stop_offset_ns;
        for slot in &mut group.slots {
            if slot.active() {
                group.record.abandoned(&slot.sample, end_ns);
                slot.phase = Phase::Idle;
            }
            if let Some(later) = slot.later.take() {
                steps::abandon(later, stop_ns, end_ns, &mut group.record);
            }
            let parked = slot.parked.drain(..).map(|(_, key)| key);
            let kept = [slot.conn.take(), slot.home.take()].into_iter().flatten();
            parked.chain(kept).for_each(|key| self.conns.close(key));
        }
        for (_, key) in group.idle.drain(..) {
            self.conns.close(key);
        }
        group.record.gauge.integrate(end_ns);
        self.unposted = true;
    }
}

/// The sets of all groups, each with its first rows.
fn sets(plan: &Plan, thread: usize) -> Sets {
    let named = plan.groups.iter().flat_map(|group| &group.first_rows);
    named
        .map(|(name, rows)| {
            (
                name.clone(),
                RowSet::of(rows.as_ref(), thread, plan.threads),
            )
        })
        .collect()
}

/// Time the calling thread waited for a CPU so far, ns (0 where the kernel does not tell).
fn run_queue_ns() -> i64 {
    let read = sys::own_schedstat()
        .ok()
        .as_ref()
        .and_then(sys::read_schedstat);
    read.map_or(0, |(_, waited_ns)| waited_ns)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use indexmap::IndexMap;
    use serde_json::json;

    use super::*;

    /// A share of one request to an address; `allowed`: where it may go. A check looks into the answer's body.
    fn plan(address: &str, allowed: &[&str]) -> Plan {
        let executor = json!({"kind": "per-vu-iterations", "vus": 1, "iterations": 1});
        let check = json!({"name": "text", "body": {"contains": [{"text": "x"}]}});
        let request = json!({"name": "get", "method": "GET", "endpoint": "http://a", "path": [], "timeout_ns": 1_000_000_000, "checks": [check]});
        let share = json!({
            "format": 1, "id": "load.0", "seed": 7, "start_at_ns": 0, "interval_ns": 1_000_000, "window_ns": [0, 1_000_000],
            "endpoints": {"http://a": {"address": address, "tls": null}}, "allowed": allowed,
            "groups": [{
                "name": "load", "client": "engine", "connection": "keep-alive", "record": "rows", "stop_offset_ns": 1_000_000_000,
                "executor": executor, "request": request,
            }],
        });
        let none = IndexMap::new();
        Plan::new(
            &crate::share::parse(&share.to_string(), &none).unwrap(),
            &none,
        )
        .unwrap()
    }

    #[test]
    fn the_last_post_is_made_though_the_board_is_being_read() {
        let (plan, control) = (plan("127.0.0.1:9", &[]), Control::new(1, 1).unwrap());
        let clock = Clock::starting_at(sys::monotonic_ns());
        let outcome = thread::scope(|scope| {
            let board = control.boards[0].lock().unwrap();
            let worker = scope.spawn(|| Worker::new(&plan, &control, 0, clock)?.run());
            thread::sleep(Duration::from_millis(200));
            drop(board);
            worker.join().unwrap().unwrap()
        });
        let posted = control.boards[0].lock().unwrap()[0].clone();
        assert_eq!((posted.begun, posted.failed), (1, 1));
        assert_eq!(outcome.records[0].totals.failed, 1);
    }

    /// A share of one request, and a server that gives it this answer.
    fn answered(answer: Vec<u8>) -> (Plan, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(&answer).unwrap();
        });
        (plan(&address, &["127.0.0.0/8"]), serving)
    }

    /// Takes what has come and goes on; false once the load has ended.
    fn pass(worker: &mut Worker<'_>) -> bool {
        let mut events = Events::with_capacity(8);
        worker.epoll.wait(&mut events, Some(1_000_000)).unwrap();
        worker.tick();
        (0..events.count()).for_each(|at| worker.on_event(events.get(at)));
        worker.turn()
    }

    #[test]
    fn a_large_body_leaves_little_room_with_its_user() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
        let (plan, serving) = answered([&head[..], &vec![b'x'; 1_000_000]].concat());
        let control = Control::new(1, 1).unwrap();
        let clock = Clock::starting_at(sys::monotonic_ns());
        let mut worker = Worker::new(&plan, &control, 0, clock).unwrap();
        while pass(&mut worker) {}
        serving.join().unwrap();
        let group = &worker.groups[0];
        assert_eq!(group.record.totals.ok, 1);
        assert!(group.slots[0].exchange.kept().unwrap().capacity() < 50_000);
    }

    #[test]
    fn an_answer_that_nobody_has_read_yet_is_in_time() {
        let (plan, serving) = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec());
        let control = Control::new(1, 1).unwrap();
        let clock = Clock::starting_at(sys::monotonic_ns());
        let mut worker = Worker::new(&plan, &control, 0, clock).unwrap();
        while pass(&mut worker) && worker.groups[0].slots[0].phase != Phase::Receiving {}
        serving.join().unwrap();
        thread::sleep(Duration::from_millis(1_100));
        worker.tick();
        worker.turn();
        let totals = &worker.groups[0].record.totals;
        assert_eq!((totals.ok, totals.failed), (1, 0));
    }
}
