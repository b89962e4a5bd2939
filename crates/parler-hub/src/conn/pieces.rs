//! Below the WebSocket library: cuts binary messages into small ones.
//!
//! The library gives out whole messages, so that a blob of 25 MiB would lie in memory, once for
//! each connection that sends one, and a stranger could send one before it logs in. Here the frames
//! of a binary message become messages of at most [`crate::defaults::PIECE_BYTES`] on their way to the
//! library, and whether a piece is the last of its message goes along beside it. Text, pings and
//! whatever is malformed pass as they are: to judge them stays the library's business.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::defaults::{PIECE_BYTES, SOCKET_BUFFER_BYTES};

/// The bits of a header's two first bytes.
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0F;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7F;
/// Opcodes of data frames.
const CONTINUE: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;

// A mask repeats every four bytes: pieces of such a length need no other mask.
const _: () = assert!(PIECE_BYTES.is_multiple_of(4));

/// For each piece that the library is given, whether it ends its message. Shared with the reader.
#[derive(Clone, Debug, Default)]
pub struct Marks(Arc<Mutex<VecDeque<bool>>>);

impl Marks {
    /// Whether the binary message that the library just gave out is the last piece of the
    /// client's one.
    #[must_use]
    pub fn next(&self) -> bool {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.pop_front().unwrap_or(true)
    }

    fn push(&self, last: bool) {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.push_back(last);
    }
}

/// A message whose frames are not all here.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Open {
    None,
    Text,
    Binary,
}

/// What follows in the stream.
#[derive(Debug)]
enum Next {
    /// A header.
    Header,
    /// Payload that passes as it is.
    Through(u64),
    /// Payload of a binary frame: so many bytes of this piece, so many of the frame behind it.
    Piece { left: u64, behind: u64 },
}

/// The binary frame that is being cut.
#[derive(Debug, Default)]
struct Frame {
    fin: bool,
    mask: Option<[u8; 4]>,
}

/// A stream whose inbound binary messages come in pieces.
#[derive(Debug)]
pub struct Pieces<S> {
    io: S,
    marks: Marks,
    /// Read and not looked at yet. Holds no memory while the connection is idle.
    raw: BytesMut,
    /// A header for the library.
    header: BytesMut,
    next: Next,
    frame: Frame,
    open: Open,
}

impl<S> Pieces<S> {
    /// Around a stream that just became a WebSocket.
    pub fn new(io: S) -> (Self, Marks) {
        let marks = Marks::default();
        let pieces = Pieces {
            io,
            marks: marks.clone(),
            raw: BytesMut::new(),
            header: BytesMut::new(),
            next: Next::Header,
            frame: Frame::default(),
            open: Open::None,
        };
        (pieces, marks)
    }

    /// Takes a header off `raw`; false when it is not all here.
    fn parse(&mut self) -> io::Result<bool> {
        let [first, second, rest @ ..] = &*self.raw else {
            return Ok(false);
        };
        let (length, used) = match second & LENGTH {
            126 => match rest.first_chunk() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2),
                None => return Ok(false),
            },
            127 => match rest.first_chunk() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 8),
                None => return Ok(false),
            },
            short => (u64::from(short), 0),
        };
        let mask = match (second & MASKED != 0, rest[used..].first_chunk::<4>()) {
            (false, _) => None,
            (true, Some(mask)) => Some(*mask),
            (true, None) => return Ok(false),
        };
        let bytes = 2 + used + if mask.is_some() { 4 } else { 0 };
        let (first, fin) = (*first, first & FIN != 0);
        let opcode = first & OPCODE;
        if self.open == Open::Binary && matches!(opcode, TEXT | BINARY) {
            // The library does not know that a message is open.
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a new message inside another one",
            ));
        }
        let binary = match opcode {
            BINARY => self.open == Open::None,
            CONTINUE => self.open == Open::Binary,
            _ => false,
        };
        match opcode {
            TEXT if !fin => self.open = Open::Text,
            BINARY if !fin && binary => self.open = Open::Binary,
            CONTINUE if fin => self.open = Open::None,
            _ => {}
        }
        if binary && first & RESERVED == 0 {
            self.raw.advance(bytes);
            self.frame = Frame { fin, mask };
            self.piece(length);
        } else {
            self.header = self.raw.split_to(bytes);
            self.next = Next::Through(length);
        }
        Ok(true)
    }

    /// Begins a piece of a binary frame with so many bytes left.
    fn piece(&mut self, left: u64) {
        let bytes = left.min(PIECE_BYTES as u64);
        let behind = left - bytes;
        let masked = if self.frame.mask.is_some() { MASKED } else { 0 };
        self.header.clear();
        self.header.extend_from_slice(&[FIN | BINARY]);
        match (u8::try_from(bytes), u16::try_from(bytes)) {
            (Ok(short @ ..126), _) => self.header.extend_from_slice(&[masked | short]),
            (_, Ok(medium)) => {
                self.header.extend_from_slice(&[masked | 126]);
                self.header.extend_from_slice(&medium.to_be_bytes());
            }
            _ => {
                self.header.extend_from_slice(&[masked | 127]);
                self.header.extend_from_slice(&bytes.to_be_bytes());
            }
        }
        if let Some(mask) = self.frame.mask {
            self.header.extend_from_slice(&mask);
        }
        self.marks.push(self.frame.fin && behind == 0);
        self.next = Next::Piece {
            left: bytes,
            behind,
        };
    }

    /// So many bytes of payload went by.
    fn passed(&mut self, bytes: u64) {
        match &mut self.next {
            Next::Through(left) | Next::Piece { left, .. } => *left -= bytes,
            Next::Header => {}
        }
    }
}

/// Moves as much as fits, up to `most`.
fn pour(from: &mut BytesMut, most: u64, to: &mut ReadBuf<'_>) -> u64 {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let bytes = from.len().min(most).min(to.remaining());
    to.put_slice(&from[..bytes]);
    from.advance(bytes);
    bytes as u64
}

impl<S: AsyncRead + Unpin> Pieces<S> {
    /// Reads some payload straight into the library's buffer; 0 at the end of the stream.
    fn read_through(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let space = out.initialize_unfilled_to(most.min(out.remaining()));
        let mut space = ReadBuf::new(space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
        let bytes = space.filled().len();
        out.advance(bytes);
        Poll::Ready(Ok(bytes as u64))
    }

    /// Reads ahead; 0 at the end of the stream.
    fn read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [MaybeUninit::uninit(); SOCKET_BUFFER_BYTES];
        let mut space = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
        self.raw.extend_from_slice(space.filled());
        Poll::Ready(Ok(space.filled().len()))
    }

    /// One step towards filling `out`; false when the stream is at its end.
    fn step(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<bool>> {
        if !self.header.is_empty() {
            pour(&mut self.header, u64::MAX, out);
            return Poll::Ready(Ok(true));
        }
        match self.next {
            Next::Through(0) | Next::Piece { left: 0, behind: 0 } => self.next = Next::Header,
            Next::Piece { left: 0, behind } => self.piece(behind),
            Next::Through(left) | Next::Piece { left, .. } => {
                let bytes = if self.raw.is_empty() {
                    ready!(self.read_through(cx, left, out))?
                } else {
                    pour(&mut self.raw, left, out)
                };
                self.passed(bytes);
                return Poll::Ready(Ok(bytes > 0));
            }
            Next::Header => {
                if !self.parse()? {
                    return self.read_ahead(cx).map_ok(|bytes| bytes > 0);
                }
                if self.raw.is_empty() {
                    self.raw = BytesMut::new();
                }
            }
        }
        Poll::Ready(Ok(true))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pieces<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = out.filled().len();
        while out.remaining() > 0 {
            match this.step(cx, out) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(false)) => break,
                // What is here already must not wait. A stream that is not ready now wakes us at
                // the library's next read.
                Poll::Pending if out.filled().len() > before => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Pieces<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use tokio::io::AsyncWriteExt as _;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
    use tokio_tungstenite::tungstenite::{Error, Message};

    const MASK: [u8; 4] = [7, 99, 0, 255];

    /// A client's frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            short @ ..126 => bytes.push(MASKED | u8::try_from(short).unwrap()),
            medium @ ..65_536 => {
                bytes.push(MASKED | 126);
                bytes.extend(u16::try_from(medium).unwrap().to_be_bytes());
            }
            long => {
                bytes.push(MASKED | 127);
                bytes.extend((long as u64).to_be_bytes());
            }
        }
        bytes.extend(MASK);
        bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
        bytes
    }

    /// What the library gives out of these bytes, written `step` at a time.
    async fn heard(bytes: Vec<u8>, step: usize) -> Vec<Result<(Message, Option<bool>), Error>> {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let (pieces, marks) = Pieces::new(server);
        let config = WebSocketConfig::default()
            .read_buffer_size(SOCKET_BUFFER_BYTES)
            .max_frame_size(Some(1 << 20))
            .max_message_size(Some(1 << 20));
        let writing = tokio::spawn(async move {
            for part in bytes.chunks(step) {
                // The reader may have ended at a violation.
                if client.write_all(part).await.is_err() {
                    return;
                }
            }
        });
        let socket = WebSocketStream::from_raw_socket(pieces, Role::Server, Some(config)).await;
        let heard = socket
            .map(|message| {
                message.map(|message| {
                    let mark = message.is_binary().then(|| marks.next());
                    (message, mark)
                })
            })
            .collect()
            .await;
        writing.await.unwrap();
        heard
    }

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| u8::try_from(i % 251).unwrap()).collect()
    }

    #[tokio::test]
    async fn binary_messages_come_in_small_pieces_and_the_rest_as_it_was() {
        let big = pattern(3 * PIECE_BYTES + 17);
        let text = "é".repeat(100_000);
        let mut wire = frame(FIN | TEXT, b"first");
        wire.extend(frame(FIN | BINARY, &big));
        wire.extend(frame(FIN | BINARY, b""));
        wire.extend(frame(FIN | TEXT, text.as_bytes()));
        // A message in fragments, with a ping between them.
        wire.extend(frame(BINARY, &big[..70_000]));
        wire.extend(frame(FIN | 9, b"ping"));
        wire.extend(frame(CONTINUE, b""));
        wire.extend(frame(FIN | CONTINUE, &big[70_000..]));
        wire.extend(frame(TEXT, b"in "));
        wire.extend(frame(FIN | CONTINUE, b"two"));
        for step in [wire.len(), 65_536, 4099, 61] {
            let (mut messages, mut open, mut pieces) = (Vec::new(), Vec::new(), 0);
            for heard in heard(wire.clone(), step).await {
                match heard {
                    Ok((Message::Binary(bytes), Some(last))) => {
                        assert!(bytes.len() <= PIECE_BYTES);
                        pieces += 1;
                        open.extend_from_slice(&bytes);
                        if last {
                            messages.push(std::mem::take(&mut open));
                        }
                    }
                    Ok((Message::Text(text), _)) => messages.push(text.as_bytes().to_vec()),
                    Ok((Message::Ping(_), _)) => {}
                    // The stream ends without a Close frame.
                    Err(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(pieces > 8, "{pieces}");
            let expected: [&[u8]; 6] = [b"first", &big, b"", text.as_bytes(), &big, b"in two"];
            assert_eq!(messages.len(), expected.len(), "step {step}");
            for (got, want) in messages.iter().zip(expected) {
                assert!(got == want, "step {step}: {} bytes", got.len());
            }
        }
    }

    #[tokio::test]
    async fn what_breaks_the_rules_ends_as_it_would_without_us() {
        let unmasked = {
            let mut bytes = vec![FIN | BINARY, 3];
            bytes.extend(b"abc");
            bytes
        };
        for (name, wire) in [
            ("a text inside a binary message", {
                let mut wire = frame(BINARY, b"x");
                wire.extend(frame(FIN | TEXT, b"y"));
                wire
            }),
            ("a binary inside a text message", {
                let mut wire = frame(TEXT, b"x");
                wire.extend(frame(FIN | BINARY, b"y"));
                wire
            }),
            ("a continuation of nothing", frame(FIN | CONTINUE, b"x")),
            ("a reserved bit", frame(FIN | 0x40 | BINARY, b"x")),
            ("no mask", unmasked),
            ("a text over its cap", frame(FIN | TEXT, &pattern(2 << 20))),
        ] {
            let heard = heard(wire, 4096).await;
            assert!(matches!(heard.last(), Some(Err(_))), "{name}: {heard:?}");
            assert!(
                !heard.iter().any(|h| matches!(h, Ok((m, _)) if m.is_text())),
                "{name}"
            );
        }
    }
}
