-- +goose Up

-- Who made an organisation, for the bound of how many one user makes. Of those from before
-- it is the first member.
ALTER TABLE registry.organizations ADD COLUMN created_by text NOT NULL DEFAULT '';
UPDATE registry.organizations o SET created_by = coalesce(
    (SELECT m.user_id FROM registry.members m WHERE m.org = o.name ORDER BY m.added_at, m.user_id LIMIT 1), '');
CREATE INDEX organizations_founder ON registry.organizations (created_by);

-- +goose Down
DROP INDEX registry.organizations_founder;
ALTER TABLE registry.organizations DROP COLUMN created_by;
