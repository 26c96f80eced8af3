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
/// The rows of the fault matrix that are about a process.
mod child_faults;
/// The protocol that the configuration names.
mod configured;
/// The official conformance suite.
mod conformance;
/// The corpus of messages, over every way.
mod corpus;
/// Stateless clients and questions of a session upstream.
mod crossing;
/// Many clients at once.
mod crowd;
/// Published files that are damaged at random.
mod damage;
/// What the proxy is made of.
mod deps;
/// Disks that are full.
mod disk;
/// The rows of the front door.
mod door_rows;
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
/// Programs that are killed.
mod kills;
/// Sessions that the proxy holds for its clients.
mod lanes;
/// Rules of the repository.
mod layout;
/// Clients and servers written by others.
mod matrix;
/// The listing and the two meta-tools.
mod meta;
/// Answers in forms that are rare and allowed.
mod oddities;
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
/// Bytes of servers written by others.
mod real;
/// What is written about a call.
mod record;
/// Files published while the proxy runs.
mod reload;
/// The history walked again.
mod replay;
/// `search_tools` and the rank of what is called.
mod search;
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
/// The fault matrix.
mod upstream_faults;
