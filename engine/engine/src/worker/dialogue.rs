//! Raw dialogues: what is to be said is said as soon as what must come before it has come.

use super::Worker;
use crate::conn::ConnKey;
use crate::vu::Phase;
use crate::wire::dialogue::Next;

impl Worker<'_> {
    /// Goes on with a dialogue until something must be heard, or a text does not leave at once.
    pub(super) fn converse(&mut self, g: usize, s: u32, key: ConnKey) {
        loop {
            let group = &mut self.groups[g];
            let slot = &mut group.slots[s as usize];
            let Some(script) = slot.script(group.plan) else {
                return;
            };
            let written = match slot.talk.next(script) {
                Err(error) => Err(error.into()),
                Ok(Next::Hear) => {
                    slot.phase = Phase::Receiving;
                    return;
                }
                Ok(Next::Done) => {
                    slot.phase = Phase::Receiving;
                    self.tick();
                    return self.answered(g, s);
                }
                Ok(Next::Say) => {
                    let Some(conn) = self.conns.get_mut(key) else {
                        return;
                    };
                    slot.phase = Phase::Sending;
                    let before = slot.hop.written;
                    let text = &slot.out[..slot.ends[slot.talk.said()]];
                    let written = conn.write(text, &mut slot.hop.written);
                    group.record.totals.bytes_sent += (slot.hop.written - before) as u64;
                    written
                }
            };
            match written {
                Ok(true) => slot.talk.say(),
                Ok(false) => return,
                Err(kind) => {
                    self.tick();
                    return self.fail(g, s, kind);
                }
            }
        }
    }
}
