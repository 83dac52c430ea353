//! What is kept of a load: samples, intervals, histograms, sums.

pub mod buckets;
pub mod failure;
pub mod gauge;
pub mod group;
pub mod histogram;
pub mod sample;
pub mod summary;

pub use failure::Failure;
pub use group::{GroupRecord, RecordPlan};
pub use sample::{Sample, NEVER};
