//! HTTP/1.1 as an exchange: its text is its template's, or a redirect hop's; its answer is the decoder's.

use super::{Asking, Codec, Exchange, Protocol};
use crate::error::ErrorKind;
use crate::pieces::Source;
use crate::request::{HopLine, Template};
use crate::wire::http1::{Decoder, Step};
use crate::wire::http2::answer::Answer;
use crate::wire::keep::{Keep, Kept};
use crate::wire::WireError;

impl Codec for Decoder {
    fn push(&mut self, bytes: &[u8], _asking: &mut Asking<'_>) -> Result<Step, WireError> {
        Decoder::push(self, bytes)
    }

    fn end_of_stream(&mut self) -> Result<(), WireError> {
        Decoder::end_of_stream(self)
    }

    fn answer(&self) -> Answer {
        Answer {
            status: self.status(),
            header_bytes: self.header_bytes(),
            body_bytes: self.body_bytes(),
            // Counted as it came.
            received_bytes: 0,
        }
    }

    fn kept(&self) -> Option<&Kept> {
        Decoder::kept(self)
    }

    fn shrink(&mut self) {
        Decoder::shrink(self);
    }

    fn keeps_connection(&self) -> bool {
        self.keep_alive()
    }

    fn continued(&self) -> bool {
        Decoder::continued(self)
    }

    fn location(&self) -> &[u8] {
        Decoder::location(self)
    }

    fn timeout(&self, sending: bool, touched: bool) -> ErrorKind {
        match (sending, touched) {
            _ if self.status() != 0 => ErrorKind::TimeoutBody,
            (true, _) => ErrorKind::TimeoutSend,
            (false, true) => ErrorKind::TimeoutHead,
            (false, false) => ErrorKind::TimeoutFirstByte,
        }
    }
}

impl Exchange {
    /// Writes a step's request.
    pub(super) fn render(&mut self, template: &Template, source: &Source<'_>) {
        match template.common() {
            Some(bytes) => self.text.share(bytes),
            None => template.render(source, self.text.begin()),
        }
    }

    /// Writes a redirect hop, or a request whose address variables made.
    pub fn render_hop(&mut self, template: &Template, hop: &HopLine<'_>, source: &Source<'_>) {
        template.render_hop(hop, source, self.text.begin());
    }

    /// Makes ready for an answer over HTTP/1.1.
    pub fn await_http1(&mut self, to_head_request: bool, keep: Keep) {
        match &mut self.protocol {
            Protocol::Http1(decoder) => {
                decoder.reset(to_head_request);
                decoder.keep(keep);
            }
            other => {
                let mut decoder = Decoder::default();
                decoder.reset(to_head_request);
                decoder.keep(keep);
                *other = Protocol::Http1(decoder);
            }
        }
    }
}
