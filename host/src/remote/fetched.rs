//! A remote argument's bytes on the machine that computes on them.

use std::sync::Arc;

use bufabi_core::{Access, Tensor, View};

use super::error::{RemoteError, TransportError};
use super::sidecar::{Reach, Sidecar, is_remote};
use super::transport::Transport;
use crate::memory::{Mapping, Operand};
use crate::pieces::pieces;

/// Bytes that a transport is asked for at once.
const PIECE: usize = 1 << 20;

/// The bytes of a remote tensor's view, fetched. What a task wrote goes back by [`send_back`](Self::send_back).
#[derive(Debug)]
pub struct Fetched {
    memory: Arc<Mapping>,
    /// The tensor's view, its offset 0.
    view: View,
    tensor: Tensor,
    /// Address and key of the view's first byte; `None` when the bytes came along.
    origin: Option<(u64, u64)>,
}

impl Fetched {
    /// Fetches the bytes that a remote tensor names, by its sidecar: from its first element to its last.
    ///
    /// # Errors
    /// [`RemoteError`], its argument numbered 0: a tensor that is not remote, a sidecar that contradicts it, no transport, or one that
    /// fails.
    pub fn new(
        tensor: &Tensor,
        sidecar: &Sidecar,
        transport: Option<&dyn Transport>,
    ) -> Result<Self, RemoteError> {
        let descriptor = tensor.descriptor();
        if !is_remote(tensor) {
            let backend_kind = descriptor.backend_kind();
            return Err(RemoteError::SidecarUnexpected { argument: 0, backend_kind });
        }
        sidecar.check(tensor).map_err(|error| RemoteError::Sidecar { argument: 0, error })?;
        let view = tensor.view();
        let nbytes = usize::try_from(view.extent()).unwrap_or(usize::MAX);
        let memory = Arc::new(Mapping::inherited(nbytes).map_err(RemoteError::Os)?);
        // The check has seen to it that the view starts there or later.
        let before = view.byte_offset().saturating_sub(sidecar.byte_offset);
        let origin = match &sidecar.reach {
            Reach::Inline(bytes) => {
                let start = usize::try_from(before).unwrap_or(usize::MAX);
                let bytes = bytes.get(start..).and_then(|bytes| bytes.get(..nbytes)).unwrap_or_default();
                // The memory is as large as the view.
                let _ = memory.write(0, bytes);
                None
            }
            &Reach::Remote { address, remote_key } => {
                let missing = RemoteError::TransportMissing { argument: 0, identity: descriptor.identity() };
                let transport = transport.ok_or(missing)?;
                let address = address.saturating_add(before);
                in_pieces(0, nbytes, |offset, piece| {
                    transport.read(address.saturating_add(offset), remote_key, piece)?;
                    // As above.
                    let _ = memory.write(place(offset), piece);
                    Ok(())
                })?;
                Some((address, remote_key))
            }
        };
        let view = View::new(0, view.dtype(), view.shapes(), view.strides(), view.extent());
        Ok(Self { memory, view: view.map_err(RemoteError::View)?, tensor: *tensor, origin })
    }

    /// The memory that the bytes lie in, from its start on.
    #[must_use]
    pub const fn mapping(&self) -> &Arc<Mapping> {
        &self.memory
    }

    /// The tensor's view, in that memory.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// What the owner grants.
    #[must_use]
    pub fn access(&self) -> Access {
        self.tensor.descriptor().access()
    }

    /// The view, with the rights that the owner grants.
    ///
    /// # Errors
    /// [`RemoteError::View`].
    pub fn operand(&self) -> Result<Operand<'_>, RemoteError> {
        let operand = self.memory.operand(self.view).map_err(RemoteError::View)?;
        Ok(operand.limited_to(self.access()))
    }

    /// Sends the bytes of the view's elements back, and no others: what lies between them is not this task's. Nothing is sent of what the
    /// owner does not grant to be written. Says how many bytes went.
    ///
    /// # Errors
    /// [`RemoteError::Transport`]; some of them may be there then.
    pub fn send_back(&self, transport: &dyn Transport) -> Result<u64, RemoteError> {
        let Some((address, remote_key)) = self.origin else { return Ok(0) };
        if !self.access().writes() {
            return Ok(0);
        }
        let mut sent = 0_u64;
        for (start, length) in runs(&self.view) {
            in_pieces(start, length, |offset, piece| {
                // Every run lies within the view.
                let _ = self.memory.read(place(offset), piece);
                transport.write(address.saturating_add(offset), remote_key, piece)
            })?;
            sent = sent.saturating_add(wide(length));
        }
        Ok(sent)
    }
}

/// Hands out room for the bytes from `start` on some at a time: how many there are is a claim, and memory beside the mapping is not taken
/// for all of them.
fn in_pieces(
    start: u64,
    nbytes: usize,
    mut each: impl FnMut(u64, &mut [u8]) -> Result<(), TransportError>,
) -> Result<(), RemoteError> {
    let mut buffer = Vec::new();
    for (offset, length) in pieces(start..start.saturating_add(wide(nbytes)), PIECE) {
        buffer.resize(length, 0);
        each(offset, &mut buffer).map_err(RemoteError::Transport)?;
    }
    Ok(())
}

/// Where a byte of the view lies in its mapping, which is as large.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The bytes of a view that starts at 0, as runs without gaps: where each starts, and how long it is.
fn runs(view: &View) -> impl Iterator<Item = (u64, usize)> {
    let step = u64::from(view.dtype().size());
    if view.is_contiguous() {
        let nbytes = usize::try_from(view.extent()).unwrap_or(usize::MAX);
        return Runs { dimensions: Vec::new(), index: Vec::new(), length: nbytes, is_over: false };
    }
    let pairs = view.shapes().iter().zip(view.strides());
    let mut dimensions: Vec<(u32, u64)> =
        pairs.map(|(&shape, &stride)| (shape, u64::from(stride).saturating_mul(step))).collect();
    // A last dimension without gaps is one run.
    let run = dimensions.pop_if(|&mut (_, stride)| stride == step).map_or(1, |(shape, _)| shape);
    let length = usize::try_from(u64::from(run).saturating_mul(step)).unwrap_or(usize::MAX);
    let index = vec![0; dimensions.len()];
    Runs { dimensions, index, length, is_over: false }
}

/// A walk over all indices but those within a run.
struct Runs {
    /// Elements, and bytes from one to the next.
    dimensions: Vec<(u32, u64)>,
    index: Vec<u32>,
    length: usize,
    is_over: bool,
}

impl Iterator for Runs {
    type Item = (u64, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let terms = self.index.iter().zip(&self.dimensions);
        let start = terms.fold(0_u64, |start, (&index, &(_, stride))| {
            start.saturating_add(u64::from(index).saturating_mul(stride))
        });
        self.is_over = true;
        for (index, &(shape, _)) in self.index.iter_mut().zip(&self.dimensions).rev() {
            *index = index.saturating_add(1);
            if *index < shape {
                self.is_over = false;
                break;
            }
            *index = 0;
        }
        Some((start, self.length))
    }
}
