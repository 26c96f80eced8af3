//! A relay between the proxy and its upstream that spoils the answers: it cuts, drips or holds them.
//!
//! Invariant: requests pass as they are, so what the upstream saw is what the proxy sent.
//! Deliberately absent: HTTP. It counts bytes and nothing else.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is done to an answer.
#[derive(Clone, Copy, Debug)]
pub enum Spoil {
    /// Nothing.
    Pass,
    /// The connection is closed once a request has come.
    Close,
    /// The connection is closed behind so many bytes of an answer.
    Cut(usize),
    /// One byte at a time, with this pause.
    Drip(Duration),
}

/// A running relay.
pub struct Relay {
    /// Where it listens, with the path `/mcp`.
    pub url: String,
    spoil: Arc<Mutex<Spoil>>,
}

impl Relay {
    /// Relays to this address.
    #[must_use]
    pub fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let spoil = Arc::new(Mutex::new(Spoil::Pass));
        let (spoils, address) = (Arc::clone(&spoil), address.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(upstream) = TcpStream::connect(&address) else { continue };
                let (requests, answers) = (client.try_clone().unwrap(), client);
                let (sent, came) = (upstream.try_clone().unwrap(), upstream);
                let spoils = Arc::clone(&spoils);
                let spoiled = Arc::clone(&spoils);
                std::thread::spawn(move || forward(requests, sent, &spoils));
                std::thread::spawn(move || back(came, answers, &spoiled));
            }
        });
        Self { url, spoil }
    }

    /// Does this to answers from now on.
    pub fn spoil(&self, spoil: Spoil) {
        *self.spoil.lock().unwrap() = spoil;
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, spoil: &Mutex<Spoil>) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
        if matches!(*spoil.lock().unwrap(), Spoil::Close) {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn back(mut from: TcpStream, mut to: TcpStream, spoil: &Mutex<Spoil>) {
    let mut buffer = [0; 65_536];
    let mut passed = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let spoil = *spoil.lock().unwrap();
        let sent = match spoil {
            Spoil::Pass => to.write_all(&buffer[..count]),
            // An answer that is quick must not get through before the connection is closed.
            Spoil::Close => break,
            Spoil::Cut(after) => to.write_all(&buffer[..count.min(after.saturating_sub(passed))]),
            Spoil::Drip(pause) => buffer[..count].iter().try_for_each(|byte| {
                std::thread::sleep(pause);
                to.write_all(&[*byte])
            }),
        };
        passed += count;
        if sent.is_err() || matches!(spoil, Spoil::Cut(after) if passed >= after) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
