//! The cache's memory and its rules: what is a hit, what is a miss, and who waits for whom. Pure.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use crate::http::{Answer, Body, Request};
use crate::workers::JobId;

/// Path without query, and the value of X-Cold.
pub type Key = Rc<(String, Option<String>)>;

/// The key of a request that may be cached: GET of `/v1/ACC/CONT/OBJ`.
#[must_use]
pub fn key(request: &Request, ignore_cold: bool) -> Option<Key> {
    let path = request.path();
    let is_object = request.method == "GET"
        && matches!(
            crate::store::place(path),
            Some(crate::store::Place::Object(..))
        );
    let cold = request.cold.clone().filter(|_| !ignore_cold);
    is_object.then(|| Rc::new((path.to_owned(), cold)))
}

/// What a lookup found.
#[derive(Debug)]
pub enum Lookup {
    Hit(Answer),
    /// The caller must fetch it; others that ask meanwhile wait.
    Miss,
    /// Another request is fetching it.
    Busy,
}

#[derive(Debug)]
struct Entry {
    answer: Answer,
    /// Its body is the one of `Cache::shared`.
    shared: bool,
}

/// Cached answers; the oldest goes first when a limit is reached.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<Key, Entry>,
    order: VecDeque<Key>,
    /// Requests that wait for a fetch under way.
    fetching: HashMap<Key, Vec<JobId>>,
    /// One body a path and how many entries use it: cold copies of one object share it.
    shared: HashMap<String, (Body, u64)>,
    objects_limit: usize,
    bytes_limit: u64,
    bytes: u64,
    evicted: u64,
}

impl Cache {
    #[must_use]
    pub fn new(objects_limit: usize, bytes_limit: u64) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            fetching: HashMap::new(),
            shared: HashMap::new(),
            objects_limit,
            bytes_limit,
            bytes: 0,
            evicted: 0,
        }
    }

    /// Looks a key up; after [`Lookup::Miss`] it is being fetched until [`Cache::fetched`].
    pub fn lookup(&mut self, key: &Key) -> Lookup {
        if let Some(entry) = self.entries.get(key) {
            return Lookup::Hit(entry.answer.clone());
        }
        if self.fetching.contains_key(key) {
            return Lookup::Busy;
        }
        self.fetching.insert(Key::clone(key), Vec::new());
        Lookup::Miss
    }

    /// Lets a request wait for the fetch of `key`; false if none is under way.
    pub fn wait(&mut self, key: &Key, job: JobId) -> bool {
        self.fetching
            .get_mut(key)
            .map(|waiting| waiting.push(job))
            .is_some()
    }

    /// Ends a fetch: a 200 is kept. Returns the requests that waited.
    pub fn fetched(&mut self, key: &Key, answer: Option<&Answer>) -> Vec<JobId> {
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            self.insert(key, answer.clone());
        }
        self.fetching.remove(key).unwrap_or_default()
    }

    fn insert(&mut self, key: &Key, mut answer: Answer) {
        self.remove(key); // a live change of `never_store` can bring a key twice
        let size = answer.body.len() as u64;
        let shared = match self.shared.get_mut(&key.0) {
            Some((body, users)) if *body == answer.body => {
                answer.body = Body::clone(body);
                *users += 1;
                true
            }
            Some(_) => {
                self.bytes += size;
                false
            }
            None => {
                self.shared
                    .insert(key.0.clone(), (Body::clone(&answer.body), 1));
                self.bytes += size;
                true
            }
        };
        self.entries
            .insert(Key::clone(key), Entry { answer, shared });
        self.order.push_back(Key::clone(key));
        while self.entries.len() > self.objects_limit
            || (self.bytes > self.bytes_limit && self.entries.len() > 1)
        {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            self.evicted += u64::from(self.remove(&oldest));
        }
    }

    fn remove(&mut self, key: &Key) -> bool {
        let Some(Entry { answer, shared }) = self.entries.remove(key) else {
            return false;
        };
        if shared {
            if let Some((_, users)) = self.shared.get_mut(&key.0) {
                *users -= 1;
                if *users > 0 {
                    return true;
                }
                self.shared.remove(&key.0);
            }
        }
        self.bytes -= answer.body.len() as u64;
        true
    }

    /// Forgets all entries; fetches under way go on.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.shared.clear();
        self.bytes = 0;
    }

    /// Counts evictions from 0 again.
    pub fn reset_evicted(&mut self) {
        self.evicted = 0;
    }

    /// (entries, bytes of bodies kept, entries evicted since the last reset)
    #[must_use]
    pub fn size(&self) -> (u64, u64, u64) {
        (self.entries.len() as u64, self.bytes, self.evicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, cold: Option<&str>) -> Key {
        Rc::new((path.to_owned(), cold.map(str::to_owned)))
    }

    fn miss(cache: &mut Cache, key: &Key, body: &str) {
        assert!(matches!(cache.lookup(key), Lookup::Miss));
        assert!(cache
            .fetched(key, Some(&Answer::text(200, body)))
            .is_empty());
    }

    fn hits(cache: &mut Cache, key: &Key) -> bool {
        matches!(cache.lookup(key), Lookup::Hit(_))
    }

    #[test]
    fn only_gets_of_objects_have_a_key_and_the_query_is_not_in_it() {
        let key_of = |text: &str, ignore| {
            let text = format!("{text} HTTP/1.1\r\nHost: h\r\nX-Cold: 1\r\n\r\n");
            key(
                &crate::http::parse_request(text.as_bytes())
                    .unwrap()
                    .unwrap()
                    .0,
                ignore,
            )
        };
        assert_eq!(
            key_of("GET /v1/a/c/o?x=1", false),
            Some(named("/v1/a/c/o", Some("1")))
        );
        assert_eq!(
            key_of("GET /v1/a/c/o", true),
            Some(named("/v1/a/c/o", None))
        );
        assert_eq!(key_of("HEAD /v1/a/c/o", false), None);
        assert_eq!(key_of("GET /v1/a/c?format=json", false), None);
    }

    #[test]
    fn a_key_misses_once_and_hits_after() {
        let mut cache = Cache::new(10, 1000);
        let (warm, cold) = (named("/o", None), named("/o", Some("1")));
        miss(&mut cache, &warm, "body");
        assert!(hits(&mut cache, &warm));
        miss(&mut cache, &cold, "body");
        assert!(hits(&mut cache, &cold));
        assert_eq!(cache.size(), (2, 4, 0)); // the copy shares its body
        cache.clear();
        assert_eq!(cache.size(), (0, 0, 0));
        assert!(!hits(&mut cache, &warm));
    }

    #[test]
    fn requests_for_a_key_being_fetched_wait_and_a_failed_fetch_is_not_kept() {
        let mut cache = Cache::new(10, 1000);
        let key = named("/o", None);
        assert!(!cache.wait(&key, 6));
        assert!(matches!(cache.lookup(&key), Lookup::Miss));
        assert!(matches!(cache.lookup(&key), Lookup::Busy));
        assert!(cache.wait(&key, 7) && cache.wait(&key, 8));
        assert_eq!(cache.fetched(&key, Some(&Answer::text(404, "no"))), [7, 8]);
        miss(&mut cache, &key, "now");
        assert!(hits(&mut cache, &key));
    }

    #[test]
    fn the_oldest_goes_first_and_bytes_stay_exact() {
        let mut cache = Cache::new(2, 1000);
        let keys: Vec<Key> = (0..3).map(|i| named(&format!("/o{i}"), None)).collect();
        for (key, body) in keys.iter().zip(["a", "bb", "ccc"]) {
            miss(&mut cache, key, body);
        }
        assert_eq!(cache.size(), (2, 5, 1));
        assert!(!hits(&mut cache, &keys[0]) && hits(&mut cache, &keys[2]));

        let mut small = Cache::new(100, 10);
        for (cold, body) in [
            ("1", "12345"),
            ("2", "12345"),
            ("3", "other"),
            ("4", "third"),
        ] {
            miss(&mut small, &named("/o", Some(cold)), body);
        }
        // 1 and 2 share five bytes; both had to go before the third body fitted
        assert_eq!(small.size(), (2, 10, 2));
    }
}
