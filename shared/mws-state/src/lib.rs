//! The state directory: log, atomic publish, change detection, locks.
