//! The pages: plain HTML without scripts. Everything that comes from outside is text here, never markup.

use super::faults::Fault;

/// Lines of the story that the page shows at most.
pub const LINES: usize = 60;

/// Bytes of them: older lines are left out.
const STORY_BYTES: usize = 24_000;

/// Orders that the portal shows.
pub const ORDERS: usize = 100;

/// The style of both pages.
pub const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.3rem}pre{overflow-x:auto;padding:1rem;border:1px solid #8886;border-radius:6px;font-size:14px}\
form{display:inline}button{font:inherit;margin-right:.5rem;padding:.3rem .8rem}\
table{border-collapse:collapse}td,th{border:1px solid #8886;padding:.3rem .7rem;text-align:left}\
code{font-size:14px}";

/// Text as HTML shows it.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

fn whole(title: &str, refresh: bool, body: &str) -> String {
    let refresh = if refresh { "<meta http-equiv=\"refresh\" content=\"2\">" } else { "" };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <link rel=\"stylesheet\" href=\"/dev/style.css\"></head><body>{body}</body></html>"
    )
}

/// The button that writes down what code declares.
const WRITE: &str = "<form method=\"post\" action=\"/dev/declarations\"><button>write declarations to the file</button></form>";

/// The live story, with a button for each fault.
#[must_use]
pub fn story(lines: &[String], armed: &[Fault], help: &[String]) -> String {
    let buttons: String = Fault::ALL
        .iter()
        .map(|fault| {
            format!(
                "<form method=\"post\" action=\"/dev/faults\"><button name=\"fault\" value=\"{}\">{}</button></form>",
                fault.label(),
                fault.says()
            )
        })
        .chain(std::iter::once(WRITE.to_owned()))
        .collect();
    let armed = match armed {
        [] => "Nothing is armed.".to_owned(),
        some => format!("Armed: {}.", some.iter().map(|fault| fault.label()).collect::<Vec<_>>().join(", ")),
    };
    let shown =
        if lines.is_empty() { "nothing has happened yet".to_owned() } else { newest(lines).join("\n") };
    let body = format!(
        "<h1>counterfoil dev</h1><p>What happens, as it happens. The page looks again every two seconds.</p>\
         <p>{buttons}</p><p>{armed}</p><pre>{}</pre><h2>Try it</h2><pre>{}</pre>\
         <p><a href=\"/dev/orders\">The practice supplier’s orders</a> · <a href=\"/problems\">Problems explained</a></p>",
        shown,
        escaped(&help.join("\n")),
    );
    whole("counterfoil dev", true, &body)
}

/// As many of the newest lines, as HTML, as the page has room for.
fn newest(lines: &[String]) -> Vec<String> {
    let mut bytes = 0;
    let mut shown: Vec<String> = lines
        .iter()
        .rev()
        .map(|line| escaped(line))
        .take_while(|line| {
            bytes += line.len();
            bytes <= STORY_BYTES
        })
        .collect();
    shown.reverse();
    shown
}

/// One order of the practice supplier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What the supplier calls it.
    pub number: String,
    /// What the sender called it.
    pub reference: String,
    /// What was ordered.
    pub body: String,
}

/// The practice supplier's portal: what really happened there, for whoever wants to check.
#[must_use]
pub fn orders(orders: &[Order], searched: &str) -> String {
    let rows: String = orders
        .iter()
        .rev()
        .take(ORDERS)
        .map(|order| {
            format!(
                "<tr><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
                escaped(&order.number),
                escaped(&order.reference),
                escaped(&shortened(&order.body)),
            )
        })
        .collect();
    let body = format!(
        "<h1>Practice supplier: {} orders</h1>\
         <form method=\"get\" action=\"/dev/orders\"><label>Our reference <input name=\"q\" value=\"{}\"></label> \
         <button>Search</button></form>\
         <table><tr><th>order</th><th>our reference</th><th>what</th></tr>{rows}</table><p><a href=\"/\">Back</a></p>",
        orders.len(),
        escaped(searched),
    );
    whole("Practice supplier", false, &body)
}

fn shortened(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_never_markup_and_the_page_stays_small() {
        let hostile = "<script>alert(1)</script>\"'&".repeat(20);
        let mut lines = vec!["'".repeat(250); LINES];
        lines.push(hostile.clone());
        let page = story(&lines, &Fault::ALL, &["curl <x>".to_owned()]);
        assert!(!page.contains("<script>") && !page.contains("<x>"));
        assert!(page.contains("&lt;script&gt;"), "the newest line is shown");
        assert!(page.len() < 40_000, "{}", page.len());
        let order = Order { number: hostile.clone(), reference: hostile.clone(), body: hostile };
        assert!(!orders(&[order], "<b>").contains("<script>"));
    }
}
