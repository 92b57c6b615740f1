//! What there is to do: invented purchase orders, and the write actions of a customer-service agent.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// See `data/NOTICE.md`.
const AGENT_ACTIONS: &str = include_str!("../../data/agent-actions.jsonl");

/// A call to a person leaves nothing behind by which the other side would know a repeat.
const NOBODY_CAN_SAY: &str = "transfer_to_human_agents";

/// Article, quantity, unit price in cents, who sells it.
const ORDERS: [(&str, u32, u32, Supplier); 20] = [
    ("flour-25kg", 10, 1_840, Supplier::Mill),
    ("rye-flour-25kg", 4, 2_120, Supplier::Mill),
    ("milk-10l", 12, 1_190, Supplier::Dairy),
    ("spelt-25kg", 6, 3_450, Supplier::Mill),
    ("oat-flakes-10kg", 8, 1_275, Supplier::Mill),
    ("butter-5kg", 6, 4_380, Supplier::Dairy),
    ("durum-25kg", 5, 2_260, Supplier::Mill),
    ("bran-15kg", 2, 980, Supplier::Mill),
    ("cream-5l", 9, 2_215, Supplier::Dairy),
    ("sunflower-seeds-5kg", 7, 1_420, Supplier::Mill),
    ("malt-10kg", 3, 2_890, Supplier::Mill),
    ("yoghurt-10kg", 4, 1_760, Supplier::Dairy),
    ("corn-grits-10kg", 5, 1_130, Supplier::Mill),
    ("linseed-5kg", 6, 1_345, Supplier::Mill),
    ("curd-5kg", 8, 1_515, Supplier::Dairy),
    ("buckwheat-10kg", 4, 2_470, Supplier::Mill),
    ("wheat-starch-5kg", 3, 890, Supplier::Mill),
    ("gouda-12kg", 2, 9_640, Supplier::Dairy),
    ("poppy-seeds-2kg", 10, 1_255, Supplier::Mill),
    ("rice-flour-10kg", 6, 1_980, Supplier::Mill),
];

/// Who an action goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Supplier {
    /// Answers a key that it has seen with the answer it gave.
    Mill,
    /// Takes every request for a new one.
    Dairy,
}

impl Supplier {
    pub(crate) const ALL: [Self; 2] = [Self::Mill, Self::Dairy];

    /// The word in the story.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Mill => "mill",
            Self::Dairy => "dairy",
        }
    }
}

/// One thing that an agent decided to do, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Action {
    /// The operation ID: minted when the action was accepted, and used for every retry.
    pub(crate) id: String,
    /// The agent run that it belongs to.
    pub(crate) task: String,
    /// The tool's name.
    pub(crate) tool: String,
    /// Where the supplier takes it.
    pub(crate) path: String,
    /// The arguments, byte for byte as they are sent.
    pub(crate) arguments: String,
    /// Who it goes to.
    pub(crate) supplier: Supplier,
    /// One line for a person.
    pub(crate) title: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    domain: &'a str,
    task: &'a str,
    step: u32,
    tool: &'a str,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Every action there is, the purchase orders first.
///
/// # Errors
/// If the embedded data do not parse.
pub(crate) fn all() -> anyhow::Result<Vec<Action>> {
    let orders = (1..).zip(ORDERS).map(|(number, order)| Ok(purchase_order(number, order)));
    let agent = AGENT_ACTIONS.lines().filter(|line| !line.trim().is_empty()).map(agent_action);
    orders.chain(agent).collect()
}

fn purchase_order(number: u32, (sku, quantity, cents, supplier): (&str, u32, u32, Supplier)) -> Action {
    let total = quantity * cents;
    let arguments = json!({
        "purchase_order": format!("PO-2026-{number:04}"),
        "deliver_to": "Central kitchen, gate 2",
        "deliver_on": format!("2026-12-{:02}", 1 + number),
        "lines": [{ "sku": sku, "quantity": quantity, "unit_price": money(cents) }],
        "total": money(total),
        "currency": "EUR",
    });
    Action {
        id: format!("po-{number:04}"),
        task: format!("weekly-order-{}", 1 + number / 5),
        tool: format!("{}.create_order", supplier.label()),
        path: "/orders".to_owned(),
        arguments: arguments.to_string(),
        supplier,
        title: format!("order {quantity} x {sku} from the {}", supplier.label()),
    }
}

fn money(cents: u32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn agent_action(line: &str) -> anyhow::Result<Action> {
    let line: Line<'_> = serde_json::from_str(line).context("the embedded agent actions")?;
    let about: Value = serde_json::from_str(line.arguments.get()).context("the embedded agent actions")?;
    let about = ["order_id", "reservation_id", "user_id"].iter().find_map(|name| about.get(*name)?.as_str());
    let title = format!("{} {}", line.tool.replace('_', " "), about.unwrap_or_default());
    Ok(Action {
        id: format!("{}-{}", line.task, line.step),
        task: line.task.to_owned(),
        tool: format!("{}.{}", line.domain, line.tool),
        path: format!("/tools/{}", line.tool),
        arguments: line.arguments.get().to_owned(),
        supplier: if line.tool == NOBODY_CAN_SAY { Supplier::Dairy } else { Supplier::Mill },
        title: title.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_action_has_an_id_of_its_own_and_an_object_of_arguments() {
        let actions = all().unwrap();
        assert_eq!(actions.len(), 20 + 242);
        let ids: BTreeSet<&str> = actions.iter().map(|action| action.id.as_str()).collect();
        assert_eq!(ids.len(), actions.len());
        assert!(
            actions
                .iter()
                .all(|action| serde_json::from_str::<Value>(&action.arguments).unwrap().is_object())
        );
    }

    #[test]
    fn the_guard_stands_in_the_way_of_no_action() {
        let actions = all().unwrap();
        let distinct: BTreeSet<_> = actions.iter().map(|a| (&a.task, &a.tool, &a.arguments)).collect();
        assert_eq!(distinct.len(), actions.len());
    }

    #[test]
    fn what_the_forgetful_supplier_gets_can_be_told_apart_by_its_body() {
        let actions = all().unwrap();
        let dairy: Vec<_> = actions.iter().filter(|action| action.supplier == Supplier::Dairy).collect();
        let distinct: BTreeSet<_> = dairy.iter().map(|action| (&action.path, &action.arguments)).collect();
        assert_eq!(dairy.len(), 14);
        assert_eq!(distinct.len(), dairy.len());
    }
}
