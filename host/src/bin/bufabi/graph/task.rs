//! Tasks out of a graph file: their kernels, workers and arguments, and whether those fit together.

use bufabi_core::task_args::{Scratch, Submission, SubmitError};
use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::{Access, DType, Descriptor, Tag, Tensor};
use bufabi_host::kernels::{Call, Kernel};
use bufabi_host::worker::KernelError;

use super::file::{ArgumentEntry, TaskEntry};
use super::names::Names;
use super::scalar::Scalar;
use super::view::{ViewEntry, named};
use super::{Argument, Buffer, Member, Purpose, Task, Worker, WorkerKind};
use crate::failure::Failure;

/// What a task's names mean.
pub(super) struct Context<'a> {
    pub(super) names: &'a Names,
    pub(super) buffers: &'a [Buffer],
    pub(super) workers: &'a [Worker],
    pub(super) purpose: Purpose,
    /// A descriptor for each buffer, for the checks that a submit makes.
    pub(super) claims: &'a [Descriptor],
    pub(super) scratch: Box<Scratch>,
}

impl Context<'_> {
    /// The task of an entry.
    pub(super) fn task(&mut self, entry: TaskEntry) -> Result<Task, Failure> {
        let kernel = match &entry.kernel {
            Some(name) => Some(Kernel::from_name(name).ok_or_else(|| {
                let known = Kernel::ALL.map(Kernel::name).join(", ");
                Failure::usage(format!("{name:?} is unknown: {known} are known")).at("kernel")
            })?),
            None if self.purpose == Purpose::Run => {
                return Err(Failure::usage("a task has a kernel").at("kernel"));
            }
            None => None,
        };
        let scalar = |(index, value)| {
            Scalar::from_json(value).map_err(|failure| failure.at(&format!("scalars[{index}]")))
        };
        let scalars: Vec<Scalar> = entry.scalars.iter().enumerate().map(scalar).collect::<Result<_, _>>()?;
        let is_group = entry.members.is_some();
        let members = match (entry.args, entry.members) {
            (Some(arguments), None) => {
                vec![self.member(&entry.name, kernel, entry.worker.as_deref(), &arguments, &scalars)?]
            }
            (None, Some(members)) => {
                if entry.worker.is_some() {
                    return Err(Failure::usage("each member of a group has a worker of its own").at("worker"));
                }
                if members.is_empty() {
                    return Err(Failure::usage("a group has at least one member").at("members"));
                }
                let mut resolved = Vec::new();
                for (index, member) in members.iter().enumerate() {
                    let (worker, arguments) = (member.worker.as_deref(), &member.args);
                    let member = self.member(&entry.name, kernel, worker, arguments, &scalars);
                    resolved.push(member.map_err(|failure| failure.at(&format!("members[{index}]")))?);
                }
                resolved
            }
            (None, None) => return Err(Failure::usage("a task has args, or members that have them")),
            (Some(_), Some(_)) => {
                return Err(Failure::usage("a task has args or members, and not both").at("members"));
            }
        };
        let scalars = scalars.into_iter().map(|scalar| scalar.bits).collect();
        Ok(Task { name: entry.name, kernel, members, is_group, scalars })
    }

    fn member(
        &mut self,
        task: &str,
        kernel: Option<Kernel>,
        worker: Option<&str>,
        entries: &[ArgumentEntry],
        scalars: &[Scalar],
    ) -> Result<Member, Failure> {
        if worker.is_none() && self.purpose == Purpose::Run {
            return Err(Failure::usage("no worker is named").at("worker"));
        }
        let worker = self.names.worker(worker)?;
        if let Some(found) = worker.and_then(|worker| self.workers.get(worker))
            && found.kind == WorkerKind::Host
        {
            return Err(Failure::usage(format!("{} is a host worker: its own workers compute", found.path))
                .at("worker"));
        }
        let argument = |(index, entry)| {
            self.argument(task, entry, worker).map_err(|failure| failure.at(&format!("args[{index}]")))
        };
        let arguments: Vec<Argument> = entries.iter().enumerate().map(argument).collect::<Result<_, _>>()?;
        self.check_submit(&arguments, scalars)?;
        let call = match kernel {
            Some(kernel) => Some(call(kernel, &arguments, scalars)?),
            None => None,
        };
        Ok(Member { worker, call, arguments })
    }

    fn argument(
        &self,
        task: &str,
        entry: &ArgumentEntry,
        worker: Option<usize>,
    ) -> Result<Argument, Failure> {
        let index = self.names.buffer(&entry.buffer)?;
        let tag = named("tag", &entry.tag, Tag::from_name, Tag::ALL)?;
        let Some(buffer) = self.buffers.get(index) else {
            return Err(Failure::usage("the buffer is not there").at("buffer"));
        };
        let view = ViewEntry {
            dtype: &entry.dtype,
            byte_offset: entry.byte_offset,
            shape: &entry.shape,
            strides: entry.strides.as_deref(),
        };
        let view = view.resolve(buffer.nbytes)?;
        if buffer.backend.address_space() == Some(AddressSpace::Device)
            && let Some(target) = worker.and_then(|worker| self.workers.get(worker))
        {
            let (name, path) = (&buffer.name, &target.path);
            let owner = buffer.worker.and_then(|owner| self.workers.get(owner));
            let owner = owner.map_or("another chip", |owner| owner.path.as_str());
            let refuse = |why: &str| {
                let message =
                    format!("task {task:?} on {path} names {name:?}, memory of {owner}: {path} {why}");
                Err(Failure::broken(message).at("buffer"))
            };
            if target.kind != WorkerKind::Chip {
                return refuse("is no device");
            }
            if buffer.backend != BackendKind::VmmShareable && buffer.worker != worker {
                return refuse("is another chip");
            }
        }
        Ok(Argument { buffer: index, tag, view })
    }

    /// What a submit checks: limits, rights, and that no argument writes bytes that another one names.
    fn check_submit(&mut self, arguments: &[Argument], scalars: &[Scalar]) -> Result<(), Failure> {
        let mut tensors = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            if let Some(claim) = self.claims.get(argument.buffer) {
                let tensor = Tensor::new(claim, &argument.view);
                let place = format!("args[{index}]");
                tensors.push(tensor.map_err(|error| Failure::broken(error.to_string()).at(&place))?);
            }
        }
        let tags: Vec<Tag> = arguments.iter().map(|argument| argument.tag).collect();
        let scalars: Vec<u64> = scalars.iter().map(|scalar| scalar.bits).collect();
        let checked = Submission::check(&tensors, &tags, &scalars, &mut self.scratch);
        checked.map(drop).map_err(|error| match error {
            SubmitError::Rights { index, error } => {
                Failure::broken(error.to_string()).at(&format!("args[{index}].tag"))
            }
            SubmitError::Clash { first, second, byte, .. } => {
                let message =
                    format!("names byte {byte} of its buffer, as args[{first}] does, and one writes it");
                Failure::broken(message).at(&format!("args[{second}]"))
            }
            SubmitError::TooComplex { first, second, .. } => {
                let message = format!("whether it shares a byte with args[{first}] takes too long to tell");
                Failure::broken(message).at(&format!("args[{second}]"))
            }
            SubmitError::TooManyScalars { .. } => Failure::broken(error.to_string()).at("scalars"),
            SubmitError::TooManyTensors { .. } | SubmitError::TagCount { .. } => {
                Failure::broken(error.to_string()).at("args")
            }
        })
    }
}

/// The kernel's call, if it takes those arguments and scalars.
fn call(kernel: Kernel, arguments: &[Argument], scalars: &[Scalar]) -> Result<Call, Failure> {
    let accumulate =
        kernel.accumulates() && arguments.last().is_some_and(|argument| argument.tag == Tag::Inout);
    let call = Call { kernel, accumulate };
    let bits: Vec<u64> = scalars.iter().map(|scalar| scalar.bits).collect();
    call.check(arguments.iter().map(|argument| &argument.view), &bits).map_err(|error| {
        let failure = Failure::broken(format!("{}: {error}", kernel.name()));
        let place = match error {
            KernelError::DtypeUnsupported { operand, .. } | KernelError::DtypeDiffers { operand, .. } => {
                format!("args[{operand}].dtype")
            }
            KernelError::Ndims { operand, .. } => format!("args[{operand}].shape"),
            KernelError::Shape { operand, dim, .. } => format!("args[{operand}].shape[{dim}]"),
            KernelError::SelfOverlap { operand } => format!("args[{operand}].strides"),
            KernelError::Denied { operand, .. } => format!("args[{operand}].tag"),
            KernelError::ScalarRange { scalar, .. } => format!("scalars[{scalar}]"),
            KernelError::Counts { operands, found_operands, .. } if operands == found_operands => {
                "scalars".to_owned()
            }
            KernelError::Counts { .. } => "args".to_owned(),
            KernelError::Unknown { .. } | KernelError::Scratch { .. } | KernelError::Failed { .. } => {
                "kernel".to_owned()
            }
        };
        failure.at(&place)
    })?;
    for (index, argument) in arguments.iter().enumerate() {
        let (tag, needed) = (argument.tag, call.needs(index, arguments.len()));
        let missing = match needed {
            Some(Access::Read) if !tag.reads() => "reads",
            Some(Access::Write | Access::ReadWrite) if !tag.writes() => "writes",
            _ => continue,
        };
        if tag != Tag::NoDep {
            let name = tag.name().to_ascii_lowercase();
            let message = format!("{} {missing} this argument, {name} does not", kernel.name());
            return Err(Failure::broken(message).at(&format!("args[{index}].tag")));
        }
    }
    let dtype: Option<DType> = arguments.first().map(|argument| argument.view.dtype());
    for (index, scalar) in scalars.iter().enumerate().take(kernel.scalars()) {
        if let (Some(given), Some(expected)) = (scalar.dtype, dtype)
            && given != expected
        {
            let message = format!("{given}, but the arguments are {expected}");
            return Err(Failure::broken(message).at(&format!("scalars[{index}]")));
        }
    }
    Ok(call)
}
