//! Names to indices: buffers, workers, outputs, and the graph that they make with the tasks.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId};

use super::file::{BufferEntry, GraphFile, Integer, OutputEntry, WorkerEntry};
use super::names::Names;
use super::view::{ViewEntry, named};
use super::{Buffer, Device, Graph, Output, Purpose, Worker, WorkerKind, task};
use crate::failure::Failure;
use crate::npy::Array;

/// The backends of a graph file's buffers. That of a remote one is only ever put in by the runtime.
const BACKENDS: [BackendKind; 6] = [
    BackendKind::PosixShm,
    BackendKind::ForkShm,
    BackendKind::ForkCow,
    BackendKind::VmmWindow,
    BackendKind::DeviceMalloc,
    BackendKind::VmmShareable,
];

/// The graph of a file. Paths are relative to `folder`.
pub(super) fn graph(file: GraphFile, folder: &Path, purpose: Purpose) -> Result<Graph, Failure> {
    let mut workers = Vec::new();
    let lists_workers = file.workers.is_some();
    add_workers(file.workers.unwrap_or_default(), None, "workers", &mut workers)?;
    let by_path: HashMap<String, usize> =
        workers.iter().enumerate().map(|(index, worker)| (worker.path.clone(), index)).collect();
    let needs_workers = lists_workers || purpose == Purpose::Run;
    let mut names = Names { buffers: HashMap::new(), workers: needs_workers.then_some(by_path) };

    let mut buffers = Vec::new();
    for (index, entry) in file.buffers.into_iter().enumerate() {
        let place = format!("buffers[{index}]");
        if names.buffers.insert(entry.name.clone(), index).is_some() {
            return Err(twice(&entry.name).at(&format!("{place}.name")));
        }
        buffers.push(buffer(entry, folder, &names, &workers, purpose).map_err(|failure| failure.at(&place))?);
    }

    let claims: Vec<Descriptor> = buffers.iter().zip(1..).map(claim).collect::<Result<_, _>>()?;
    let mut context = task::Context {
        names: &names,
        buffers: &buffers,
        workers: &workers,
        purpose,
        claims: &claims,
        scratch: Box::default(),
    };
    let mut tasks = Vec::new();
    let mut task_names = HashSet::new();
    for (index, entry) in file.tasks.into_iter().enumerate() {
        let place = format!("tasks[{index}]");
        if !task_names.insert(entry.name.clone()) {
            return Err(twice(&entry.name).at(&format!("{place}.name")));
        }
        tasks.push(context.task(entry).map_err(|failure| failure.at(&place))?);
    }

    let mut outputs = Vec::new();
    let mut written = HashSet::new();
    for (index, entry) in file.outputs.into_iter().enumerate() {
        let place = format!("outputs[{index}]");
        let output = output(&entry, folder, &names, &buffers, purpose);
        let output = output.map_err(|failure| failure.at(&place))?;
        if let Some(npy) = &output.npy
            && !written.insert(place_of(npy).map_err(|failure| failure.at(&format!("{place}.npy")))?)
        {
            return Err(twice(&npy.display().to_string()).at(&format!("{place}.npy")));
        }
        outputs.push(output);
    }
    Ok(Graph { buffers, workers, tasks, outputs, claims })
}

/// Where a file will be, whatever way its path takes there. A folder that is not there is complained of when it is written.
fn place_of(path: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = path.file_name() else {
        return Err(Failure::usage(format!("{}: names no file", path.display())));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    Ok(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(name))
}

fn twice(name: &str) -> Failure {
    Failure::usage(format!("{name:?} is there already: names are unique"))
}

/// Adds the workers of one list, each followed by its own.
fn add_workers(
    entries: Vec<WorkerEntry>,
    parent: Option<usize>,
    list: &str,
    workers: &mut Vec<Worker>,
) -> Result<(), Failure> {
    for (index, entry) in entries.into_iter().enumerate() {
        let place = format!("{list}[{index}]");
        let refuse =
            |field: &str, message: &str| Err(Failure::usage(message).at(&format!("{place}.{field}")));
        if entry.name.is_empty() || entry.name.contains('/') {
            return refuse("name", "a worker's name is not empty and has no '/', which stands between names");
        }
        let path = match parent.and_then(|parent| workers.get(parent)) {
            Some(parent) => format!("{}/{}", parent.path, entry.name),
            None => entry.name,
        };
        if workers.iter().any(|worker| worker.path == path) {
            return Err(twice(&path).at(&format!("{place}.name")));
        }
        let kind = match entry.kind.as_str() {
            "chip" => WorkerKind::Chip,
            "sub" => WorkerKind::Sub,
            "host" => WorkerKind::Host,
            other => return refuse("kind", &format!("{other:?} is unknown: chip, sub, host are known")),
        };
        let own = workers.len();
        let device = match &entry.device {
            None => Device::Simulated,
            Some(_) if kind != WorkerKind::Chip => return refuse("device", "only a chip is a device"),
            Some(name) => match Device::ALL.into_iter().find(|device| device.name() == name) {
                Some(device) => device,
                None => {
                    let known = Device::ALL.map(Device::name).join(", ");
                    return refuse("device", &format!("{name:?} is unknown: {known} are known"));
                }
            },
        };
        workers.push(Worker { path, kind, device, place: place.clone() });
        match (kind, entry.workers) {
            (_, None) => {}
            (WorkerKind::Host, Some(entries)) => {
                add_workers(entries, Some(own), &format!("{place}.workers"), workers)?;
            }
            (WorkerKind::Chip | WorkerKind::Sub, Some(_)) => {
                return refuse("workers", "only a host worker has workers of its own");
            }
        }
    }
    Ok(())
}

fn buffer(
    entry: BufferEntry,
    folder: &Path,
    names: &Names,
    workers: &[Worker],
    purpose: Purpose,
) -> Result<Buffer, Failure> {
    let backend = match &entry.backend {
        Some(name) => named("backend", name, backend_of, &BACKENDS)?,
        None => BackendKind::PosixShm,
    };
    let access = match &entry.access {
        Some(name) => named("access", name, Access::from_name, Access::ALL)?,
        None => Access::ReadWrite,
    };
    if backend == BackendKind::ForkCow && access != Access::Read {
        let message = "fork_cow grants read only: a child's write would not reach its parent";
        return Err(Failure::broken(message).at("access"));
    }
    let is_device = backend.address_space() == Some(AddressSpace::Device);
    let worker = names.worker(entry.worker.as_deref())?;
    let owner = worker.and_then(|worker| workers.get(worker));
    if let Some(owner) = owner
        && owner.kind != WorkerKind::Chip
    {
        return Err(
            Failure::usage(format!("{} is no chip, and owns no device memory", owner.path)).at("worker")
        );
    }
    if is_device && entry.worker.is_none() && purpose == Purpose::Run {
        return Err(Failure::usage("a device buffer names the chip that owns it").at("worker"));
    }
    if !is_device && entry.worker.is_some() {
        return Err(Failure::usage("a buffer of the host is owned by no worker").at("worker"));
    }

    let npy = entry.npy.map(|npy| folder.join(npy));
    let array = match &npy {
        Some(path) => Some(open(path).map_err(|failure| failure.at("npy"))?),
        None => None,
    };
    let given = match entry.nbytes {
        Some(Integer(given)) => {
            let number = u64::try_from(given).map_err(|_| Failure::broken(format!("{given} is no size")));
            Some(number.map_err(|failure| failure.at("nbytes"))?)
        }
        None => None,
    };
    let nbytes = match (given, array.map(|array| array.nbytes())) {
        (Some(given), Some(found)) if given != found => {
            return Err(Failure::broken(format!("{given}, but npy holds {found} bytes")).at("nbytes"));
        }
        (Some(nbytes), _) | (None, Some(nbytes)) => nbytes,
        (None, None) => return Err(Failure::usage("a buffer has npy, nbytes or both")),
    };
    if nbytes == 0 {
        return Err(Failure::broken("a buffer has at least one byte"));
    }
    Ok(Buffer { name: entry.name, backend, access, nbytes, npy, worker })
}

/// A descriptor of a buffer that is yet to be made: all that the checks before a run need.
fn claim((buffer, number): (&Buffer, u64)) -> Result<Descriptor, Failure> {
    let address_space = buffer.backend.address_space().unwrap_or(AddressSpace::Host);
    let fields = DescriptorFields {
        identity: Identity::new(OwnerInstanceId([0; 8]), number, NonZeroU32::MIN),
        access: buffer.access,
        nbytes: buffer.nbytes,
        owner_worker_path_id: 0,
        body: Body::RemoteSidecar { address_space },
    };
    Descriptor::new(&fields).map_err(|error| Failure::broken(error.to_string()))
}

fn backend_of(name: &str) -> Option<BackendKind> {
    BackendKind::from_name(name).filter(|backend| BACKENDS.contains(backend))
}

/// An array, with its path in what is wrong with it.
pub(super) fn open(path: &Path) -> Result<Array, Failure> {
    Array::open(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn output(
    entry: &OutputEntry,
    folder: &Path,
    names: &Names,
    buffers: &[Buffer],
    purpose: Purpose,
) -> Result<Output, Failure> {
    let buffer = names.buffer(&entry.buffer)?;
    let named = buffers.get(buffer).ok_or_else(|| Failure::usage("the buffer is not there").at("buffer"))?;
    let nbytes = named.nbytes;
    let is_device = named.backend.address_space() == Some(AddressSpace::Device);
    if is_device && !named.access.reads() && purpose == Purpose::Run {
        let message = format!("{:?} is copied from a device, and grants no reading", named.name);
        return Err(Failure::broken(message).at("buffer"));
    }
    let view = ViewEntry {
        dtype: &entry.dtype,
        byte_offset: entry.byte_offset,
        shape: &entry.shape,
        strides: entry.strides.as_deref(),
    };
    let view = view.resolve(nbytes)?;
    let path = |name: &Option<String>| -> Option<PathBuf> { name.as_ref().map(|name| folder.join(name)) };
    let (npy, expect) = (path(&entry.npy), path(&entry.expect));
    if npy.is_none() && expect.is_none() {
        return Err(Failure::usage("an output has npy, expect or both"));
    }
    if let Some(expect) = &expect {
        open(expect).map_err(|failure| failure.at("expect"))?;
    }
    Ok(Output { buffer, view, npy, expect })
}
