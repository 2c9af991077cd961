//! The signals that tell the server something, from its first moment on: one that comes during the
//! start is not lost, and none ends the process by the system's default.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use colloquy_runtime::threads::{self, EndProcess};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// What signals have told. Each is kept until somebody has waited for it.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// SIGTERM, or Ctrl-C.
    stop: Notify,
    /// SIGHUP.
    reload: Notify,
    serves: AtomicBool,
}

impl Signals {
    /// Listens to them from now on. Until the server serves one that tells it to stop ends the
    /// process: a start can be cut off at any moment, and nothing waits for it.
    ///
    /// # Errors
    /// The signals can't be listened to.
    pub(crate) fn listen() -> io::Result<Arc<Self>> {
        let signals = Arc::new(Signals::default());
        let (ready, listens) = sync_channel(1);
        let told = Arc::clone(&signals);
        let body = move || told.follow(&ready);
        threads::spawn("signals", EndProcess, body)?;
        listens.recv().map_err(io::Error::other)??;
        Ok(signals)
    }

    fn follow(&self, ready: &SyncSender<io::Result<()>>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let followed = runtime.and_then(|runtime| {
            runtime.block_on(async {
                let heard = Heard::new()?;
                // Whoever started this waits for it.
                let _ = ready.send(Ok(()));
                self.tell(heard).await;
                Ok(())
            })
        });
        if let Err(error) = followed {
            // The same.
            let _ = ready.send(Err(error));
        }
    }

    async fn tell(&self, mut heard: Heard) {
        loop {
            tokio::select! {
                _ = heard.terminate.recv() => self.told_to_stop(),
                _ = heard.interrupt.recv() => self.told_to_stop(),
                _ = heard.hangup.recv() => self.reload.notify_one(),
            }
        }
    }

    fn told_to_stop(&self) {
        if !self.serves.load(Ordering::Acquire) {
            tracing::info!("told to stop before anything was served");
            std::process::exit(0);
        }
        self.stop.notify_one();
    }

    /// From now on whoever waits for [`Signals::stop`] ends the process.
    pub(crate) fn serves(&self) {
        self.serves.store(true, Ordering::Release);
    }

    /// Waits until the server is told to stop.
    pub(crate) async fn stop(&self) {
        self.stop.notified().await;
    }

    /// Waits until the server is told to read its settings again; several times before it has begun
    /// to are one.
    pub(crate) async fn reload(&self) {
        self.reload.notified().await;
    }
}

struct Heard {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Heard {
    fn new() -> io::Result<Self> {
        Ok(Heard {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}
