//! One request and its answer, whatever the protocol: what leaves, what comes, when it is over, and whether the connection
//! may carry another.
//!
//! [`Exchange`] is the face that workers know. Behind it each user holds the codec of the protocol that it speaks, and no
//! other. A protocol on a stream of bytes is a file here and a line in `protocols!`; CONTRIBUTING.md leads through it.

mod commands;
pub mod dialogue;
mod http1;
pub mod http2;
pub mod memcached;
pub mod redis;

use std::sync::Arc;

use crate::body::Streamed;
use crate::error::ErrorKind;
use crate::feeder::Feeder;
use crate::pieces::{Asker, Maker, Source};
use crate::request::Template;
use crate::share::{Part, RequestSpec};
use crate::wire::http1::{Decoder, Step};
use crate::wire::http2::answer::Answer;
use crate::wire::keep::{Keep, Kept};
use crate::wire::WireError;

use self::http2::OnStream;

/// A protocol's request as a share asks for it.
pub trait Spoken {
    /// What varies in it: each list of parts and the place where it stands.
    fn parts(&self) -> Vec<(String, &[Part])>;

    /// What makes it impossible: the place within it and the problem.
    fn flaw(&self) -> Option<(String, String)>;

    /// Names of the variables that it sets while it is under way.
    fn variables(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Makes it ready, once checked.
    fn recipe(&self, maker: Maker<'_>) -> Recipe;
}

/// What happens next between us and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The request's bytes leave, up to this place.
    Say {
        until: usize,
    },
    Hear,
    Done,
}

/// Who speaks, and where the values go that answers give.
#[derive(Debug)]
pub struct Asking<'a> {
    pub feeders: &'a [Feeder],
    pub asker: Asker,
    /// The variables by number.
    pub taken: &'a mut [Vec<u8>],
}

impl Asking<'_> {
    /// What fills the varying pieces of a text.
    pub fn source(&self) -> Source<'_> {
        Source {
            feeders: self.feeders,
            asker: self.asker,
            taken: &*self.taken,
        }
    }
}

/// A protocol's side of an exchange. The bytes of a connection come to `push` in any pieces.
pub trait Codec {
    /// What happens next, after so many bytes of the text have left. By itself: the text leaves, then the answer comes.
    fn next(
        &mut self,
        written: usize,
        text: &mut Text,
        _asking: &mut Asking<'_>,
    ) -> Result<Next, WireError> {
        let until = text.bytes().len();
        Ok(if written < until {
            Next::Say { until }
        } else {
            Next::Hear
        })
    }

    /// What `next` told to say has left. How many bytes of request that adds to those that were known at its begin.
    fn said(&mut self) -> usize {
        0
    }

    /// Takes the next bytes of the stream.
    fn push(&mut self, bytes: &[u8], asking: &mut Asking<'_>) -> Result<Step, WireError>;

    /// The stream has ended. `Ok` if that completes the answer.
    fn end_of_stream(&mut self) -> Result<(), WireError>;

    /// What has come, whole or in part. Status 0: the protocol has none.
    fn answer(&self) -> Answer;

    /// Bytes that checks of size see.
    fn checked_bytes(&self) -> u64 {
        self.answer().body_bytes
    }

    /// What was kept of it for checks and variables.
    fn kept(&self) -> Option<&Kept>;

    /// The answer is judged: what was kept of it is needed no more, nor the room that only a large one needs.
    fn shrink(&mut self);

    /// Whether the connection may carry another request after this answer.
    fn keeps_connection(&self) -> bool;

    /// What a whole answer says went wrong; a status is judged by what its request expects.
    fn refusal(&self) -> ErrorKind {
        ErrorKind::None
    }

    /// Both sides speak in turns: the server may begin, and what it says may call for more of ours.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Whether the server has told a body that waits to follow.
    fn continued(&self) -> bool {
        false
    }

    /// Where a redirect leads; empty without one.
    fn location(&self) -> &[u8] {
        &[]
    }

    /// The phase that a timeout ends. `sending`: not all that could leave has; `touched`: some of the answer came.
    fn timeout(&self, sending: bool, touched: bool) -> ErrorKind {
        match (sending, touched) {
            (true, _) => ErrorKind::TimeoutSend,
            (false, true) => ErrorKind::TimeoutBody,
            (false, false) => ErrorKind::TimeoutFirstByte,
        }
    }
}

/// A request's bytes: its own, or those that all requests of its step have in common.
#[derive(Debug, Default)]
pub struct Text {
    own: Vec<u8>,
    common: Option<Arc<[u8]>>,
}

impl Text {
    pub fn bytes(&self) -> &[u8] {
        self.common.as_deref().unwrap_or(&self.own)
    }

    /// Begins a text of its own.
    pub fn begin(&mut self) -> &mut Vec<u8> {
        self.own.clear();
        self.append()
    }

    /// Room for more of it.
    pub fn append(&mut self) -> &mut Vec<u8> {
        self.common = None;
        &mut self.own
    }

    /// The text is what all requests of its step have in common.
    fn share(&mut self, bytes: &Arc<[u8]>) {
        let known = self.common.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, bytes)) {
            self.common = Some(bytes.clone());
        }
    }
}

macro_rules! protocols {
    ($($name:ident = $file:ident),+ $(,)?) => {
        /// How requests of a step are made, ready to be made again and again.
        #[derive(Clone, Debug)]
        pub enum Recipe {
            Http(Arc<Template>),
            $($name(Arc<$file::Recipe>)),+
        }

        /// The protocol that is spoken, with the state of the exchange under way.
        #[derive(Debug)]
        enum Protocol {
            Http1(Decoder),
            Http2(OnStream),
            $($name($file::Talker)),+
        }

        impl Protocol {
            fn codec(&self) -> &dyn Codec {
                match self {
                    Protocol::Http1(codec) => codec,
                    Protocol::Http2(codec) => codec,
                    $(Protocol::$name(codec) => codec),+
                }
            }

            fn codec_mut(&mut self) -> &mut dyn Codec {
                match self {
                    Protocol::Http1(codec) => codec,
                    Protocol::Http2(codec) => codec,
                    $(Protocol::$name(codec) => codec),+
                }
            }

            /// Begins a request of a protocol besides HTTP.
            fn begin(&mut self, recipe: &Recipe, keep: Keep, text: &mut Text, asking: &Asking<'_>) {
                match (recipe, self) {
                    (Recipe::Http(_), _) => {}
                    $(
                        (Recipe::$name(recipe), Protocol::$name(codec)) => {
                            codec.begin(recipe, keep, text, asking);
                        }
                        (Recipe::$name(recipe), other) => {
                            let mut codec = $file::Talker::default();
                            codec.begin(recipe, keep, text, asking);
                            *other = Protocol::$name(codec);
                        }
                    )+
                }
            }
        }
    };
}

protocols! {
    Dialogue = dialogue,
    Redis = redis,
    Memcached = memcached,
}

impl Recipe {
    /// Of a checked request. `host` is the Host header of its endpoint.
    pub fn new(
        maker: Maker<'_>,
        request: &RequestSpec,
        host: &str,
        streamed: Option<Streamed>,
    ) -> Self {
        match request.spoken() {
            Some((_, spoken)) => spoken.recipe(maker),
            None => Recipe::Http(Arc::new(Template::new(maker, request, host, streamed))),
        }
    }

    /// Of an HTTP request, over whichever version.
    #[inline]
    pub fn http(&self) -> Option<&Template> {
        match self {
            Recipe::Http(template) => Some(template),
            _ => None,
        }
    }
}

/// A request in progress and what has come of it; its buffers stay for the next.
#[derive(Debug, Default)]
pub struct Exchange {
    text: Text,
    protocol: Protocol,
}

impl Default for Protocol {
    fn default() -> Self {
        Protocol::Http1(Decoder::default())
    }
}

impl Exchange {
    /// Begins a step's request, of HTTP by HTTP/1.1.
    pub fn begin(&mut self, recipe: &Recipe, keep: Keep, asking: &Asking<'_>) {
        match recipe.http() {
            Some(template) => {
                self.render(template, &asking.source());
                self.await_http1(template.to_head_request(), keep);
            }
            None => self.protocol.begin(recipe, keep, &mut self.text, asking),
        }
    }

    /// The request's bytes as far as they are known, without a streamed body.
    #[inline]
    pub fn text(&self) -> &[u8] {
        self.text.bytes()
    }

    /// What happens next, after so many of its bytes have left.
    #[inline]
    pub fn next(&mut self, written: usize, asking: &mut Asking<'_>) -> Result<Next, WireError> {
        let codec = self.protocol.codec_mut();
        codec.next(written, &mut self.text, asking)
    }

    /// What was to be said has left; how many bytes of request that adds.
    #[inline]
    pub fn said(&mut self) -> usize {
        self.protocol.codec_mut().said()
    }

    /// Takes the next bytes of the connection.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], asking: &mut Asking<'_>) -> Result<Step, WireError> {
        self.protocol.codec_mut().push(bytes, asking)
    }

    /// The connection's stream has ended. `Ok` if that completes the answer.
    pub fn end_of_stream(&mut self) -> Result<(), WireError> {
        self.protocol.codec_mut().end_of_stream()
    }

    /// What has come of the answer.
    pub fn answer(&self) -> Answer {
        self.protocol.codec().answer()
    }

    /// The answer as checks see it.
    pub fn checked(&self) -> crate::check::Answer<'_> {
        let codec = self.protocol.codec();
        crate::check::Answer {
            status: codec.answer().status,
            body_bytes: codec.checked_bytes(),
            kept: codec.kept(),
            refusal: codec.refusal(),
        }
    }

    /// What was kept of the answer.
    pub fn kept(&self) -> Option<&Kept> {
        self.protocol.codec().kept()
    }

    /// The answer is judged: what was kept of it is needed no more.
    #[inline]
    pub fn shrink(&mut self) {
        self.protocol.codec_mut().shrink();
    }

    /// Whether the connection may carry another request after this one, as far as its answer says.
    pub fn keeps_connection(&self) -> bool {
        self.protocol.codec().keeps_connection()
    }

    /// Both sides speak in turns: the server may begin, and what it says may call for more of ours.
    pub fn takes_turns(&self) -> bool {
        self.protocol.codec().takes_turns()
    }

    /// Whether the server has told a body that waits to follow.
    pub fn continued(&self) -> bool {
        self.protocol.codec().continued()
    }

    /// The answer's Location, empty without one.
    pub fn location(&self) -> &[u8] {
        self.protocol.codec().location()
    }

    /// The phase that a timeout ends.
    pub fn timeout(&self, sending: bool, touched: bool) -> ErrorKind {
        self.protocol.codec().timeout(sending, touched)
    }
}
