-- A webhook names a key or reference and no account.
CREATE INDEX counterfoil_keys_key ON counterfoil_keys (key);
