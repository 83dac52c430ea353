//! Where a Location header leads: RFC 3986 §5 as far as HTTP needs it. Names are never looked up.

/// An origin as URLs write it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub https: bool,
    /// Lower case; an IPv6 address stands in brackets.
    pub host: String,
    pub port: u16,
}

impl Origin {
    /// Parses `scheme://host[:port]` with nothing behind it. `None` for anything else, user names included.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        Self::from_parts(scheme, authority)
    }

    fn from_parts(scheme: &str, authority: &str) -> Option<Self> {
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let split = authority
            .rfind(':')
            .filter(|at| !authority[*at..].contains(']'));
        let (host, port) = match split {
            Some(at) if at + 1 < authority.len() => {
                (&authority[..at], authority[at + 1..].parse().ok()?)
            }
            Some(at) => (&authority[..at], if https { 443 } else { 80 }),
            None => (authority, if https { 443 } else { 80 }),
        };
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~[]:%".contains(&byte);
        let address = host.strip_prefix('[').map(|rest| rest.strip_suffix(']'));
        let bracketed = match address {
            Some(inside) => inside.is_some_and(|inside| !inside.contains(['[', ']'])),
            None => !host.contains(['[', ']']),
        };
        if host.is_empty() || !bracketed || !host.bytes().all(legal) {
            return None;
        }
        Some(Origin {
            https,
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// The Host header: without the scheme's own port.
    pub fn host_header(&self) -> String {
        if self.port == if self.https { 443 } else { 80 } {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the host is loopback by its name (RFC 6761 §6.3), which nobody needs to look up.
    pub fn is_loopback(&self) -> bool {
        matches!(self.host.as_str(), "localhost" | "localhost.localdomain")
    }

    /// `scheme://host:port`, always with the port.
    pub fn full(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

/// What a redirect asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// `None`: the same origin.
    pub origin: Option<Origin>,
    /// Path and query, fit for a request line.
    pub path: String,
}

/// Whether a status asks to follow its Location.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The method of the next request: POST becomes GET as in browsers and curl, 303 makes everything but HEAD a GET.
pub fn next_method(status: u16, method: &str) -> &str {
    match (status, method) {
        (303, "HEAD") => "HEAD",
        (303, _) | (301 | 302, "POST") => "GET",
        _ => method,
    }
}

/// Resolves a Location header against the request it answers. `None`: it makes no sense.
pub fn resolve(location: &[u8], base_https: bool, base_path: &str) -> Option<Hop> {
    let text = std::str::from_utf8(location).ok()?.trim();
    if text.contains(['\r', '\n']) {
        return None;
    }
    let text = text.split('#').next().unwrap_or("");
    let (origin, rest) = if let Some(at) = scheme_end(text) {
        let after = text[at..].strip_prefix("://")?;
        split_authority(&text[..at], after)?
    } else if let Some(after) = text.strip_prefix("//") {
        split_authority(if base_https { "https" } else { "http" }, after)?
    } else {
        (None, text)
    };
    let path = match rest.as_bytes().first() {
        None if origin.is_some() => "/".to_owned(),
        None => base_path.to_owned(),
        Some(b'/') => remove_dots(rest),
        Some(b'?') if origin.is_some() => format!("/{rest}"),
        Some(b'?') => format!("{}{rest}", base_path.split('?').next().unwrap_or("/")),
        Some(_) => {
            let base = base_path.split('?').next().unwrap_or("/");
            let folder = base.rfind('/').map_or("/", |at| &base[..=at]);
            remove_dots(&format!("{folder}{rest}"))
        }
    };
    Some(Hop {
        origin,
        path: escape(&path),
    })
}

fn scheme_end(text: &str) -> Option<usize> {
    let at = text.find(':')?;
    let name = &text.as_bytes()[..at];
    let starts = name.first().is_some_and(u8::is_ascii_alphabetic);
    (starts
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)))
    .then_some(at)
}

fn split_authority<'a>(scheme: &str, after: &'a str) -> Option<(Option<Origin>, &'a str)> {
    let end = after.find(['/', '?']).unwrap_or(after.len());
    Some((
        Some(Origin::from_parts(scheme, &after[..end])?),
        &after[end..],
    ))
}

/// RFC 3986 §5.2.4, on the path before the query.
fn remove_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

/// Percent-encodes what a request line must not hold.
fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte > b' ' && byte < 127 {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(location: &str) -> String {
        let hop = resolve(location.as_bytes(), false, "/a/b/c?q=1").unwrap();
        assert_eq!(hop.origin, None);
        hop.path
    }

    #[test]
    fn references_resolve_as_in_the_rfc() {
        assert_eq!(path("/x?y=1#frag"), "/x?y=1");
        assert_eq!(path("d"), "/a/b/d");
        assert_eq!(path("../d/./e"), "/a/d/e");
        assert_eq!(path("../../../.."), "/");
        assert_eq!(path("?z=2"), "/a/b/c?z=2");
        assert_eq!(path("/with space/ü"), "/with%20space/%C3%BC");
        assert_eq!(path("."), "/a/b/");
        assert_eq!(path("/a:b"), "/a:b");
    }

    #[test]
    fn absolute_locations_name_an_origin() {
        let hop = resolve(b"HTTPS://Cache:8443/x", false, "/").unwrap();
        assert_eq!(hop.origin.unwrap().full(), "https://cache:8443");
        assert_eq!(hop.path, "/x");
        let hop = resolve(b"http://[::1]:80?x", false, "/").unwrap();
        assert_eq!(
            (
                hop.origin.unwrap().host_header().as_str(),
                hop.path.as_str()
            ),
            ("[::1]", "/?x")
        );
        assert_eq!(
            resolve(b"//other/x", true, "/")
                .unwrap()
                .origin
                .unwrap()
                .full(),
            "https://other:443"
        );
        for nonsense in [
            "ftp://a/b",
            "http://user:pw@host/",
            "http://",
            "http:/x",
            "http://a:99999/",
            "mailto:me",
            "http://[::1/",
            "http://::1]/",
            "http://[::1]x/",
            "http://[[::1]]/",
            "/a\r\n b",
        ] {
            assert_eq!(resolve(nonsense.as_bytes(), false, "/"), None, "{nonsense}");
        }
        assert_eq!(resolve(b"\xff", false, "/"), None);
    }

    #[test]
    fn methods_change_as_curls_do() {
        assert_eq!(next_method(302, "POST"), "GET");
        assert_eq!(next_method(307, "POST"), "POST");
        assert_eq!(next_method(303, "PUT"), "GET");
        assert_eq!(next_method(301, "HEAD"), "HEAD");
    }
}

#[cfg(test)]
#[path = "redirect_properties.rs"]
mod properties;
