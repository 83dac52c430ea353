//! Where a Location leads, whatever it says: never to a request line that breaks, never out of the origin unnoticed.

use super::*;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Text that looks like a URL reference.
fn reference() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![
        Just(""),
        Just("http:"),
        Just("https:"),
        Just("//"),
        Just("http://"),
        Just("HTTPS://")
    ];
    let host = prop_oneof![
        Just(""),
        Just("a.test"),
        Just("a.test:81"),
        Just("[::1]"),
        Just("[::1]:8"),
        Just("u@a")
    ];
    (scheme, host, "[a-z./?#%:@ \u{e9}\\\\-]{0,24}")
        .prop_map(|(scheme, host, rest)| format!("{scheme}{host}{rest}"))
}

/// A path that a request line may hold.
fn fits(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte > b' ' && byte < 127)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_lead_to_a_legal_request_line_or_nowhere(location in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(hop) = resolve(&location, false, "/base?q=1") {
            prop_assert!(fits(&hop.path), "{}", hop.path);
        }
    }

    #[test]
    fn any_reference_leads_to_a_legal_request_line_or_nowhere(location in reference(), https in any::<bool>()) {
        if let Some(hop) = resolve(location.as_bytes(), https, "/a/b/c?q=1") {
            prop_assert!(fits(&hop.path), "{}", hop.path);
            let path = hop.path.split('?').next().unwrap();
            prop_assert!(path.split('/').all(|segment| segment != ".." && segment != "."), "{path}");
        }
    }

    #[test]
    fn a_resolved_path_resolves_to_itself(location in reference()) {
        if let Some(hop) = resolve(location.as_bytes(), false, "/a/b") {
            // "//x" at the front would read as a host.
            prop_assume!(!hop.path.starts_with("//"));
            let again = resolve(hop.path.as_bytes(), false, "/elsewhere");
            prop_assert_eq!(again, Some(Hop { origin: None, path: hop.path }));
        }
    }

    #[test]
    fn a_path_alone_never_leaves_its_origin(path in "/[a-z.?:@%]{0,20}") {
        prop_assert_eq!(resolve(path.as_bytes(), true, "/").and_then(|hop| hop.origin), None);
    }

    #[test]
    fn an_origin_reads_back_as_itself(https in any::<bool>(), host in "[a-z0-9.-]{1,12}|\\[::[0-9a-f]{1,4}\\]", port in 1u16..) {
        let origin = Origin { https, host, port };
        prop_assert_eq!(Origin::parse(&origin.full()), Some(origin));
    }

    #[test]
    fn user_names_and_blanks_are_no_origin(before in "[a-z]{0,5}", after in "[a-z]{1,9}", mark in "[@ \t\r\n/\\\\]") {
        let text = format!("http://{}{}{}", before, mark, after);
        prop_assert_eq!(Origin::parse(&text), None);
    }
}
