//! `counterfoil dev`

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use clap::Args;
use counterfoil::destination::Destination;
use counterfoil::http::HttpDestination;
use counterfoil::ledger::{Ledger, LedgerOptions};
use counterfoil::store::Token;
use counterfoil::store::sqlite::SqliteOptions;
use counterfoil::{Account, Clock, Principal};
use sim::supplier::{Flavour, Supplier, SupplierOptions};

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::serve::{self, Stage, Start};
use crate::api::listen::Socket;
use crate::api::{self, App};
use crate::config::report::Report;
use crate::config::{Config, Overrides};
use crate::dev::clock::Moved;
use crate::dev::destination::Faulty;
use crate::dev::faults::{Faults, Rates};
use crate::dev::folder::{DISCOVERY, Discovery, Folder, NAME, Unusable};
use crate::dev::keys::{self, Terminal};
use crate::dev::routes::{self, Shown};
use crate::dev::story::{self, Story};
use crate::dev::tools::Tools;
use crate::dev::{folder, practice};
use crate::secret;

/// Run everything on this machine to try it: server, ledger, a practice supplier, and faults on purpose
///
/// Needs no file and no token: ledger and tokens lie in the folder .counterfoil, where clients find them from the working
/// folder upwards. Every event is told in one line. Keys, `--faults` or POST /dev/faults lose a reply, kill a send or run a
/// call twice; whatever happens, there is one effect. Tools of ./counterfoil.toml are there too. It listens on this host
/// only.
#[derive(Clone, Debug, Args)]
pub struct DevArgs {
    /// Faults that happen by chance, such as `drop=0.3,kill=0.1,twice=0.1,seed=7`
    #[arg(long, value_name = "RATES", default_value = "")]
    pub faults: Rates,
    /// Listen on this port of 127.0.0.1; default: the last one used here, else 8787, else any
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The file alone decides, as in production: no practice tool, no declarations of code
    #[arg(long)]
    pub declared_only: bool,
    /// End when standard input ends
    #[arg(long, hide = true)]
    pub until_input_ends: bool,
}

/// The port that is tried first.
const PORT: u16 = 8_787;

/// Runs the command.
///
/// # Errors
/// Where another one runs in this folder, or the configuration does not load.
pub fn run(args: &DevArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let folder = Folder::open(Path::new(".")).map_err(|error| match error {
        Unusable::Taken => CommandError::environment(
            error.to_string(),
            format!("use it: {NAME}/{DISCOVERY} says where it listens, or end it first"),
        ),
        Unusable::System(_) => {
            CommandError::environment(error.to_string(), "run it in a folder that you may write to")
        }
    })?;
    let last = folder.last();
    let seed = args.faults.seed.unwrap_or_else(|| getrandom::u64().unwrap_or_default());
    let supplier = supplier(&folder, port_of(&last.supplier_url))?;
    let account = match &context.globals.account {
        Some(account) => account.clone(),
        None => Account::parse(practice::ACCOUNT)?,
    };
    let listener = bind(args.port, &last).map_err(|error| {
        let place = args.port.map(|port| format!(" on {}:{port}", Ipv4Addr::LOCALHOST)).unwrap_or_default();
        CommandError::environment(format!("cannot listen{place}: {error}"), "choose another port with --port")
    })?;
    let ledger = folder.file("ledger.db");
    context.overrides.flags.push(("server", "listen", listener.local_addr()?.to_string(), "--port"));
    context.overrides.flags.push(("server", "database", format!("sqlite:{}", ledger.display()), "dev"));
    let tools = Tools::open(
        context.config_path().to_owned(),
        context.overrides.clone(),
        account,
        supplier.addr(),
        args.declared_only,
        folder.file("declared.json"),
    );
    let clock = Moved::open(folder.file("clock"));
    let dev = Dev {
        tools: Arc::new(tools),
        faults: Arc::new(Faults::new(args.faults, seed)),
        story: Story::begin()?,
        orders: folder.file("supplier.db"),
        supplier,
        folder,
        last,
        ledger,
        listener,
        clock: Arc::new(clock),
    };
    if args.faults.any() {
        context.out.note(format!("faults happen by chance, with seed {seed}"))?;
    }
    // Keys would take away the end of input that it is to end with.
    let terminal = (!args.until_input_ends).then(Terminal::keys);
    if terminal.is_some() {
        keys::listen(dev.faults.clone(), dev.tools.clone(), dev.story.clone(), dev.help())?;
    }
    let start = Start { paused: false, until_input_ends: args.until_input_ends };
    let ended = serve::serve_on(&dev, start, context);
    drop(terminal);
    ended
}

/// The practice supplier, on the same port as the last time where that is free: open operations go there.
fn supplier(folder: &Folder, last: Option<u16>) -> std::io::Result<Supplier> {
    let options = |port| {
        let options = SupplierOptions::new(Flavour::Forgetful).with_database(folder.file("supplier.db"));
        SupplierOptions { port, ..options }
    };
    Supplier::start(options(last.unwrap_or(0))).or_else(|_| Supplier::start(options(0)))
}

fn port_of(url: &str) -> Option<u16> {
    url.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

/// Listens on the `wanted` port; without one on that of the last time, the usual one, or any.
fn bind(wanted: Option<u16>, last: &Discovery) -> std::io::Result<TcpListener> {
    let on = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    if let Some(port) = wanted {
        return on(port);
    }
    on(port_of(&last.url).unwrap_or(PORT)).or_else(|_| on(PORT)).or_else(|_| on(0))
}

struct Dev {
    tools: Arc<Tools>,
    faults: Arc<Faults>,
    story: Story,
    orders: PathBuf,
    supplier: Supplier,
    folder: Folder,
    last: Discovery,
    ledger: PathBuf,
    listener: TcpListener,
    clock: Arc<Moved>,
}

impl Dev {
    /// What to paste to see it work.
    fn help(&self) -> Vec<String> {
        vec![
            format!("TOKEN=$(sed -n 's/.*\"token\": \"\\(.*\\)\",/\\1/p' {NAME}/{DISCOVERY})"),
            format!("URL=$(sed -n 's/.*\"url\": \"\\(.*\\)\",/\\1/p' {NAME}/{DISCOVERY})"),
            "curl -s -X PUT $URL/v1/operations/first-order -H \"Authorization: Bearer $TOKEN\" \\".to_owned(),
            format!(
                "  -H 'Content-Type: application/json' -d '{{\"tool\":\"{}\",\"arguments\":{{\"sku\":\"apples\",\"quantity\":2}},\"execute\":true}}'",
                practice::TOOL
            ),
            "Say it again, with the same ID: the same receipt, and one order at the supplier.".to_owned(),
        ]
    }

    /// A token with these roles: the one of the last time where the ledger still knows it, otherwise a new one.
    async fn token(
        &self,
        ledger: &Ledger,
        last: &str,
        principal: &str,
        roles: &[&str],
    ) -> Result<String, CommandError> {
        let store = ledger.store();
        if secret::well_formed(last)
            && let Some(known) = store.token_by_digest(&secret::digest(last)).await?
            && known.revoked_at.is_none()
            && known.account == self.tools.account
        {
            return Ok(last.to_owned());
        }
        let (text, digest) = secret::mint()?;
        store
            .create_token(Token {
                id: secret::new_id()?,
                principal: Principal::parse(principal)?,
                account: self.tools.account.clone(),
                roles: roles.iter().map(|role| (*role).to_owned()).collect(),
                tools: Vec::new(),
                digest,
                created_at: store.now(),
                expires_at: None,
                revoked_at: None,
            })
            .await?;
        Ok(text)
    }
}

impl Stage for Dev {
    fn load(&self, _: &Overrides) -> Result<Config, Report> {
        self.tools.load()
    }

    async fn socket(&self, _: &Config) -> std::io::Result<Socket> {
        Socket::of(self.listener.try_clone()?)
    }

    fn ledger_options(&self) -> LedgerOptions {
        let defaults = LedgerOptions::default();
        let clock: Arc<dyn Clock> = self.clock.clone();
        LedgerOptions { store: SqliteOptions { clock: clock.clone(), ..defaults.store }, clock, ..defaults }
    }

    fn destination(&self, real: HttpDestination) -> Arc<dyn Destination> {
        Arc::new(Faulty::new(real, self.faults.clone(), self.story.clone()))
    }

    fn routes(&self, app: &App, ledger: &Ledger) -> Router {
        let shown = Shown {
            faults: self.faults.clone(),
            story: self.story.clone(),
            help: Arc::new(self.help()),
            orders: self.orders.clone(),
            body_limit: app.longest_body(),
            tools: self.tools.clone(),
            ledger: ledger.clone(),
            clock: self.clock.clone(),
        };
        routes::around(api::router(app.clone()), shown)
    }

    async fn ready(
        &self,
        ledger: &Ledger,
        place: &str,
        context: &mut Context<'_>,
    ) -> Result<(), CommandError> {
        let token = self.token(ledger, &self.last.token, "dev", &["agent", "worker"]).await?;
        let approver = self
            .token(ledger, &self.last.approver_token, "dev-approver", &["approver", "auditor", "operator"])
            .await?;
        self.folder.publish(&Discovery {
            url: place.to_owned(),
            token,
            approver_token: approver,
            ledger: std::path::absolute(&self.ledger)?,
            supplier_url: self.supplier.url(),
            pid: std::process::id(),
        })?;
        let (account, reader) = (self.tools.account.clone(), Principal::parse("dev")?);
        drop(tokio::spawn(story::follow(ledger.clone(), account, reader, self.story.clone())));
        context.out.line(format!("ready on {place}   ledger {}", self.ledger.display()))?;
        context.out.line(format!(
            "tool {} orders at the practice supplier ({place}/dev/orders); clients find this server by {}",
            practice::TOOL,
            Path::new(folder::NAME).join(DISCOVERY).display()
        ))?;
        context.out.line(keys::legend())
    }
}
