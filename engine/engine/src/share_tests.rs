use super::*;

/// A group with the given executor JSON, for tests of executors.
pub(crate) fn group(executor: &str) -> GroupSpec {
    let text = format!(
        r#"{{"name": "load", "client": "engine", "connection": "keep-alive", "record": "rows", "stop_offset_ns": 1000000000,
            "executor": {executor},
            "request": {{"name": "get", "method": "GET", "endpoint": "http://a", "path": [{{"text": "/"}}], "timeout_ns": 1000000000}}}}"#
    );
    let mut group: GroupSpec = serde_json::from_str(&text).unwrap();
    group.settle();
    group
}

/// The request of a group that has no other.
pub(crate) fn only(group: &mut GroupSpec) -> &mut RequestSpec {
    &mut group.scenarios[0].steps[0].request
}

pub(super) fn inputs() -> IndexMap<String, Table> {
    let table: Table = [
        (
            "path".to_owned(),
            Column::Utf8(vec!["/a".into(), "/b\r\nX: c".into()]),
        ),
        (
            "good".to_owned(),
            Column::Utf8(vec!["/a".into(), "/b".into()]),
        ),
        ("size_bytes".to_owned(), Column::U64(vec![1, 2])),
    ]
    .into_iter()
    .collect();
    [("objects".to_owned(), table)].into_iter().collect()
}

const PAGE: &str = include_str!("../../docs/share.md");

pub(super) fn contract_example() -> serde_json::Value {
    let (_, rest) = PAGE.split_once("```json\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
    value["groups"][0]["request"]["path"][0]["column"] = "good".into();
    value
}

fn problem(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut value = contract_example();
    change(&mut value);
    parse(&value.to_string(), &inputs()).map_or_else(
        |fault| format!("{}: {}", fault.field, fault.problem),
        |_| "none".into(),
    )
}

#[test]
fn the_contracts_example_is_a_share() {
    assert_eq!(problem(|_| ()), "none");
    // What a path may not hold is percent-encoded there.
    assert_eq!(
        problem(|v| v["groups"][0]["request"]["path"][0]["column"] = "path".into()),
        "none"
    );
    let share = parse(&contract_example().to_string(), &inputs()).unwrap();
    assert_eq!(share.groups[0].executor.vus_total(), 4_000);
}

#[test]
fn a_fault_names_its_field() {
    let group = |value: &mut serde_json::Value, key: &str, with: serde_json::Value| {
        value["groups"][0][key] = with
    };
    for (text, change) in [
        (
            "share.format",
            Box::new(|v: &mut serde_json::Value| v["format"] = 9.into())
                as Box<dyn FnOnce(&mut serde_json::Value)>,
        ),
        ("share.threads", Box::new(|v| v["threads"] = 0.into())),
        ("share.threads", Box::new(|v| v["threads"] = "x".into())),
        (
            "share.window_ns",
            Box::new(|v| v["window_ns"] = serde_json::json!([5, 5])),
        ),
        (
            "share.interval_ns",
            Box::new(|v| v["interval_ns"] = 0.into()),
        ),
        (
            "share.spin_ns",
            Box::new(|v| v["spin_ns"] = 10_000_001.into()),
        ),
        (
            "share.groups[0].stop_offset_ns",
            Box::new(|v| v["interval_ns"] = 1.into()),
        ),
        (
            "share.groups[0].stop_offset_ns",
            Box::new(move |v| group(v, "stop_offset_ns", 0.into())),
        ),
        (
            "share.groups[0].surprise",
            Box::new(move |v| group(v, "surprise", 0.into())),
        ),
        (
            "share.groups[0].client",
            Box::new(move |v| group(v, "client", "wget".into())),
        ),
        (
            "share.groups[0].executor.vus",
            Box::new(|v| v["groups"][0]["executor"]["vus"] = 0.into()),
        ),
        (
            "share.groups[0].executor.vus_total",
            Box::new(|v| v["groups"][0]["executor"]["vus_total"] = 7.into()),
        ),
        (
            "share.groups[0].request.endpoint",
            Box::new(|v| v["groups"][0]["request"]["endpoint"] = "http://x".into()),
        ),
        (
            "share.groups[0].request.method",
            Box::new(|v| v["groups"][0]["request"]["method"] = "GE T".into()),
        ),
        (
            "share.groups[0].request.headers[0][0]",
            Box::new(|v| {
                v["groups"][0]["request"]["headers"][0][1] =
                    serde_json::json!([{"feeder": "object", "column": "path"}])
            }),
        ),
        (
            "share.groups[0].request.path[0]",
            Box::new(|v| v["groups"][0]["request"]["path"][0]["column"] = "none".into()),
        ),
        (
            "share.groups[0].request.path[0]",
            Box::new(|v| {
                v["groups"][0]["request"]["path"][0] = serde_json::json!({"text": "/a\r\nX: y"})
            }),
        ),
        (
            "share.groups[0].request.headers[0]",
            Box::new(|v| v["groups"][0]["request"]["headers"][0][0] = "X:".into()),
        ),
        (
            "share.groups[0].request.checks[1].size_bytes",
            Box::new(|v| {
                v["groups"][0]["request"]["checks"][1]["size_bytes"]["column"] = "good".into();
            }),
        ),
        (
            "share.groups[0].feeders.object.table",
            Box::new(|v| v["groups"][0]["feeders"]["object"]["table"] = "no".into()),
        ),
    ] {
        let problem = problem(change);
        assert!(
            problem.starts_with(&format!("{text}: ")) || problem.starts_with(&format!("{text}.")),
            "{problem} (wanted {text})"
        );
    }
}

#[test]
fn every_executor_refuses_an_option_that_is_not_its_own() {
    for (kind, own) in [
        ("constant-vus", r#""vus": 1"#),
        ("ramping-vus", r#""vus": 1, "stages": []"#),
        ("shared-iterations", r#""vus": 1, "iterations": 1"#),
        ("per-vu-iterations", r#""vus": 1, "iterations": 1"#),
        ("constant-arrival-rate", r#""rate_rps": 1.0, "max_vus": 1"#),
        ("ramping-arrival-rate", r#""stages": [], "max_vus": 1"#),
    ] {
        let read = |more: &str| {
            let text = format!(r#"{{"kind": "{kind}", {own}{more}}}"#);
            serde_json::from_str::<ExecutorSpec>(&text).map_err(|error| error.to_string())
        };
        assert!(read("").is_ok(), "{kind}");
        let told = read(r#", "surprise": 1"#).unwrap_err();
        assert!(told.contains("surprise"), "{kind}: {told}");
    }
}
