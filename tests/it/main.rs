//! The integration suite: programs of this workspace, run as a user runs them.
//!
//! Invariant: a test talks to a program through files, pipes and sockets only.
//! Deliberately absent: unit tests (they are beside the code) and fixed sleeps as synchronisation.
// Everything here is test code; a helper that cannot go on is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
// Files of a lab are read by nobody else while they are written.
#![allow(clippy::disallowed_methods)]

/// Client and upstream of different eras.
mod bridge;
/// What the proxy is made of.
mod deps;
/// What goes wrong around the proxy.
mod faults;
/// Bytes in, bytes out.
mod fidelity;
/// Who may come in.
mod frontdoor;
/// The fixtures and the search over them.
mod gold;
/// The harness itself, on direct connections.
mod harness;
/// Rules of the repository.
mod layout;
/// The fault matrix.
mod matrix;
/// The rows of it that are about a process.
mod matrix_child;
/// The listing and the two meta-tools.
mod meta;
/// More than there is room for.
mod overload;
/// From a transcript to a listed tool, and pipes.
mod pipeline;
/// Nothing is left behind.
mod privacy;
/// Upstream processes that misbehave.
mod process;
/// Definitions that change, and the start without history.
mod promised;
/// What the proxy adds to a server.
mod promises;
/// What a stateless upstream asks a session client.
mod questions;
/// Servers and clients written by others.
mod real;
/// What is written about a call.
mod record;
/// Files published while the proxy runs.
mod reload;
/// The history walked again.
mod replay;
/// A session client in front of an upstream without sessions.
mod session_bridge;
/// The front on stdin and stdout.
mod stdio;
/// What goes to standard error, and what when it is gone.
mod talk;
/// Upstreams behind https.
mod tls;
/// Which tools exist for clients.
mod tools;
