//! Whatever text comes as a share: a fault that names its field, or a share that can be planned and rehearsed. Never a panic.

use indexmap::IndexMap;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{json, Value};

use super::testing::{contract_example, inputs};
use super::*;
use crate::plan::Plan;

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Values that a careless or hostile writer may put anywhere.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        Just(json!(0)),
        Just(json!(u64::MAX)),
        Just(json!(i64::MAX)),
        Just(json!(i64::MIN)),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([1, 2])),
    ]
}

/// Every place in a document, as a JSON pointer.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                places(field, &format!("{at}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{number}"), out);
            }
        }
        _ => {}
    }
}

fn executors() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"kind": "constant-vus", "vus": 4, "ramp_up_ns": 5, "pacing_ns": 7})),
        Just(
            json!({"kind": "ramping-vus", "vus": 4, "start_vus": 1, "stages": [{"duration_ns": 1000, "target": 4}]})
        ),
        Just(json!({"kind": "shared-iterations", "vus": 4, "iterations": 9})),
        Just(json!({"kind": "per-vu-iterations", "vus": 4, "iterations": 9})),
        Just(
            json!({"kind": "constant-arrival-rate", "rate_rps": 10.0, "max_vus": 4, "arrivals": "poisson"})
        ),
        Just(
            json!({"kind": "ramping-arrival-rate", "start_rate_rps": 1.0, "max_vus": 4, "stages": [{"duration_ns": 1000, "target": 9.0}]})
        ),
    ]
}

/// Reads, plans, and begins to run; only what is refused may go no further.
fn survive(text: &str, inputs: &IndexMap<String, Table>) -> Result<(), String> {
    let share = match parse(text, inputs) {
        Ok(share) => share,
        Err(fault) if fault.field.starts_with("share") && !fault.problem.is_empty() => {
            return Ok(())
        }
        Err(fault) => return Err(format!("{fault:?} names no field")),
    };
    if Plan::new(&share, inputs).is_err() {
        return Ok(());
    }
    for group in &share.groups {
        for thread in 0..share.threads.min(3) as u64 {
            let executor = crate::executor::build(share.seed, group, thread, share.threads as u64);
            if let Some(mut executor) = executor {
                let mut book = crate::executor::testing::Book::default();
                let _ = executor.poll(group.start_offset_ns, &mut book);
                let _ = executor.next_wake_ns();
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_share_with_wrong_values_is_refused_or_runs(
        executor in executors(),
        changes in proptest::collection::vec((any::<Index>(), value()), 1..4),
    ) {
        let mut share = contract_example();
        // Small, so that a share that is right takes no time.
        share["groups"][0]["executor"] = executor;
        for (at, with) in changes {
            let mut all = Vec::new();
            places(&share, "", &mut all);
            let place = &all[at.index(all.len())];
            *share.pointer_mut(place).unwrap() = with;
        }
        prop_assert_eq!(survive(&share.to_string(), &inputs()), Ok(()));
    }

    #[test]
    fn a_damaged_text_is_refused_or_runs(noise in proptest::collection::vec((any::<Index>(), any::<char>()), 1..6)) {
        let mut text: Vec<char> = contract_example().to_string().chars().collect();
        for (at, with) in noise {
            let at = at.index(text.len());
            text[at] = with;
        }
        let text: String = text.into_iter().collect();
        prop_assert_eq!(survive(&text, &inputs()), Ok(()));
    }

    #[test]
    fn any_text_is_refused(text in ".{0,60}") {
        prop_assert!(parse(&text, &inputs()).is_err());
    }
}
