"""The transaction door on the application's own SQLite file."""

from ._transaction import Effect, transaction

__all__ = ["Effect", "transaction"]
