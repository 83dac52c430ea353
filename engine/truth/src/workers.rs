//! Virtual workers: a FIFO queue before `workers` slots, in virtual time. A slot is busy from the moment it takes a
//! request for exactly the planned time; a waiting request starts at the very instant a slot becomes free, however
//! late the thread that runs this was woken. So the server's queueing is that of the model, not of the host.

use std::collections::VecDeque;

use crate::config::Stall;
use crate::timer::Timers;

/// Names a request; the caller's.
pub type JobId = u64;

#[derive(Debug, Clone, Copy)]
struct Waiting {
    job: JobId,
    arrived_ns: u64,
    service_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    job: JobId,
    started_ns: u64,
}

/// What became of a request that was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    Started,
    Queued,
    /// The queue was full: it will not be served.
    Dropped,
}

/// The slots, their queue, and the one lock (`serial_lock_ns`).
#[derive(Debug)]
pub struct Workers {
    slots: usize,
    queue_limit: Option<usize>,
    lock_ns: u64,
    lock_free_at_ns: u64,
    queue: VecDeque<Waiting>,
    running: Timers<Running>,
    started_sum_ns: i128,
    busy_done_ns: i128,
    queued_max: usize,
}

impl Workers {
    #[must_use]
    pub fn new(slots: usize, queue_limit: Option<usize>, lock_ns: u64) -> Self {
        Self {
            slots,
            queue_limit,
            lock_ns,
            lock_free_at_ns: 0,
            queue: VecDeque::new(),
            running: Timers::default(),
            started_sum_ns: 0,
            busy_done_ns: 0,
            queued_max: 0,
        }
    }

    /// True if a request handed in now is not dropped.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.running.len() < self.slots
            || self
                .queue_limit
                .is_none_or(|limit| self.queue.len() < limit)
    }

    /// Hands in a request that arrived at `now_ns`. Call [`Workers::advance`] up to `now_ns` before it.
    pub fn submit(&mut self, job: JobId, now_ns: u64, service_ns: u64) -> Admitted {
        let waiting = Waiting {
            job,
            arrived_ns: now_ns,
            service_ns,
        };
        if self.running.len() < self.slots {
            self.start(waiting, now_ns);
            return Admitted::Started;
        }
        if !self.has_room() {
            return Admitted::Dropped;
        }
        self.queue.push_back(waiting);
        self.queued_max = self.queued_max.max(self.queue.len());
        Admitted::Queued
    }

    /// Moves virtual time to `now_ns`; `finished` gets each request that ended by then and the instant it did.
    pub fn advance(&mut self, now_ns: u64, finished: &mut Vec<(JobId, u64)>) {
        while let Some((ended_ns, running)) = self.running.pop_due(now_ns) {
            self.started_sum_ns -= i128::from(running.started_ns);
            self.busy_done_ns += i128::from(ended_ns - running.started_ns);
            finished.push((running.job, ended_ns));
            self.fill(ended_ns);
        }
    }

    /// When the next request ends, if one is being served.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.running.next_ns()
    }

    /// Changes the shape at `now_ns`. Fewer slots: those above the number end what they have and take nothing more.
    pub fn reshape(&mut self, slots: usize, queue_limit: Option<usize>, lock_ns: u64, now_ns: u64) {
        self.slots = slots;
        self.queue_limit = queue_limit;
        self.lock_ns = lock_ns;
        self.fill(now_ns);
    }

    fn fill(&mut self, now_ns: u64) {
        while self.running.len() < self.slots {
            let Some(next) = self.queue.pop_front() else {
                return;
            };
            self.start(next, now_ns.max(next.arrived_ns));
        }
    }

    fn start(&mut self, waiting: Waiting, started_ns: u64) {
        let mut served_from_ns = started_ns;
        if self.lock_ns > 0 {
            self.lock_free_at_ns = self.lock_free_at_ns.max(started_ns) + self.lock_ns;
            served_from_ns = self.lock_free_at_ns;
        }
        self.started_sum_ns += i128::from(started_ns);
        self.running.push(
            served_from_ns + waiting.service_ns,
            Running {
                job: waiting.job,
                started_ns,
            },
        );
    }

    /// Σ over slots of the time they were held, up to `now_ns` (advance first), since the last reset.
    #[must_use]
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        u64::try_from(self.busy_done_ns + self.held_ns(now_ns)).unwrap_or(0)
    }

    /// What the requests being served have held of their slots so far.
    fn held_ns(&self, now_ns: u64) -> i128 {
        i128::from(now_ns) * self.running.len() as i128 - self.started_sum_ns
    }

    /// Forgets the sums up to `now_ns` (advance first); what is being served and what waits stays.
    pub fn reset_sums(&mut self, now_ns: u64) {
        self.busy_done_ns = -self.held_ns(now_ns);
        self.queued_max = self.queue.len();
    }

    #[must_use]
    pub fn in_service(&self) -> usize {
        self.running.len()
    }
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }
    #[must_use]
    pub fn queued_max(&self) -> usize {
        self.queued_max
    }
}

/// A link over which bodies leave one after another at a fixed rate.
#[derive(Debug, Default)]
pub struct Link {
    free_at_ns: u64,
}

impl Link {
    /// When the last byte of an answer has left that is ready at `ready_ns`; the link is busy until then.
    pub fn leaves_ns(&mut self, ready_ns: u64, bytes: u64, rate_bytes_per_s: Option<u64>) -> u64 {
        let Some(rate) = rate_bytes_per_s.filter(|_| bytes > 0) else {
            return ready_ns;
        };
        let takes_ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
        self.free_at_ns =
            self.free_at_ns.max(ready_ns) + u64::try_from(takes_ns).unwrap_or(u64::MAX / 4);
        self.free_at_ns
    }
}

/// When an answer due at `due_ns` may leave: at once, or at the end of the stall it falls into.
#[must_use]
pub fn after_stall_ns(due_ns: u64, stall: Option<Stall>, epoch_ns: u64) -> u64 {
    let Some(stall) = stall else { return due_ns };
    let Some(since_ns) = due_ns.checked_sub(epoch_ns + stall.offset_ns) else {
        return due_ns;
    };
    let phase_ns = since_ns % stall.every_ns;
    if phase_ns < stall.for_ns {
        due_ns + (stall.for_ns - phase_ns)
    } else {
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{uniform, Stream};

    fn run(workers: &mut Workers, until_ns: u64) -> Vec<(JobId, u64)> {
        let mut finished = Vec::new();
        workers.advance(until_ns, &mut finished);
        finished
    }

    #[test]
    fn two_slots_serve_in_order_of_arrival() {
        let mut workers = Workers::new(2, None, 0);
        assert_eq!(workers.submit(1, 0, 100), Admitted::Started);
        assert_eq!(workers.submit(2, 10, 50), Admitted::Started);
        assert_eq!(workers.submit(3, 20, 100), Admitted::Queued);
        assert_eq!(workers.submit(4, 30, 5), Admitted::Queued);
        // woken late: starts are still at the instants at which slots became free
        assert_eq!(
            run(&mut workers, 1000),
            vec![(2, 60), (1, 100), (4, 105), (3, 160)]
        );
        assert_eq!(workers.busy_ns(1000), 100 + 50 + 100 + 5);
        assert_eq!(
            (workers.queued_max(), workers.queued(), workers.in_service()),
            (2, 0, 0)
        );
    }

    #[test]
    fn a_full_queue_drops() {
        let mut workers = Workers::new(1, Some(1), 0);
        assert_eq!(workers.submit(1, 0, 10), Admitted::Started);
        assert_eq!(workers.submit(2, 0, 10), Admitted::Queued);
        assert_eq!(workers.submit(3, 0, 10), Admitted::Dropped);
        assert_eq!(run(&mut workers, 20), vec![(1, 10), (2, 20)]);
        let mut none_may_wait = Workers::new(1, Some(0), 0);
        assert_eq!(none_may_wait.submit(1, 0, 10), Admitted::Started);
        assert_eq!(none_may_wait.submit(2, 0, 10), Admitted::Dropped);
    }

    #[test]
    fn the_lock_is_held_one_after_another_with_the_worker_in_hand() {
        let mut workers = Workers::new(4, None, 100);
        for job in 1..=3 {
            workers.submit(job, 0, 10);
        }
        assert_eq!(run(&mut workers, 1000), vec![(1, 110), (2, 210), (3, 310)]);
        assert_eq!(workers.busy_ns(1000), 110 + 210 + 310);
    }

    #[test]
    fn busy_time_counts_what_is_under_way_and_a_reset_starts_at_its_moment() {
        let mut workers = Workers::new(2, None, 0);
        workers.submit(1, 100, 1000);
        assert_eq!(workers.busy_ns(400), 300);
        workers.reset_sums(400);
        assert_eq!(workers.busy_ns(400), 0);
        assert_eq!(workers.busy_ns(600), 200);
        run(&mut workers, 5000);
        assert_eq!(workers.busy_ns(5000), 700);
    }

    #[test]
    fn more_slots_take_waiting_requests_at_once_fewer_let_them_end() {
        let mut workers = Workers::new(1, None, 0);
        for job in 1..=3 {
            workers.submit(job, 0, 100);
        }
        workers.reshape(2, None, 0, 40);
        assert_eq!((workers.in_service(), workers.queued()), (2, 1));
        workers.reshape(1, None, 0, 50);
        assert_eq!(run(&mut workers, 1000), vec![(1, 100), (2, 140), (3, 240)]);
    }

    #[test]
    fn waiting_in_an_m_m_1_queue_is_what_theory_says() {
        // rho = 0.5: mean response = 1/(mu − lambda) = 2 service times (Kleinrock 1975)
        let mut workers = Workers::new(1, None, 0);
        let (mut now, mut finished) = (0.0_f64, Vec::new());
        let n = 200_000u64;
        let mut arrivals = Vec::new();
        for job in 0..n {
            now += -2_000_000.0 * (-uniform(1, Stream::Error, job)).ln_1p();
            let service = -1_000_000.0 * (-uniform(1, Stream::Service, job)).ln_1p();
            arrivals.push(now as u64);
            workers.advance(now as u64, &mut finished);
            workers.submit(job, now as u64, service as u64);
        }
        workers.advance(u64::MAX >> 1, &mut finished);
        assert_eq!(finished.len() as u64, n);
        let sum: f64 = finished
            .iter()
            .map(|(job, end)| (end - arrivals[*job as usize]) as f64)
            .sum();
        let mean_ms = sum / n as f64 / 1e6;
        assert!((mean_ms - 2.0).abs() < 0.08, "{mean_ms}");
    }

    #[test]
    fn bodies_leave_the_link_one_after_another() {
        let mut link = Link::default();
        assert_eq!(link.leaves_ns(100, 1000, None), 100);
        assert_eq!(link.leaves_ns(100, 1000, Some(1_000_000_000)), 1100);
        assert_eq!(link.leaves_ns(200, 1000, Some(1_000_000_000)), 2100);
        assert_eq!(link.leaves_ns(9000, 0, Some(1)), 9000);
        assert_eq!(link.leaves_ns(9000, 1, Some(3)), 9000 + 333_333_334);
    }

    #[test]
    fn stalls_hold_what_is_due_inside_them_until_their_end() {
        let stall = Some(Stall {
            every_ns: 100,
            for_ns: 20,
            offset_ns: 50,
        });
        let held = |due| after_stall_ns(due, stall, 1000);
        assert_eq!(held(1049), 1049); // before the first
        assert_eq!(held(1050), 1070);
        assert_eq!(held(1069), 1070);
        assert_eq!(held(1070), 1070);
        assert_eq!(held(1149), 1149);
        assert_eq!(held(1155), 1170);
        assert_eq!(after_stall_ns(1055, None, 1000), 1055);
    }
}
