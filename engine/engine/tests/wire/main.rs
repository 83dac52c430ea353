//! What goes over a wire, and what comes of it: one program, since linking fifteen costs more than running them.
//!
//! What needs a process of its own (limits, spinning, memory) is a file or folder beside this one.

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod content;
mod dialogues;
mod dialogues_tls;
mod executors;
mod http;
mod http2;
mod http2_bodies;
mod http2_hostile;
mod http2_redirects;
mod http2_scenarios;
mod http2_tls;
mod memcached;
mod redis;
mod renewals;
mod scenarios;
mod sets;
mod tls;
mod transports;
mod turns;
