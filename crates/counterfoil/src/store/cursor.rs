//! Where a page of a list ended.

use crate::operation::Operation;

/// Where a page ended. Opaque to whoever carries it: the order may change with the product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) created_at: i64,
    pub(super) account: String,
    pub(super) id: String,
}

impl Cursor {
    /// Behind this one.
    pub(super) fn after(operation: &Operation) -> Self {
        Self {
            created_at: operation.created_at.as_millis(),
            account: operation.account.as_str().to_owned(),
            id: operation.id.as_str().to_owned(),
        }
    }

    /// As it is handed out.
    pub(super) fn print(&self) -> String {
        format!(
            "{}.{}.{}",
            self.created_at,
            crate::hex::encode(self.account.as_bytes()),
            crate::hex::encode(self.id.as_bytes())
        )
    }

    /// Reads it back.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let created_at = parts.next()?.parse().ok()?;
        let mut name = || crate::hex::decode_text(parts.next()?);
        let (account, id) = (name()?, name()?);
        parts.next().is_none().then_some(Self { created_at, account, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_any_name_and_refuse_anything_else() {
        let cursor = Cursor { created_at: -7, account: "a.b".into(), id: "x.y/%7E".into() };
        assert_eq!(Cursor::parse(&cursor.print()), Some(cursor));
        for bad in ["", "1", "1.61", "1.61.6", "1.61.62.63", "x.61.62", "1.61.ff"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }
}
