//! The steps of an iteration: what begins, what follows when, and what they take from answers.

use std::cmp::Reverse;

use super::rows::{keep_written, note_written};
use super::{quantum, Worker};
use crate::error::ErrorKind;
use crate::exchange::http2::Form;
use crate::executor::{Ledger, Release, Start};
use crate::record::GroupRecord;
use crate::scenario::Next;
use crate::sets::Held;
use crate::take::take_all;
use crate::vu::{Later, Slot};

impl Worker<'_> {
    /// Begins an iteration with its first step.
    pub(super) fn begin(&mut self, g: usize, start: Start) {
        let group = &mut self.groups[g];
        let at = start.slot as usize;
        if group.slots.len() <= at {
            group.slots.resize_with(at + 1, Slot::default);
        }
        let slot = &mut group.slots[at];
        if slot.taken.is_empty() {
            slot.taken.clone_from(&group.plan.given);
        }
        slot.held.resize(group.plan.sets.len(), Held::Nothing);
        let course = &group.plan.course;
        let ready_ns = group.plan.load_time.real_ns(start.ready_ns);
        let first = course.first(start.asker());
        let renewal = course.renewal(ready_ns - slot.renewed_ns, slot.refused);
        if let Some(step) = renewal {
            group.record.due_instead(first, step, start.due_ns);
        }
        let step = renewal.unwrap_or(first);
        self.begin_step(g, start, step);
    }

    /// Begins a step's request: on the kept connection, else on a new one.
    fn begin_step(&mut self, g: usize, start: Start, step: u16) {
        let group = &mut self.groups[g];
        let (plan, slot) = (group.plan, &mut group.slots[start.slot as usize]);
        let todo = plan.step(step);
        let row = plan.row(step, start.asker());
        let repeat = todo.first_of_row && slot.repeats_early(plan, start.asker(), row);
        slot.begin(&start, step, row, &plan.load_time);
        group.record.begun(step, start.due_ns, row, repeat);
        if !self.draw_row(g, start.slot, step) {
            return self.finish_unsent(g, start.slot, ErrorKind::NoRow);
        }
        let taken = &self.groups[g].slots[start.slot as usize].taken;
        if !todo.recipe.http().is_none_or(|http| http.fits(taken)) {
            return self.finish_unsent(g, start.slot, ErrorKind::Capture);
        }
        let Some(endpoint) = todo.endpoint else {
            return self.begin_at_address(g, start.slot);
        };
        if let Some(http2) = self.http2_at(g, endpoint) {
            return self.begin_stream(g, start.slot, http2, endpoint, Form::Template);
        }
        self.groups[g].slots[start.slot as usize].prepare(plan);
        self.begin_at(g, start.slot, endpoint);
    }

    /// Begins the step's request, whose exchange is ready, at an endpoint.
    pub(super) fn begin_at(&mut self, g: usize, s: u32, endpoint: usize) {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        slot.aim(endpoint);
        slot.begin_hop(endpoint);
        slot.take_body(group.plan);
        slot.conn = slot.home.or_else(|| {
            let free = group.idle.iter().rposition(|(at, _)| *at == endpoint)?;
            Some(group.idle.remove(free).1)
        });
        match slot.conn {
            Some(key) => {
                if let Some(conn) = self.conns.get_mut(key) {
                    conn.owner.slot = s;
                }
                self.send(g, s, key);
            }
            None => self.open(g, s),
        }
    }

    /// Judges a complete answer, then takes from it what later steps need.
    pub(super) fn judge(&mut self, g: usize, s: u32) -> ErrorKind {
        let group = &mut self.groups[g];
        let slot = &mut group.slots[s as usize];
        let step = group.plan.step(slot.step);
        note_written(slot, group.plan);
        let source = slot.source(group.plan);
        let answer = slot.exchange.checked();
        let verdict = step.judge(&answer, &source, &mut group.record.checks_failed);
        if verdict != ErrorKind::None {
            return verdict;
        }
        if let Some(before) = keep_written(slot, group.plan) {
            let name = step.set.map(|used| &group.plan.sets[used.at]);
            if let Some(set) = name.and_then(|name| self.sets.get_mut(name)) {
                set.give_back(before);
            }
        }
        if step.takes.is_empty() {
            return verdict;
        }
        let found = slot
            .exchange
            .kept()
            .is_some_and(|kept| take_all(&step.takes, kept, &mut slot.taken));
        if found {
            ErrorKind::None
        } else {
            ErrorKind::Capture
        }
    }

    /// A step has ended: the next one is planned, or the slot is free again.
    pub(super) fn after_step(&mut self, g: usize, s: u32) {
        let group = &mut self.groups[g];
        let time = &group.plan.load_time;
        let slot = &mut group.slots[s as usize];
        let done_ns = time.since_ready_ns(slot.sample.ready_ns, self.now_ns);
        let next = if group.plan.course.is_plain() {
            Next::End
        } else {
            let ok = slot.sample.ok();
            group.plan.course.after(slot.step, slot.asker, ok, done_ns)
        };
        let (step, due_ns) = match next {
            Next::End if done_ns <= time.load_ns(self.now_ns) => {
                return self.release(g, s, done_ns)
            }
            Next::End => (None, done_ns),
            Next::Step { step, due_ns } => (Some(step), due_ns),
            Next::Cut { at_ns } => (None, at_ns),
        };
        slot.later = Some(Later {
            step,
            free_ns: done_ns,
            due_ns,
        });
        // What does not wait at all does not wait for the grid either.
        let at_ns = if due_ns > done_ns {
            quantum::ceil_ns(due_ns, group.plan.spec.pacing_quantum_ns)
        } else {
            due_ns
        };
        let at_ns = time.real_ns(at_ns);
        self.later.push(Reverse((at_ns, g, s)));
        self.next_wake_ns = self.next_wake_ns.min(at_ns);
    }

    /// Gives the slot of an ended iteration back to its executor.
    pub(super) fn release(&mut self, g: usize, s: u32, at_ns: i64) {
        self.give_rows_back(g, s);
        let group = &mut self.groups[g];
        let slot = &group.slots[s as usize];
        if group.plan.spec.report_taken && slot.sample.ok() {
            let taken = (slot.asker.vu, slot.taken.clone());
            group.record.taken.push(taken);
        }
        let release = Release {
            slot: s,
            at_ns,
            unsent: !slot.ever_written,
            warm: slot.home.is_some() || group.lines.is_live(s),
        };
        if let Some(executor) = &mut group.executor {
            executor.release(release, &mut group.record);
        }
        group.dirty = true;
        self.next_wake_ns = self.now_ns;
    }

    /// Begins every later step that is due and gives back slots whose iterations have ended. Returns when to look
    /// again.
    pub(super) fn go_on_with_steps(&mut self) -> i64 {
        while let Some(Reverse((at_ns, g, s))) = self.later.peek().copied() {
            if at_ns > self.now_ns {
                return at_ns;
            }
            self.later.pop();
            let group = &mut self.groups[g];
            let slot = &mut group.slots[s as usize];
            // A group that was closed has taken it away.
            let Some(later) = slot.later.take() else {
                continue;
            };
            let due_ns = later.due_ns;
            group.record.think(later.free_ns, due_ns);
            let Some(step) = later.step else {
                self.release(g, s, due_ns);
                continue;
            };
            group.record.due_at(step, due_ns);
            let start = Start {
                slot: s,
                vu: slot.asker.vu,
                seq: slot.asker.seq,
                due_ns,
                ready_ns: due_ns,
            };
            self.begin_step(g, start, step);
        }
        i64::MAX
    }
}

/// The load has ended at `end_ns` while a slot waited for its next step.
pub(super) fn abandon(later: Later, stop_ns: i64, end_ns: i64, record: &mut GroupRecord) {
    record.think(later.free_ns, later.due_ns.min(end_ns));
    match later.step {
        Some(step) if later.due_ns <= end_ns && later.due_ns < stop_ns => {
            record.due_at(step, later.due_ns);
            record.waiting(later.due_ns, later.due_ns, end_ns);
        }
        // Cut short: it thinks on.
        _ if later.due_ns < end_ns => record.think(later.due_ns, end_ns),
        _ => {}
    }
}
