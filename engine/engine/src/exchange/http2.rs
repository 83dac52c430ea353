//! HTTP/2 as an exchange: a stream of a connection that others share. Its frames are the connection's session's; here stand what
//! it says, what came of it and what is kept of that.

use super::{Asking, Codec, Exchange, Protocol};
use crate::error::ErrorKind;
use crate::pieces::Source;
use crate::request::{head_bytes, Template};
use crate::wire::http1::Step;
use crate::wire::http2::answer::Answer;
use crate::wire::http2::session::Dictionary;
use crate::wire::keep::{Keep, Keeping, Kept};
use crate::wire::WireError;

/// What a request over HTTP/2 is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The step's template.
    #[default]
    Template,
    /// Its HTTP/1.1 form in the text: a redirect hop, or an address that variables made; `body`: the request's body goes with it.
    Text { body: bool },
}

/// A request's place on an HTTP/2 connection, which it shares with others.
#[derive(Debug, Default)]
pub struct OnStream {
    /// The stream; 0 while the request waits for one, and once it is over.
    pub id: u32,
    /// "Begun" stands: the request opened the connection, or waited for it or for a stream.
    pub begun: bool,
    pub form: Form,
    pub to_head_request: bool,
    /// What came of it, once it is over.
    answer: Answer,
    /// Where a text body begins in the text.
    text_from: usize,
    keeping: Keeping,
}

impl OnStream {
    fn begin(&mut self, form: Form, to_head_request: bool, keep: Keep) {
        (self.id, self.begun, self.form) = (0, false, form);
        self.to_head_request = to_head_request;
        (self.answer, self.text_from) = (Answer::default(), 0);
        self.keeping.begin(keep);
    }

    /// Its stream is over: this came of it.
    pub fn end(&mut self, answer: Answer) {
        self.id = 0;
        self.answer = answer;
    }

    /// Where its answer is kept, if something of it is wanted.
    pub fn keeper(&mut self) -> Option<&mut Kept> {
        self.keeping.kept_mut()
    }
}

impl Codec for OnStream {
    /// No bytes come here: they are frames of many streams.
    fn push(&mut self, _bytes: &[u8], _asking: &mut Asking<'_>) -> Result<Step, WireError> {
        Err(WireError::Unexpected)
    }

    fn end_of_stream(&mut self) -> Result<(), WireError> {
        Err(WireError::ShortBody)
    }

    fn answer(&self) -> Answer {
        self.answer
    }

    fn kept(&self) -> Option<&Kept> {
        self.keeping.kept()
    }

    fn shrink(&mut self) {
        self.keeping.shrink();
    }

    /// It never had one for itself.
    fn keeps_connection(&self) -> bool {
        false
    }

    fn location(&self) -> &[u8] {
        self.kept().map_or(&[], Kept::location)
    }

    fn timeout(&self, sending: bool, touched: bool) -> ErrorKind {
        match (sending, touched) {
            (_, true) => ErrorKind::TimeoutBody,
            (true, false) => ErrorKind::TimeoutSend,
            (false, false) => ErrorKind::TimeoutFirstByte,
        }
    }
}

impl Exchange {
    /// Makes ready for a request over HTTP/2; what its form says stands in the text already.
    pub fn begin_on_stream(&mut self, form: Form, to_head_request: bool, keep: Keep) {
        match &mut self.protocol {
            Protocol::Http2(stream) => stream.begin(form, to_head_request, keep),
            other => {
                let mut stream = OnStream::default();
                stream.begin(form, to_head_request, keep);
                *other = Protocol::Http2(stream);
            }
        }
    }

    /// Its place on a shared connection; `None` where it has a connection for itself.
    #[inline]
    pub fn stream(&self) -> Option<&OnStream> {
        match &self.protocol {
            Protocol::Http2(stream) => Some(stream),
            _ => None,
        }
    }

    #[inline]
    pub fn stream_mut(&mut self) -> Option<&mut OnStream> {
        match &mut self.protocol {
            Protocol::Http2(stream) => Some(stream),
            _ => None,
        }
    }

    /// Brings the request into its HTTP/1.1 form, which redirects start from.
    pub fn spell_out(&mut self, template: &Template, source: &Source<'_>) {
        if self.form() == Some(Form::Template) {
            self.render(template, source);
        }
    }

    fn form(&self) -> Option<Form> {
        self.stream().map(|stream| stream.form)
    }

    /// Makes the request's body ready to leave as DATA; its length.
    pub fn ready_content(&mut self, template: &Template, source: &Source<'_>) -> u64 {
        let Protocol::Http2(stream) = &mut self.protocol else {
            return 0;
        };
        match stream.form {
            Form::Text { .. } => stream.text_from = head_bytes(self.text.bytes()),
            Form::Template if template.has_text() => {
                template.render_text(source, self.text.begin());
                stream.text_from = 0;
            }
            Form::Template => {}
        }
        match stream.form {
            _ if template.has_text() => (self.text.bytes().len() - stream.text_from) as u64,
            Form::Text { body: false } => 0,
            _ => template.content_bytes(source.asker),
        }
    }

    /// Appends its header block.
    pub fn render_block(
        &self,
        template: &Template,
        source: &Source<'_>,
        https: bool,
        dictionary: Dictionary,
        out: &mut Vec<u8>,
    ) {
        match self.form() {
            Some(Form::Text { .. }) => template.block_of_text(self.text.bytes(), https, out),
            _ => template.render_block(dictionary, source, out),
        }
    }

    /// So many bytes of its text body, from place `at` on.
    pub fn content_of_text(&self, at: usize, bytes: usize) -> &[u8] {
        let from = self.stream().map_or(0, |stream| stream.text_from) + at;
        &self.text.bytes()[from..from + bytes]
    }
}
