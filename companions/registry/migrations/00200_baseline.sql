-- +goose Up

-- An organisation owns skills. Its members publish them.
CREATE TABLE registry.organizations (
    name         text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$'),
    display_name text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    -- Who made an organisation, for the bound of how many one user makes. Of those from before
    -- it is the first member.
    created_by   text NOT NULL DEFAULT ''
);
-- Two names that differ in case only would be taken for one.
CREATE UNIQUE INDEX organizations_folded ON registry.organizations (lower(name));
CREATE INDEX organizations_founder ON registry.organizations (created_by);

CREATE TABLE registry.members (
    org      text NOT NULL REFERENCES registry.organizations (name) ON DELETE CASCADE,
    user_id  text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org, user_id)
);
CREATE INDEX members_user ON registry.members (user_id);

-- Objects that were announced and belong to no version yet. A row that is older than an
-- upload may take is of one that was cut off: it is marked, so that the upload cannot
-- complete any more, then its object is removed.
CREATE TABLE registry.uploads (
    package_key text PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expired     boolean NOT NULL DEFAULT false
);

CREATE TABLE registry.templates (
    type_key    text NOT NULL CHECK (type_key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    subtype     text NOT NULL CHECK (subtype ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    driver      text NOT NULL DEFAULT '' CHECK (driver ~ '^([a-z0-9][a-z0-9_-]{0,63})?$'),
    title       text NOT NULL,
    description text NOT NULL,
    version     text NOT NULL,
    schema      jsonb NOT NULL,
    defaults    jsonb NOT NULL,
    owner       text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (type_key, subtype, driver)
);

CREATE TABLE registry.scenarios (
    id           text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    title        text NOT NULL,
    description  text NOT NULL,
    type         text NOT NULL,
    tags         text[] NOT NULL,
    resource_ids text[] NOT NULL,
    owner        text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE registry.skills (
    org              text NOT NULL REFERENCES registry.organizations (name),
    name             text NOT NULL CHECK (name ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(name) <= 64),
    released_version text,
    released_at      timestamptz,
    released_by      text,
    downloads        bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((released_version IS NULL) = (released_at IS NULL)),
    PRIMARY KEY (org, name)
);

-- A version never changes, but for yanked_at. Its package is the object package_key.
CREATE TABLE registry.versions (
    org         text NOT NULL,
    name        text NOT NULL,
    version     text NOT NULL,
    digest      text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    size        bigint NOT NULL CHECK (size > 0),
    description text NOT NULL,
    frontmatter jsonb NOT NULL,
    files       jsonb NOT NULL,
    file_count  int NOT NULL CHECK (file_count BETWEEN 1 AND 500),
    warnings    text[] NOT NULL,
    git_commit  text,
    git_branch  text,
    package_key text NOT NULL UNIQUE,
    created_at  timestamptz NOT NULL DEFAULT now(),
    created_by  text NOT NULL,
    yanked_at   timestamptz,
    FOREIGN KEY (org, name) REFERENCES registry.skills (org, name),
    PRIMARY KEY (org, name, version)
);

ALTER TABLE registry.skills ADD CONSTRAINT skills_released FOREIGN KEY (org, name, released_version) REFERENCES registry.versions (org, name, version);

-- What the registry keeps for others to use: released skills, templates, scenarios. No
-- part of an id has a dot, so that an id names one resource.
CREATE VIEW registry.resources AS
SELECT 'skill.' || s.org || '.' || s.name AS id, 'skill' AS type, s.org AS subtype, s.name, v.version, v.description,
       v.digest, v.size, s.org AS owner, '{}'::text[] AS tags, s.created_at, s.updated_at,
       jsonb_build_object('frontmatter', v.frontmatter, 'file_count', v.file_count, 'downloads', s.downloads) AS data
FROM registry.skills s
JOIN registry.versions v ON v.org = s.org AND v.name = s.name AND v.version = s.released_version
UNION ALL
SELECT 'template.' || type_key || '.' || subtype || CASE driver WHEN '' THEN '' ELSE '.' || driver END, 'template', type_key, title,
       version, description, 'sha256:' || encode(sha256(convert_to(schema::text || defaults::text, 'UTF8')), 'hex'),
       octet_length(schema::text) + octet_length(defaults::text), owner, '{}'::text[], created_at, updated_at,
       jsonb_build_object('subtype', subtype, 'driver', driver, 'schema', schema, 'defaults', defaults)
FROM registry.templates
UNION ALL
SELECT 'scenario.' || id, 'scenario', type, title, '', description,
       'sha256:' || encode(sha256(convert_to(array_to_string(resource_ids, ' '), 'UTF8')), 'hex'),
       octet_length(array_to_string(resource_ids, ' ')), owner, tags, created_at, updated_at,
       jsonb_build_object('resource_ids', to_jsonb(resource_ids))
FROM registry.scenarios;
