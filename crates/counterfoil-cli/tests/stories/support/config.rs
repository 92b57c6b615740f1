//! The configuration of a story, as text: what a user would write.

use std::fmt::Write as _;

/// One `[tools.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct ToolText {
    name: String,
    url: Option<String>,
    /// Whether an application's own worker carries it out.
    worker: bool,
    table: Vec<String>,
    http: Vec<String>,
    recovery: Vec<String>,
    budget: Vec<String>,
    further: String,
}

impl ToolText {
    fn new(name: &str) -> Self {
        let text = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Self {
            name: name.to_owned(),
            url: None,
            worker: false,
            table: Vec::new(),
            http: text(&["timeout = \"4s\"", "linger = \"2s\""]),
            recovery: Vec::new(),
            budget: text(&["first_delay = \"60ms\"", "max_delay = \"250ms\""]),
            further: String::new(),
        }
    }

    /// A tool whose destination honours a key.
    pub(crate) fn keyed(name: &str) -> Self {
        Self::new(name)
            .recovery("kind = \"idempotency_key\"")
            .recovery("key = \"header:Idempotency-Key\"")
            .recovery("retention = \"24h\"")
    }

    /// A tool of which nobody can say afterwards what it did.
    pub(crate) fn forgetful(name: &str) -> Self {
        Self::new(name).recovery("kind = \"none\"")
    }

    /// A tool that an application's own worker carries out; its recovery is still to be said.
    pub(crate) fn worker(name: &str) -> Self {
        Self { worker: true, http: vec!["scope = \"supplier-1\"".to_owned()], ..Self::new(name) }
    }

    /// A tool whose supplier can be searched by our reference, and executes nothing that is older than a second.
    pub(crate) fn searched(name: &str) -> Self {
        Self::new(name)
            .recovery("kind = \"lookup\"")
            .recovery("reference = \"body:/client_reference\"")
            .recovery("authoritative = true")
            .recovery("request_lifetime = \"1s\"")
            .recovery("skew = \"0s\"")
            .search("/orders/0/id")
    }

    /// How the supplier is searched, and where it names what it found.
    pub(crate) fn search(self, found: &str) -> Self {
        let url = "{supplier}/orders?client_reference={reference}";
        self.recovery(&format!("lookup = {{ url = \"{url}\", found = \"{found}\", count = \"/orders\" }}"))
    }

    /// Without the line of `recovery` that has this key.
    pub(crate) fn without_recovery(mut self, key: &str) -> Self {
        self.recovery.retain(|line| line.split('=').next().map(str::trim) != Some(key));
        self
    }

    /// Whatever stands after the tables of the tool.
    pub(crate) fn further(mut self, text: &str) -> Self {
        self.further.push_str(text);
        self
    }

    /// Where it sends; without this, to the supplier's `/orders`.
    pub(crate) fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// A line of `[tools.NAME]`; it takes the place of one with the same key.
    pub(crate) fn table(mut self, line: &str) -> Self {
        put(&mut self.table, line);
        self
    }

    /// A line of `http`.
    pub(crate) fn http(mut self, line: &str) -> Self {
        put(&mut self.http, line);
        self
    }

    /// A line of `recovery`.
    pub(crate) fn recovery(mut self, line: &str) -> Self {
        put(&mut self.recovery, line);
        self
    }

    /// A line of `budget`.
    pub(crate) fn budget(mut self, line: &str) -> Self {
        put(&mut self.budget, line);
        self
    }

    /// The receipt names what the supplier answers as `/id`.
    pub(crate) fn with_reference(self) -> Self {
        self.http("receipt_reference = \"/id\"")
    }

    fn write(&self, to: &mut String, supplier: &str) {
        let name = &self.name;
        let url = self.url.clone().unwrap_or_else(|| format!("{supplier}/orders"));
        let table = self.table.join("\n");
        let http = self.http.join("\n");
        let recovery = self.recovery.join("\n").replace("{supplier}", supplier);
        let budget = self.budget.join("\n");
        let carrier = match self.worker {
            true => format!("[tools.\"{name}\".worker]"),
            false => format!("[tools.\"{name}\".http]\nmethod = \"POST\"\nurl = \"{url}\""),
        };
        writeln!(
            to,
            "[tools.\"{name}\"]\n{table}\n{carrier}\n{http}\n[tools.\"{name}\".recovery]\n{recovery}\n\
             [tools.\"{name}\".budget]\n{budget}\n{}",
            self.further
        )
        .unwrap();
    }
}

fn put(lines: &mut Vec<String>, line: &str) {
    let key = line.split('=').next().unwrap_or_default();
    lines.retain(|own| own.split('=').next() != Some(key));
    lines.push(line.to_owned());
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    server: Vec<String>,
    tools: Vec<ToolText>,
}

impl Setup {
    /// A short lease, so that a dead server's claims end within seconds.
    pub(crate) fn new() -> Self {
        Self { server: vec!["lease = \"2s\"".to_owned()], tools: Vec::new() }
    }

    /// One tool `supplier.create_order` with a key.
    pub(crate) fn keyed() -> Self {
        Self::new().tool(ToolText::keyed("supplier.create_order").with_reference())
    }

    /// One tool `supplier.create_order` without any recovery.
    pub(crate) fn forgetful() -> Self {
        Self::new().tool(ToolText::forgetful("supplier.create_order").with_reference())
    }

    /// A line of `[server]`.
    pub(crate) fn server(mut self, line: &str) -> Self {
        put(&mut self.server, line);
        self
    }

    pub(crate) fn tool(mut self, tool: ToolText) -> Self {
        self.tools.push(tool);
        self
    }

    /// The file.
    pub(crate) fn text(&self, supplier: &str) -> String {
        let mut text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\ndatabase = \"sqlite:counterfoil.db\"\n{}\n",
            self.server.join("\n")
        );
        for tool in &self.tools {
            tool.write(&mut text, supplier);
        }
        text
    }
}
