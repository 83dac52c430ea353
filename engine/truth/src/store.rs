//! The object store: accounts, containers and objects in memory, behind a small part of Swift's API.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;

use md5::{Digest as _, Md5};
use serde_json::json;

use crate::http::{percent_decoded, Answer, Body, Request};

/// Most names in one page of a listing, and the default.
const PAGE_MAX: usize = 10_000;
const NAME_MAX: usize = 1024;

#[derive(Debug)]
struct Object {
    body: Body,
    md5: String,
    content_type: String,
}

#[derive(Debug, Default)]
struct Container {
    objects: BTreeMap<String, Object>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Account {
    containers: BTreeMap<String, Container>,
}

/// What a path below /v1 names.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    Account(String),
    Container(String, String),
    Object(String, String, String),
}

/// Reads `/v1/ACC[/CONT[/OBJ]]`, percent-decoded; an object's name may hold slashes.
#[must_use]
pub fn place(path: &str) -> Option<Place> {
    let mut parts = path
        .strip_prefix("/v1/")?
        .splitn(3, '/')
        .map(percent_decoded);
    let account = parts.next().filter(|name| !name.is_empty())?;
    let container = parts.next().filter(|name| !name.is_empty());
    let object = parts.next().filter(|name| !name.is_empty());
    Some(match (container, object) {
        (None, _) => Place::Account(account),
        (Some(container), None) => Place::Container(account, container),
        (Some(container), Some(object)) => Place::Object(account, container, object),
    })
}

/// Everything that was put, and how many bytes it is.
#[derive(Debug)]
pub struct Store {
    accounts: BTreeMap<String, Account>,
    bytes: u64,
    limit_bytes: u64,
}

impl Store {
    /// A store that keeps at most `limit_bytes` of bodies.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            accounts: BTreeMap::new(),
            bytes: 0,
            limit_bytes,
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.limit_bytes);
    }

    /// (objects, bytes) kept.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        let containers = self
            .accounts
            .values()
            .flat_map(|account| account.containers.values());
        (
            containers
                .map(|container| container.objects.len() as u64)
                .sum(),
            self.bytes,
        )
    }

    /// Does what a request asks, as Swift would: 201, 202, 204, 404, 405, 409, 412; 507 above the limit.
    pub fn answer(&mut self, request: &Request, body: Vec<u8>) -> Answer {
        let Some(place) = place(request.path()) else {
            return Answer::status(404);
        };
        match (request.method.as_str(), place) {
            ("PUT", Place::Object(account, container, object)) => self.put_object(
                &account,
                &container,
                object,
                body,
                request.content_type.as_deref(),
            ),
            ("GET", Place::Object(account, container, object)) => {
                self.object(&account, &container, &object)
            }
            ("HEAD", Place::Object(account, container, object)) => {
                self.object(&account, &container, &object).without_body()
            }
            ("DELETE", Place::Object(account, container, object)) => {
                self.delete_object(&account, &container, &object)
            }
            ("PUT", Place::Container(account, container)) => self.put_container(account, container),
            ("DELETE", Place::Container(account, container)) => {
                self.delete_container(&account, &container)
            }
            ("GET", Place::Container(account, container)) => {
                self.list_objects(&account, &container, request)
            }
            ("PUT", Place::Account(account)) => {
                let known = self.accounts.contains_key(&account);
                self.accounts.entry(account).or_default();
                Answer::empty(if known { 202 } else { 201 })
            }
            ("GET", Place::Account(account)) => self.list_containers(&account, request),
            ("HEAD", place @ (Place::Account(_) | Place::Container(..))) => self.head(&place),
            ("POST", place) => self.post(&place), // metadata and ACLs are accepted and not kept
            _ => Answer::status(405),
        }
    }

    fn container(&self, account: &str, container: &str) -> Option<&Container> {
        self.accounts.get(account)?.containers.get(container)
    }
    fn container_mut(&mut self, account: &str, container: &str) -> Option<&mut Container> {
        self.accounts
            .get_mut(account)?
            .containers
            .get_mut(container)
    }

    fn put_container(&mut self, account: String, container: String) -> Answer {
        if container.len() > NAME_MAX {
            return Answer::status(400);
        }
        let containers = &mut self.accounts.entry(account).or_default().containers;
        let known = containers.contains_key(&container);
        containers.entry(container).or_default();
        Answer::empty(if known { 202 } else { 201 })
    }

    fn put_object(
        &mut self,
        account: &str,
        container: &str,
        name: String,
        body: Vec<u8>,
        content_type: Option<&str>,
    ) -> Answer {
        if name.len() > NAME_MAX {
            return Answer::status(400);
        }
        let (total, limit) = (self.bytes, self.limit_bytes);
        let size = body.len() as u64;
        let Some(container) = self.container_mut(account, container) else {
            return Answer::status(404);
        };
        let before = container
            .objects
            .get(&name)
            .map_or(0, |object| object.body.len() as u64);
        if total - before + size > limit {
            return Answer::status(507);
        }
        let mut md5 = String::with_capacity(32);
        for byte in Md5::digest(&body) {
            let _ = write!(md5, "{byte:02x}"); // writing to a String cannot fail
        }
        let answer = Answer::empty(201).with_header("ETag", &md5);
        let content_type = content_type
            .unwrap_or("application/octet-stream")
            .to_owned();
        container.bytes = container.bytes - before + size;
        container.objects.insert(
            name,
            Object {
                body: Body::new(body),
                md5,
                content_type,
            },
        );
        self.bytes = total - before + size;
        answer
    }

    fn object(&self, account: &str, container: &str, name: &str) -> Answer {
        let found = self
            .container(account, container)
            .and_then(|container| container.objects.get(name));
        let Some(object) = found else {
            return Answer::status(404);
        };
        let mut lines = Vec::with_capacity(96);
        for part in [
            "Content-Type: ",
            &object.content_type,
            "\r\nETag: ",
            &object.md5,
            "\r\n",
        ] {
            lines.extend_from_slice(part.as_bytes());
        }
        Answer {
            status: 200,
            lines,
            length: Some(object.body.len() as u64),
            body: Body::clone(&object.body),
        }
    }

    fn delete_object(&mut self, account: &str, container: &str, name: &str) -> Answer {
        let Some(container) = self.container_mut(account, container) else {
            return Answer::status(404);
        };
        let Some(object) = container.objects.remove(name) else {
            return Answer::status(404);
        };
        let size = object.body.len() as u64;
        container.bytes -= size;
        self.bytes -= size;
        Answer::empty(204)
    }

    fn delete_container(&mut self, account: &str, container: &str) -> Answer {
        let Some(account) = self.accounts.get_mut(account) else {
            return Answer::status(404);
        };
        match account.containers.get(container) {
            None => Answer::status(404),
            Some(held) if !held.objects.is_empty() => Answer::status(409),
            Some(_) => {
                account.containers.remove(container);
                Answer::empty(204)
            }
        }
    }

    fn post(&self, place: &Place) -> Answer {
        let known = match place {
            Place::Account(account) => self.accounts.contains_key(account),
            Place::Container(account, container) => self.container(account, container).is_some(),
            Place::Object(account, container, name) => self
                .container(account, container)
                .is_some_and(|held| held.objects.contains_key(name)),
        };
        match (known, place) {
            (false, _) => Answer::status(404),
            (true, Place::Object(..)) => Answer::empty(202),
            (true, _) => Answer::empty(204),
        }
    }

    fn head(&self, place: &Place) -> Answer {
        match place {
            Place::Container(account, container) => match self.container(account, container) {
                None => Answer::status(404).without_body(),
                Some(container) => container_headers(Answer::empty(204), container),
            },
            Place::Account(account) => match self.accounts.get(account) {
                None => Answer::status(404).without_body(),
                Some(account) => account_headers(Answer::empty(204), account),
            },
            Place::Object(..) => Answer::status(405),
        }
    }

    fn list_containers(&self, account: &str, request: &Request) -> Answer {
        let Some(account) = self.accounts.get(account) else {
            return Answer::status(404);
        };
        let entry = |name: &str, container: &Container| json!({"name": name, "count": container.objects.len(), "bytes": container.bytes});
        account_headers(listing(&account.containers, request, entry), account)
    }

    fn list_objects(&self, account: &str, container: &str, request: &Request) -> Answer {
        let Some(container) = self.container(account, container) else {
            return Answer::status(404);
        };
        let entry = |name: &str, object: &Object| json!({"name": name, "bytes": object.body.len(), "hash": object.md5, "content_type": object.content_type});
        container_headers(listing(&container.objects, request, entry), container)
    }
}

/// One page of names after `marker` in order, as JSON or as lines.
fn listing<T>(
    names: &BTreeMap<String, T>,
    request: &Request,
    entry: impl Fn(&str, &T) -> serde_json::Value,
) -> Answer {
    let limit = match request.query("limit").map(|text| text.parse::<usize>()) {
        None => PAGE_MAX,
        Some(Ok(limit)) if limit <= PAGE_MAX => limit,
        Some(_) => return Answer::status(412),
    };
    let marker = request.query("marker").unwrap_or_default();
    let prefix = request.query("prefix").unwrap_or_default();
    let after = if marker.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(marker)
    };
    let page = names
        .range::<String, _>((after, Bound::Unbounded))
        .filter(|(name, _)| name.starts_with(&prefix))
        .take(limit);
    if request.query("format").as_deref() == Some("json") {
        let entries: Vec<_> = page.map(|(name, value)| entry(name, value)).collect();
        return Answer::new(
            200,
            "application/json; charset=utf-8",
            serde_json::Value::from(entries).to_string(),
        );
    }
    let lines: String = page.flat_map(|(name, _)| [name.as_str(), "\n"]).collect();
    if lines.is_empty() {
        Answer::empty(204)
    } else {
        Answer::text(200, &lines)
    }
}

fn container_headers(answer: Answer, container: &Container) -> Answer {
    answer
        .with_header(
            "X-Container-Object-Count",
            &container.objects.len().to_string(),
        )
        .with_header("X-Container-Bytes-Used", &container.bytes.to_string())
}

fn account_headers(answer: Answer, account: &Account) -> Answer {
    let objects: usize = account
        .containers
        .values()
        .map(|container| container.objects.len())
        .sum();
    let bytes: u64 = account
        .containers
        .values()
        .map(|container| container.bytes)
        .sum();
    answer
        .with_header(
            "X-Account-Container-Count",
            &account.containers.len().to_string(),
        )
        .with_header("X-Account-Object-Count", &objects.to_string())
        .with_header("X-Account-Bytes-Used", &bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parse_request;

    fn ask(store: &mut Store, method: &str, target: &str, body: &[u8]) -> Answer {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Type: text/x\r\n\r\n");
        let (request, _) = parse_request(text.as_bytes()).unwrap().unwrap();
        store.answer(&request, body.to_vec())
    }

    fn names(answer: &Answer) -> Vec<String> {
        let list: Vec<serde_json::Value> = serde_json::from_slice(&answer.body).unwrap();
        list.iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn objects_are_kept_as_they_were_put() {
        let mut store = Store::new(1 << 20);
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c/o", b"x").status, 404);
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c", b"").status, 201);
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c", b"").status, 202);
        assert_eq!(
            ask(&mut store, "PUT", "/v1/a/c/dir/o%20one", b"hello").status,
            201
        );
        let got = ask(&mut store, "GET", "/v1/a/c/dir/o%20one", b"");
        assert_eq!((got.status, got.body.as_slice()), (200, &b"hello"[..]));
        let lines = String::from_utf8(got.lines).unwrap();
        assert_eq!(
            lines,
            "Content-Type: text/x\r\nETag: 5d41402abc4b2a76b9719d911017c592\r\n"
        );
        let head = ask(&mut store, "HEAD", "/v1/a/c/dir/o%20one", b"");
        assert_eq!((head.length, head.body.len()), (Some(5), 0));
        assert_eq!(ask(&mut store, "GET", "/v1/a/c/other", b"").status, 404);
        assert_eq!(store.size(), (1, 5));
        assert_eq!(ask(&mut store, "DELETE", "/v1/a/c", b"").status, 409);
        assert_eq!(
            ask(&mut store, "DELETE", "/v1/a/c/dir/o%20one", b"").status,
            204
        );
        assert_eq!(ask(&mut store, "DELETE", "/v1/a/c", b"").status, 204);
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn listings_come_in_sorted_pages() {
        let mut store = Store::new(1 << 20);
        for container in ["c2", "c1"] {
            ask(&mut store, "PUT", &format!("/v1/a/{container}"), b"");
        }
        for object in ["o3", "o1", "o2"] {
            ask(
                &mut store,
                "PUT",
                &format!("/v1/a/c1/{object}"),
                object.as_bytes(),
            );
        }
        let page = ask(&mut store, "GET", "/v1/a?format=json&limit=1", b"");
        let list: serde_json::Value = serde_json::from_slice(&page.body).unwrap();
        assert_eq!(
            list,
            serde_json::json!([{"name": "c1", "count": 3, "bytes": 6}])
        );
        assert_eq!(
            names(&ask(&mut store, "GET", "/v1/a?format=json&marker=c1", b"")),
            ["c2"]
        );
        assert_eq!(
            names(&ask(&mut store, "GET", "/v1/a/c1?format=json&limit=2", b"")),
            ["o1", "o2"]
        );
        assert_eq!(
            names(&ask(
                &mut store,
                "GET",
                "/v1/a/c1?format=json&limit=2&marker=o2",
                b""
            )),
            ["o3"]
        );
        assert!(names(&ask(
            &mut store,
            "GET",
            "/v1/a/c1?format=json&marker=o3",
            b""
        ))
        .is_empty());
        let entry = ask(&mut store, "GET", "/v1/a/c1?format=json&limit=1", b"");
        let list: serde_json::Value = serde_json::from_slice(&entry.body).unwrap();
        assert_eq!(list[0]["bytes"], 2);
        assert_eq!(list[0]["hash"], "f1584b995a4770986ad75bb8d29e9734");
        assert_eq!(
            ask(&mut store, "GET", "/v1/a/c1", b"").body.as_slice(),
            b"o1\no2\no3\n"
        );
        assert_eq!(ask(&mut store, "GET", "/v1/a/c2", b"").status, 204);
        assert_eq!(
            ask(&mut store, "GET", "/v1/a/none?format=json", b"").status,
            404
        );
        assert_eq!(
            ask(&mut store, "GET", "/v1/none?format=json", b"").status,
            404
        );
        assert_eq!(ask(&mut store, "GET", "/v1/a?limit=10001", b"").status, 412);
    }

    #[test]
    fn overwriting_replaces_and_the_limit_holds() {
        let mut store = Store::new(8);
        ask(&mut store, "PUT", "/v1/a/c", b"");
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c/o", b"12345678").status, 201);
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c/p", b"1").status, 507);
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c/o", b"1234567").status, 201);
        assert_eq!(ask(&mut store, "PUT", "/v1/a/c/p", b"1").status, 201);
        assert_eq!(store.size(), (2, 8));
        store.clear();
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn other_paths_and_methods_have_their_status() {
        let mut store = Store::new(8);
        assert_eq!(ask(&mut store, "GET", "/", b"").status, 404);
        assert_eq!(ask(&mut store, "GET", "/v1/", b"").status, 404);
        assert_eq!(ask(&mut store, "PATCH", "/v1/a", b"").status, 405);
        assert_eq!(ask(&mut store, "PUT", "/v1/a", b"").status, 201);
        assert_eq!(ask(&mut store, "POST", "/v1/a", b"").status, 204);
        assert_eq!(ask(&mut store, "POST", "/v1/a/c", b"").status, 404);
        assert_eq!(ask(&mut store, "HEAD", "/v1/a", b"").status, 204);
    }
}
