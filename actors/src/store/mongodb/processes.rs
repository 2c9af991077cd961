//! Processes of this machine, as nodes name them in their documents: whether one has ended or still
//! runs. Two nodes of one machine need not wait for each other's lease.

/// The name of this process among those of its machine; empty where the system does not say.
pub(super) fn this_process() -> String {
    process_of("self").unwrap_or_default()
}

/// Whether a process of this very machine and namespace has ended. False of those of other machines.
pub(super) fn has_ended_here(process: &str) -> bool {
    let Some((machine, rest)) = process.split_once(' ') else {
        return false;
    };
    let number = rest.split_once(' ').map_or(rest, |(number, _)| number);
    machine == machine_of("self").unwrap_or_default()
        && process_of(number).is_none_or(|found| found != process)
}

/// Whether a process of this very machine and namespace runs. False of those of other machines.
pub(super) fn runs_here(process: &str) -> bool {
    let number = process.split(' ').nth(1);
    number.is_some_and(|number| process_of(number).is_some_and(|found| found == process))
}

/// The machine since it was started, and the namespace of its processes' numbers.
fn machine_of(process: &str) -> Option<String> {
    let started = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link(format!("/proc/{process}/ns/pid")).ok()?;
    Some(format!("{}/{}", started.trim(), namespace.display()))
}

/// The name of a process: its machine, its number and the tick at which it was started; none where
/// it has ended.
fn process_of(process: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (number, _) = status.split_once(' ')?;
    let (_, fields) = status.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    if fields.next()? == "Z" {
        // It has ended; its parent has not looked.
        return None;
    }
    let started = fields.nth(18)?;
    Some(format!("{} {number} {started}", machine_of("self")?))
}
