//! Rows of written objects: drawn before a step, made of what a step has uploaded, given back when the iteration ends.

use super::Worker;
use crate::error::ErrorKind;
use crate::plan::{GroupPlan, SetUse};
use crate::sets::{Held, Row};
use crate::vu::Slot;
use crate::wire::keep::Keep;

impl Worker<'_> {
    /// Gives the slot the row that its step asks for; false where the set has none.
    pub(super) fn draw_row(&mut self, g: usize, s: u32, step: u16) -> bool {
        let group = &mut self.groups[g];
        let (plan, slot) = (group.plan, &mut group.slots[s as usize]);
        let Some(used) = plan.step(step).set.filter(|used| used.draws) else {
            return true;
        };
        if slot.held[used.at] == Held::Gone {
            return false;
        }
        if slot.held[used.at] == Held::Nothing {
            let asker = slot.asker;
            let draws = &plan.row_draws;
            let pick = |count| {
                let (unit, step) = if plan.open {
                    (asker.seq, 0)
                } else {
                    (asker.vu, asker.seq)
                };
                draws.below(unit, step, count)
            };
            let set = self.sets.get_mut(&plan.sets[used.at]);
            let Some((held, row)) = set.and_then(|set| set.draw(pick, used.alone)) else {
                return false;
            };
            write_variables(&mut slot.taken, plan, used, row);
            slot.held[used.at] = held;
        }
        if used.removes {
            slot.held[used.at] = Held::Gone;
        }
        true
    }

    /// A step ends before anything of it was sent.
    pub(super) fn finish_unsent(&mut self, g: usize, s: u32, kind: ErrorKind) {
        let slot = &mut self.groups[g].slots[s as usize];
        slot.begin_hop(slot.own_endpoint);
        slot.exchange.await_http1(false, Keep::default());
        let now_ns = self.tick();
        self.begin_clock(g, s, now_ns);
        self.finish(g, s, kind);
    }

    /// The iteration has ended: its rows are everybody's again.
    pub(super) fn give_rows_back(&mut self, g: usize, s: u32) {
        let group = &mut self.groups[g];
        let (plan, slot) = (group.plan, &mut group.slots[s as usize]);
        for (held, name) in slot.held.iter_mut().zip(&plan.sets) {
            let held = std::mem::take(held);
            if let (true, Some(set)) = (held != Held::Nothing, self.sets.get_mut(name)) {
                set.give_back(held);
            }
        }
    }
}

/// What a step has uploaded, as the variables of its set: for its own checks, and for later steps.
pub(super) fn note_written(slot: &mut Slot, plan: &GroupPlan) {
    let step = plan.step(slot.step);
    let (Some(used), Some(template)) = (step.set, plan.template(slot.step)) else {
        return;
    };
    let Some(algorithm) = used.adds else {
        return;
    };
    let text = slot.exchange.text();
    let path = text
        .split(|byte| *byte == b' ')
        .nth(1)
        .unwrap_or_default()
        .to_vec();
    let body = &text[template.head_bytes(text)..];
    let size_bytes = body.len() as u64 + template.content_bytes(slot.asker);
    if let Some(kept) = slot.sent.kept_mut().filter(|_| !body.is_empty()) {
        kept.take_body(body);
    }
    let digest = slot.sent.kept().map(|kept| kept.digest(algorithm));
    let row = Row {
        path,
        size_bytes,
        digest: digest.unwrap_or_default().into_bytes(),
    };
    write_variables(&mut slot.taken, plan, used, &row);
}

/// What was uploaded was answered well: the iteration holds it as a row.
pub(super) fn keep_written(slot: &mut Slot, plan: &GroupPlan) -> Option<Held> {
    let used = plan
        .step(slot.step)
        .set
        .filter(|used| used.adds.is_some())?;
    let [path, size_bytes, digest] = &slot.taken[used.variables..used.variables + 3] else {
        return None;
    };
    let size_bytes = std::str::from_utf8(size_bytes).ok()?.parse().ok()?;
    let row = Row {
        path: path.clone(),
        size_bytes,
        digest: digest.clone(),
    };
    Some(std::mem::replace(&mut slot.held[used.at], Held::Own(row)))
}

fn write_variables(taken: &mut [Vec<u8>], plan: &GroupPlan, used: SetUse, row: &Row) {
    debug_assert!(plan.variables.len() >= used.variables + 3);
    let size_bytes = row.size_bytes.to_string().into_bytes();
    let values = [row.path.clone(), size_bytes, row.digest.clone()];
    for (place, value) in taken[used.variables..].iter_mut().zip(values) {
        *place = value;
    }
}
