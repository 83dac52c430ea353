//! Whatever the turns: in load time, every user and every arrival does what it does without them.

use proptest::prelude::*;

use crate::executor::{self, testing::Book};
use crate::rehearse::play;
use crate::rng::{Draws, Stream};
use crate::scenario::Course;
use crate::share::{testing::group, GroupSpec};
use crate::turns::LoadTime;

const MS: i64 = 1_000_000;
const STOP_NS: i64 = 300 * MS;

/// A group of one executor of each kind, some of them with more to do than there are places.
fn executors() -> impl Strategy<Value = String> {
    let think = prop_oneof![
        Just(r#"{"constant_ns": 0}"#),
        Just(r#"{"exponential_ns": 9000000.0}"#),
        Just(r#"{"uniform_ns": [0, 40000000]}"#),
    ];
    let users = (1u64..7, think, 0u64..30).prop_map(|(vus, think, pacing_ms)| {
        format!(
            r#""vus": {vus}, "think_time": {think}, "pacing_ns": {}"#,
            pacing_ms * 1_000_000
        )
    });
    let places = (1u64..9, any::<bool>(), any::<bool>()).prop_map(|(most, drop, poisson)| {
        let on_full = if drop { "drop" } else { "wait" };
        let arrivals = if poisson { "poisson" } else { "constant" };
        format!(r#""max_vus": {most}, "on_full": "{on_full}", "arrivals": "{arrivals}""#)
    });
    let stages = (0u64..5, 0u64..7, 1u64..160).prop_map(|(first, second, ms)| {
        format!(
            r#""stages": [{{"duration_ns": {0}, "target": {first}}}, {{"duration_ns": {0}, "target": {second}}}]"#,
            ms * 1_000_000
        )
    });
    (0usize..6, users, places, stages, 1u64..30).prop_map(|(kind, users, places, stages, n)| {
        let rates = stages.replace("\"target\": ", "\"target\": 10");
        match kind {
            0 => format!(r#"{{"kind": "constant-vus", {users}, "spread_ns": 50000000}}"#),
            1 => format!(
                r#"{{"kind": "ramping-vus", {}, "vus_total": 7, {stages}}}"#,
                users
            ),
            2 => format!(
                r#"{{"kind": "shared-iterations", {users}, "iterations": {}}}"#,
                n + 6
            ),
            3 => format!(r#"{{"kind": "per-vu-iterations", {users}, "iterations": {n}}}"#),
            4 => format!(r#"{{"kind": "constant-arrival-rate", "rate_rps": {n}7.0, {places}}}"#),
            _ => format!(
                r#"{{"kind": "ramping-arrival-rate", "start_rate_rps": {n}.0, {rates}, {places}}}"#
            ),
        }
    })
}

/// Turns of random length with random pauses, together as long as the load.
fn turns() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((0..40 * MS, MS..60 * MS), 1..9).prop_map(|shape| {
        let (mut turns, mut at_ns, mut length_ns) = (Vec::new(), 0, 0);
        for (pause_ns, turn_ns) in shape.into_iter().cycle() {
            if length_ns >= STOP_NS {
                break;
            }
            turns.push((at_ns + pause_ns, at_ns + pause_ns + turn_ns));
            at_ns += pause_ns + turn_ns;
            length_ns += turn_ns;
        }
        turns
    })
}

/// (user, number, step, due, ready, begun) in load time. Arrivals have no user: their slot is not part of their course.
type Begun = (u64, u64, u16, i64, i64, i64);

fn played(spec: &GroupSpec, turns: &[(i64, i64)], takes_ns: f64) -> (Vec<Begun>, Book) {
    let open = spec.executor.is_open();
    let draws = Draws::new(3, "service", Stream::Phase);
    let course = Course::new(7, spec, spec.stop_offset_ns);
    let time = LoadTime::new(turns, spec.stop_offset_ns);
    let (mut book, mut courses) = (Book::default(), Vec::new());
    let mut executor = executor::build(7, spec, 0, 1).unwrap();
    let begun = play(
        executor.as_mut(),
        &course,
        &time,
        spec.stop_offset_ns,
        |one| {
            let vu = if open { 0 } else { one.start.vu };
            1 + (draws.exponential(vu, one.start.seq * 3 + u64::from(one.step)) * takes_ns) as i64
        },
        &mut book,
    );
    let firsts = begun
        .iter()
        .filter(|one| one.due_ns == one.start.due_ns)
        .count();
    executor.close(STOP_NS * 9, &mut book);
    assert_eq!(
        book.due.len(),
        firsts + book.waiting.len() + book.dropped.len()
    );
    for one in begun {
        let due_ns = time.real_ns(one.due_ns);
        let inside = |(begin_ns, end_ns): &(i64, i64)| (*begin_ns..*end_ns).contains(&due_ns);
        assert!(turns.is_empty() || turns.iter().any(inside), "{one:?}");
        let vu = if open { 0 } else { one.start.vu };
        courses.push((
            vu,
            one.start.seq,
            one.step,
            one.due_ns,
            one.start.ready_ns,
            one.at_ns,
        ));
    }
    courses.sort_unstable();
    book.due.sort_unstable();
    book.waiting.sort_unstable();
    book.dropped.sort_unstable();
    (courses, book)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What each user and each arrival does, and the accounts, in load time.
    #[test]
    fn turns_change_nothing_in_load_time(
        executor in executors(), turns in turns(), takes_ms in 1i64..60, steps in 1usize..4
    ) {
        let mut spec = group(&executor);
        spec.stop_offset_ns = STOP_NS;
        spec.stop_offset_ns = spec.stop_ns();
        let mut step = spec.scenarios[0].steps[0].clone();
        step.think_time = serde_json::from_str(r#"{"exponential_ns": 5000000.0}"#).unwrap();
        spec.scenarios[0].steps = vec![step; steps];
        let without = played(&spec, &[], (takes_ms * MS) as f64);
        prop_assert_eq!(played(&spec, &turns, (takes_ms * MS) as f64), without);
    }
}
