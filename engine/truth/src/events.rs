//! What an epoll event is about.

use rustix::event::epoll::EventData;

use crate::upstream::Name;

/// The source of an event, packed as kind, 24 bits of an id, slab key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Listener(usize),
    Stop,
    Client(Name),
    Upstream(Name),
}

impl Source {
    pub fn pack(self) -> EventData {
        let (kind, key, id) = match self {
            Self::Listener(index) => (0, index, 0),
            Self::Stop => (1, 0, 0),
            Self::Client((key, id)) => (2, key, id),
            Self::Upstream((key, id)) => (3, key, id),
        };
        EventData::new_u64(kind << 56 | (id & 0xff_ffff) << 32 | (key as u64 & 0xffff_ffff))
    }

    pub fn unpack(data: EventData) -> Self {
        let bits = data.u64();
        let name = ((bits & 0xffff_ffff) as usize, bits >> 32 & 0xff_ffff);
        match bits >> 56 {
            0 => Self::Listener(name.0),
            1 => Self::Stop,
            2 => Self::Client(name),
            _ => Self::Upstream(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_packing() {
        for source in [
            Source::Listener(2),
            Source::Stop,
            Source::Client((70_000, 0xab_cdef)),
            Source::Upstream((0, 1)),
        ] {
            assert_eq!(Source::unpack(source.pack()), source);
        }
    }
}
