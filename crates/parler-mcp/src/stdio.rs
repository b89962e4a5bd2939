//! JSON-RPC over two byte streams, one message a line: the transport under the server.
//!
//! 1. Lines are read with a bound, judged ([`crate::rpc`]) and handed up one by one; what has to
//!    be refused is answered from here and the stream goes on.
//! 2. Everything that goes out passes one task that owns the output, so lines never mix and
//!    nothing but JSON-RPC can get there.
//! 3. Calls, cancellations and answers are noted in that order ([`crate::delivery`]).
//! 4. At the end of input the `closing` token fires, so that calls in flight come to an end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::delivery::Deliveries;
use crate::rpc::{self, Judged};

/// Longest line that is read: a message of the largest size (1 MiB) with every character escaped.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
/// Lines that wait for the output; senders then wait themselves.
const OUT_QUEUE: usize = 64;
/// How long the last lines may take to get out at the end. A host that no longer reads must not
/// keep the process alive.
const LAST_LINES: Duration = Duration::from_millis(300);

/// A line on its way out, and who wants to know that it was written.
struct OutLine {
    bytes: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

/// The transport. Not cancel-safe between polls of one `receive` only in that a line half read
/// stays in `line` and is continued by the next call.
pub(crate) struct LineTransport<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The present line is too long and is being dropped up to its end.
    skipping: bool,
    refusal: Option<Value>,
    out: Option<mpsc::Sender<OutLine>>,
    writer: Option<JoinHandle<()>>,
    deliveries: Arc<Deliveries<RequestId>>,
    closing: CancellationToken,
}

enum Line {
    Whole,
    TooLong,
    End,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    pub(crate) fn new<W: AsyncWrite + Send + Unpin + 'static>(
        input: R,
        output: W,
        deliveries: Arc<Deliveries<RequestId>>,
        closing: CancellationToken,
    ) -> Self {
        let (out, lines) = mpsc::channel(OUT_QUEUE);
        let writer = tokio::spawn(write_lines(output, lines, closing.clone()));
        LineTransport {
            input: BufReader::new(input),
            line: Vec::new(),
            skipping: false,
            refusal: None,
            out: Some(out),
            writer: Some(writer),
            deliveries,
            closing,
        }
    }

    /// Reads up to the next line end. Cancel-safe: what was read stays in `line`.
    async fn read_line(&mut self) -> io::Result<Line> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                // A last line without its line end is a line all the same.
                let last = !self.line.is_empty();
                return Ok(if last { Line::Whole } else { Line::End });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let take = end.map_or(available.len(), |at| at + 1);
            if !self.skipping && self.line.len() + take <= MAX_LINE_BYTES {
                self.line.extend_from_slice(&available[..take]);
            } else {
                self.skipping = true;
                self.line = Vec::new();
            }
            self.input.consume(take);
            if end.is_some() {
                let too_long = std::mem::take(&mut self.skipping);
                return Ok(if too_long { Line::TooLong } else { Line::Whole });
            }
        }
    }

    /// Queues the refusal that is due. Cancel-safe: it stays due until it has a place.
    async fn send_refusal(&mut self) -> Option<()> {
        if self.refusal.is_some() {
            let place = self.out.as_ref()?.reserve().await.ok()?;
            if let Some(refusal) = self.refusal.take() {
                let bytes = encode(&refusal).ok()?;
                place.send(OutLine {
                    bytes,
                    written: None,
                });
            }
        }
        Some(())
    }

    fn note(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::CallToolRequest(_)) =>
            {
                self.deliveries.begin(request.id.clone());
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.deliveries.cancelled(id);
                }
            }
            _ => {}
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let written = match &message {
            ServerJsonRpcMessage::Response(answer) => self.deliveries.answering(&answer.id),
            ServerJsonRpcMessage::Error(answer) => answer
                .id
                .as_ref()
                .and_then(|id| self.deliveries.answering(id)),
            _ => None,
        };
        let out = self.out.clone();
        let bytes = encode(&message);
        async move {
            let closed = || io::Error::from(io::ErrorKind::NotConnected);
            let line = OutLine {
                bytes: bytes?,
                written,
            };
            out.ok_or_else(closed)?
                .send(line)
                .await
                .map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.send_refusal().await.is_none() || self.closing.is_cancelled() {
                return None;
            }
            let closing = self.closing.clone();
            let line = tokio::select! {
                line = self.read_line() => line,
                () = closing.cancelled() => return None,
            };
            match line {
                Ok(Line::Whole) => {
                    let line = std::mem::take(&mut self.line);
                    match rpc::judge(&line) {
                        Judged::Message(message) => {
                            self.note(&message);
                            return Some(*message);
                        }
                        Judged::Refuse(answer) => self.refusal = Some(answer),
                        Judged::Nothing => {}
                    }
                }
                Ok(Line::TooLong) => self.refusal = Some(rpc::too_long(MAX_LINE_BYTES)),
                Ok(Line::End) => {
                    self.closing.cancel();
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "standard input ended with an error");
                    self.closing.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.closing.cancel();
        self.out = None;
        if let Some(mut writer) = self.writer.take()
            && tokio::time::timeout(LAST_LINES, &mut writer).await.is_err()
        {
            writer.abort();
        }
        self.deliveries.close();
        Ok(())
    }
}

impl<R> Drop for LineTransport<R> {
    fn drop(&mut self) {
        self.closing.cancel();
        self.deliveries.close();
        if let Some(writer) = self.writer.take() {
            writer.abort();
        }
    }
}

fn encode<T: serde::Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Owns the output until the last sender is gone. When the host no longer takes anything, the
/// connection is closed from this side.
async fn write_lines<W: AsyncWrite + Unpin>(
    mut output: W,
    mut lines: mpsc::Receiver<OutLine>,
    closing: CancellationToken,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&line.bytes).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::warn!(%error, "standard output is closed");
            closing.cancel();
            return;
        }
        if let Some(written) = line.written {
            // Nobody listens when the call showed nothing that counts as read.
            let _ = written.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn transport() -> (
        LineTransport<tokio::io::DuplexStream>,
        tokio::io::DuplexStream,
        BufReader<tokio::io::DuplexStream>,
    ) {
        let (to, input) = tokio::io::duplex(1 << 16);
        let (output, from) = tokio::io::duplex(1 << 16);
        let deliveries = Arc::new(Deliveries::new());
        let transport = LineTransport::new(input, output, deliveries, CancellationToken::new());
        (transport, to, BufReader::new(from))
    }

    #[tokio::test]
    async fn bad_lines_are_answered_in_order_and_the_next_good_one_is_read() {
        let (mut transport, mut to, mut from) = transport().await;
        to.write_all(b"{\n\n[]\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
            .await
            .unwrap();
        assert!(matches!(
            transport.receive().await,
            Some(ClientJsonRpcMessage::Request(_))
        ));
        let mut codes = Vec::new();
        for _ in 0..2 {
            let mut line = String::new();
            from.read_line(&mut line).await.unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert!(answer["id"].is_null() && answer.as_object().unwrap().contains_key("id"));
            codes.push(answer["error"]["code"].as_i64().unwrap());
        }
        assert_eq!(codes, [-32700, -32600]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_kept_and_is_answered_when_it_ends() {
        let (mut transport, mut to, mut from) = transport().await;
        let feed = tokio::spawn(async move {
            let block = vec![b'x'; 1 << 20];
            for _ in 0..9 {
                to.write_all(&block).await.unwrap();
            }
            to.write_all(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
                .await
                .unwrap();
            to
        });
        assert!(transport.receive().await.is_some());
        let mut line = String::new();
        from.read_line(&mut line).await.unwrap();
        assert!(
            line.contains("-32600") && line.contains("longer than"),
            "{line}"
        );
        drop(feed.await.unwrap());
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_midway_loses_nothing() {
        let (mut transport, mut to, _from) = transport().await;
        to.write_all(b"{\"jsonrpc\":\"2.0\",").await.unwrap();
        {
            let mut half = std::pin::pin!(transport.receive());
            assert!(futures_poll(half.as_mut()).is_none());
        }
        to.write_all(b"\"id\":1,\"method\":\"ping\"}\n")
            .await
            .unwrap();
        assert!(transport.receive().await.is_some());
    }

    #[tokio::test]
    async fn an_answer_counts_as_written_when_it_is_out_and_a_cancelled_one_never() {
        let (mut transport, mut to, mut from) = transport().await;
        let call = |id: i64| {
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
                 \"params\":{{\"name\":\"x\"}}}}\n"
            )
        };
        let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
                      \"params\":{\"requestId\":1}}\n";
        let lines = call(1) + &call(2) + cancel;
        to.write_all(lines.as_bytes()).await.unwrap();
        transport.receive().await.unwrap();
        transport.receive().await.unwrap();
        let watch = |id| transport.deliveries.watch(&RequestId::Number(id)).unwrap();
        let (given_up, written) = (watch(1), watch(2));
        transport.receive().await.unwrap();
        let decided = tokio::time::timeout(Duration::from_secs(5), given_up).await;
        assert!(decided.expect("at once").is_err());
        let answer = |id| {
            let error = rmcp::ErrorData::internal_error("x", None);
            ServerJsonRpcMessage::error(error, Some(RequestId::Number(id)))
        };
        transport.send(answer(2)).await.unwrap();
        assert!(written.await.is_ok());
        let mut line = String::new();
        from.read_line(&mut line).await.unwrap();
        assert!(line.contains("\"id\":2"), "{line}");
    }

    #[tokio::test]
    async fn the_end_of_input_is_the_end_and_fires_the_token() {
        let (mut transport, to, _from) = transport().await;
        drop(to);
        assert!(transport.receive().await.is_none());
        assert!(transport.closing.is_cancelled());
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut cx) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        }
    }
}
