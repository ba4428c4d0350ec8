-- +goose Up

-- Sessions' host users start at SANDBOX_UID_BASE, which may be above the old end; the
-- new end is below the range that systemd keeps for foreign users. Users that were
-- given stay.
ALTER SEQUENCE sandbox_uids MAXVALUE 2147000000;
