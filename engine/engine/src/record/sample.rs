//! One request as it was: the row of the samples table, and the table's columns.

use crate::error::ErrorKind;
use crate::table::{Column, Table};
use crate::turns::LoadTime;

/// A time that did not happen.
pub const NEVER: i64 = -1;

/// A request's identity, stamps and sizes. Times are offsets from the share's start in ns; [`NEVER`] = did not happen.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub vu: u64,
    pub seq: u64,
    /// Which step of the group's scenarios it is.
    pub step: u16,
    /// Row of the group's first feeder, -1 without feeders.
    pub row: i64,
    pub due_ns: i64,
    pub ready_ns: i64,
    pub begun_ns: i64,
    pub written_ns: i64,
    pub first_byte_ns: i64,
    pub done_ns: i64,
    /// Status of the final answer, 0 if none came.
    pub status: u16,
    pub error: ErrorKind,
    pub request_bytes: u32,
    pub header_bytes: u32,
    pub body_bytes: u64,
    /// All plaintext bytes received for it, chunk framing and hops included.
    pub received_bytes: u64,
    pub connection: u32,
    pub reused: bool,
    /// Of the connection: 0 none, 1 full handshake, 2 resumed.
    pub tls: u8,
    pub lookup_ns: i64,
    pub connect_ns: i64,
    pub appconnect_ns: i64,
    pub pretransfer_ns: i64,
    pub redirect_ns: i64,
    pub redirects: u16,
    pub read_lag_ns: i64,
}

impl Sample {
    pub fn ok(&self) -> bool {
        self.error == ErrorKind::None
    }

    pub fn response_ns(&self) -> i64 {
        self.done_ns - self.due_ns
    }

    pub fn lag_ns(&self) -> i64 {
        self.begun_ns - self.ready_ns
    }

    /// The sample with its stamps in load time. Once it has a slot it takes as long there as in real time.
    #[inline]
    pub fn in_load_time(mut self, time: &LoadTime) -> Self {
        if time.is_real() {
            return self;
        }
        let off_ns = self.ready_ns - time.load_ns(self.ready_ns);
        for stamp_ns in [
            &mut self.ready_ns,
            &mut self.begun_ns,
            &mut self.written_ns,
            &mut self.first_byte_ns,
            &mut self.done_ns,
        ] {
            if *stamp_ns != NEVER {
                *stamp_ns -= off_ns;
            }
        }
        self.due_ns = time.load_ns(self.due_ns);
        self
    }
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            vu: 0,
            seq: 0,
            step: 0,
            row: -1,
            due_ns: NEVER,
            ready_ns: NEVER,
            begun_ns: NEVER,
            written_ns: NEVER,
            first_byte_ns: NEVER,
            done_ns: NEVER,
            status: 0,
            error: ErrorKind::None,
            request_bytes: 0,
            header_bytes: 0,
            body_bytes: 0,
            received_bytes: 0,
            connection: 0,
            reused: false,
            tls: 0,
            lookup_ns: 0,
            connect_ns: 0,
            appconnect_ns: 0,
            pretransfer_ns: 0,
            redirect_ns: 0,
            redirects: 0,
            read_lag_ns: NEVER,
        }
    }
}

/// The samples table of (group, sample) rows, in their order.
pub fn samples_table(rows: &[(u16, Sample)]) -> Table {
    macro_rules! column {
        ($kind:ident, $of:expr) => {
            Column::$kind(rows.iter().map($of).collect())
        };
    }
    [
        ("group", column!(U16, |(group, _)| *group)),
        ("vu", column!(U32, |(_, s)| s.vu as u32)),
        ("seq", column!(U32, |(_, s)| s.seq as u32)),
        ("step", column!(U16, |(_, s)| s.step)),
        ("row", column!(I64, |(_, s)| s.row)),
        ("due_ns", column!(I64, |(_, s)| s.due_ns)),
        ("ready_ns", column!(I64, |(_, s)| s.ready_ns)),
        ("begun_ns", column!(I64, |(_, s)| s.begun_ns)),
        ("written_ns", column!(I64, |(_, s)| s.written_ns)),
        ("first_byte_ns", column!(I64, |(_, s)| s.first_byte_ns)),
        ("done_ns", column!(I64, |(_, s)| s.done_ns)),
        ("status", column!(U16, |(_, s)| s.status)),
        ("error", column!(U16, |(_, s)| s.error.code())),
        ("request_bytes", column!(U32, |(_, s)| s.request_bytes)),
        ("header_bytes", column!(U32, |(_, s)| s.header_bytes)),
        ("body_bytes", column!(U64, |(_, s)| s.body_bytes)),
        ("connection", column!(U32, |(_, s)| s.connection)),
        ("reused", column!(U8, |(_, s)| u8::from(s.reused))),
        ("tls", column!(U8, |(_, s)| s.tls)),
        ("lookup_ns", column!(I64, |(_, s)| s.lookup_ns)),
        ("connect_ns", column!(I64, |(_, s)| s.connect_ns)),
        ("appconnect_ns", column!(I64, |(_, s)| s.appconnect_ns)),
        ("pretransfer_ns", column!(I64, |(_, s)| s.pretransfer_ns)),
        ("redirect_ns", column!(I64, |(_, s)| s.redirect_ns)),
        ("redirects", column!(U16, |(_, s)| s.redirects)),
        ("read_lag_ns", column!(I64, |(_, s)| s.read_lag_ns)),
    ]
    .into_iter()
    .map(|(name, column)| (name.to_owned(), column))
    .collect()
}
