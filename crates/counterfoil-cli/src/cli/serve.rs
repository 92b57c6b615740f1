//! `counterfoil serve`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use axum::Router;
use clap::Args;
use counterfoil::WorkerName;
use counterfoil::destination::Destination;
use counterfoil::executor::Executor;
use counterfoil::http::HttpDestination;
use counterfoil::ledger::{Ledger, LedgerOptions};
use counterfoil::policy::Tool;
use counterfoil::snapshot::PauseDraft;
use counterfoil::store::MarkState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::error::{CommandError, Kind};
use super::exit::Exit;
use super::globals::Context;
use crate::api::App;
use crate::api::listen::{self, Socket};
use crate::config::report::Report;
use crate::config::{self, Config, Listen, Overrides};
use crate::notify;

/// Run the server
///
/// Listens as the configuration says, carries operations out and follows up what is open. SIGHUP reads the tools again,
/// all or nothing; SIGTERM stops taking calls and waits for running attempts.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Start with all sends paused; only `counterfoil tool resume --all --note "…"` ends it
    #[arg(long)]
    pub paused: bool,
    /// Listen here instead: an address and port, or `unix:PATH`
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Use this ledger instead: `sqlite:PATH` or `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "DATABASE")]
    pub database: Option<String>,
    /// End as after SIGTERM when standard input ends: with whoever started it, however that one ends
    #[arg(long, hide = true)]
    pub until_input_ends: bool,
}

impl ServeArgs {
    /// Puts the flags over environment and file.
    pub fn put_over(&self, context: &mut Context<'_>) {
        let flags = [("listen", &self.listen, "--listen"), ("database", &self.database, "--database")];
        for (key, value, flag) in flags {
            if let Some(value) = value {
                context.overrides.flags.push(("server", key, value.clone(), flag));
            }
        }
    }
}

/// How long calls that run may still take once the server ends. Callers that only wait are answered at once.
const CALLS_END_WITHIN: Duration = Duration::from_secs(25);

/// How long calls may take to learn that the ledger failed.
const FAILURE_TOLD_WITHIN: Duration = Duration::from_secs(2);

/// How long an attempt may take to be recorded once its answer is there.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// Receipts that are looked for at once, to be purged.
const PURGED_AT_ONCE: u32 = 200;

/// Runs the command.
///
/// # Errors
/// Where the configuration does not load, the ledger cannot be opened, or the address is taken.
pub fn run(args: &ServeArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    args.put_over(context);
    let stage = Plain { path: context.config_path().to_owned() };
    let start = Start { paused: args.paused, until_input_ends: args.until_input_ends };
    serve_on(&stage, start, context)
}

/// How a server starts and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// With all sends paused.
    pub(super) paused: bool,
    /// And ends when standard input does.
    pub(super) until_input_ends: bool,
}

/// What one way of running a server has of its own.
pub(super) trait Stage {
    /// Reads the configuration, at the start and again after SIGHUP.
    fn load(&self, overrides: &Overrides) -> Result<Config, Report>;

    /// Listens.
    async fn socket(&self, config: &Config) -> std::io::Result<Socket>;

    /// How the ledger is opened.
    fn ledger_options(&self) -> LedgerOptions;

    /// What carries requests out.
    fn destination(&self, real: HttpDestination) -> Arc<dyn Destination>;

    /// What is served.
    fn routes(&self, app: &App, ledger: &Ledger) -> Router;

    /// Says that the server is ready at `place`.
    async fn ready(
        &self,
        ledger: &Ledger,
        place: &str,
        context: &mut Context<'_>,
    ) -> Result<(), CommandError>;
}

/// The server, and nothing else.
struct Plain {
    path: PathBuf,
}

impl Stage for Plain {
    fn load(&self, overrides: &Overrides) -> Result<Config, Report> {
        config::load(&self.path, overrides)
    }

    async fn socket(&self, config: &Config) -> std::io::Result<Socket> {
        Socket::bind(&config.server.listen).await
    }

    fn ledger_options(&self) -> LedgerOptions {
        LedgerOptions::default()
    }

    fn destination(&self, real: HttpDestination) -> Arc<dyn Destination> {
        Arc::new(real)
    }

    fn routes(&self, app: &App, _: &Ledger) -> Router {
        crate::api::router(app.clone())
    }

    async fn ready(&self, _: &Ledger, place: &str, context: &mut Context<'_>) -> Result<(), CommandError> {
        context.out.line(format!("ready on {place}"))
    }
}

/// Runs a server on `stage` until it is told to end.
///
/// # Errors
/// Where the configuration does not load, the ledger cannot be opened, or the address is taken.
pub(super) fn serve_on(
    stage: &impl Stage,
    start: Start,
    context: &mut Context<'_>,
) -> Result<Exit, CommandError> {
    let config = stage.load(&context.overrides)?;
    context.warn(&config)?;
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(stage, &config, start, context));
    // Whatever still runs had its time; nothing of it can be recorded any more.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// The log goes to stderr; `COUNTERFOIL_LOG` says what is in it (`warn` by default).
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("COUNTERFOIL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Somebody may have set one up before, in a test.
    let _ = log.try_init();
}

/// How the server came to its end.
enum End {
    /// It was asked to.
    Asked,
    /// The ledger failed for good.
    Failed(CommandError),
}

async fn serve(
    stage: &impl Stage,
    config: &Config,
    start: Start,
    context: &mut Context<'_>,
) -> Result<Exit, CommandError> {
    let mut ends = Ends::new(start.until_input_ends)?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let ledger = open(config, stage.ledger_options()).await?;
    let store = ledger.store().clone();
    warn_of_mark(store.mark_state(), context)?;
    if start.paused {
        let note = "started with --paused".to_owned();
        store.pause(PauseDraft { tool: None, scope: None, by: "serve".to_owned(), note }).await?;
    }
    refuse_open_door(config, &ledger).await?;
    let destination =
        HttpDestination::new(ledger.clock().clone(), store.ledger_secret()).map_err(|error| {
            CommandError::environment(
                format!("TLS cannot be set up: {error}"),
                "check the host's certificates",
            )
        })?;
    // The name of this process's evidence chains is new for every process.
    let worker = WorkerName::parse(store.writer())?;
    let executor = Executor::new(ledger.clone(), stage.destination(destination), worker);
    let app = App::new(executor.clone(), config.limits);
    let socket = stage.socket(config).await.map_err(|error| {
        let place = match &config.server.listen {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => format!("unix:{}", path.display()),
        };
        let hint = "choose another address with --listen, or end what listens there";
        CommandError::environment(format!("cannot listen on {place}: {error}"), hint)
    })?;
    let place = socket.place();
    let stop = CancellationToken::new();
    let carrying = tokio::spawn({
        let executor = executor.clone();
        async move { executor.carry_on().await }
    });
    let purging = tokio::spawn(purge(ledger.clone(), config.server.retention_interval));
    let telling =
        tokio::spawn(notify::run(config.listeners.clone(), ledger.clone(), app.clone(), stop.clone()));
    let listening = tokio::spawn(listen::serve(
        socket,
        app.clone(),
        stage.routes(&app, &ledger),
        stop.clone(),
        CALLS_END_WITHIN,
    ));
    stage.ready(&ledger, &place, context).await?;
    context.out.flush()?;

    let end = wait_for_end(&mut ends, &mut hang_up, &ledger, stage, context).await;
    app.drain();
    stop.cancel();
    purging.abort();
    match end {
        End::Asked => {
            // Told before the wait: a second signal ends it.
            let draining = match executor.running() {
                1 => "draining: 1 attempt on its way".to_owned(),
                running => format!("draining: {running} attempts on their way"),
            };
            tell(&draining, context);
            let patience = patience(&ledger);
            let drained = async {
                joined(listening.await, "listener");
                if !executor.drain(patience).await {
                    tracing::warn!(attempts = executor.running(), "attempts were not recorded in time");
                }
                let left = executor.running();
                joined(carrying.await, "carrier");
                joined(telling.await, "teller");
                store.close().await;
                left
            };
            tokio::select! {
                left = drained => {
                    tell(&ended(left), context);
                    Ok(Exit::Done)
                }
                // Attempts without a report count as sent: the next start follows them up.
                () = ends.next() => {
                    tell("ended at once: the next start follows up what was on its way", context);
                    Ok(Exit::Error)
                }
            }
        }
        End::Failed(error) => {
            if tokio::time::timeout(FAILURE_TOLD_WITHIN, listening).await.is_err() {
                tracing::warn!("not every call could be answered");
            }
            Err(error)
        }
    }
}

/// Says something to whoever watches. Nobody may: the server goes on, or ends, all the same.
fn tell(text: &str, context: &mut Context<'_>) {
    if context.out.note(text).is_err() {
        tracing::warn!(text, "it could not be said on stderr");
    }
}

/// The last words, with how many attempts have no recorded outcome.
fn ended(left: usize) -> String {
    match left {
        0 => "ended: every outcome is recorded".to_owned(),
        1 => "ended: the next start follows up 1 attempt without a recorded outcome".to_owned(),
        left => format!("ended: the next start follows up {left} attempts without a recorded outcome"),
    }
}

fn joined(ended: Result<(), tokio::task::JoinError>, what: &str) {
    if let Err(error) = ended {
        tracing::error!(%error, "the {what} ended early");
    }
}

async fn open(config: &Config, options: LedgerOptions) -> Result<Ledger, CommandError> {
    super::database::open_ledger(config, tools(config), options).await
}

fn tools(config: &Config) -> Vec<Tool> {
    config.tools.values().map(|declared| declared.tool.clone()).collect()
}

fn warn_of_mark(mark: MarkState, context: &mut Context<'_>) -> Result<(), CommandError> {
    match mark {
        MarkState::Current => Ok(()),
        MarkState::Missing => context.out.note(
            "warning: the ledger's mark is missing: whether the ledger was restored from an older copy cannot be told. Sends \
             are paused, and IDs that it does not know may have been used. `counterfoil explain ledger-restored` says \
             what to do",
        ),
        MarkState::Behind => context.out.note(
            "warning: the ledger is older than its mark: it was restored from an older copy. Sends are paused, and IDs \
             that it does not know may have been used. `counterfoil explain ledger-restored` says what to do",
        ),
    }
}

/// Off this host every caller needs a token; a server that nobody can use, or that was meant to be open, is refused.
async fn refuse_open_door(config: &Config, ledger: &Ledger) -> Result<(), CommandError> {
    if listen::is_local(&config.server.listen) {
        return Ok(());
    }
    let now = ledger.store().now();
    let tokens = ledger.store().tokens().await?;
    let good = |end: Option<counterfoil::Timestamp>| end.is_none_or(|end| end > now);
    if tokens.iter().any(|token| token.revoked_at.is_none() && good(token.expires_at)) {
        return Ok(());
    }
    Err(CommandError::new(
        Kind::Environment,
        "the address can be reached from other hosts, and there is no token",
        "create one with `counterfoil token create`, or listen on 127.0.0.1",
    ))
}

/// Purges receipts whose retention is over. A failure is tried again at the next interval: from the end of retention on
/// answers are the same, purged or not.
async fn purge(ledger: Ledger, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        loop {
            match ledger.purge(PURGED_AT_ONCE).await {
                Ok(purged) if purged >= u64::from(PURGED_AT_ONCE) => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(code = error.code(), "receipts were not purged");
                    break;
                }
            }
        }
    }
}

/// How long attempts on their way may take: until the slowest tool's answer is waited for no longer.
fn patience(ledger: &Ledger) -> Duration {
    let declared = ledger.declared().all();
    let longest =
        declared.iter().filter_map(|(_, tool)| tool.http()).map(|http| http.timeout + http.linger).max();
    longest.unwrap_or_default() + RECORDED_WITHIN
}

async fn wait_for_end(
    ends: &mut Ends,
    hang_up: &mut Signal,
    ledger: &Ledger,
    stage: &impl Stage,
    context: &mut Context<'_>,
) -> End {
    loop {
        tokio::select! {
            () = ends.next() => return End::Asked,
            _ = hang_up.recv() => {
                let said = match reload(ledger, stage, &context.overrides).await {
                    Ok(1) => "reloaded: 1 tool".to_owned(),
                    Ok(tools) => format!("reloaded: {tools} tools"),
                    Err(error) => format!("{error:#}"),
                };
                tell(&said, context);
            }
            error = ledger.store().until_poisoned() => {
                let failed = CommandError::from(error);
                return End::Failed(failed.with_hint("start the server again: it opens the ledger anew"));
            }
        }
    }
}

/// Reads the tools again, all or nothing. What concerns the server itself stays until it is started again.
async fn reload(ledger: &Ledger, stage: &impl Stage, overrides: &Overrides) -> anyhow::Result<usize> {
    let config = stage.load(overrides).map_err(|report| {
        anyhow!("the tools stay as they were: the configuration does not load\n{report}")
    })?;
    ledger
        .declare_all(tools(&config))
        .await
        .map_err(|error| anyhow!("the tools stay as they were: {error}"))?;
    tracing::info!("the tools were read again");
    Ok(config.tools.len())
}

/// What ends a server.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    /// Told once, and never where standard input is not watched.
    input: Arc<Notify>,
}

impl Ends {
    fn new(until_input_ends: bool) -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let input = Arc::new(Notify::new());
        if until_input_ends {
            let ended = Arc::clone(&input);
            // A thread outside the runtime, which would wait for the read when it ends first.
            std::thread::Builder::new().name("until-input-ends".to_owned()).spawn(move || {
                // Nothing is expected there; an error is an end as well.
                drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
                ended.notify_one();
            })?;
        }
        Ok(Self { terminate, interrupt, input })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = self.input.notified() => {}
        }
    }
}
