//! The workers of a run as the file describes them: a tree of processes, each chip with its device.

use bufabi_host::device::{DeviceKind, QemuOptions};
use bufabi_host::worker::{self, WorkerSpec};

use crate::failure::Failure;
use crate::graph::{Device, Worker, WorkerKind};

/// The workers of the run itself, with those below them.
pub(super) fn specs(workers: &[Worker]) -> Result<Vec<WorkerSpec>, Failure> {
    below(workers, None)
}

/// The workers right below the one of that path, with those below them.
fn below(workers: &[Worker], above: Option<&str>) -> Result<Vec<WorkerSpec>, Failure> {
    let name = |worker: &Worker| match above {
        Some(above) => worker.path.strip_prefix(above)?.strip_prefix('/').map(str::to_owned),
        None => Some(worker.path.clone()),
    };
    let named = workers.iter().filter_map(|worker| Some((worker, name(worker)?)));
    let spec = |(worker, name): (&Worker, String)| {
        let kind = match worker.kind {
            WorkerKind::Chip => {
                chip(worker.device).map_err(|failure| failure.at(&format!("{}.device", worker.place)))?
            }
            WorkerKind::Sub => worker::WorkerKind::Sub,
            WorkerKind::Host => worker::WorkerKind::Host { workers: below(workers, Some(&worker.path))? },
        };
        Ok(WorkerSpec { name, kind })
    };
    named.filter(|(_, name)| !name.contains('/')).map(spec).collect()
}

/// A chip on that device.
fn chip(device: Device) -> Result<worker::WorkerKind, Failure> {
    let kind = match device {
        Device::Simulated => return Ok(worker::WorkerKind::Chip),
        Device::Staged => DeviceKind::staged(),
        Device::Qemu => {
            let options = QemuOptions::from_environment();
            let checked = options.and_then(|options| options.check().map(|()| options));
            DeviceKind::Qemu(checked.map_err(|error| Failure::usage(error.to_string()))?)
        }
    };
    Ok(worker::WorkerKind::Device(kind))
}
