//! Where the database is, and how it is reached: without proof of who answers only on this host.

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::StoreError;

/// Where the database is.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    /// `None` where the connection never leaves this host, or whoever wrote the address said that it needs no proof.
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for Address {
    /// It may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

fn unusable(text: &str) -> StoreError {
    StoreError::Unusable(text.to_owned())
}

impl Address {
    /// Reads `postgres://user@host/database?…`. `sslmode` is `verify-full` unless the host is this one; `disable` says
    /// that the network is trusted. `sslrootcert` names a file of certificates to trust instead of the system's.
    ///
    /// # Errors
    /// Nothing of the text is repeated: it may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (url, mode, roots) = own_parameters(url)?;
        let mut config: Config =
            url.parse().map_err(|_| unusable("the address of the PostgreSQL database cannot be read"))?;
        if config.get_application_name().is_none() {
            config.application_name("counterfoil");
        }
        if config.get_dbname().is_none() {
            return Err(unusable("the address names no database: postgres://user@host/database"));
        }
        let here = config.get_hosts().iter().all(is_here);
        let proven = match mode.as_deref() {
            None => !here,
            Some("disable") => false,
            Some("verify-full") => true,
            Some(_) => {
                return Err(unusable(
                    "sslmode must be verify-full or disable: anything between proves nothing about who answers",
                ));
            }
        };
        config.ssl_mode(if proven { SslMode::Require } else { SslMode::Disable });
        let tls = proven.then(|| trust(roots)).transpose()?;
        Ok(Self { config, tls })
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

type Own = (String, Option<String>, Option<PathBuf>);

/// Takes out the parameters that the driver does not know.
fn own_parameters(url: &str) -> Result<Own, StoreError> {
    let Some((address, parameters)) = url.split_once('?') else { return Ok((url.to_owned(), None, None)) };
    let (mut kept, mut mode, mut roots) = (Vec::new(), None, None);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let value = |text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8()
                .map(std::borrow::Cow::into_owned)
                .map_err(|_| unusable("the address of the PostgreSQL database cannot be read"))
        };
        match parameter.split_once('=') {
            Some(("sslmode", text)) => mode = Some(value(text)?),
            Some(("sslrootcert", text)) => roots = Some(PathBuf::from(value(text)?)),
            Some(_) | None => kept.push(parameter),
        }
    }
    let mut url = address.to_owned();
    if !kept.is_empty() {
        url.push('?');
        url.push_str(&kept.join("&"));
    }
    Ok((url, mode, roots))
}

fn trust(file: Option<PathBuf>) -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            let unreadable = |_| {
                StoreError::Unusable(format!("{} holds no certificates that can be read", path.display()))
            };
            for certificate in CertificateDer::pem_file_iter(&path).map_err(unreadable)? {
                let certificate = certificate.map_err(unreadable)?;
                roots.add(certificate).map_err(|_| unusable("sslrootcert: a certificate is none"))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(unusable("there are no certificates to trust: name a file with sslrootcert"));
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable("TLS cannot be set up"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_is_reached_without_proof_unless_that_is_asked_for() {
        let proven = |url: &str| Address::parse(url).map(|address| address.tls.is_some());
        for here in
            ["postgres://u@localhost/d", "postgres://u@127.0.0.1:5433/d", "postgres://u@%2Fvar%2Frun/d"]
        {
            assert_eq!(proven(here), Ok(false), "{here}");
        }
        assert_eq!(proven("postgres://u@db.example/d?sslmode=disable"), Ok(false));
        assert_eq!(proven("postgres://u@db.example/d"), Ok(true));
        assert_eq!(proven("postgres://u@db.example/d?sslmode=verify-full&connect_timeout=3"), Ok(true));
        for bad in [
            "postgres://u@db.example/d?sslmode=require",
            "postgres://u:hunter2@db.example",
            "postgres://u:hunter2@db.example:x/d",
            "postgres://u@db.example/d?sslrootcert=/nowhere",
        ] {
            let error = proven(bad).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
