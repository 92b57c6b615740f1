//! What every command takes, and what it works with.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use counterfoil::Account;

use super::error::CommandError;
use super::output::Output;
use crate::config::{self, Config, Overrides};
use crate::dev::folder;

/// The options that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// The configuration file
    #[arg(long, global = true, value_name = "PATH", default_value = config::DEFAULT_PATH)]
    pub config: PathBuf,
    /// The account to work in; default: the only one
    #[arg(long, global = true, value_name = "ACCOUNT")]
    pub account: Option<Account>,
    /// Work on a running server instead of the database of the configuration; default: the `counterfoil dev` that runs
    /// in this folder or, where this one has no configuration, above it
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// The token for `--server`; default: that of the environment variable `COUNTERFOIL_TOKEN`
    // Read from the environment by hand: a usage line must not show it as if it had been given.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<Token>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Leave out everything but data and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The variable that holds the token where no option does.
const TOKEN_VARIABLE: &str = "COUNTERFOIL_TOKEN";

/// A bearer token. It is never printed, not even for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text, for the header of a request and nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A server to work on.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its URL.
    pub url: String,
    /// The token to show it.
    pub token: Token,
    /// The token for what an application does, where that is another one.
    pub application: Option<Token>,
}

/// What a command works with.
pub struct Context<'w> {
    /// The global options.
    pub globals: Globals,
    /// The environment that comes before the file.
    pub overrides: Overrides,
    /// Where it writes.
    pub out: Output<'w>,
}

impl<'w> Context<'w> {
    /// Everything a command works with.
    #[must_use]
    pub fn new(globals: Globals, overrides: Overrides, out: Output<'w>) -> Self {
        Self { globals, overrides, out }
    }

    /// Reads the configuration; its warnings go to stderr.
    ///
    /// # Errors
    /// Where it does not load.
    pub fn config(&mut self) -> Result<Config, CommandError> {
        let config = config::load(&self.globals.config, &self.overrides)?;
        self.warn(&config)?;
        Ok(config)
    }

    /// Says what the configuration warns of, on stderr.
    ///
    /// # Errors
    /// Where stderr cannot be written.
    pub fn warn(&mut self, config: &Config) -> Result<(), CommandError> {
        for finding in &config.warnings {
            let report =
                config::report::Report { path: config.path.clone(), findings: vec![finding.clone()] };
            self.out.note(report.to_string())?;
        }
        Ok(())
    }

    /// The configuration file.
    #[must_use]
    pub fn config_path(&self) -> &Path {
        &self.globals.config
    }

    /// The server to work on, if one is named or runs beside this command as `counterfoil dev`.
    ///
    /// # Errors
    /// Where a server is named and no token.
    pub fn remote(&self) -> Result<Option<Remote>, CommandError> {
        let Some(url) = self.globals.server.clone() else { return Ok(self.beside()) };
        let ambient = || self.overrides.variables.get(TOKEN_VARIABLE).filter(|text| !text.is_empty());
        let token = self.globals.token.clone().or_else(|| ambient().map(|text| Token(text.clone())));
        match token {
            Some(token) => Ok(Some(Remote { url, token, application: None })),
            None => {
                Err(CommandError::usage("--server needs a token", "give --token, or set COUNTERFOIL_TOKEN"))
            }
        }
    }

    /// The running `counterfoil dev`, unless the options name a database: a configuration, or an account in it.
    fn beside(&self) -> Option<Remote> {
        let path = &self.globals.config;
        if self.globals.account.is_some() || path.as_os_str() != config::DEFAULT_PATH {
            return None;
        }
        let here = std::env::current_dir().ok()?;
        let found =
            if path.exists() { folder::running(&here) } else { here.ancestors().find_map(folder::running) };
        found.map(|dev| Remote {
            url: dev.url,
            token: Token(dev.approver_token),
            application: Some(Token(dev.token)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_printed() {
        let token: Token = "cf_canary".parse().unwrap();
        assert!(!format!("{token:?}").contains("canary"));
    }
}
