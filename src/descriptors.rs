//! How many files and connections the process may open: as many as the system allows it at all,
//! most of them connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One part in so many is kept for files, deliveries and look-ups.
const KEPT: u64 = 8;

/// Raises the process's own limit to the system's, and gives how many connections it leaves room
/// for, at most those wanted.
pub(crate) fn connections(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .is_ok();
    let Some(files) = (if raised { maximum } else { current }) else {
        return wanted;
    };
    let room = usize::try_from(files - files / KEPT).unwrap_or(usize::MAX);
    if room < wanted {
        tracing::warn!(
            files,
            room,
            wanted,
            "the system allows fewer open files than connections: fewer are taken"
        );
    }
    wanted.min(room).max(1)
}
