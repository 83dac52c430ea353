//! svload's load engine: it makes load and stamps time. engine/docs/ is its contract.
//!
//! From the top: [`run_share`] reads a [`share`], makes it a [`plan`], and runs it on threads ([`worker`]). A thread asks
//! each group's [`executor`] what may begin, moves one [`vu`] slot a request through a [`conn`]ection by an [`exchange`], whose
//! protocol is a [`wire`] codec, and leaves a [`record`].

#![deny(unsafe_code)]

pub mod body;
pub mod check;
mod chunking;
pub mod clock;
pub mod conn;
pub mod encoding;
pub mod error;
pub mod exchange;
pub mod executor;
pub mod feeder;
pub mod http2_spec;
pub mod pace;
pub mod pieces;
pub mod plan;
pub mod popularity;
pub mod progress;
pub mod ramp;
pub mod record;
pub mod redirect;
mod rehearse;
pub mod request;
mod request_check;
mod request_spec;
pub mod rng;
mod run;
pub mod scenario;
pub mod sets;
pub mod share;
mod sys;
pub mod table;
pub mod take;
pub mod target;
pub mod tls;
pub mod turns;
pub mod vu;
pub mod wire;
mod witness;
pub mod worker;

pub use error::{ErrorKind, RunError};
pub use rehearse::rehearse;
pub use run::{changed_rows, run_share, share_fault, ChangedRows};
pub use table::{Column, Table};
