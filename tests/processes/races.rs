//! Moments that nobody chooses: a release against a submit, and the end of any process of a tree.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::dependencies::Capacities;
use bufabi_core::{Code, Tag};
use bufabi_host::kernels::Kernel;
use bufabi_host::orchestrator::{Member, Orchestrator};
use bufabi_host::owner::{Buffer, Endpoint};
use bufabi_host::sys::process::{Ending, Process};
use bufabi_host::worker::{SpawnError, WaitError, WaitPolicy, WorkerId, Workers};
use bufabi_tests::random::Random;

use crate::orchestrator::{buffer, drain, member, start, tree};
use crate::support::{HANG, Meeting, died, is_running, load, number, own_objects, parent_of, row, soon};
use crate::{Case, is_long};

pub(crate) const CASES: &[Case] = &[
    ("a_release_that_races_with_a_submit_is_before_it_or_after_it", release_and_submit),
    ("any_process_of_a_tree_killed_at_any_moment_costs_its_tasks_and_nothing_else", killed_at_random),
];

/// `BUFABI_SEED` chooses other moments, `BUFABI_LONG=1` ten times as many.
fn killed_at_random() {
    let seed = std::env::var("BUFABI_SEED").map_or(7, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let meeting = Meeting::new();
    for round in 0..if is_long() { 500 } else { 50 } {
        let what = format!("seed {seed}, round {round}");
        let endpoint = Endpoint::new().unwrap();
        // The kernel takes a moment to forget the last round's thread.
        let begun = Instant::now();
        let workers = loop {
            match Workers::spawn(&endpoint, &tree(), &meeting, WaitPolicy::default()) {
                Ok(workers) => break workers,
                Err(SpawnError::SeveralThreads { .. }) if begun.elapsed() < HANG => {}
                Err(error) => panic!("{what}: {error}"),
            }
        };
        let leaves = [0, 1, 2].map(|worker| workers.pid(WorkerId(worker)).unwrap());
        let above = parent_of(leaves[0]).unwrap();
        let all = [leaves[0], leaves[1], leaves[2], above];
        let victim = usize::try_from(random.below(4)).unwrap();
        let moment = Duration::from_micros(random.below(8000));
        let process = Process::open(all[victim]).unwrap();
        let killer = thread::spawn(move || {
            thread::sleep(moment);
            process.send(9).unwrap();
        });
        // Who the failures may name, and which leaves they may be on.
        let (path, hit): (&str, &[usize]) = match victim {
            0 => ("l3/chip0", &[0]),
            1 => ("l3/sub0", &[1]),
            2 => ("chip1", &[2]),
            _ => ("l3", &[0, 1]),
        };
        let mut orchestrator =
            Orchestrator::with_capacities(workers, &Capacities::for_tasks(16, 16)).unwrap();
        let mut failed = 0;
        // New buffers, imports, tasks and releases until the death has shown.
        while failed == 0 {
            let buffers = [0, 1, 2].map(|_| buffer(&endpoint));
            for (worker, buffer) in buffers.iter().enumerate() {
                let tensors = [row(buffer)];
                let fill = Member {
                    scalars: &[4],
                    ..member(worker, number(Kernel::Fill), &tensors, &[Tag::Output])
                };
                match orchestrator.submit(&[fill]) {
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.code(), Code::WorkerDied, "{what}: {error}");
                        failed += 1;
                    }
                }
            }
            // No call hangs, whenever the death comes.
            let does_not_hang = |begun: Instant| {
                let took = begun.elapsed();
                assert!(took < HANG, "{what}: {path}: a call took {took:?}");
            };
            loop {
                let begun = Instant::now();
                let finished = match orchestrator.wait(soon()) {
                    Ok(finished) => finished,
                    Err(WaitError::Idle) => break,
                    Err(error) => panic!("{what}: {error}"),
                };
                does_not_hang(begun);
                if let Err(error) = finished.outcome {
                    let cause = error.cause();
                    assert!(hit.contains(&cause.worker.0), "{what}: {error}");
                    assert_eq!(
                        cause.failure,
                        died(path, all[victim], Ending::Killed { signal: 9 }),
                        "{what}"
                    );
                    failed += 1;
                }
            }
            for mut buffer in buffers {
                let identity = buffer.identity();
                buffer.release().unwrap();
                let begun = Instant::now();
                let kept = orchestrator.workers_mut().release_imports(identity, soon()).unwrap();
                assert_eq!(kept, [], "{what}");
                does_not_hang(begun);
            }
        }
        killer.join().unwrap();
        orchestrator.stop(soon());
        assert!(!all.iter().any(|&pid| is_running(pid)), "{what}");
        assert!(own_objects().is_empty(), "{what}");
    }
}

fn release_and_submit() {
    const ROUNDS: usize = 10_000;
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (to_releaser, for_releaser) = mpsc::channel::<Buffer>();
    let (to_submitter, for_submitter) = mpsc::channel::<(Buffer, bool)>();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut buffer in for_releaser {
                let released = match buffer.release() {
                    Ok(()) => true,
                    Err(error) => {
                        assert_eq!(error.code(), Code::Busy);
                        false
                    }
                };
                to_submitter.send((buffer, released)).unwrap();
            }
        });
        let (mut before, mut after) = (0, 0);
        for round in 0..ROUNDS {
            let buffer = buffer(&endpoint);
            let tensors = [row(&buffer)];
            let fill = Member { scalars: &[3], ..member(2, number(Kernel::Fill), &tensors, &[Tag::Output]) };
            to_releaser.send(buffer).unwrap();
            // So that either of them comes first now and then.
            (0..round % 64 * 64).for_each(|_| std::hint::spin_loop());
            let submitted = orchestrator.submit(&[fill]);
            let (mut buffer, released) = for_submitter.recv().unwrap();
            match submitted {
                Ok(_) => {
                    after += 1;
                    // It may have been released since, but only once the task was over.
                    assert!(drain(&mut orchestrator)[0].outcome.is_ok());
                    if !released {
                        assert_eq!(load(&buffer), [3; 4]);
                        buffer.release().unwrap();
                    }
                }
                Err(error) => {
                    before += 1;
                    assert!(matches!(error.code(), Code::Stale | Code::Closing), "{error}");
                    assert!(released);
                }
            }
        }
        assert_eq!(before + after, ROUNDS);
        drop(to_releaser);
    });
    assert!(own_objects().is_empty());
}
