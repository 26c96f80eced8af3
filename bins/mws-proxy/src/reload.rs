//! SIGHUP: the configuration is read again and put in force.
//!
//! Invariant: a configuration that cannot be used changes nothing; requests under way end as they
//! began; sessions and streams go on.
//! Deliberately absent: moving to another address or state directory. That takes a restart.

use std::sync::Arc;
use std::time::Duration;

use mws_cli::Failure;
use mws_config::Config;
use mws_state::StateDir;
use tokio::signal::unix::SignalKind;

use crate::cli::Cli;
use crate::current::Current;
use crate::guard::Guard;
use crate::listen;
use crate::proxy::Proxy;
use crate::rpc::Era;
use crate::setup::{self, PATIENCE};

/// How long the requests under way may keep an upstream that was replaced.
const LONGEST: Duration = Duration::from_secs(300);
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// What is read again, and where it goes.
pub(crate) struct Reload {
    pub(crate) cli: Cli,
    pub(crate) config: Config,
    pub(crate) proxy: Arc<Current<Proxy>>,
    /// The guard of the port, and the port.
    pub(crate) front: Option<(Arc<Current<Guard>>, Option<u16>)>,
}

impl Reload {
    /// Does it at each SIGHUP from now on.
    ///
    /// # Errors
    /// When signals cannot be waited for.
    pub(crate) fn on_hangup(mut self) -> Result<(), Failure> {
        let mut hangup = setup::on(SignalKind::hangup())?;
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match self.again() {
                    Ok(()) => tracing::info!("The configuration was read again."),
                    Err(why) => tracing::warn!(
                        "The configuration is not used: {why}; the one before stays in force."
                    ),
                }
            }
        });
        Ok(())
    }

    fn again(&mut self) -> Result<(), Failure> {
        let (mut config, _) = setup::configure(&self.cli)?;
        self.say_what_waits(&config);
        config.state_dir.clone_from(&self.config.state_dir);
        let state = StateDir::at(&config.state_dir);
        let old = self.proxy.get();
        let proxy = setup::build(&config, &state, Some(&old))?;
        if let Some((guard, port)) = &self.front {
            guard.set(Arc::new(listen::guard(&config.listen, *port)?));
        }
        self.config = config;
        self.proxy.set(Arc::clone(&proxy));
        if !Arc::ptr_eq(&old.upstream, &proxy.upstream) {
            tokio::spawn(retire(old));
        }
        proxy.streams.send(CHANGED);
        tokio::spawn(async move { proxy.shelf.refresh(Era::Session, LONGEST / 10).await });
        Ok(())
    }

    fn say_what_waits(&self, new: &Config) {
        let address = |config: &Config| {
            let listen = &config.listen;
            (listen.host.clone(), listen.port, listen.unix.clone())
        };
        if address(new) != address(&self.config) {
            tracing::warn!("listen.host, listen.port and listen.unix take effect after a restart.");
        }
        if new.state_dir != self.config.state_dir {
            tracing::warn!("stateDir takes effect after a restart.");
        }
    }
}

/// Ends the process of an upstream that was replaced, once nobody waits for it.
async fn retire(old: Arc<Proxy>) {
    old.shelf.close();
    old.let_go();
    let unused = async {
        while Arc::strong_count(&old) > 1 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let _ = tokio::time::timeout(LONGEST, unused).await;
    old.upstream.stop(PATIENCE).await;
}
